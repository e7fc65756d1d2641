"""The checkout as the house-rule tests see it: its files, and the modules of the package as syntax trees."""

from __future__ import annotations

import ast
import fnmatch
import functools
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "kai_sched"


@dataclass(frozen=True)
class Module:
    """One Python file. ``name`` is dotted; a package goes by its own name, without ``__init__``."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def project_files(root: Path = ROOT) -> list[Path]:
    """All files of the checkout but those that .gitignore names, relative to it, sorted. Needs no git."""
    lines = (root / ".gitignore").read_text().splitlines()
    ignored = [line.strip("/") for line in lines if line and not line.startswith("#")] + [".git"]
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _matches(name, ignored)]
        found += [Path(folder, name).relative_to(root) for name in names if not _matches(name, ignored)]
    return sorted(found)


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def parse(name: str, text: str, path: Path | None = None) -> Module:
    """The text as a module of that dotted name."""
    return Module(name, path or Path(*name.split(".")).with_suffix(".py"), text, ast.parse(text))


@functools.cache
def modules(folder: str = PACKAGE) -> tuple[Module, ...]:
    """Every module under a folder of the checkout."""
    found = []
    for path in project_files():
        if path.parts[0] == folder and path.suffix == ".py":
            parts = path.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(parse(name, (ROOT / path).read_text(), path))
    return tuple(found)


def imports(module: Module) -> set[str]:
    """The dotted names that a module imports anywhere in it; ``from x import y`` gives both ``x`` and ``x.y``."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    up = node.level - 1 if module.is_package else node.level
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])
