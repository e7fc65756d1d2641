"""The house rules, as tests: sizes, docstrings, banned words, dead modules, documents that name what exists.

Each rule is a function from a text to what is wrong with it, so that the end of this file can show that each one fails.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.example_company import DUMPS, FOLDER
from tests.tree import ROOT, Module, imports, modules, parse, project_files

COLUMNS_MAX = 120
MODULE_LINES_MAX = 400
# Modules that read better whole than in two pieces, each with its reason.
LONG_MODULES = {
    "kai_sched/solver/eviction/original/precedence.py": "one proof, whose steps need each other",
}
FUNCTION_LINES_MAX = 60
EXCEPTIONS_MAX = 5
KERNELS = ("kai_sched.solver.kernels.", "kai_sched.solver.eviction.")  # but for modules of tables alone
MAY_PRINT = ("kai_sched.cli", "kai_sched.report", "kai_sched.telemetry.progress")

CODE = {".py", ".spec", ".toml", ".yaml", ".yml", ".sh", ""}  # files without a suffix: Makefile, Dockerfile, .ci/run
PICTURES, BINARY_BYTES_MAX = Path("docs/images"), 150_000
LOCKS = ("build.txt", "dev.txt", "docs.txt", "release.txt", "runtime.txt")
LAW_AND_LOCKS = {Path("LICENSE"), *(Path("requirements") / name for name in LOCKS)}

# Put together from pieces, so that this file does not break its own rules.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b")
ELSEWHERE = re.compile(
    "|".join(
        [
            r"(?<![\w.~}-])/(?:" + "|".join(["wo" + "rk", "tm" + "p", "ro" + "ot", "ho" + "me", "Us" + "ers"]) + r")/",
            r"\bpy" + r"pi\.org",
            r"\bpython" + r"hosted\.org",
            r"\bartifact" + r"ory\b",
            r"--(?:extra-)?index" + r"-url\b",
            r"--trusted" + r"-host\b",
            r"--find" + r"-links\b",
        ]
    )
)

Rule = Callable[[str], list[str]]


def long_lines(text: str) -> list[str]:
    return [f"line {n}: {len(line)} columns" for n, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS_MAX]


def stray_space(text: str) -> list[str]:
    found = [f"line {n}: space at its end" for n, line in enumerate(text.split("\n"), 1) if line != line.rstrip()]
    return found if text == "" or text.endswith("\n") else [*found, "no newline at the end"]


def unfinished(text: str) -> list[str]:
    return [f"{match.group()} in column {match.start()}" for match in UNFINISHED.finditer(text)]


def places_elsewhere(text: str) -> list[str]:
    return [match.group() for match in ELSEWHERE.finditer(text)]


def long_module(text: str) -> list[str]:
    lines = len(text.splitlines())
    return [f"{lines} lines"] if lines > MODULE_LINES_MAX else []


def long_functions(text: str) -> list[str]:
    sizes = [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions(ast.parse(text))]
    return [f"{name}: {lines} lines" for name, lines in sizes if lines > FUNCTION_LINES_MAX]


def missing_docstrings(text: str) -> list[str]:
    """The module and its public functions that have none. An empty module needs none."""
    tree = ast.parse(text)
    if not tree.body:
        return []
    found = [] if ast.get_docstring(tree) else ["the module"]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    public = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    return found + [node.name for node in public if not ast.get_docstring(node)]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def skipped_tests(text: str) -> list[str]:
    names = {"skip", "skipif", "skipTest", "xfail", "importorskip"}
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute) and node.attr in names]
    return sorted({node.attr for node in found if ast.unparse(node).split(".")[-2:] != ["jobs", "skip"]})  # a column


def prints(module: Module) -> bool:
    calls = (node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == "print" for function in calls)


def dead(package: tuple[Module, ...], started: set[str]) -> list[str]:
    """The modules that no other module imports, by statement or by name in a string, and that nothing starts."""
    used = set(started)
    for module in package:
        texts = {n.value for n in ast.walk(module.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        used |= {name for name in imports(module) | texts if name != module.name}
    return [module.name for module in package if not module.is_package and module.name not in used]


def empty_packages(package: tuple[Module, ...]) -> list[str]:
    """The packages that hold no code at all."""
    full = {module.name for module in package if module.tree.body}
    packages = [module.name for module in package if module.is_package]
    return [name for name in packages if not any(other == name or other.startswith(name + ".") for other in full)]


def untested(kernels: list[str], tests: tuple[Module, ...]) -> list[str]:
    """The modules of kernels that no test imports, by statement or by ``tests.afresh``, which names them in strings."""
    known: set[str] = set()
    for test in tests:
        known |= imports(test)
        texts = (n.value for n in ast.walk(test.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        known |= {f"kai_sched.{text}" for text in texts}
    return [name for name in kernels if name not in known]


def has_kernels(module: Module) -> bool:
    return any(node.decorator_list for node in module.tree.body if isinstance(node, ast.FunctionDef))


def started_modules() -> set[str]:
    """What is run by name: the entry points, and ``python -m`` in the Makefile."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].values()
    return {entry.split(":")[0] for entry in scripts} | set(re.findall(r"-m (kai_sched[\w.]*)", makefile()))


