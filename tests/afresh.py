"""Modules of the solver imported once more with all kernels interpreted, beside the compiled ones of this process.

Tests need them where they call kernels that have no entry from Python, or take one out of those that use it.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

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


def _is_ours(name: str) -> bool:
    return any(name == f"kai_sched.{part}" or name.startswith(f"kai_sched.{part}.") for part in PARTS)
