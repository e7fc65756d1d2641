"""The house rule on rules: each section that is cited exists, links resolve, and nobody cites a private number.

docs/semantics.md defines the forms: ``semantics 4.5`` and ``API 4.7`` with lists behind them, ``(4.5)`` for the
document that was named last, and ``rule 4.5`` in scenario files. Each check is a function from a text to what is wrong
with it, so that the end of this file can show that each one fails.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import pytest

from tests.tree import ROOT, project_files

SEMANTICS, API = "semantics", "API"
DOCUMENTS = {SEMANTICS: Path("docs/semantics.md"), API: Path("docs/api.md")}

NUMBER = r"\d{1,2}(?:\.\d{1,2}){0,2}"
MORE = rf"(?:(?:,| to| and)\s+{NUMBER}(?![\w.]*\d))*"
NAMED = rf"\b(?P<name>[Ss]emantics|API)\s+(?P<listed>{NUMBER}{MORE})"
DOTTED = r"\d{1,2}\.\d{1,2}"
BARE = rf"\((?P<bare>{DOTTED}(?:(?:,| to| and)\s+{DOTTED})*)(?=\)|[,:]\s|\s+step)"
RULE = re.compile(rf"\brule\s+(?P<listed>{NUMBER}{MORE})")
CITATION = re.compile(f"{NAMED}|{BARE}")

# Put together from pieces, so that this file does not break its own rules.
PRIVATE = re.compile(r"\bQ" + r"\d{1,2}\b|(?<![\w/.])rand" + r"om/[a-z]+-\d+")
OUTDATED = re.compile(r"\bAPI cont" + r"ract\b|\bcont" + rf"ract \(?{NUMBER}|\b[Ss]ecti" + rf"on {NUMBER}(?![\w.]*\d)")

HEADING = re.compile(r"^#{2,4} (\d+(?:\.\d+)*)\.? ", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")

Sections = Mapping[str, Set[str]]


@functools.cache
def sections() -> Sections:
    """The sections of each document, by its anchors."""
    return {name: frozenset(ANCHOR.findall((ROOT / path).read_text())) for name, path in DOCUMENTS.items()}


def numbers(listed: str) -> list[str]:
    return re.findall(NUMBER, listed)


def document_of(name: str) -> str:
    return API if name == API else SEMANTICS


def first_named(text: str) -> str:
    """The document that a text names first, or the semantics."""
    found = re.search(NAMED, text)
    return document_of(found["name"]) if found else SEMANTICS


def citations(text: str, otherwise: str = SEMANTICS) -> Iterator[tuple[str, str]]:
    """The document and the section of each citation; a bare one is of the document named last, or ``otherwise``."""
    document = otherwise
    for found in CITATION.finditer(text):
        if found["name"]:
            document = document_of(found["name"])
        yield from ((document, number) for number in numbers(found["listed"] or found["bare"]))


def missing(cited: Iterator[tuple[str, str]], known: Sections) -> list[str]:
    return [f"{document} {number}" for document, number in cited if number not in known[document]]


def prose_of(text: str) -> list[str]:
    """The docstrings of a module, its own first, and its comments; the lines of a block of comments are one text."""
    tree = ast.parse(text)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    blocks: list[str] = []
    last = 0
    for token in (each for each in tokens if each.type == tokenize.COMMENT):
        comment = token.string.lstrip("# ")
        if blocks and token.start[0] == last + 1:
            blocks[-1] += f"\n{comment}"
        else:
            blocks.append(comment)
        last = token.start[0]
    return [*docstrings, *blocks]


def bad_python(text: str, known: Sections) -> list[str]:
    prose = prose_of(text)
    otherwise = first_named(prose[0])
    return [fault for part in prose for fault in missing(citations(part, otherwise), known)]


def bad_scenarios(text: str, known: Sections) -> list[str]:
    cited = ((SEMANTICS, number) for found in RULE.finditer(text) for number in numbers(found["listed"]))
    return missing(cited, known)


def bad_markdown(text: str, known: Sections) -> list[str]:
    """Only citations by name: numbers in parentheses are amounts there, and the short form is a link."""
    found = (each for each in CITATION.finditer(without_code(text)) if each["name"])
    return missing(((document_of(each["name"]), n) for each in found for n in numbers(each["listed"])), known)


def private_numbers(text: str) -> list[str]:
    return [found.group() for found in PRIVATE.finditer(text)]


def outdated_forms(text: str) -> list[str]:
    return [found.group() for found in OUTDATED.finditer(text)]


def without_code(text: str) -> str:
    """Markdown without what is shown as code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL))


