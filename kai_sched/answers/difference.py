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
from kai_sched.plan.result import QUEUE_RESOURCES

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


@dataclass(frozen=True, slots=True)
class PlanSide:
    """One of two plans that are compared.

    Attributes
    ----------
    workloads
        All of it, by group.
    started
        Groups that hold their minimum.
    victims
        Groups that lose pods.
    queues
        (fair share, allocation, quota) of each queue in GPUs; infinity is unlimited.
    """

    workloads: Mapping[str, Workload]
    started: frozenset[str]
    victims: frozenset[str]
    queues: Mapping[str, tuple[float, float, float]]


def difference(before: TrialOutcome, after: TrialOutcome, old: Workloads, new: Workloads, now_ns: int) -> Difference:
    """What ``after`` changes. ``old`` and ``new`` name the workloads of both."""
    spared_pods = {each.pod for each in before.evicted}
    only_now: list[Evict] = [each for each in after.evicted if each.pod not in spared_pods]
    return compared(_side(before, old), _side(after, new), victims_of(only_now, after.start, new, now_ns))


def compared(before: PlanSide, after: PlanSide, evicted: Sequence[Victim]) -> Difference:
    """The difference of two plans; ``evicted`` are the victims of the second one only."""
    both = before.workloads.keys() & after.workloads.keys()
    return Difference(
        starts=_named(after, (after.started - before.started) & after.workloads.keys()),
        waits=_named(before, (before.started - after.started) & both),
        evicted=tuple(evicted),
        spared=_named(before, before.victims - after.victims),
        gone=_named(before, before.workloads.keys() - after.workloads.keys()),
        new=_named(after, after.workloads.keys() - before.workloads.keys()),
        shares=tuple(_shares(before.queues, after.queues)),
    )


def _side(outcome: TrialOutcome, workloads: Workloads) -> PlanSide:
    queues = {
        each.name: (each.fair_share[GPU_PLACE], each.allocated[GPU_PLACE], each.quota[GPU_PLACE])
        for each in outcome.last.queues
    }
    victims = frozenset(each.group for each in outcome.evicted)
    return PlanSide(workloads.by_group, frozenset(_started(outcome, workloads)), victims, queues)


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


def _named(side: PlanSide, groups: Iterable[str]) -> tuple[Workload, ...]:
    found = [side.workloads[group] for group in groups if group in side.workloads]
    return tuple(sorted(found, key=lambda each: (each.namespace, each.name, each.group)))


def _shares(
    old: Mapping[str, tuple[float, float, float]], new: Mapping[str, tuple[float, float, float]]
) -> Iterable[ShareChange]:
    nothing = (0.0, 0.0, 0.0)  # of a queue that does not exist
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, nothing), new.get(name, nothing)
        if before != after:
            fair, held, quota = zip(before, after, strict=True)
            yield ShareChange(name, fair, held, quota)


def _names(group: Sequence[Workload]) -> str:
    return some([f"{each.name} ({each.kind})" for each in group], 6)