def makefile() -> str:
    return (ROOT / "Makefile").read_text()


def make_targets(text: str) -> set[str]:
    return {name for line in re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE) for name in line.split()}


def unknown_targets(text: str, targets: set[str]) -> list[str]:
    """The `make x` that a document shows as a command, x not being a target."""
    shown = re.findall(r"(?:^\s*\$? ?|`)make ([a-z][a-z-]*)", text, re.MULTILINE)
    return sorted(set(shown) - targets)


def texts(*suffixes: str) -> list[Path]:
    """The project's own text files; with suffixes, those of these kinds."""
    chosen = [path for path in project_files() if path not in LAW_AND_LOCKS and not may_be_binary(path)]
    return [path for path in chosen if not suffixes or path.suffix in suffixes]


def may_be_binary(path: Path) -> bool:
    """Whether the file need not be a text: a picture of the documents, or a dump that has a generator."""
    return path.is_relative_to(PICTURES) or (path.parent == FOLDER and path.name in DUMPS)


def violations(paths: list[Path], rule: Rule) -> dict[str, list[str]]:
    found = {str(path): rule((ROOT / path).read_text()) for path in paths}
    return {path: wrong for path, wrong in found.items() if wrong}


@pytest.mark.parametrize("rule", [stray_space, unfinished, places_elsewhere])
def test_rules_of_all_texts(rule: Rule) -> None:
    assert violations(texts(), rule) == {}


def test_lines_of_code_are_not_long() -> None:
    assert violations([path for path in texts(*CODE) if "crds" not in path.parts], long_lines) == {}


@pytest.mark.slow
def test_modules_are_short_but_for_the_exceptions() -> None:
    assert violations(texts(".py"), long_module).keys() == LONG_MODULES.keys()
    assert len(LONG_MODULES) <= EXCEPTIONS_MAX
    assert all(LONG_MODULES.values())


def test_functions_are_short() -> None:
    assert violations(texts(".py"), long_functions) == {}


def test_package_has_docstrings() -> None:
    assert violations([path for path in texts(".py") if path.parts[0] == "kai_sched"], missing_docstrings) == {}


@pytest.mark.slow
def test_no_test_is_skipped() -> None:
    own = {Path(__file__).resolve().relative_to(ROOT)}
    assert violations([p for p in texts(".py") if p.parts[0] == "tests" and p not in own], skipped_tests) == {}


