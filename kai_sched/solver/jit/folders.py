"""Which folder compiled kernels are in: the one of this version and this CPU in the user's cache, or the one that the
package brought along.

A folder is named after a hash of all sources that kernels are made of, the versions of numba and Python and the CPU,
because numba's own key misses a callee that changed in another file. The cache is ``$KAI_SCHED_CACHE_DIR``, else
``$XDG_CACHE_HOME/kai-sched``, else ``~/.cache/kai-sched``. A wheel may bring kernels along for any CPU of the
architecture (``kai_sched/compiled``, made by ``packaging/wheel.py``): they are used where the cache does not have all
kernels of this CPU.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import sys
import tempfile
import warnings
from pathlib import Path

MARK = "complete"  # a file beside the kernels of a folder that has them all
ANY_CPU = "generic"  # what LLVM calls a CPU that has what each of the architecture has
PACKAGED = Path(__file__).parents[2] / "compiled"


def is_complete(folder: Path | None) -> bool:
    """Whether a folder has all kernels."""
    return folder is not None and (folder / MARK).exists()


def find_folder(use_packaged: bool = True) -> Path | None:
    """The folder of exactly this version, made in the cache if need be; None, with a warning, where none can be
    written. Without ``use_packaged`` those that the package brought along are passed over."""
    folder = _cache_root() / cache_key(cpu_name())
    if is_complete(folder):
        return folder  # it may be on a read-only file system
    if use_packaged and is_complete(packaged := PACKAGED / cache_key(ANY_CPU)):
        return packaged
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        warnings.warn(
            f"compiled kernels cannot be kept in {folder} ({error.strerror}): they are compiled anew in each process; "
            "set KAI_SCHED_CACHE_DIR to a folder that can be written",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def _cache_root() -> Path:
    if chosen := os.environ.get("KAI_SCHED_CACHE_DIR"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "kai-sched"
    try:
        return Path.home() / ".cache" / "kai-sched"
    except RuntimeError:  # no home in the password database, as for an arbitrary uid in a container
        return Path("/nonexistent/kai-sched")


def cache_key(cpu: str) -> str:
    """The name of the folder with this version's kernels for a CPU."""
    digest = hashlib.sha256(_sources())
    # Python by what bytecode depends on: a wheel serves every patch release.
    facts = (importlib.metadata.version("numba"), str(sys.implementation.cache_tag), platform.machine(), cpu)
    digest.update("\n".join(facts).encode())
    return digest.hexdigest()[:20]


@functools.cache
def _sources() -> bytes:
    package = Path(__file__).parents[2]
    # The snapshot's too: kernels take constants from it, which end up in compiled code.
    found = sorted([*package.glob("solver/**/*.py"), *package.glob("snapshot/*.py")])
    return b"".join(source.read_bytes() for source in found)


def cpu_name() -> str:
    """The CPU that kernels are compiled for, as LLVM names it."""
    # numba compiles for the CPU that this variable names, as wheels need that are built on one machine and used on
    # another.
    if chosen := os.environ.get("NUMBA_CPU_NAME"):
        return chosen
    import llvmlite.binding

    return str(llvmlite.binding.get_host_cpu_name())
