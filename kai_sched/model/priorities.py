"""The default priority of PodGroups, the shipped classes, and from which priority on groups are non-preemptible
(semantics 0.4, 11.2); ``reconcile.grouping.priority_classes`` chooses the class of a workload.
"""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.api import names
from kai_sched.model.objects import PodGroup, PriorityClass

DEFAULT_PRIORITY = 50
PREEMPTIBLE_BELOW = 100
# The classes that are installed with the scheduler.
SHIPPED_CLASSES: Mapping[str, int] = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


def is_reserved(name: str, namespace: str) -> bool:
    """Whether the class is a system class of Kubernetes outside of its namespace, where it has no effect."""
    return name.startswith(names.SYSTEM_CLASSES_PREFIX) and namespace != names.SYSTEM_NAMESPACE


def reserved_text(name: str, instead: str) -> str:
    """The warning about a reserved class; ``instead`` is what is used."""
    return f"{name!r} is for namespace {names.SYSTEM_NAMESPACE} only; {instead} is used instead: name another class"


def default_priority(classes: Mapping[str, PriorityClass]) -> int:
    """The priority of groups without an existing class: that of the cluster's default class, else 50."""
    return next((each.value for _, each in sorted(classes.items()) if each.global_default), DEFAULT_PRIORITY)


def is_preemptible(group: PodGroup, classes: Mapping[str, PriorityClass], default: int) -> bool:
    """Whether the group is preemptible: as it says, else by its priority. ``default`` is from ``default_priority``."""
    if group.preemptible is not None:
        return group.preemptible
    known = classes.get(group.priority_class)
    return (default if known is None else known.value) < PREEMPTIBLE_BELOW
