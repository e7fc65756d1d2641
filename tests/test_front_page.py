"""The documents at the front door: README fits a page, links resolve, CONTRIBUTING names what exists, hooks are checks.

Each rule is a function from a text to what is wrong with it, so that the end of this file can show that each one fails.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.module_index import first_sentence, render
from tests.tree import ROOT, project_files

WORDS_MAX = 900
MAP_BYTES_MAX = 15_000
SENTENCE_MAX = 240
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"\.?[\w-][\w.*-]*(?:/[\w.*-]+)*/?")
PATH_SUFFIXES = (".py", ".md", ".toml", ".yaml", ".txt")
KINDS_OF_CHANGE = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
NOT_CHECKED_OUT = (".venv",)

Rule = Callable[[str], list[str]]


def too_many_words(text: str) -> list[str]:
    """More words than a page has, counted as ``wc -w`` counts them."""
    words = len(text.split())
    return [f"{words} words"] if words > WORDS_MAX else []


def broken_links(text: str, folder: Path = ROOT) -> list[str]:
    """The relative links of a document in that folder whose file, or whose heading, is not there."""
    found = []
    for link in LINK.findall(CODE.sub("", BLOCK.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        path = folder / name if name else None
        there = path is None or path.exists()
        if not there or (anchor and anchor not in anchors(path.read_text() if path else text)):
            found.append(link)
    return found


def anchors(text: str) -> set[str]:
    """Those of the headings, as GitHub makes them, and those that are written out."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def missing_files(text: str, folder: Path = ROOT) -> list[str]:
    """The paths in code marks that are there neither from that folder nor from the top. ``*`` is any name."""
    found = []
    for code in CODE.findall(BLOCK.sub("", text)):
        looks_like_one = "/" in code.strip("/") or code.endswith(PATH_SUFFIXES)
        if not looks_like_one or not PATH.fullmatch(code) or code.startswith(NOT_CHECKED_OUT):
            continue
        if not any(any(top.glob(code.rstrip("/"))) for top in (folder, ROOT)):
            found.append(code)
    return found


def missing_names(text: str) -> list[str]:
    """What is said to be a name in a file ("`RULES` of `registry.py`") and does not occur there."""
    named = re.findall(r"`(\w+)` (?:of|in) `([\w/.-]+\.\w+)`", text)
    return [f"{name} in {path}" for name, path in named if not _has(path, name)]


def _has(path: str, name: str) -> bool:
    return (ROOT / path).is_file() and re.search(rf"\b{name}\b", (ROOT / path).read_text()) is not None


def not_in_the_index(text: str) -> list[str]:
    """The modules of the package that hold something and have no line below the heading of their folder."""
    shown = set()
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        folder = section.partition("\n")[0]
        shown |= {Path(folder, name) for name in re.findall(r"^- `(\w+\.py)`: \S", section, re.MULTILINE)}
    return [str(path) for path in project_files() if _holds_code(path) and path not in shown]


def _holds_code(path: Path) -> bool:
    return path.parts[0] == "kai_sched" and path.suffix == ".py" and (ROOT / path).read_text().strip() != ""


def bad_entries(text: str) -> list[str]:
    """The lines of the index that are no sentence, or a longer one than two lines of code."""
    entries = re.findall(r"^- (`\w+\.py`): (.*)$", text, re.MULTILINE)
    return [name for name, sentence in entries if not sentence.endswith(".") or len(sentence) > SENTENCE_MAX]


def wrong_sections(text: str) -> list[str]:
    """What is not in the form of Keep a Changelog: versions with kinds of change, each once, the newest one first."""
    versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    titles = [version.partition("\n")[0] for version in versions]
    versioned = titles[1:] if titles[:1] == ["Unreleased"] else titles
    found = [title for title in versioned if not re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", title)]
    for title, version in zip(titles, versions, strict=True):
        kinds = re.findall(r"^### (.+)$", version, re.MULTILINE)
        found += [f"{title}: {kind}" for kind in kinds if kind not in KINDS_OF_CHANGE or kinds.count(kind) > 1]
        found += [] if kinds else [f"{title}: no changes"]
    return found


def commands_of_check(makefile: str) -> list[str]:
    """The commands of ``make check``, without what they say where they fail."""
    variables = dict(re.findall(r"^(\w+) :?= (.*)$", makefile, re.MULTILINE))
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n|  .*\n)+)", makefile, re.MULTILINE)
    for _ in range(2):  # a variable may stand in another one
        recipe = re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], recipe)
    lines = [line.strip() for line in recipe.replace("\\\n", "").splitlines()]
    return [line.partition(" || ")[0] for line in lines]


