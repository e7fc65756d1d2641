"""The index of modules, made from their docstrings: the page docs/modules.md of the site.

Each module of the package has a line with the first sentence of its docstring, by folder; a package without code or
docstring has none.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable

from tests.tree import Module, modules

HEAD = """# Modules

What each module decides, by folder: the first sentence of its docstring.
The first line of a folder is its front page, `__init__.py`, which says how its modules work together."""
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
    return "\n\n".join(f"## {folder}\n\n" + "\n".join(lines) for folder, lines in sorted(folders.items()))


def render() -> str:
    """The document of today."""
    return f"{HEAD}\n\n{index(modules())}\n"


if __name__ == "__main__":
    sys.stdout.write(render())
