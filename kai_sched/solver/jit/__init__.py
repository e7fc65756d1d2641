"""How kernels are compiled with numba: ``@kernel`` and ``@inner``, the folder of compiled code and its key, and when
they run interpreted.

This is the one place that knows numba. Kernels are plain functions under ``@kernel``. They run compiled, or interpreted
with the same results: where the environment variable ``KAI_SCHED_JIT=off`` says so, or where a caller that has little
to solve calls ``interpret()`` before it imports them.

Compiled code is kept in a folder (``folders``); where none can be written, kernels are compiled anew in each process,
with a warning. This package is the only one of the core that reads the environment and the file system, and only for
this.
"""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kai_sched.solver.jit import folders, inner_kernels

Function = TypeVar("Function", bound=Callable[..., Any])
Table = TypeVar("Table")

# Ours first; numba's own for whatever else in the process keeps compiled code.
_LOCATORS = f"{__name__}.KernelLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
_interpreted = os.environ.get("KAI_SCHED_JIT", "").lower() == "off"
_kernels_made = False
_for_this_cpu = False
_kernels: list[Any] = []  # those that numba compiles


def interpret() -> None:
    """Run kernels as plain Python in this process. RuntimeError once the first kernel has been imported."""
    global _interpreted
    if _kernels_made and not _interpreted:
        raise RuntimeError("interpret() comes too late: kernels are already compiled in this process")
    _interpreted = True


def compile_for_this_cpu() -> None:
    """Pass over kernels that the package brought along. Without effect once the folder has been chosen."""
    global _for_this_cpu
    _for_this_cpu = True


def interpreted() -> bool:
    """Whether kernels of this process run as plain Python."""
    return _interpreted


def decided() -> bool:
    """Whether kernels have been imported in this process: how they run is settled then."""
    return _kernels_made


def compiled() -> tuple[int, int]:
    """How many kernels have been compiled or loaded in this process, and how many there are."""
    return sum(bool(each.signatures) for each in _kernels), len(_kernels)


def kernel(function: Function) -> Function:
    """Compile the function (nopython, no GIL, cached on disk), or leave it as it is where kernels are interpreted."""
    made: Any = _compiled(function, {"no_cfunc_wrapper": True})
    if not _interpreted:
        from kai_sched.solver.jit import references

        made.__class__ = references.Kernel
    found: Function = made
    return found


def inner(function: Function) -> Function:
    """A kernel that only kernels call: compiled as a part of those. Python must not call it, as it has no entry."""
    function.__qualname__ = inner_kernels.PART + function.__qualname__
    made = _compiled(function, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "cache": False})
    if not _interpreted:
        inner_kernels.widen_arguments(made)
    return made


def entry(part: Function) -> Function:
    """An inner kernel as one that Python can call, for its tests."""
    if _interpreted:
        return part
    inside: Any = part
    plain = inside.py_func
    made: Any = types.FunctionType(plain.__code__, plain.__globals__, plain.__name__)
    made.__qualname__ = plain.__qualname__.removeprefix(inner_kernels.PART)
    return kernel(made)  # type: ignore[no-any-return]


def reference(table: Table) -> Table:
    """The table as kernels get it, for one that several kernels are called with; else each call makes its own."""
    if _interpreted:
        return table
    from kai_sched.solver.jit import references

    made: Any = references.Reference(table)
    found: Table = made
    return found


def _compiled(function: Function, more: dict[str, bool]) -> Function:
    global _kernels_made
    _kernels_made = True
    if _interpreted:
        return function
    _prepare_numba()
    made = _njit(function, more)
    _kernels.append(made)
    found: Function = made
    return found


def _njit(function: Function, more: dict[str, bool]) -> Any:
    import numba

    # Without numba's reference counting: kernels allocate nothing (scratch space is passed in), and counting references
    # to the dozens of arrays behind every table attribute costs more than the kernels' own work.
    # ``_nrt`` is not among the options that numba declares, so they are passed as a dictionary that may hold anything.
    options: dict[str, Any] = {
        "nogil": True,
        "cache": cache_folder() is not None,
        "error_model": "numpy",
        "_nrt": False,
    }
    return numba.njit(**options | more)(function)


@functools.cache
def _prepare_numba() -> None:
    """How numba compiles inner kernels and how kernels get tables, settled once, before the first of them."""
    import numba

    from kai_sched.solver.jit import references

    # numba makes the attributes of its config at import time, where no type checker sees them.
    numba.config.CACHE_LOCATOR_CLASSES = _LOCATORS  # type: ignore[attr-defined]
    if is_for_any_cpu():  # what is missing there is compiled like the rest, else its code could not be joined with it
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = folders.ANY_CPU, ""  # type: ignore[attr-defined]
    references.register(inner_kernels.install(), lambda function: _njit(function, {"no_cfunc_wrapper": True}))


class KernelLocator:
    """Where numba keeps a kernel: in our folder, by its module and line.

    Numba's own locators go by the path of the source file, and refuse a folder that cannot be written. This one also
    serves sources in several places, and a complete folder on a read-only file system (the image).
    """

    def __init__(self, folder: Path, function: Callable[..., Any]) -> None:
        self._folder = folder
        self._place = f"{function.__module__}-{function.__code__.co_firstlineno}"

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> KernelLocator | None:
        """The locator of a kernel of ours; None for any other function."""
        folder = cache_folder()
        return cls(folder, function) if folder is not None and function.__module__.startswith("kai_sched.") else None

    def ensure_cache_path(self) -> None:
        """Nothing to do: cache_folder() made it."""

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What an entry is valid for: the folder's name, which is a hash of all that kernels are made of."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """What tells kernels of the same name apart."""
        return self._place


def warm() -> bool:
    """Whether all compiled kernels of this version are in the cache (or need not be, as they are interpreted)."""
    if _interpreted:
        return True
    return folders.is_complete(cache_folder())


def mark_warm() -> None:
    """Note that all kernels are in the cache. Called once everything has been compiled."""
    if _interpreted:
        return
    folder = cache_folder()
    if folder is not None and not folders.is_complete(folder):
        (folder / folders.MARK).touch()


@functools.cache
def cache_folder() -> Path | None:
    """The folder for compiled code of exactly this version, made if need be; None where none can be written."""
    return folders.find_folder(use_packaged=not _for_this_cpu)


def is_for_any_cpu() -> bool:
    """Whether the kernels are those that the package brought along, which are for any CPU of the architecture."""
    folder = cache_folder()
    return folder is not None and folder.parent == folders.PACKAGED
