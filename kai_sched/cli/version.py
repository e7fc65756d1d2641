"""``kai-sched version -o json``: this installation in facts, which ``doctor`` judges: versions, the CPU that kernels
are compiled for, and where compiled kernels are kept.
"""

from __future__ import annotations

import importlib.metadata
import platform
import warnings
from dataclasses import dataclass
from pathlib import Path

from kai_sched import __version__

PACKAGES = ("numba", "numpy", "llvmlite")
COMPILED, MISSING, INTERPRETED = "compiled", "not compiled", "interpreted"


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    """This installation.

    Attributes
    ----------
    version, python, platform, cpu
        Of kai-sched, of Python, of the operating system; the CPU as LLVM names it.
    packages
        The version of each of PACKAGES, None for one that is not installed.
    kernels
        COMPILED, MISSING or INTERPRETED (KAI_SCHED_JIT=off).
    cache_folder
        Where compiled kernels of this version are kept, None where none can be kept.
    for_any_cpu
        Whether these are the kernels that the package brought along, for any CPU of the architecture.
    cache_problem
        Why none can be kept, with the remedy; empty otherwise.
    """

    version: str
    python: str
    platform: str
    cpu: str
    packages: dict[str, str | None]
    kernels: str
    cache_folder: Path | None
    for_any_cpu: bool
    cache_problem: str

    def to_dict(self) -> dict[str, object]:
        """The facts as ``version -o json`` prints them."""
        return {
            "version": self.version,
            "python": self.python,
            **self.packages,
            "platform": self.platform,
            "cpu": self.cpu,
            "kernels": self.kernels,
            "cacheFolder": None if self.cache_folder is None else str(self.cache_folder),
        }


def facts() -> InstallationFacts:
    """The facts of this process. Makes the folder for compiled kernels where it is missing and can be made."""
    from kai_sched.solver import jit
    from kai_sched.solver.jit.folders import cpu_name

    packages = {name: _version(name) for name in PACKAGES}
    folder, problem, kernels = None, "", INTERPRETED
    if not jit.interpreted() and packages["llvmlite"] and packages["numba"]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            folder = jit.cache_folder()
        problem = "; ".join(str(each.message) for each in found)
        kernels = COMPILED if jit.warm() else MISSING
    return InstallationFacts(
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=cpu_name() if packages["llvmlite"] else "",
        packages=packages,
        kernels=kernels,
        cache_folder=folder,
        for_any_cpu=folder is not None and jit.is_for_any_cpu(),
        cache_problem=problem,
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
