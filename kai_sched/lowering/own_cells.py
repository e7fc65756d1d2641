"""The cells of pods and groups that follow from the object and the config alone.

``lowering.cache`` reads some hundred objects at a time. What is zero of most of them is only written where it is not,
which makes reading a whole cluster faster.
"""

from __future__ import annotations

from collections.abc import Sequence

from kai_sched.lowering.cached_rows import GroupCell, PodCell
from kai_sched.lowering.limits import UNSET, grace, may_evict_at, moment
from kai_sched.lowering.roles import exemptions, is_scaling, task_order
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.snapshot.tables import Longs


def write_traits(cells: Longs, pods: Sequence[Pod], reserves: Sequence[bool], config: Config) -> None:
    """Write phase, deletion, gates, order and exemptions of pods into their cells, (cells, pods).

    ``reserves``: which of them are reservation pods.
    """
    cells[PodCell.PHASE] = [pod.phase for pod in pods]
    if any(deleted := [pod.deleted_ns for pod in pods]):
        cells[PodCell.DELETED] = [moment(each) for each in deleted]
    if any(gates := [pod.gates for pod in pods]):
        cells[PodCell.GATED] = [bool(each) for each in gates]
    others = [place for place, pod in enumerate(pods) if pod.scheduler != config.scheduler_name]
    cells[PodCell.FOREIGN, others] = [not reserves[at] and not is_scaling(pods[at], config) for at in others]
    cells[PodCell.KUBEFLOW : PodCell.LABEL_SET] = task_order(pods, config)
    unsafe, background = exemptions(pods, config)
    cells[PodCell.NOT_CONSOLIDATED, unsafe] = cells[PodCell.BACKGROUND, background] = 1


def write_times(cells: Longs, groups: Sequence[PodGroup], pool: str) -> None:
    """Write the times of PodGroups, and which are given up in this ``pool``, into their cells, (cells, groups)."""
    if any(last_starts := [group.last_start_ns for group in groups]):
        cells[GroupCell.LAST_START] = [moment(each) for each in last_starts]
    if any(stale_since := [group.stale_since_ns for group in groups]):
        cells[GroupCell.STALE_SINCE] = [moment(each) for each in stale_since]
    delays = [group.preemption_delay_s for group in groups]
    if any(delays):
        cells[GroupCell.MAY_EVICT_AT] = [may_evict_at(group) for group in groups]
    graces = [group.staleness_grace_s for group in groups]
    if graces.count(None) < len(graces):
        cells[GroupCell.GRACE] = [UNSET if each is None else grace(each) for each in graces]
    if any(given_up := [group.given_up_in == pool for group in groups]):
        cells[GroupCell.GIVEN_UP] = given_up
