"""``make archive``: a folder with kai-sched and all that it needs but Python itself, packed into dist/.

Unpacked anywhere, ``kai-sched`` in it runs with the Python of this version that the machine has; nothing unpacks itself
at a start, and no bytecode is compiled then.
"""

from __future__ import annotations

import gzip
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = """#!/bin/sh
# kai-sched with the packages beside this file. KAI_SCHED_PYTHON names the interpreter, if it is not in PATH.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
python=${{KAI_SCHED_PYTHON:-{python}}}
command -v "$python" > /dev/null || {{
    echo "kai-sched: $python is not in PATH: install it, or name it in KAI_SCHED_PYTHON" >&2
    exit 1
}}
PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}" exec "$python" -m kai_sched.cli.main "$@"
"""


def main() -> None:
    """Write the archive of the wheel in dist/, and print where it is."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    version = wheel.name.split("-")[1]
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    name = f"kai-sched-{version}-{python}-{platform.system().lower()}-{platform.machine()}"
    folder = ROOT / "build" / name
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(folder / "lib")]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "runtime.txt")], check=True)
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    subprocess.run([sys.executable, str(ROOT / "packaging" / "trim.py"), str(folder)], check=True)
    shutil.rmtree(folder / "lib" / "bin")
    # By content rather than time: times are those of the archive wherever it is unpacked.
    compileall = ["-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(folder)]
    subprocess.run([sys.executable, *compileall, str(folder / "lib")], check=True)
    (folder / "kai-sched").write_text(LAUNCHER.format(python=python))
    (folder / "kai-sched").chmod(0o755)
    shutil.copy(ROOT / "LICENSE", folder)
    print(pack(folder, ROOT / "dist" / f"{name}.tar.gz").relative_to(ROOT))


def pack(folder: Path, archive: Path) -> Path:
    """Pack the folder, with nothing of this machine in it: no owners, no times."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with (
        gzip.GzipFile(archive, "wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        tar.add(folder, folder.name, filter=plain)
    return archive


if __name__ == "__main__":
    main()