def commands_of_hooks(config: str) -> list[str]:
    """The commands that run before a commit; a pipe is in the hands of bash."""
    hooks = [hook for repo in yaml.safe_load(config)["repos"] for hook in repo["hooks"]]
    return [re.sub(r"^bash -c '(.*)'$", r"\1", hook["entry"]) for hook in hooks]


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def documents() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md"]


def test_the_readme_fits_a_page() -> None:
    assert too_many_words(text_of("README.md")) == []


@pytest.mark.parametrize("path", documents(), ids=str)
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links((ROOT / path).read_text(), (ROOT / path).parent) == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "tests/README.md", "docs/develop.md"])
def test_files_that_are_named_exist(name: str) -> None:
    assert missing_files(text_of(name), (ROOT / name).parent) == []


def test_names_that_are_said_to_be_in_files_are_there() -> None:
    assert missing_names(text_of("CONTRIBUTING.md")) == []


def test_the_changelog_keeps_its_form() -> None:
    assert wrong_sections(text_of("CHANGELOG.md")) == []


def test_hooks_run_what_make_check_runs() -> None:
    commands = commands_of_check(text_of("Makefile"))
    assert len(commands) == 7
    assert commands_of_hooks(text_of(".pre-commit-config.yaml")) == commands


def test_hooks_come_from_the_projects_environment() -> None:
    """Nothing is fetched: local hooks, and the tools in .venv."""
    repos = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"]
    assert {repo["repo"] for repo in repos} == {"local"}
    hooks = [hook for repo in repos for hook in repo["hooks"]]
    assert {(hook["language"], hook["pass_filenames"]) for hook in hooks} == {("system", False)}
    assert all(".venv/bin/" in hook["entry"] for hook in hooks)


def test_the_readme_has_the_commands_that_ci_runs() -> None:
    commands = text_of(".ci/run").splitlines()[-2:]
    assert commands == ["make test", "make test-all"]
    shown = [text_of("README.md").index(f"\n{command}\n") for command in commands]
    assert shown == sorted(shown)


def test_all_targets_are_in_the_list() -> None:
    (phony,) = [" ".join(re.findall(r"^\.PHONY:(.*)$", text_of("Makefile"), re.MULTILINE))]
    listed = re.findall(r"`make ([a-z-]+)`", text_of("docs/develop.md"))
    assert set(phony.split()) - {"help"} == set(listed)


def test_the_map_of_the_tests_is_complete() -> None:
    """Every folder, and every module of the cluster tests that is no test."""
    text = text_of("tests/README.md")
    folders = {path.parts[1] for path in project_files() if path.parts[0] == "tests" and len(path.parts) > 2}
    assert [folder for folder in sorted(folders) if f"\n| `{folder}` |" not in text] == []
    modules = {path.name for path in (ROOT / "tests" / "cluster").glob("*.py") if not path.name.startswith("test_")}
    shown = set(re.findall(r"`cluster/(\w+\.py)`", text))
    assert modules - {"__init__.py"} == shown


@pytest.mark.parametrize("rule", [not_in_the_index, bad_entries])
def test_the_index_of_modules_is_complete(rule: Rule) -> None:
    assert rule(render()) == []


def test_the_map_names_files_that_exist() -> None:
    """In its drawings and tables, too: a path of the checkout ends with each."""
    named = set(re.findall(r"[\w/]+\.py", text_of("ARCHITECTURE.md")))
    assert len(named) > 50
    assert sorted(name for name in named if not any(path.match(name) for path in project_files())) == []


def unresolved(table: str) -> list[str]:
    """Files in rows of the map that are neither below kai_sched nor in a folder of the file before them."""
    found = []
    for row in table.splitlines():
        before = ROOT / "kai_sched"
        for name in re.findall(r"`([\w./]+\.py)`", row):
            folders = [ROOT / "kai_sched", before, *before.parents]
            path = next((folder / name for folder in folders if (folder / name).exists()), None)
            if path is None:
                found.append(name)
            else:
                before = path.parent
    return found