def test_files_are_text_and_others_small() -> None:
    binary = []
    for path in project_files():
        if may_be_binary(path) and path.suffix in (".png", ".gz"):
            assert (ROOT / path).stat().st_size <= BINARY_BYTES_MAX, path
            continue
        try:
            (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            binary.append(str(path))
    assert binary == []


def test_only_the_shell_prints() -> None:
    printing = [module.name for module in modules() if prints(module)]
    assert [name for name in printing if not name.startswith(MAY_PRINT)] == []


@pytest.mark.slow
def test_no_module_is_dead() -> None:
    assert dead(modules(), started_modules()) == []


def test_each_module_of_kernels_has_a_unit_test() -> None:
    kernels = [module.name for module in modules() if module.name.startswith(KERNELS) and has_kernels(module)]
    assert len(kernels) > 30
    tests = tuple(module for module in modules("tests") if module.name.startswith("tests.unit.solver."))
    assert untested(kernels, tests) == []


def test_no_package_is_empty() -> None:
    assert empty_packages(modules()) == []


def test_documents_name_targets_that_exist() -> None:
    targets = make_targets(makefile())
    assert {"demo", "test"} <= targets
    assert violations(texts(".md"), lambda text: unknown_targets(text, targets)) == {}


def test_phony_targets_have_rules() -> None:
    rules = set(re.findall(r"^([a-z-]+):", makefile(), re.MULTILINE))
    assert make_targets(makefile()) - rules == set()


def test_lock_files_hold_hashes_and_no_addresses() -> None:
    for path in sorted(LAW_AND_LOCKS - {Path("LICENSE")}):
        text = (ROOT / path).read_text()
        entries = re.split(r"\n(?=\S)", text.strip())
        assert [entry for entry in entries if not re.match(r"[\w.-]+==\S+ .*\\\n    --hash=sha256:", entry)] == [], path
        assert "://" not in text, path


def test_manifests_are_complete() -> None:
    """Manifests parse, every document has a kind and a name, and each kustomization names all files of its folder."""
    for folder in ("manifests", "crds"):
        files = sorted(path.name for path in (ROOT / folder).glob("*.yaml") if path.name != "kustomization.yaml")
        listed = yaml.safe_load((ROOT / folder / "kustomization.yaml").read_text())["resources"]
        assert sorted(name for name in listed if name.endswith(".yaml")) == files
        for name in files:
            for document in yaml.safe_load_all((ROOT / folder / name).read_text()):
                assert document["kind"], name
                assert document["metadata"]["name"], name


def test_crd_files_go_by_the_name_of_their_resource() -> None:
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        if path.name != "kustomization.yaml":
            assert yaml.safe_load(path.read_text())["metadata"]["name"] == path.stem


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        (long_lines, "x" * 121, "x" * 120),
        (stray_space, "x \n", "x\n"),
        (stray_space, "x", ""),
        (unfinished, "# TO" + "DO: later", "# a to-do list"),
        (places_elsewhere, "open('/tm" + "p/x')", "$HOME/.cache and a/tm" + "p/x"),
        (places_elsewhere, "see https://py" + "pi.org/simple", "see https://kubernetes.io"),
        (long_module, "x = 1\n" * 401, "x = 1\n" * 400),
        (long_functions, "def f():\n" + "    x = 1\n" * 60, "def f():\n" + "    x = 1\n" * 59),
        (missing_docstrings, "x = 1\n", ""),
        (missing_docstrings, '"""M."""\ndef f(): ...\n', '"""M."""\ndef _f(): ...\n'),
        (missing_docstrings, '"""M."""\nasync def f(): ...\n', '"""M."""\ndef f():\n    """F."""\n'),
        (skipped_tests, "import pytest\n@pytest.mark.skip\ndef test(): ...", "def test(): ..."),
        (skipped_tests, "import pytest\ndef test():\n    pytest.skip('x')", "search.victims.jobs.skip[0] = 1"),
    ],
)
def test_rules_can_fail(rule: Rule, wrong: str, right: str) -> None:
    assert rule(wrong)
    assert not rule(right)


def test_dead_modules_are_seen() -> None:
    package = (
        parse("p.a", "from p import b"),
        parse("p.b", ""),
        parse("p.c", "HOME = 'p.d'"),
        parse("p.d", "import p.d"),
    )
    assert dead(package, {"p.a"}) == ["p.c"]


def test_untested_kernels_are_seen() -> None:
    tests = (
        parse("t.a", "from kai_sched.k import a\nfrom kai_sched.k.b import f"),
        parse("t.c", "(c,) = afresh('k.c')"),
        parse("t.d", "'of kai_sched.k.d'"),
    )
    assert untested([f"kai_sched.k.{name}" for name in "abcd"], tests) == ["kai_sched.k.d"]


def test_empty_packages_are_seen() -> None:
    empty = parse("p.q", "", Path("p/q/__init__.py"))
    assert empty_packages((empty,)) == ["p.q"]
    assert empty_packages((empty, parse("p.q.r", "x = 1"))) == []


def test_prints_are_seen() -> None:
    assert prints(parse("p.a", "def f():\n    print('x')"))
    assert not prints(parse("p.a", "console.print('x')"))


def test_unknown_targets_are_seen() -> None:
    assert unknown_targets("Run `make demo`:\n\n    make nothing\n", {"demo"}) == ["nothing"]
