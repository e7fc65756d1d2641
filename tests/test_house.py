"""The house rules on how code is written: few parameters, named columns, plain names, docstrings with shapes.

Like tests/test_tidy.py: each rule is a function from source to what is wrong with it, and the end of this file shows
that each one fails.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

from tests.test_architecture import is_within
from tests.tree import ROOT, Module, modules, parse, project_files

SOLVER = "kai_sched.solver"
PARAMETERS_MAX = 8
EXCEPTIONS_MAX = 8
# Functions that may have more parameters, each with its reason.
MANY_PARAMETERS = {
    "kai_sched.cli.cluster_commands.explain": "Typer declares one option for each parameter",
    "kai_sched.cli.cluster_commands.fit": "Typer declares one option for each parameter",
    "kai_sched.cli.main.run": "Typer declares one option for each parameter",
    "kai_sched.cli.cluster_commands.simulate": "Typer declares one option for each parameter",
    "kai_sched.cli.cluster_commands.top": "Typer declares one option for each parameter",
    "kai_sched.lowering.pod_classes._table": "what one table is made of: a tuple of it would hide the names",
    "kai_sched.notebook.loaded_cluster.LoadedCluster.with_queue": "editors complete one name for each amount",
    "kai_sched.solver.stages.fair_share.divide": "the problem as it is written down: a number or a column each",
}

# Metaphors, which tell a stranger nothing. docs/glossary.md has the words to use.
BANNED = {
    *("ahead", "cast", "chance", "clockwork", "culprit", "herd", "hunt", "keeper", "kin", "ledger", "likeness"),
    *(
        "everybody",
        "lineup",
        "look",
        "looks",
        "nobody",
        "owed",
        "plays",
        "prey",
        "promise",
        "promised",
        "promises",
        "rehearse",
        "scene",
    ),
    *("setback", "setbacks", "shielded", "tally", "taste", "tell", "telling", "tells", "told", "torn", "weigh"),
    *("weighed", "wish", "wished"),
}

DOCSTRING_SHARE = 0.20
DOCUMENTED = ("kai_sched.solver", "kai_sched.lowering", "kai_sched.operator")
BOUND = re.compile(r"#.*\bBound: \S")
SHAPE = re.compile(r"\([A-Z\d*][A-Z0-9 +]*,[^)]*\)")
ARRAYS = {"Amounts", "Flags", "Floats", "Ints", "Longs"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The functions with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield prefix + node.name, node
        name = node.name + "." if isinstance(node, Function | ast.ClassDef) else ""
        yield from functions(node, prefix + name)


def parameters(function: Function) -> list[str]:
    """The names of the parameters, without ``self`` and ``cls``."""
    given = function.args
    found = [each.arg for each in given.posonlyargs + given.args + given.kwonlyargs]
    found += [each.arg for each in (given.vararg, given.kwarg) if each]
    return [name for name in found if name not in ("self", "cls")]


def many_parameters(module: Module) -> list[str]:
    """The functions that have more parameters than they may, by their dotted name."""
    return [f"{module.name}.{name}" for name, each in functions(module.tree) if len(parameters(each)) > PARAMETERS_MAX]


def integer_columns(module: Module) -> list[str]:
    """The runs of upper-case constants that number something: they should be an IntEnum, or fields of a tuple."""
    found = []
    for node in ast.walk(module.tree):
        body = getattr(node, "body", None)
        is_enum = isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases)
        if not isinstance(body, list) or is_enum:
            continue
        before: list[int] = []
        for statement in body:
            numbers = _constants(statement)
            if numbers[:2] == [0, 1] or before + numbers == [0, 1]:
                found.append(f"line {statement.lineno}")
            before = numbers[-1:]
    return found


def _constants(statement: ast.stmt) -> list[int]:
    """The integers that the statement gives to upper-case names; 0 and 1 where it numbers them with ``range``."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return []
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    if not all(isinstance(name, ast.Name) and name.id.isupper() for name in names):
        return []
    value = statement.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("range", "count"):
        return [0, 1]
    values = value.elts if isinstance(value, ast.Tuple) else [value]
    numbers = [each.value for each in values if isinstance(each, ast.Constant) and type(each.value) is int]
    return numbers if len(numbers) == len(values) else []


def identifiers(module: Module) -> set[str]:
    """The names that the module gives: its own, those of functions, classes, parameters, variables and attributes."""
    found = set(module.name.split("."))
    for node in ast.walk(module.tree):
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.alias) and node.asname:
            found.add(node.asname)
    return found


