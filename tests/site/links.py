"""Checks the built site: each link within it leads to a page and an anchor, and no page asks the net for anything.

``python -m tests.site.links build/site``
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, as against what a reader may follow.
FETCHED = {"src", "srcset", "poster", "data"}
IN_STYLES = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")


class _Page(HTMLParser):
    """The anchors of a page, what it links to and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name == "href" and value and tag == "a":
                self.links.append(value)
            elif value and (name in FETCHED or (name == "href" and tag == "link")):
                self.fetched.append(value)


def problems(site: Path) -> list[str]:
    """Each link that leads nowhere, and each thing that would come from the net."""
    pages = {path.resolve(): _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site}: there is no page"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name}: link to {link}: {why}" for link in page.links if (why := _broken(path, link, pages))]
        found += [f"{name}: fetches {link}" for link in page.fetched if _elsewhere(link)]
        found += [f"{name}: lacks {link}" for link in page.fetched if not _elsewhere(link) and _missing(path, link)]
    return found + [f"{path.relative_to(site)}: fetches {link}" for path, link in _of_styles(site)]


def _broken(path: Path, link: str, pages: dict[Path, _Page]) -> str:
    """Why a link leads nowhere; empty if it leads somewhere, or out of the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not there.exists():
        return "there is no such file"
    if parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
        return "the page has no such anchor"
    return ""


def _elsewhere(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _missing(path: Path, link: str) -> bool:
    parts = urlsplit(link)
    return parts.scheme == "" and not (path.parent / unquote(parts.path)).exists()


def _of_styles(site: Path) -> Iterator[tuple[Path, str]]:
    """What style sheets fetch from the net."""
    for path in sorted(site.rglob("*.css")):
        for match in IN_STYLES.finditer(path.read_text()):
            yield path, match[1]


def main(arguments: list[str]) -> int:
    """Print each problem; 1 where there is one."""
    found = problems(Path(arguments[0]))
    for line in found:
        sys.stderr.write(f"{line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
