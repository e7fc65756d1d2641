"""The version of kai_sched, a scheduler for Kubernetes AI clusters, and the names that programs import from the
package.

``load`` reads a cluster from files or objects, and what it returns simulates, explains and changes it. ``run_cycle``
computes one scheduling cycle on objects in memory. The other names make arguments and describe results.

Names are imported on first use, so that a command line that only prints its help imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kai_sched.cycle.hint_tracker import HintTracker
    from kai_sched.library import run_cycle
    from kai_sched.lowering.cache import Cache
    from kai_sched.model.config import Config
    from kai_sched.model.store import Cluster, Store
    from kai_sched.notebook.inputs import InputError, InputWarning
    from kai_sched.notebook.loaded_cluster import LoadedCluster, load
    from kai_sched.plan.result import CycleResult

__version__ = "0.2.0"
__all__ = [
    "Cache",
    "Cluster",
    "Config",
    "CycleResult",
    "HintTracker",
    "InputError",
    "InputWarning",
    "LoadedCluster",
    "Store",
    "load",
    "run_cycle",
]

_HOMES = {
    "Cache": "kai_sched.lowering.cache",
    "Cluster": "kai_sched.model.store",
    "Config": "kai_sched.model.config",
    "CycleResult": "kai_sched.plan.result",
    "HintTracker": "kai_sched.cycle.hint_tracker",
    "InputError": "kai_sched.notebook.inputs",
    "InputWarning": "kai_sched.notebook.inputs",
    "LoadedCluster": "kai_sched.notebook.loaded_cluster",
    "Store": "kai_sched.model.store",
    "load": "kai_sched.notebook.loaded_cluster",
    "run_cycle": "kai_sched.library",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kai_sched' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