def slugs(text: str) -> set[str]:
    """The anchors of a Markdown document: of its headings, as GitHub makes them, and its own."""
    headings = re.findall(
        r"^#{1,6} (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    found = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return found | set(ANCHOR.findall(text))


def broken_links(path: Path, text: str, root: Path = ROOT) -> list[str]:
    """The relative links of the document ``path`` that lead nowhere: no such file, or no such anchor in it."""
    broken = []
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = root / path.parent / name
        if name and not file.exists():
            broken.append(f"{target}: no such file")
        elif anchor and anchor not in slugs(file.read_text() if name else text):
            broken.append(f"{target}: no such anchor")
    return broken


def heading_faults(text: str) -> list[str]:
    """Numbered headings without an anchor of the same number right before, and anchors that repeat."""
    anchors = ANCHOR.findall(text)
    found = [f"{number}: its anchor is missing" for number in HEADING.findall(text) if not _anchored(number, text)]
    return found + [f"{anchor}: twice" for anchor in sorted(set(anchors)) if anchors.count(anchor) > 1]


def _anchored(number: str, text: str) -> bool:
    return re.search(rf'<a id="{re.escape(number)}"></a>\n\n#+ {re.escape(number)}\.? ', text) is not None


def cited_files(*suffixes: str) -> list[Path]:
    """The files in which rules are cited: code, tests, scenario files and documents."""
    return [
        path for path in project_files() if path.suffix in suffixes and path.parts[0] not in ("requirements", ".ci")
    ]


def code() -> list[Path]:
    return [path for path in cited_files(".py") if path.parts[0] in ("kai_sched", "tests")]


def scenario_files() -> list[Path]:
    return [path for path in cited_files(".txt") if path.parts[:2] == ("tests", "scenarios")]


@pytest.mark.slow
def test_code_cites_sections_that_exist() -> None:
    wrong = {str(path): bad_python((ROOT / path).read_text(), sections()) for path in code()}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_scenario_files_cite_sections_that_exist() -> None:
    assert len(scenario_files()) > 10
    wrong = {str(path): bad_scenarios((ROOT / path).read_text(), sections()) for path in scenario_files()}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_documents_cite_sections_that_exist() -> None:
    wrong = {str(path): bad_markdown((ROOT / path).read_text(), sections()) for path in cited_files(".md")}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_no_private_numbers_and_no_outdated_forms() -> None:
    files = [*code(), *scenario_files(), *cited_files(".md", ".yaml", ".toml")]
    texts = {str(path): (ROOT / path).read_text() for path in files}
    wrong = {path: private_numbers(text) + outdated_forms(text) for path, text in texts.items()}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_links_resolve() -> None:
    wrong = {str(path): broken_links(path, (ROOT / path).read_text()) for path in cited_files(".md")}
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize("path", DOCUMENTS.values(), ids=str)
def test_numbered_sections_have_anchors(path: Path) -> None:
    assert heading_faults((ROOT / path).read_text()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("semantics 4.5, 4.7 and 6", [(SEMANTICS, "4.5"), (SEMANTICS, "4.7"), (SEMANTICS, "6")]),
        ("Semantics 12.2, step 6", [(SEMANTICS, "12.2")]),
        ("API 4.4 to 4.10", [(API, "4.4"), (API, "4.10")]),
        ("Queue (API 5.2), PodGroup (6.2) and Topology (8.3)", [(API, "5.2"), (API, "6.2"), (API, "8.3")]),
        ("as shares allow (4.7, rule 2)", [(SEMANTICS, "4.7")]),
        ("the rounds (2.3 step 2a)", [(SEMANTICS, "2.3")]),
        ("an example (2.6: asking for less)", [(SEMANTICS, "2.6")]),
        ("half of it (0.5 GPUs) takes 2.5 s, the API server 1.30", []),
    ],
)
def test_citations_are_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert list(citations(text)) == expected


KNOWN = {SEMANTICS: {"4.5"}, API: {"4.7"}}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('"""Search (semantics 4.9)."""', '"""Search (semantics 4.5)."""'),
        ('"""Ray (API 4.5)."""', '"""Ray (API 4.7)."""'),
        ('"""Search (4.7)."""', '"""Search (4.5)."""'),
        (
            '"""Ray (API 4.7)."""\ndef f():\n    """Also (4.5)."""\n',
            '"""Ray (API 4.7)."""\ndef f():\n    """Also (4.7)."""\n',
        ),
        ("# two lines of a comment (semantics\n# 4.9)\n", "# two lines of a comment (semantics\n# 4.5)\n"),
    ],
)
def test_bad_citations_in_code_are_seen(wrong: str, right: str) -> None:
    assert bad_python(wrong, KNOWN)
    assert not bad_python(right, KNOWN)


def test_bad_citations_elsewhere_are_seen() -> None:
    assert bad_scenarios("rule 4.5, 9\nwhy  By rule 4.6 it goes.\n", KNOWN) == ["semantics 9", "semantics 4.6"]
    assert bad_scenarios("rule 4.5\n", KNOWN) == []
    assert bad_markdown("See API 4.8 and `API 9.9`.", KNOWN) == ["API 4.8"]


def test_private_numbers_and_outdated_forms_are_seen() -> None:
    assert private_numbers("as quirk Q" + "7 and rand" + "om/elastic-0094 show") == [
        "Q" + "7",
        "rand" + "om/elastic-0094",
    ]
    assert private_numbers("Q of x, FAQ2, np.random/x") == []
    assert outdated_forms("(API cont" + "ract 4.7), cont" + "ract 4.4, Secti" + "on 7") != []
    assert outdated_forms("import contracts, API 4.7, semantics 7") == []


def test_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    other = '# Of `x`: what else?\n\n<a id="4.5"></a>\n\n### 4.5 The search\n'
    (tmp_path / "docs" / "b.md").write_text(other)
    good = "[b](b.md) [s](b.md#4.5) [h](b.md#of-x-what-else) [web](https://kubernetes.io) [me](#a-title)\n\n# A title\n"
    assert broken_links(Path("docs/a.md"), good, tmp_path) == []
    bad = "[c](c.md) [s](b.md#4.6) [me](#no-title) `[code](c.md)`"
    assert [each.split(":")[0] for each in broken_links(Path("docs/a.md"), bad, tmp_path)] == [
        "c.md",
        "b.md#4.6",
        "#no-title",
    ]


def test_headings_without_anchors_are_seen() -> None:
    assert heading_faults('<a id="4"></a>\n\n## 4. Reclaim\n\n<a id="4.5"></a>\n\n### 4.5 The search\n') == []
    assert heading_faults("## 4. Reclaim\n") == ["4: its anchor is missing"]
    assert heading_faults('<a id="4"></a>\n<a id="4"></a>\n\n## 4. Reclaim\n') == ["4: twice"]
