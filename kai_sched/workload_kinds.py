"""Loads the workload kinds of other packages: entry points of the group ``kai_sched.workload_kinds``.

What cannot be loaded is told with its name, and nothing else depends on it. A process looks for packages once.
"""

from __future__ import annotations

import functools
from importlib.metadata import entry_points

from kai_sched.reconcile.grouping.workload_kind import PluginFault, PluginKinds, WorkloadKind, usable_kinds

__all__ = ["GROUP", "PluginKinds", "WorkloadKind", "installed_kinds"]

GROUP = "kai_sched.workload_kinds"


@functools.cache
def installed_kinds() -> PluginKinds:
    """The kinds of all installed packages, by the names of their entry points."""
    offered: list[tuple[str, object]] = []
    faults: list[PluginFault] = []
    for each in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        name = f"{each.name} of {each.dist.name}" if each.dist else each.name
        try:
            offered.append((name, each.load()))
        except Exception as error:  # a package may do anything while it is imported
            text = f"{each.value} cannot be loaded ({type(error).__name__}: {error}): correct the package"
            faults.append(PluginFault(name, f"{text}, or uninstall it"))
    found = usable_kinds(offered)
    return PluginKinds(found.kinds, (*faults, *found.faults))
