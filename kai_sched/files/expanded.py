"""What takes the place of workloads in files (``workloads``), and whether there are any: most dumps of clusters have
neither workloads nor pods without a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kai_sched.api import names
from kai_sched.files.controllers.kinds import WORKLOADS
from kai_sched.files.items import Item
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import KINDS, OPERATOR_CONFIG, POD, SHARD, Kind

if TYPE_CHECKING:
    from kai_sched.reconcile.grouping.manifest import QueueChoice

_READ = KINDS | {SHARD, OPERATOR_CONFIG}


@dataclass(frozen=True, slots=True, order=True)
class SuspendedWorkload:
    """A workload that has no pods, as it is suspended; by Kueue where it waits in one of its queues."""

    kind: str
    namespace: str
    name: str
    by_kueue: bool


@dataclass(frozen=True, slots=True)
class Expanded:
    """The items with pods and groups instead of workloads; by subject of a group, what names its queue; and the
    workloads that are suspended, by kind and name.
    """

    items: list[Item]
    queues: Mapping[str, QueueChoice] = field(default_factory=dict)
    suspended: tuple[SuspendedWorkload, ...] = ()


def has_work(items: Sequence[Item], config: Config) -> bool:
    """Whether there is a workload, or a pod that may need a group."""
    if any(item.kind in WORKLOADS or may_lack_group(item, config) for item in items):
        return True
    unknown = {item.kind for item in items} - _READ
    return bool(unknown) and has_plugin(unknown)


def has_plugin(kinds: Set[Kind]) -> bool:
    """Whether a package makes pods for one of these kinds. Looking for packages takes time, so not for known ones."""
    from kai_sched.workload_kinds import installed_kinds

    return any(each.controller is not None and key in kinds for key, each in installed_kinds().kinds.items())


def may_lack_group(item: Item, config: Config) -> bool:
    """Whether the item may be a pod without a group. A cheap check of the raw text, as there may be many pods."""
    if item.kind != POD:
        return False
    raw = bytes(item.raw)  # of lists, it is a view
    if config.scheduler_name.encode() not in raw or names.POD_GROUP_ANNOTATION.encode() in raw:
        return False
    return config.group_bare_pods or any(
        each in raw for each in (b"ownerReferences", b"schedulingGroup", names.SPARK_SELECTOR_LABEL.encode())
    )