def words(identifier: str) -> set[str]:
    """The words of an identifier, split at underscores and capitals."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)}


def banned_words(module: Module) -> list[str]:
    return sorted(name for name in identifiers(module) if words(name) & BANNED)


def classes_twice(package: Iterable[Module]) -> dict[str, list[str]]:
    """The names of classes that stand in more than one place, with the modules."""
    places = defaultdict(list)
    for module in package:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    return {name: found for name, found in places.items() if len(found) > 1}


def functions_twice(package: Iterable[Module]) -> dict[str, list[str]]:
    """The names of functions, not of methods, that stand in more than one module, with the modules."""
    places = defaultdict(list)
    for module in package:
        for node in module.tree.body:
            if isinstance(node, Function) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    return {name: found for name, found in places.items() if len(found) > 1}


def docstring_share(package: Iterable[Module]) -> float:
    """The share of docstrings, with their quotes, in the lines that are not blank."""
    documented = total = 0
    for module in package:
        lines = module.text.splitlines()
        total += _not_blank(lines)
        for node in ast.walk(module.tree):
            if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node):
                documented += _not_blank(lines[node.body[0].lineno - 1 : node.body[0].end_lineno])
    return documented / max(total, 1)


def _not_blank(lines: list[str]) -> int:
    return sum(1 for line in lines if line.strip())


def kernels_without_shapes(module: Module) -> list[str]:
    """The kernels that get an array and whose docstrings name the shape of nothing, as in ``(T,)``."""
    found = []
    for name, each in functions(module.tree):
        is_kernel = any(re.search(r"\b(kernel|inner)\b", ast.unparse(decorator)) for decorator in each.decorator_list)
        gets_array = any(ast.unparse(given.annotation or given) in ARRAYS for given in each.args.args)
        if is_kernel and gets_array and not SHAPE.search(ast.get_docstring(each) or ""):
            found.append(name)
    return found


def loops_without_bound(module: Module) -> list[str]:
    """The ``while`` loops without "Bound:" in a comment on their line, or in those right above it."""
    found, lines = [], module.text.splitlines()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.While):
            first = node.lineno - 1
            while first > 0 and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            if not any(BOUND.search(line) for line in lines[first : node.lineno]):
                found.append(f"line {node.lineno}")
    return found


def unknown_files(text: str) -> list[str]:
    """The Python files in code marks of a document that no path of the checkout ends with. ``*`` is any name."""
    named = re.findall(r"`([\w*./-]+\.py)`", text)
    return [name for name in named if not any(path.match(name) for path in project_files())]


def test_functions_have_few_parameters() -> None:
    found = [name for module in modules() for name in many_parameters(module)]
    assert sorted(found) == sorted(MANY_PARAMETERS)
    assert len(MANY_PARAMETERS) <= EXCEPTIONS_MAX
    assert all(MANY_PARAMETERS.values())


def test_columns_have_names() -> None:
    found = {module.name: integer_columns(module) for module in modules()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_identifier_has_a_banned_word() -> None:
    found = {module.name: banned_words(module) for module in modules()}
    assert {name: names for name, names in found.items() if names} == {}


def test_no_class_name_stands_twice() -> None:
    assert classes_twice(modules()) == {}


def test_no_function_of_the_solver_stands_twice() -> None:
    assert functions_twice(module for module in modules() if is_within(module.name, SOLVER)) == {}


@pytest.mark.parametrize("package", DOCUMENTED)
def test_packages_are_documented(package: str) -> None:
    share = docstring_share(module for module in modules() if is_within(module.name, package))
    assert share >= DOCSTRING_SHARE, f"{share:.1%}"


def test_kernels_say_shapes() -> None:
    found = {m.name: kernels_without_shapes(m) for m in modules() if is_within(m.name, SOLVER)}
    assert {name: kernels for name, kernels in found.items() if kernels} == {}


def test_loops_of_the_solver_have_a_bound() -> None:
    found = {m.name: loops_without_bound(m) for m in modules() if is_within(m.name, SOLVER)}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.slow
def test_documents_name_files_that_exist() -> None:
    found = {str(path): unknown_files((ROOT / path).read_text()) for path in project_files() if path.suffix == ".md"}
    assert {path: names for path, names in found.items() if names and path != "CHANGELOG.md"} == {}


@pytest.mark.parametrize(
    ("name", "count", "wrong"),
    [
        ("kai_sched.solver.example", 9, True),
        ("kai_sched.solver.example", 8, False),
        ("kai_sched.model.example", 9, True),
        ("kai_sched.model.example", 8, False),
    ],
)
def test_many_parameters_are_seen(name: str, count: int, wrong: bool) -> None:
    listed = ", ".join(f"p{n}" for n in range(count - 3))
    text = f"class A:\n    def f(self, {listed}, *args, key, **more): ..."
    assert many_parameters(parse(name, text)) == ([f"{name}.A.f"] if wrong else [])


@pytest.mark.parametrize(
    "text",
    [
        "A, B, C = range(3)",
        "A, B = range(10, 12)",
        "A, B = 0, 1",
        "A = 0\nB = 1",
        "X = 5\n\nA = 0\nB: int = 1",
        "class Columns:\n    A = 0\n    B = 1",
    ],
)
def test_integer_columns_are_seen(text: str) -> None:
    assert len(integer_columns(parse("kai_sched.example", text))) == 1


def test_other_constants_are_let_through() -> None:
    text = "A, B = 1, 2\nC = 0\nD = 0\nlow, high = 0, 1\nclass E(enum.IntEnum):\n    F = 0\n    G = 1\nH = int(E.F)"
    assert integer_columns(parse("kai_sched.example", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def open_scene(): ...",
        "class StatusKeeper: ...",
        "def f(prey_list): ...",
        "LEDGER = {}",
        "self._look = 1",
        "for kin in jobs: ...",
        "from a import b as herd",
        "f = lambda wish: 1",
    ],
)
def test_banned_words_are_seen(text: str) -> None:
    assert len(banned_words(parse("kai_sched.example", text))) == 1
    assert banned_words(parse("kai_sched.solver.lineup", "")) == ["lineup"]


def test_words_inside_others_are_let_through() -> None:
    assert banned_words(parse("kai_sched.example", "broadcast = skin = obscene = Overlook = 1")) == []


def test_class_names_that_stand_twice_are_seen() -> None:
    package = parse("p.a", "class A: ..."), parse("p.b", "class A: ...\nclass B: ...")
    assert classes_twice(package) == {"A": ["p.a", "p.b"]}


def test_function_names_that_stand_twice_are_seen() -> None:
    package = parse("p.a", "def f(): ..."), parse("p.b", "def f(): ...\nclass B:\n    def f(self): ...")
    assert functions_twice(package) == {"f": ["p.a", "p.b"]}


def test_missing_docstrings_lower_the_share() -> None:
    assert docstring_share([parse("p.a", '"""A.\n\nB.\n"""\n\ndef f():\n    return 1\n')]) == 3 / 5
    assert docstring_share([parse("p.a", "x = 1\n")]) == 0.0


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("@inner\ndef f(a: Longs): ...", True),
        ('@kernel\ndef f(a: int, b: Floats):\n    """Count (all) of it."""', True),
        ('@jit.inner\ndef f(a: Ints):\n    """Count."""', True),
        ('@kernel\ndef f(a: Floats):\n    """Fill (Q + 1, 3)."""', False),
        ('@inner\ndef f(a: Longs):\n    """Fill ``order`` (T,)."""', False),
        ('@inner\ndef f(a: int, b: int):\n    """Compare two numbers."""', False),
        ("def f(a: Floats): ...", False),
    ],
)
def test_kernels_without_shapes_are_seen(text: str, wrong: bool) -> None:
    assert kernels_without_shapes(parse("kai_sched.solver.example", text)) == (["f"] if wrong else [])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("while a:\n    a = b", True),
        ("# Why.\nwhile a:  # Bound:\n    a = b", True),
        ("# Bound: n.\na = 1\nwhile a:\n    a = b", True),
        ("while a:\n    # Bound: n.\n    a = b", True),
        ("while a:  # Bound: n.\n    a = b", False),
        ("# Bound: n.\n# Why.\nwhile a:\n    a = b", False),
        ("for a in range(b): ...", False),
    ],
)
def test_loops_without_bound_are_seen(text: str, wrong: bool) -> None:
    assert len(loops_without_bound(parse("kai_sched.solver.example", text))) == wrong


def test_unknown_files_are_seen() -> None:
    text = "`tests/tree.py`, `tree.py`, `test_*.py`, `tests/nothing.py`, `nothing/tree.py` and `tree.pyc`"
    assert unknown_files(text) == ["tests/nothing.py", "nothing/tree.py"]
