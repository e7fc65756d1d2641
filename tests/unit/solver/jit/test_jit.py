"""How kernels are compiled and where compiled code is kept. Most in a process and with a cache of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kai_sched.lowering.settings import lower_settings
from kai_sched.model.config import Config
from kai_sched.solver.warmup import plain_settings
from tests.tree import ROOT

DIVIDE = """
import numpy as np
from kai_sched.solver.stages.fair_share import divide
one, ask = np.ones(2), np.array([9.0, 2.0])
print(divide(7.0, 1.0, one, np.full(2, np.inf), one, ask, np.zeros(2), np.zeros(2, np.int64), np.arange(2)).tolist())
"""
CYCLE = """
from kai_sched import Cluster, Config, run_cycle
from kai_sched.model.objects import Node, Pod, PodGroup, Queue, Shape, Share
free = Share(-1.0, -1.0, 1.0)
shape = Shape(request=(("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))
objects = [Queue("a", cpu=free, memory=free, gpu=free)]
objects += [Node(f"n{n}", allocatable={"cpu": 4000.0, "memory": 1e9, "gpu": 2.0, "pods": 10.0}) for n in range(3)]
for g in range(4):
    objects.append(PodGroup("ns", f"g{g}", f"g{g}", g, "a", min_member=2))
    objects += [Pod("ns", f"p{g}{p}", shape, f"p{g}{p}", g, group=f"g{g}") for p in range(2)]
result = run_cycle(Cluster.of(objects), Config(), 0)
print([(effect.pod, effect.node) for effect in result.effects])
"""
TABLE = """
import numpy as np
from kai_sched.snapshot.tables import Terms
from kai_sched.solver.jit import kernel
@kernel
def read(terms, n):
    total = 0
    for i in range(n):
        terms.domain[i, 0] += 1
        total += terms.kind[i]
    return total
terms = Terms(np.ones(3, np.uint8), np.zeros((3, 1), np.int32), np.zeros(3, np.uint8))
print(read(terms, 3), terms.domain.tolist())
code = read.inspect_llvm(read.signatures[0])
(entry,) = [line for line in code.splitlines() if line.startswith("define") and "cpython" not in line]
print(entry.count("arg.terms"), "!invariant.load" in code)
number = entry.rsplit("#", 1)[1].split()[0]
print([line.count("noinline") for line in code.splitlines() if line.startswith(f"attributes #{number} ")])
@kernel
def wrong(terms):
    return terms.nothing
try:
    wrong(terms)
except Exception as error:
    print([line.rsplit("_", 1)[0] for line in str(error).splitlines() if "nothing" in line][0])
"""


def test_compiling_ahead_is_for_the_types_of_real_settings() -> None:
    types = [[type(value) for value in settings] for settings in (plain_settings(), lower_settings(Config(), 0))]
    assert types[0] == types[1]


def run(code: str, cache: Path, package: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """The code in a fresh process on that folder's package: compiled unless the environment says otherwise."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAI_SCHED_", "XDG_", "PYTHON"))}
    own = {"KAI_SCHED_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=package, env=kept | own, capture_output=True, text=True, check=False)


def output(code: str, cache: Path, package: Path = ROOT, **environment: str) -> list[str]:
    """The lines that the code prints; it must succeed and say nothing else."""
    result = run(code, cache, package, **environment)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


@pytest.mark.slow
def test_tables_are_one_pointer_each_in_kernels_that_are_not_inlined_where_it_is_made(tmp_path: Path) -> None:
    """Else what is loaded from a table must not count as invariant. What is not there does not compile."""
    expected = ["3 [[1], [1], [1]]", "1 True", "[1]", "Unknown attribute 'nothing' of type Terms"]
    (tmp_path / "table.py").write_text(TABLE)
    assert output(f"import runpy; runpy.run_path({str(tmp_path / 'table.py')!r})", tmp_path / "cache") == expected


def test_interpreting_comes_too_late_after_the_first_kernel(tmp_path: Path) -> None:
    code = "from kai_sched.solver import jit\nimport kai_sched.solver.kernels.fit\njit.interpret()"
    result = run(code, tmp_path)
    assert result.returncode == 1
    assert "RuntimeError: interpret() comes too late: kernels are already compiled" in result.stderr


@pytest.mark.parametrize(("code", "switch"), [("", "off"), ("", "OFF"), ("jit.interpret()", "")])
def test_interpreted_kernels_are_plain_functions(code: str, switch: str, tmp_path: Path) -> None:
    """Asking twice is no error; numba is not even imported, and nothing is written."""
    lines = f"""
import sys
from kai_sched.solver import jit
{code}
import kai_sched.solver.kernels.fit as fit
jit.interpret()
print(jit.interpreted(), jit.warm(), type(fit.fits_now).__name__, "numba" in sys.modules)
jit.mark_warm()
"""
    assert output(lines, tmp_path / "cache", KAI_SCHED_JIT=switch) == ["True True function False"]
    assert not (tmp_path / "cache").exists()


def test_kernels_are_compiled_unless_told_otherwise(tmp_path: Path) -> None:
    code = "from kai_sched.solver import jit\nfrom kai_sched.solver.kernels.fit import fits_now\n"
    code += "print(jit.interpreted(), hasattr(fits_now, 'py_func'))"
    assert output(code, tmp_path) == ["False True"]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    """The results are the same, and so they are where kernels are interpreted."""
    blocked = tmp_path / "file"
    blocked.touch()
    code = DIVIDE + "from kai_sched.solver import jit\nprint(jit.warm())\njit.mark_warm()\nprint(jit.warm())"
    result = run(code, blocked / "cache")
    assert result.returncode == 0
    assert result.stdout.splitlines() == ["[5.0, 2.0]", "False", "False"]
    assert result.stderr.count("RuntimeWarning") == 1
    assert f"compiled kernels cannot be kept in {blocked / 'cache'}" in result.stderr
    assert "set KAI_SCHED_CACHE_DIR to a folder that can be written" in result.stderr
    assert output(DIVIDE, tmp_path / "cache", KAI_SCHED_JIT="off") == ["[5.0, 2.0]"]


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"KAI_SCHED_CACHE_DIR": "{}/chosen", "XDG_CACHE_HOME": "{}/xdg"}, "chosen"),
        ({"KAI_SCHED_CACHE_DIR": "", "XDG_CACHE_HOME": "{}/xdg"}, "xdg/kai-sched"),
        ({"KAI_SCHED_CACHE_DIR": "", "HOME": "{}/me"}, "me/.cache/kai-sched"),
    ],
)
def test_where_the_cache_is(environment: dict[str, str], place: str, tmp_path: Path) -> None:
    filled = {name: value.format(tmp_path) for name, value in environment.items()}
    code = "from kai_sched.solver import jit\nprint(jit.cache_folder())"
    folder = Path(output(code, tmp_path, **filled)[0])
    assert folder.parent == tmp_path / place
    assert folder.is_dir()


