"""The image without Docker: the steps of the Dockerfile are taken from it and carried out in a folder of this machine,
and what comes of it is run as a stranger who may write nowhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kai_sched import __version__
from tests.tree import ROOT

PREFIX = "/opt"
STRANGER = "10000"
RUN_S = 900.0

# What an interpreter has to say to a stranger as well as to us: an installation that others may only start half, as one
# under a closed folder, would take its library from elsewhere.
WHO_ARE_YOU = "import ensurepip, sys, venv; assert sys.version_info >= (3, 11); print(sys.base_prefix, sys.version)"

# As compiled kernels are asked for by a process that has much to solve; what numba had to compile is counted.
COUNT_COMPILED = """
from kai_sched.solver import jit
from kai_sched.solver.warmup import compile_all
from numba.core.dispatcher import Dispatcher
import gc

assert jit.warm(), "the cache is not complete"
compile_all()
kernels = [thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)]
kernels = [kernel for kernel in kernels if kernel.py_func.__module__.startswith("kai_sched.")]
print(sum(sum(k.stats.cache_hits.values()) for k in kernels), sum(sum(k.stats.cache_misses.values()) for k in kernels))
"""


AS_OF = "as of 2026-01-01 09:30 UTC, the newest time in the files\n"  # of examples/teams


@dataclass
class Build:
    """The state of a build: where its file system lies here, and what the instructions so far have set."""

    root: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    entry: list[str] = field(default_factory=list)

    def here(self, text: str) -> str:
        """The text with paths of the image turned into those of this machine."""
        return re.sub(rf"(?<![\w.]){PREFIX}/", f"{self.root}{PREFIX}/", text)

    def take(self, instruction: str, words: str) -> None:
        match instruction:
            case "FROM":
                self.environment, self.folder = {}, self.root / "src"
                self.folder.mkdir(exist_ok=True)
            case "ENV":
                self.environment |= dict(pair.split("=", 1) for pair in shlex.split(self.here(words)))
                # Packages that were fetched before are not fetched again, unlike in an image that is to stay small.
                self.environment.pop("PIP_NO_CACHE_DIR", None)
            case "COPY" if words.startswith("--from=build"):
                _, source, target = words.split()
                assert source == target, "the stages share one folder here"
            case "COPY":
                *sources, target = words.split()
                for source in sources:
                    self.copy(source, target)
            case "RUN":
                self.run(re.sub(r"(^|&& )python ", rf"\1{shlex.quote(interpreter())} ", self.here(words)))
            case "ENTRYPOINT":
                self.entry = json.loads(words)
            case "WORKDIR" | "LABEL" | "USER" | "EXPOSE":
                pass
            case _:
                raise AssertionError(f"this test does not know {instruction}")

    def copy(self, source: str, target: str) -> None:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, self.folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, self.folder / target)

    def run(self, command: str) -> None:
        keep = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "HOME", "PATH", "SSL_"))}
        shown = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.folder,
            env=keep | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert shown.returncode == 0, f"{command}\n{shown.stdout[-4000:]}"


@dataclass(frozen=True)
class Image:
    """What was built, as the container would start it."""

    prefix: Path
    home: Path
    environment: dict[str, str]
    entry: list[str]

    def start(self, *arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
        """Run the entry point, or another program of the image, in an empty environment as a stranger."""
        path = f"{self.prefix}/kai-sched/bin"
        environment = {**self.environment, "PATH": f"{path}:/usr/bin:/bin", "HOME": str(self.home)}
        command = [f"{path}/{program or self.entry[0]}", *arguments]
        return subprocess.run(
            [*stranger(), *command],
            env=environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )

    def files(self) -> dict[str, int]:
        """All files of the image and the home, with the times of their last change."""
        return {
            str(path): path.lstat().st_mtime_ns for folder in (self.prefix, self.home) for path in folder.rglob("*")
        }


def stranger() -> list[str]:
    """The words before a command that make somebody else run it; none where we may not decide that."""
    if os.geteuid() != 0:
        return []
    user = [f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    return ["setpriv", *user, "--inh-caps=-all", "--no-new-privs"]


def interpreter() -> str:
    """A Python of this machine that a stranger can run: it stands in for the one of the base image."""
    found = (
        sys._base_executable,
        *(shutil.which(name, path="/usr/local/bin:/usr/bin") for name in ("python3.11", "python3")),
    )
    for path in found:
        if path:
            answers = [
                subprocess.run([*words, path, "-c", WHO_ARE_YOU], capture_output=True, text=True, check=False, cwd="/")
                for words in ([], stranger())
            ]
            if answers[0].stdout and answers[0].stdout == answers[1].stdout:
                return path
    raise AssertionError(f"none of {found} is a Python 3.11 or later with venv that the user {STRANGER} can run")


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text()
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    lines = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(instruction, words.strip()) for instruction, _, words in lines]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Built once; its files are read-only then, as is the home."""
    # pytest's own folders are closed to strangers.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        build = Build(root, root)
        (root / PREFIX.strip("/")).mkdir()
        for instruction, words in instructions():
            build.take(instruction, words)
        home = root / "home"
        shutil.copytree(ROOT / "examples", home / "examples")
        subprocess.run(["chmod", "-R", "a=rX,u-w", root / "opt", home], check=True)
        root.chmod(0o755)
        yield Image(root / "opt", home, build.environment, build.entry)
        subprocess.run(["chmod", "-R", "u+w", root], check=True)


@pytest.mark.slow
def test_the_image_works_for_a_stranger_who_may_write_nowhere(image: Image) -> None:
    files = image.files()
    assert [name for name in files if name.endswith("kai_sched/operator/default_queues.yaml")]
    probe = image.start("-c", "import os; os.mkdir('here')", program="python")
    assert "PermissionError" in probe.stderr, "nothing is shown where files can be written"

    version = image.start("--version")
    assert (version.stdout, version.stderr, version.returncode) == (f"{__version__}\n", "", 0)

    simulated = image.start("simulate", "examples/teams", "--output", "json")
    assert (simulated.stderr, simulated.returncode) == (AS_OF, 0)
    assert json.loads(simulated.stdout)

    assert image.start("run", "--help").returncode == 0
    started = image.start("run", "--listen-address", "127.0.0.1:0", "--webhook-address", "")
    assert started.returncode != 0
    assert "kubeconfig" in started.stderr + started.stdout, "outside of a cluster it says what it needs"

    reserved = image.start("reserve", "--pod-name", "p", "--pod-namespace", "n")
    assert reserved.returncode == 1
    assert "NVML does not answer" in reserved.stderr, "there is no GPU here, and it says so"

    counted = image.start("-c", COUNT_COMPILED, program="python")
    assert (counted.stderr, counted.returncode) == ("", 0)
    hits, misses = (int(word) for word in counted.stdout.split())
    assert hits > 0
    assert misses == 0, "kernels were compiled anew"

    warmed = image.start("warmup")
    assert (warmed.stderr, warmed.returncode) == ("", 0)

    assert image.files() == files


@pytest.mark.slow
def test_the_image_has_no_compiler_and_no_installer(image: Image) -> None:
    programs = {path.name for path in (image.prefix / "kai-sched" / "bin").iterdir()}
    assert image.entry == ["kai-sched"]
    assert "kai-sched" in programs
    assert [name for name in programs if name.startswith("pip")] == []
    packages = image.start("-c", "import pip", program="python")
    assert "No module named 'pip'" in packages.stderr
