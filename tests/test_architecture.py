"""Who may import whom, and what the core may not touch: the contracts in pyproject.toml, and what they cannot say."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT, Module, imports, modules, parse

CORE = ("api", "model", "snapshot", "lowering", "solver", "plan", "reconcile", "cycle", "answers")

# Reaching outside: files, processes, network, clock, randomness, logs, threads.
OUTSIDE = {
    *(
        "asyncio",
        "glob",
        "http",
        "importlib",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "platform",
        "random",
        "secrets",
    ),
    *(
        "select",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "structlog",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
    ),
    *("warnings",),
}
OUTSIDE_CALLS = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}
OUTSIDE_ATTRIBUTES = {
    *("date.today", "datetime.now", "datetime.today", "datetime.utcnow", "np.random", "numpy.random"),
    *("sys.argv", "sys.exit", "sys.stderr", "sys.stdin", "sys.stdout"),
}

# What a module of the core may use all the same, each with its reason.
ALLOWED = {
    # whether kernels run interpreted; a folder in its types
    "kai_sched.solver.jit": {"os", "pathlib"},
    # finds the folder of compiled kernels, and warns where there is none
    "kai_sched.solver.jit.folders": {"importlib", "os", "pathlib", "platform", "tempfile", "warnings"},
}

# Only these may import the package named.
OWNERS = {
    "cel": "kai_sched.selectors.expressions",
    "kopf": "kai_sched.operator",
    "kubernetes_asyncio": "kai_sched.cluster",
    "llvmlite": "kai_sched.solver.jit",
    "numba": "kai_sched.solver.jit",
}

# What other packages may import of the solver; all else of it knows the columns of its tables.
SOLVER = "kai_sched.solver"
ENTRIES = {f"{SOLVER}.{name}" for name in ("jit", "pipeline", "solution", "warmup")}

PATHS = "kai_sched.cluster.paths"
API_PATH = re.compile(r"/apis?(/|$)")


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def reaches_outside(module: Module) -> list[str]:
    """What the module imports, calls or reads that the core may not."""
    found = {name.split(".")[0] for name in imports(module)} & OUTSIDE
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & OUTSIDE_CALLS
        elif isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            found |= {f"{owner}.{node.attr}"} & OUTSIDE_ATTRIBUTES
    return sorted(found - ALLOWED.get(module.name, set()))


def foreign_imports(module: Module) -> list[str]:
    """The packages that the module imports although another part of the project owns them."""
    tops = {name.split(".")[0] for name in imports(module)}
    return sorted(top for top in tops & OWNERS.keys() if not is_within(module.name, OWNERS[top]))


def solver_internals(module: Module) -> list[str]:
    """What the module imports of the solver that is not for other packages."""
    if is_within(module.name, SOLVER):
        return []
    found = [name for name in imports(module) if is_within(name, SOLVER) and name != SOLVER]
    return sorted(name for name in found if not any(is_within(name, entry) for entry in ENTRIES))


def tables_of_one_search(module: Module) -> list[int]:
    """The lines where a module of both searches for victims reads the tables of one: ``search.minimal`` or so."""
    parts = module.name.removeprefix(f"{SOLVER}.eviction.").split(".")
    if not is_within(module.name, f"{SOLVER}.eviction") or parts[0] in ("minimal", "original"):
        return []
    reads = (node for node in ast.walk(module.tree) if isinstance(node, ast.Attribute))
    return [node.lineno for node in reads if ast.unparse(node) in ("search.minimal", "search.original")]


def circles(package: tuple[Module, ...]) -> list[list[str]]:
    """The circles of modules that import each other, for whatever reason; one for each module that closes one."""
    names = {module.name for module in package}
    needs = {module.name: sorted((imports(module) & names) - {module.name}) for module in package}
    done: set[str] = set()
    found: list[list[str]] = []

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in done:
            for other in needs[name]:
                visit(other, [*path, name])
            done.add(name)

    for name in sorted(names):
        visit(name, [])
    return found


def made_paths(module: Module) -> list[int]:
    """The lines where the module makes a path of the API itself: only ``cluster.paths`` checks what goes in."""
    casts = PATHS in imports(module) or f"{PATHS}.Path" in imports(module)
    found = []
    for node in ast.walk(module.tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and API_PATH.match(node.value)
        is_cast = casts and isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Path"
        if is_text or is_cast:
            found.append(node.lineno)
    return [] if module.name == PATHS else found


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([command, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


def test_import_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_import_contracts_can_fail(tmp_path: Path) -> None:
    """In a copy of the package where each contract is broken once, each is reported."""
    shutil.copytree(ROOT / "kai_sched", tmp_path / "kai_sched", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    stages = tmp_path / "kai_sched" / "solver" / "stages"
    (tmp_path / "kai_sched" / "plan" / "wrong.py").write_text("import kai_sched.cycle.run\n")
    (tmp_path / "kai_sched" / "snapshot" / "wrong.py").write_text("import kai_sched.model.objects\n")
    (stages / "wrong.py").write_text("import kai_sched.solver.stages.allocate\n")
    (tmp_path / "kai_sched" / "operator" / "intake" / "wrong.py").write_text("import kai_sched.operator.app\n")
    (tmp_path / "kai_sched" / "model" / "wrong.py").write_text("import rich\n")
    eviction = stages.parent / "eviction"
    (eviction / "minimal" / "wrong.py").write_text("import kai_sched.solver.eviction.original.recorded\n")
    (eviction / "rules" / "wrong.py").write_text("import kai_sched.solver.eviction.minimal.choice\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert " 0 kept, 7 broken" in result.stdout, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("package", CORE)
def test_core_reaches_nothing_outside(package: str) -> None:
    found = {m.name: reaches_outside(m) for m in modules() if is_within(m.name, f"kai_sched.{package}")}
    assert {name: reach for name, reach in found.items() if reach} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "def f():\n    from os import environ",
        "import urllib.request",
        "print('x')",
        "open('x')",
        "from datetime import datetime\nnow = datetime.now()",
        "import datetime\nnow = datetime.datetime.now()",
        "import numpy as np\nnp.random.rand()",
        "import sys\nsys.stderr.write('x')",
    ],
)
def test_reaching_outside_is_seen(text: str) -> None:
    assert reaches_outside(parse("kai_sched.model.example", text))


def test_exceptions_are_needed() -> None:
    """An entry of ALLOWED that its module no longer uses is taken out."""
    unused = {}
    for module in modules():
        if module.name in ALLOWED:
            bare = Module("kai_sched.model.example", module.path, module.text, module.tree)
            unused[module.name] = sorted(ALLOWED[module.name] - set(reaches_outside(bare)))
    assert unused == {name: [] for name in ALLOWED}


def test_owned_packages_stay_with_their_owner() -> None:
    found = {m.name: foreign_imports(m) for m in modules()}
    assert {name: packages for name, packages in found.items() if packages} == {}


@pytest.mark.parametrize("package", OWNERS)
def test_owned_packages_can_be_misused(package: str) -> None:
    assert foreign_imports(parse("kai_sched.files.example", f"def f():\n    import {package}.x")) == [package]
    assert foreign_imports(parse(OWNERS[package], f"import {package}")) == []


def test_no_modules_import_each_other() -> None:
    """But for the package itself: names for programs are there for type checkers, and imported on first use."""
    assert circles(tuple(module for module in modules() if module.name != "kai_sched")) == []


def test_circles_are_seen() -> None:
    package = parse("p.a", "import p.b"), parse("p.b", "def f():\n    import p.c"), parse("p.c", "from p.a import x")
    assert circles(package) == [["p.a", "p.b", "p.c", "p.a"]]
    assert circles(package[:2]) == []


def test_tables_of_a_search_are_its_own() -> None:
    found = {m.name: tables_of_one_search(m) for m in modules()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_tables_of_a_search_elsewhere_are_seen() -> None:
    text = "def f(search):\n    return search.minimal.cost[0]"
    assert tables_of_one_search(parse(f"{SOLVER}.eviction.rules.example", text)) == [2]
    assert tables_of_one_search(parse(f"{SOLVER}.eviction.minimal.example", text)) == []


def test_tables_of_the_solver_stay_in_the_solver() -> None:
    found = {m.name: solver_internals(m) for m in modules()}
    assert {name: inside for name, inside in found.items() if inside} == {}


@pytest.mark.parametrize(
    "text", ["from kai_sched.solver.state import State", "def f():\n    import kai_sched.solver.eviction.tables"]
)
def test_tables_of_the_solver_elsewhere_are_seen(text: str) -> None:
    assert solver_internals(parse("kai_sched.cycle.example", text)) != []
    assert solver_internals(parse("kai_sched.solver.example", text)) == []
    assert solver_internals(parse("kai_sched.cycle.example", "from kai_sched.solver.solution import Solution")) == []


@pytest.mark.slow
def test_paths_of_the_api_are_made_in_one_place() -> None:
    found = {m.name: made_paths(m) for m in modules()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        'path = f"/api/v1/namespaces/{name}/pods"',
        'root = "/apis"',
        f"from {PATHS} import Path\npath = Path(name)",
    ],
)
def test_a_path_that_is_made_elsewhere_is_seen(text: str) -> None:
    assert made_paths(parse("kai_sched.cluster.example", text)) != []
    assert made_paths(parse(PATHS, text)) == []


def test_core_packages_are_those_of_the_tree() -> None:
    """A package that is neither core nor known as a shell would be checked by nothing above."""
    packages = {m.name.split(".")[1] for m in modules() if "." in m.name}
    assert packages - set(CORE) <= {
        "cli",
        "operator",
        "cluster",
        "files",
        "report",
        "answers",
        "notebook",
        "library",
        "telemetry",
        "selectors",
        "workload_kinds",
    }