def copied_package(folder: Path) -> Path:
    """A copy of the package with two kernels more, one calling the other in another file; the folder of its kernels."""
    shutil.copytree(ROOT / "kai_sched", folder / "kai_sched", ignore=shutil.ignore_patterns("__pycache__"))
    kernels = folder / "kai_sched" / "solver" / "kernels"
    top = "from kai_sched.solver.jit import kernel\n"
    (kernels / "callee.py").write_text(f"{top}@kernel\ndef number():\n    return 1\n")
    caller = "from kai_sched.solver.kernels.callee import number\n@kernel\ndef ask():\n    return number()\n"
    (kernels / "caller.py").write_text(top + caller)
    return kernels


@pytest.mark.slow
def test_a_changed_source_has_a_cache_of_its_own(tmp_path: Path) -> None:
    """Else a kernel whose callee changed in another file would be taken from the cache as it was before."""
    kernels = copied_package(tmp_path / "package")
    code = "from kai_sched.solver import jit\nfrom kai_sched.solver.kernels.caller import ask\n"
    code += "print(jit.cache_folder().name, ask())"
    cache, package = tmp_path / "cache", tmp_path / "package"
    first = output(code, cache, package)[0].split()
    again = output(code, cache, package)[0].split()
    (kernels / "callee.py").write_text((kernels / "callee.py").read_text().replace("return 1", "return 2"))
    changed = output(code, cache, package)[0].split()
    assert first == again
    assert (first[1], changed[1]) == ("1", "2")
    assert changed[0] != first[0]


@pytest.mark.parametrize("source", ["snapshot/columns.py", "snapshot/tables.py", "solver/state.py"])
def test_a_changed_constant_has_a_cache_of_its_own(source: str, tmp_path: Path) -> None:
    """Constants of the tables are part of the compiled code, though numba does not know where they come from."""
    copied_package(tmp_path / "package")
    code = "from kai_sched.solver import jit\nprint(jit.cache_folder().name)"
    before = output(code, tmp_path / "cache", tmp_path / "package")
    changed = tmp_path / "package" / "kai_sched" / source
    changed.write_text(changed.read_text() + "\nUNUSED = 1\n")
    assert output(code, tmp_path / "cache", tmp_path / "package") != before


