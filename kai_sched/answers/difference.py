"""What differs between two plans: who starts, who is evicted, who no longer is, and whose share changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kai_sched.answers.goal import has_minimum, holding
from kai_sched.answers.headlines import Victim, paid_text, victims_of
from kai_sched.answers.trial import TrialOutcome
from kai_sched.answers.words import number, some
from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.plan.effects import Evict
from kai_sched.plan.result import QUEUE_RESOURCES, QueueState

GPU_PLACE = QUEUE_RESOURCES.index("gpu")


@dataclass(frozen=True, slots=True)
class ShareChange:
    """The GPUs of a queue, before and after; infinity is unlimited."""

    queue: str
    fair_share: tuple[float, float]
    allocated: tuple[float, float]
    quota: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Difference:
    """What another plan comes to, once both have settled.

    Attributes
    ----------
    starts, waits
        Workloads that hold their minimum after it and not before, and the other way round, by eviction or for good.
    evicted
        Who loses pods in the second plan only.
    spared
        Workloads that lose pods in the first plan only.
    gone, new
        Workloads that exist in one of them only.
    shares
        Queues of which the quota, the fair share or the allocation changes.
    """

    starts: tuple[Workload, ...]
    waits: tuple[Workload, ...]
    evicted: tuple[Victim, ...]
    spared: tuple[Workload, ...]
    gone: tuple[Workload, ...]
    new: tuple[Workload, ...]
    shares: tuple[ShareChange, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.starts or self.waits or self.evicted or self.spared or self.gone or self.new or self.shares)

    @property
    def texts(self) -> list[str]:
        """The difference in a few lines."""
        lines = []
        for title, group in (("starts", self.starts), ("no longer runs", self.waits), ("new", self.new)):
            if group:
                lines.append(f"{title}: {_names(group)}")
        if self.evicted:
            lines.append(f"evicted: {paid_text(self.evicted)}")
        if self.spared:
            lines.append(f"no longer evicted: {_names(self.spared)}")
        if self.gone:
            lines.append(f"gone: {_names(self.gone)}")
        for each in self.shares:
            parts = [
                f"{word} {number(old)} -> {number(new)}"
                for word, (old, new) in (
                    ("quota", each.quota),
                    ("fair share", each.fair_share),
                    ("allocated", each.allocated),
                )
                if old != new
            ]
            lines.append(f"queue {each.queue}: {', '.join(parts)} GPUs")
        return lines or ["nothing differs"]


def difference(before: TrialOutcome, after: TrialOutcome, old: Workloads, new: Workloads, now_ns: int) -> Difference:
    """What ``after`` changes. ``old`` and ``new`` name the workloads of both."""
    had, has = _started(before, old), _started(after, new)
    lost_before, lost_after = ({each.group for each in plan.evicted} for plan in (before, after))
    spared_pods = {each.pod for each in before.evicted}
    only_now: list[Evict] = [each for each in after.evicted if each.pod not in spared_pods]
    both = old.by_group.keys() & new.by_group.keys()
    return Difference(
        starts=_named(new, (key for key in has - had if key in new.by_group)),
        waits=_named(new, (key for key in had - has if key in both)),
        evicted=tuple(victims_of(only_now, after.start, new, now_ns)),
        spared=_named(old, lost_before - lost_after),
        gone=_named(old, old.by_group.keys() - new.by_group.keys()),
        new=_named(new, new.by_group.keys() - old.by_group.keys()),
        shares=tuple(_shares(before, after)),
    )


def _started(outcome: TrialOutcome, workloads: Workloads) -> set[str]:
    """The groups that hold their minimum at the end."""
    cluster = outcome.end
    members: dict[str, list[str]] = {}
    for key, group in workloads.pods.items():
        members.setdefault(group, []).append(key)
    found = set()
    for group, keys in members.items():
        pods = [cluster.pods[key] for key in keys if key in cluster.pods]
        if holding(pods) and has_minimum(cluster, group, pods):
            found.add(group)
    return found


def _named(workloads: Workloads, groups: Iterable[str]) -> tuple[Workload, ...]:
    found = [workloads.of(group) for group in groups]
    return tuple(sorted(found, key=lambda each: (each.namespace, each.name, each.group)))


def _shares(before: TrialOutcome, after: TrialOutcome) -> Iterable[ShareChange]:
    old = {each.name: each for each in before.last.queues}
    new = {each.name: each for each in after.last.queues}
    for name in sorted(old.keys() | new.keys()):
        amounts = [_gpus(queues, name) for queues in (old, new)]
        (fair, held, quota), (fair_after, held_after, quota_after) = amounts
        if amounts[0] != amounts[1]:
            yield ShareChange(name, (fair, fair_after), (held, held_after), (quota, quota_after))


def _gpus(queues: Mapping[str, QueueState], name: str) -> tuple[float, float, float]:
    """Fair share, allocation and quota; nothing of a queue that does not exist."""
    queue = queues.get(name)
    if queue is None:
        return 0.0, 0.0, 0.0
    return queue.fair_share[GPU_PLACE], queue.allocated[GPU_PLACE], queue.quota[GPU_PLACE]


def _names(group: Sequence[Workload]) -> str:
    return some([f"{each.name} ({each.kind})" for each in group], 6)
