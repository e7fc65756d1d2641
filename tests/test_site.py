"""What the documentation site needs of the documents, tested without building it: commands that are run or marked, a
place for every page, and no copy of what is made from the code. `make site` builds it.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.command_blocks import run_script, unmarked
from tests.site.contents import HOME, contents, navigation
from tests.site.links import problems
from tests.site.reference import PAGES
from tests.tree import ROOT, project_files

WORDS_MAX = 80


def documents() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md"]


@pytest.mark.parametrize("path", documents(), ids=str)
def test_commands_are_run_or_marked(path: Path) -> None:
    assert unmarked((ROOT / path).read_text()) == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("    make test\n", "```sh not-run\nmake test\n```\n"),
        ("```bash\nls\n```\n", "```sh\nls\n```\n"),
        ("```sh later\nls\n```\n", "```console not-run\n$ ls\n```\n"),
        ("```\n$ ls\n```\n", "```\nls\n```\n"),
        ("```text\nkubectl get pods\n```\n", "```yaml\nkubectl get pods\n```\n"),
        ("- a list\n\n  ```\n  helm install x\n  ```\n", "- a list\n\n  ```sh not-run\n  helm install x\n  ```\n"),
    ],
)
def test_unmarked_commands_are_found(wrong: str, right: str) -> None:
    assert unmarked(wrong)
    assert not unmarked(right)


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    """Also one before the last, and with what it says."""
    assert run_script("true\n", tmp_path).returncode == 0
    done = run_script("echo no >&2; false\ntrue\n", tmp_path)
    assert (done.returncode, done.stderr) == (1, "no\n")


def skipped_levels(text: str) -> list[str]:
    """The headings that are more than one level below the heading before them, which Sphinx refuses."""
    tokens = MarkdownIt("commonmark").parse(text)
    opened = [(at, token) for at, token in enumerate(tokens) if token.type == "heading_open"]
    headings = [(int(token.tag[1]), tokens[at + 1].content) for at, token in opened]
    return [title for (level, _), (below, title) in pairwise(headings) if below > level + 1]


@pytest.mark.parametrize("path", documents(), ids=str)
def test_no_level_of_headings_is_left_out(path: Path) -> None:
    assert skipped_levels((ROOT / path).read_text()) == []


def test_left_out_levels_are_found() -> None:
    assert skipped_levels("# a\n### b\n") == ["b"]
    assert skipped_levels("# a\n## b\n### c\n## d\n```\n#### e\n```\n") == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_that_are_made_have_no_copy_here(name: str) -> None:
    """Only a few sentences that say what `make site` adds."""
    assert len((ROOT / f"{name}.md").read_text().split()) <= WORDS_MAX
    assert len(PAGES[name]().split()) > WORDS_MAX


def test_every_document_has_one_place() -> None:
    """A new one, too."""
    names = [str(path.with_suffix("")) for path in documents()] + ["docs/from-elsewhere", "docs/new"]
    placed = [name for below in contents(names).values() for name in below]
    assert sorted([*placed, HOME]) == sorted(names)
    assert "docs/from-elsewhere" in contents(names)["Coming from elsewhere"]
    assert "/docs/new\n" in navigation(names)


def test_links_of_the_built_site_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a id="x" href="#x">1</a><a href="b.html#y">2</a><a href="https://kubernetes.io">3</a><img src="i.svg">'
        '<link rel="stylesheet" href="s.css"><img src="data:image/png;base64,AA">'
    )
    (tmp_path / "b.html").write_text('<h1 id="y"><a href="a.html">4</a></h1>')
    (tmp_path / "i.svg").write_text("<svg/>")
    (tmp_path / "s.css").write_text("a { background: url(i.svg) }")
    assert problems(tmp_path) == []
    (tmp_path / "c.html").write_text(
        '<a href="#z">1</a><a href="b.html#z">2</a><a href="d.html">3</a><script src="https://x.org/a.js"></script>'
        '<link href="//x.org/font.css"><img src="none.png">'
    )
    (tmp_path / "t.css").write_text('@import "https://x.org/b.css"; a { src: url("//x.org/f.woff") }')
    assert [problem.partition(": ")[2] for problem in problems(tmp_path)] == [
        "link to #z: the page has no such anchor",
        "link to b.html#z: the page has no such anchor",
        "link to d.html: there is no such file",
        "fetches https://x.org/a.js",
        "fetches //x.org/font.css",
        "lacks none.png",
        "fetches https://x.org/b.css",
        "fetches //x.org/f.woff",
    ]


def test_a_site_without_pages_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path) == [f"{tmp_path}: there is no page"]
