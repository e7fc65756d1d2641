"""What `make dist` and `make archive` make, used as on a machine without the project."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest

from kai_sched import __version__
from kai_sched.solver.jit import folders
from tests.cluster import objects
from tests.image.container import COUNT_COMPILED
from tests.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.alone]

OFFLINE_ONLY_WITHOUT = ("kopf", "aiohttp", "cryptography", "uvloop", "nvidia-ml-py", "kubernetes_asyncio")
NODES, PODS = 2000, 3000


def packaging_module(name: str) -> ModuleType:
    """A script of packaging/ as a module."""
    spec = importlib.util.spec_from_file_location(f"packaging_{name}", ROOT / "packaging" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel() -> Path:
    subprocess.run(["make", "--silent", "dist/.made"], cwd=ROOT, check=True)
    (found,) = (ROOT / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which only `pip install dist/*.whl` was run; versions are those of the lock."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    locked = re.findall(r"(?m)^([\w.-]+==[^ ;\\]+)", (ROOT / "requirements" / "runtime.txt").read_text())
    (folder / "constraints.txt").write_text("\n".join(locked))
    pip = [folder / "venv" / "bin" / "pip", "install", "--quiet", "--constraint", folder / "constraints.txt"]
    subprocess.run([*pip, wheel], check=True)
    return folder / "venv"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody new: nothing in the home, so no compiled kernels either."""
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def run(environment: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        words, env=environment, cwd=environment["HOME"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def generated(folder: Path) -> Path:
    """A cluster of 2,000 nodes with pods that wait, as JSON."""
    items: list[Any] = [objects.node(f"node-{n:04}") for n in range(NODES)]
    items += [objects.queue("org"), objects.queue("team", "org")]
    for n in range(PODS // 3):
        items += objects.gang(f"gang-{n:04}", 3)
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_the_wheel_says_what_it_needs_and_where_it_serves(wheel: Path) -> None:
    assert re.fullmatch(rf"kai_sched-{re.escape(__version__)}-cp3\d+-cp3\d+-manylinux_\S+\.whl", wheel.name)
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        read = Parser().parsestr(archive.read(metadata).decode())
    always = [each for each in read.get_all("Requires-Dist") or [] if "extra ==" not in each]
    assert [each for each in always if each.startswith(OFFLINE_ONLY_WITHOUT)] == []
    assert [each for each in always if re.fullmatch(r"numba==[\d.]+", each)]
    assert len(read.get_all("Project-URL") or []) == 3
    body = str(read.get_payload())
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", body) == []
    assert "](https://" in body
    (complete,) = (name for name in names if re.fullmatch(r"kai_sched/compiled/\w+/complete", name))
    assert sum(name.startswith(complete.removesuffix("complete")) for name in names) > 20


def test_links_that_are_absolute_already_stay() -> None:
    link = packaging_module("wheel").absolute_links
    text = "[a](docs/a.md#x) ![b](docs/b.png) [c](https://c) [d](#d)"
    there = "https://h/o/r"
    assert (
        link(text, there)
        == f"[a]({there}/blob/main/docs/a.md#x) ![b]({there}/raw/main/docs/b.png) [c](https://c) [d](#d)"
    )


def test_the_same_sources_make_the_same_wheel(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = packaging_module("wheel")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", module.commit_time())
    targets = tmp_path / "one", tmp_path / "two"
    for target in targets:
        target.mkdir()
    one, two = map(module.build_wheel, targets)
    assert one.name == two.name == wheel.name
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.usefixtures("wheel")
def test_kernels_of_other_sources_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though they were compiled last."""
    module = packaging_module("wheel")
    monkeypatch.chdir(ROOT)
    kernels = tmp_path / "kernels"
    own = folders.cache_key(folders.ANY_CPU)
    shutil.copytree(module.KERNELS / own, kernels / own)
    other = kernels / ("0" * len(own))
    other.mkdir()
    (other / folders.MARK).touch()
    monkeypatch.setattr(module, "KERNELS", kernels)
    target = tmp_path / "dist"
    target.mkdir()
    with ZipFile(module.build_wheel(target)) as archive:
        brought = {Path(name).parts[2] for name in archive.namelist() if name.startswith("kai_sched/compiled/")}
    assert brought == {own}


def test_the_offline_half_answers_in_a_clean_environment_and_compiles_nothing(venv: Path, home: dict[str, str]) -> None:
    listed = json.loads(run(home, venv / "bin" / "pip", "list", "--format=json").stdout)
    assert {each["name"] for each in listed} & set(OFFLINE_ONLY_WITHOUT) == set()

    program = venv / "bin" / "kai-sched"
    examples = run(home, program, "simulate", ROOT / "examples" / "teams", "-o", "json")
    assert json.loads(examples.stdout)

    large = run(home, program, "simulate", generated(Path(home["HOME"])), "-o", "json")
    assert "compiling" not in large.stderr
    decided = json.loads(large.stdout)["cycles"][0]["decided"]
    assert [pod for pod in decided.values() if pod["status"] != "Binding"] == []
    assert len(decided) == PODS

    counted = run(home, venv / "bin" / "python", "-c", COUNT_COMPILED)
    hits, misses = (int(word) for word in counted.stdout.split())
    assert hits > 0
    assert misses == 0, "kernels were compiled anew"
    assert not (Path(home["HOME"]) / ".cache" / "kai-sched").exists()


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the archive, at a place of its own."""
    assert wheel.exists()
    subprocess.run([sys.executable, ROOT / "packaging" / "archive.py"], check=True, stdout=subprocess.DEVNULL)
    (archive,) = (ROOT / "dist").glob("kai-sched-*-python*.tar.gz")
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    yield next(folder.iterdir())
    shutil.rmtree(folder)


def test_the_archive_runs_where_it_is_unpacked(unpacked: Path, home: dict[str, str]) -> None:
    """With the interpreter that is named; selectors of devices are evaluated in a process of their own."""
    environment = home | {"KAI_SCHED_PYTHON": getattr(sys, "_base_executable", sys.executable)}
    before = sorted(unpacked.rglob("*"))
    program = unpacked / "kai-sched"
    assert run(environment, program, "--version").stdout == f"{__version__}\n"
    claims = run(environment, program, "simulate", ROOT / "examples" / "gpu-sharing" / "claims.yaml", "-o", "json")
    assert json.loads(claims.stdout)
    assert "compiled for any CPU" in run(environment, program, "doctor").stdout
    assert sorted(unpacked.rglob("*")) == before


def test_the_archive_says_which_python_it_needs(unpacked: Path, home: dict[str, str]) -> None:
    environment = home | {"KAI_SCHED_PYTHON": "python9.9"}
    done = subprocess.run(
        [unpacked / "kai-sched", "--version"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kai-sched: python9.9 is not in PATH: install it, or name it in KAI_SCHED_PYTHON\n"
