"""The index of modules in ARCHITECTURE.md, made from the docstrings of the modules by `make docs`.

Each module of the package has a line with the first sentence of its docstring, by folder; a package without code or
docstring has none. The index stands between two comments, and the rest of the document is left as it is.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable

from tests.tree import ROOT, Module, modules

DOCUMENT = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- The index is made by `make docs`; do not edit. -->"
END = "<!-- The end of the index. -->"
SENTENCE = re.compile(r".+?\.(?=\s|$)")


def first_sentence(text: str) -> str:
    """Up to the first full stop with a space behind it, on one line; a paragraph without one is a sentence."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    found = SENTENCE.match(paragraph)
    return (found[0] if found else paragraph).replace("``", "`")


def index(package: Iterable[Module]) -> str:
    """The index in Markdown: a heading for each folder, a line for each module."""
    folders: dict[str, list[str]] = {}
    for module in package:
        if module.tree.body:
            sentence = first_sentence(ast.get_docstring(module.tree) or "")
            folders.setdefault(str(module.path.parent), []).append(f"- `{module.path.name}`: {sentence}")
    return "\n\n".join(f"### {folder}\n\n" + "\n".join(lines) for folder, lines in sorted(folders.items()))


def render(text: str) -> str:
    """The document with the index of today."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{DOCUMENT.name} must have the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{index(modules())}\n\n{end}{after}"


if __name__ == "__main__":
    rendered = render(DOCUMENT.read_text())
    if sys.argv[1:] == ["--write"]:
        DOCUMENT.write_text(rendered)
    else:
        sys.stdout.write(rendered)
