"""Modules of the solver imported once more with all kernels interpreted, beside the compiled ones of this process.

Tests need them where they call kernels that have no entry from Python, or take one out of those that use it.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType

import kai_sched

SWITCH = "KAI_SCHED_JIT"
PARTS = ("solver", "cycle")


def afresh(*names: str) -> list[ModuleType]:
    """Copies of the modules with these names, below ``kai_sched``, that see only each other."""
    before = os.environ.get(SWITCH)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    os.environ[SWITCH] = "off"
    try:
        return [importlib.import_module(f"kai_sched.{name}") for name in names]
    finally:
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(kept)
        for part in PARTS:
            if f"kai_sched.{part}" in kept:
                setattr(kai_sched, part, kept[f"kai_sched.{part}"])
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


@contextmanager
def edited(module: str, old: str, new: str) -> Iterator[None]:
    """While it lasts, ``afresh`` imports that module below ``kai_sched`` with one line changed."""
    path = Path(*f"kai_sched.{module}".split(".")).with_suffix(".py")
    plain = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        if not Path(loader.path).match(str(path)):
            return plain(loader, name)
        text = Path(loader.path).read_text()
        assert text.count(old) == 1, f"{old!r} stands in {text.count(old)} places of {path}"
        return compile(text.replace(old, new), loader.path, "exec")

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    try:
        yield
    finally:
        importlib.machinery.SourceFileLoader.get_code = plain  # type: ignore[method-assign]


def _is_ours(name: str) -> bool:
    return any(name == f"kai_sched.{part}" or name.startswith(f"kai_sched.{part}.") for part in PARTS)
