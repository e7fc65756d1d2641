"""``make dist``: the wheel of this platform and Python with its compiled kernels, and the source distribution.

Kernels are code for any CPU of the architecture (``kai_sched/solver/jit/folders.py``). They need numba exactly as it
was when they were compiled, so the wheel requires that version, and serves where numba's own wheel does. Links of the
README are absolute in the metadata, which package indexes show. The same commit gives the same bytes.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from flit_core import buildapi

from kai_sched.solver.jit import folders

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "build" / "kernels"
LINK = re.compile(r"(!?\[[^]]*]\()(?!https?:|#)([^)]+)\)")


def main() -> None:
    """Write both into dist/, and print where they are."""
    os.chdir(ROOT)
    os.environ.setdefault("SOURCE_DATE_EPOCH", commit_time())
    Path("dist").mkdir(exist_ok=True)
    for old in Path("dist").glob("kai_sched-*"):
        old.unlink()
    compile_kernels()
    print(f"dist/{buildapi.build_sdist('dist')}")
    print(build_wheel(Path("dist")))


def commit_time() -> str:
    """Seconds since the epoch of the last commit; of 2026 where this is no checkout."""
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "1767225600"


def compile_kernels() -> None:
    """Compile the kernels for any CPU into build/kernels, unless they are there."""
    environment = dict(os.environ, KAI_SCHED_CACHE_DIR=str(KERNELS), NUMBA_CPU_NAME="generic", PYTHONPATH=str(ROOT))
    subprocess.run([sys.executable, "-m", "kai_sched.cli.main", "warmup"], check=True, env=environment)


def build_wheel(target: Path) -> Path:
    """Build the wheel and put the kernels and what they need into it. Returns its path."""
    with tempfile.TemporaryDirectory() as folder:
        plain = buildapi.build_wheel(folder)
        _run("unpack", "--dest", folder, f"{folder}/{plain}")
        (unpacked,) = (path for path in Path(folder).iterdir() if path.is_dir())
        kernels = folders.cache_key(folders.ANY_CPU)
        shutil.copytree(KERNELS / kernels, unpacked / "kai_sched" / "compiled" / kernels)
        (information,) = unpacked.glob("*.dist-info")
        _rewrite(information / "METADATA", _metadata)
        _rewrite(information / "WHEEL", _tags)
        for path in unpacked.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        _run("pack", "--dest-dir", str(target), str(unpacked))
    (found,) = target.glob("*.whl")
    return found


def _metadata(text: str) -> str:
    version = importlib.metadata.version("numba")
    pinned, count = re.subn(r"(?m)^Requires-Dist: numba\b.*$", f"Requires-Dist: numba=={version}", text)
    assert count == 1, "the metadata do not require numba"
    return absolute_links(pinned, tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"])


def absolute_links(text: str, source: str) -> str:
    """The Markdown with relative links turned into those of the files at ``source``; pictures into the raw files."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}{source}/{kind}/main/{link[2]})"

    return LINK.sub(absolute, text)


def _tags(text: str) -> str:
    """As numba's wheel: it serves no other Python and no older system than the compiler that loads the kernels."""
    theirs = importlib.metadata.distribution("numba").read_text("WHEEL") or ""
    tags = re.findall(r"(?m)^Tag: .*\n", theirs)
    assert tags, "numba was not installed from a wheel"
    ours = re.sub(r"(?m)^Tag: .*\n", "", text).replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    return ours.rstrip("\n") + "\n" + "".join(tags)


def _rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def _run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "wheel", *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