@pytest.mark.slow
def test_installations_of_the_same_sources_share_a_cache(tmp_path: Path) -> None:
    """As virtual environments and checkouts do."""
    code = "from kai_sched.solver.kernels.caller import ask\nprint(ask(), sum(ask.stats.cache_hits.values()))"
    for place in ("one", "two"):
        copied_package(tmp_path / place)
    hits = [output(code, tmp_path / "cache", tmp_path / place) for place in ("one", "two")]
    assert hits == [["1 0"], ["1 1"]]


@pytest.mark.slow
def test_a_complete_cache_serves_from_a_read_only_file_system(tmp_path: Path) -> None:
    """As in an image: what is there is used, and nothing is written or warned about."""
    read_only = """
import os, tempfile
def refuse(*_, **__):
    raise OSError(30, "Read-only file system")
tempfile.TemporaryFile = os.makedirs = refuse
"""
    code = "from kai_sched.solver import jit\nfrom kai_sched.solver.kernels.caller import ask\n"
    code += "print(ask(), sum(ask.stats.cache_hits.values()))\n"
    copied_package(tmp_path / "package")
    cache, package = tmp_path / "cache", tmp_path / "package"
    assert output(code + "jit.mark_warm()", cache, package) == ["1 0"]
    assert output(read_only + code, cache, package) == ["1 1"]


ASK_PACKAGED = """
from kai_sched.solver import jit
{}
from kai_sched.solver.kernels.caller import ask
print(ask(), sum(ask.stats.cache_hits.values()), jit.warm(), jit.is_for_any_cpu(), jit.cache_folder().parent.name)
"""


@pytest.mark.slow
def test_kernels_that_the_package_brought_along_serve_until_the_host_has_its_own(tmp_path: Path) -> None:
    """They are compiled for any CPU, where the package is built; a warmup compiles for this one."""
    copied_package(tmp_path)
    packaged, cache = tmp_path / "kai_sched" / "compiled", tmp_path / "cache"
    build = "from kai_sched.solver import jit\nfrom kai_sched.solver.kernels.caller import ask\nask()\njit.mark_warm()"
    assert output(build, packaged, tmp_path, NUMBA_CPU_NAME="generic") == []
    assert output(ASK_PACKAGED.format(""), cache, tmp_path) == ["1 1 True True compiled"]
    assert not cache.exists()
    for_this = ASK_PACKAGED.format("jit.compile_for_this_cpu()")
    assert output(for_this + "jit.mark_warm()", cache, tmp_path) == ["1 0 False False cache"]
    assert output(ASK_PACKAGED.format(""), cache, tmp_path) == ["1 1 True False cache"]


def test_packaged_kernels_of_other_sources_are_not_used(tmp_path: Path) -> None:
    kernels = copied_package(tmp_path)
    packaged, cache = tmp_path / "kai_sched" / "compiled", tmp_path / "cache"
    build = "from kai_sched.solver import jit\nprint(jit.cache_folder())\njit.mark_warm()"
    (made,) = output(build, packaged, tmp_path, NUMBA_CPU_NAME="generic")
    ask = "from kai_sched.solver import jit\nprint(jit.cache_folder())"
    assert output(ask, cache, tmp_path) == [made]
    (kernels / "callee.py").write_text((kernels / "callee.py").read_text().replace("return 1", "return 2"))
    assert Path(output(ask, cache, tmp_path)[0]).parent == cache


@pytest.mark.slow
def test_the_cache_is_warm_once_everything_is_compiled(tmp_path: Path) -> None:
    """A later process compiles nothing, and decides as the one that compiled and as one that interprets."""
    ask = "from kai_sched.solver import jit\nprint(jit.warm())\n"
    compile_all = "from kai_sched.solver.warmup import compile_all\ncompile_all()\nprint(jit.warm())\n"
    divided = output(ask + DIVIDE + ask, tmp_path)
    assert divided == ["False", "[5.0, 2.0]", "False"], "a few kernels in the cache are not all"
    cold = output(ask + compile_all + DIVIDE + CYCLE, tmp_path)
    assert cold[:2] == ["False", "True"]
    compiled = sorted(tmp_path.rglob("*.nbc"))
    assert compiled
    warm = output(ask + DIVIDE + CYCLE, tmp_path)
    assert warm == cold[1:]
    assert sorted(tmp_path.rglob("*.nbc")) == compiled
    assert output(ask + DIVIDE + CYCLE, tmp_path, KAI_SCHED_JIT="off") == warm