def test_rows_of_the_map_lead_to_files() -> None:
    _, _, table = text_of("ARCHITECTURE.md").partition("| to change |")
    assert unresolved(table.partition("## How to test")[0]) == []
    assert unresolved("`solver/state.py`, `undo.py`, `kernels/undo.py`, `place.py`") == ["undo.py"]


def test_the_map_fits_into_a_few_pages() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= MAP_BYTES_MAX


def test_first_sentences_are_read() -> None:
    assert first_sentence("The ``a`` of 2.3\nand b. More.\n\nC.") == "The `a` of 2.3 and b."
    assert first_sentence("No stop\n\nC.") == "No stop"


def test_editors_break_lines_where_the_linter_does() -> None:
    parser = configparser.ConfigParser()
    parser.read_string("[top]\n" + text_of(".editorconfig"))
    length = tomllib.loads(text_of("pyproject.toml"))["tool"]["ruff"]["line-length"]
    assert parser["*"]["max_line_length"] == str(length)


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        (too_many_words, "word " * 901, "word " * 900),
        (broken_links, "[x](docs/nothing.md)", "[x](docs/glossary.md) and [y](https://kubernetes.io)"),
        (broken_links, "[x](docs/glossary.md#nothing)", "[x](docs/glossary.md#glossary)"),
        (broken_links, "# A b, c\n[x](#a-b)", "# A b, c\n[x](#a-b-c)"),
        (broken_links, "[x](nothing.md)", "`[x](nothing.md)`\n```\n[x](nothing.md)\n```"),
        (
            missing_files,
            "`kai_sched/nothing.py`",
            "`kai_sched/library.py`, `tests/test_*.py`",
        ),
        (missing_files, "`nothing.md`", "`README.md`, `make check`, `.venv/bin`"),
        (missing_files, "`tests/nothing`", "`tests/unit` and `RULES`"),
        (missing_names, "`NOTHING` of `kai_sched/library.py`", "`EVICTING` of `kai_sched/library.py`"),
        (missing_names, "`RULES` in `kai_sched/nothing.py`", "`run_cycle` in `kai_sched/library.py`"),
        (bad_entries, "- `a.py`: no stop", "- `a.py`: A sentence."),
        (bad_entries, f"- `a.py`: {'a' * 240}.", f"- `a.py`: {'a' * 239}."),
        (wrong_sections, "## 0.1.0\n### Added\n", "## Unreleased\n### Added\n## 0.1.0 - 2026-01-01\n### Fixed\n"),
        (wrong_sections, "## Unreleased\n### New\n", "## Unreleased\n### Changed\n### Fixed\n"),
        (wrong_sections, "## Unreleased\n### Added\n### Added\n", "## Unreleased\n### Added\n"),
        (wrong_sections, "## Unreleased\n", "## Unreleased\n### Security\n"),
    ],
)
def test_rules_can_fail(rule: Rule, wrong: str, right: str) -> None:
    assert rule(wrong)
    assert not rule(right)


def test_modules_without_a_line_are_seen() -> None:
    text = render()
    assert not_in_the_index(re.sub(r"\n- `library\.py`: .*", "", text)) == ["kai_sched/library.py"]
    elsewhere = not_in_the_index(text.replace("\n## kai_sched/cli\n", "\n## kai_sched/nothing\n"))
    there = sorted(path.name for path in (ROOT / "kai_sched" / "cli").glob("*.py"))
    assert "main.py" in there
    assert elsewhere == [f"kai_sched/cli/{name}" for name in there]


def test_commands_are_read_from_make_and_from_hooks() -> None:
    """A command that is added to one of them alone makes the lists differ."""
    makefile = "BIN := .venv/bin\nARGS := a b\ncheck: $(DEV)\n\t$(BIN)/one $(ARGS)\n\ttwo || { \\\n  no; }\n\nx:\n"
    assert commands_of_check(makefile) == [".venv/bin/one a b", "two"]
    hooks = "repos: [{hooks: [{entry: .venv/bin/one a b}, {entry: bash -c 'two'}, {entry: three}]}]"
    assert commands_of_hooks(hooks) == [".venv/bin/one a b", "two", "three"]
