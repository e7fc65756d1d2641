"""Evictions as people ask about them: one headline for each group that gets room, with who is evicted for it and what
that costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from kai_sched.answers.goal import pod_gpus, started_ns
from kai_sched.answers.words import alike, count, duration, gpus, pattern, since, some
from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.model.keys import unmarked
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict
from kai_sched.plan.receipts import rule


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload that loses pods.

    Attributes
    ----------
    pods, of_pods
        How many of its pods are evicted, and how many it has.
    gpus
        GPUs that these pods held, in devices.
    up_s
        Seconds since the workload started; 0 where that is not known.
    moved
        How many of the pods have a place on another node already.
    """

    workload: Workload
    queue: str
    pods: int
    of_pods: int
    gpus: float
    up_s: float
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Headline:
    """All evictions of one action for one group.

    Attributes
    ----------
    winner
        The workload that gets the room; None for stale gangs and background pods.
    queue
        Its queue.
    asked
        GPUs that it is placed on.
    action, rule
        By which the victims are evicted, as a name and in words.
    victims
        In the order of their names.
    """

    winner: Workload | None
    queue: str
    asked: float
    action: str
    rule: str
    victims: tuple[Victim, ...] = field(repr=False)

    @property
    def pods(self) -> int:
        """Pods that are evicted."""
        return sum(each.pods for each in self.victims)

    @property
    def gpus(self) -> float:
        """GPUs that they held."""
        return sum(each.gpus for each in self.victims)

    @property
    def text(self) -> str:
        """The headline: who pays how much for whom."""
        paid = paid_text(self.victims)
        if self.winner is None:
            return f"{paid}: {self.rule}"
        verb = "moves" if self.victims and all(each.moved == each.pods for each in self.victims) else "evicts"
        placed = f"place {gpus(self.asked)} for " if self.asked else "place "
        free = self.gpus - self.asked
        stays = f"; {gpus(free)} stay free" if self.asked and free > 0 and verb == "evicts" else ""
        return f"To {placed}{self.winner.name} this {verb} {paid}{stays}"


def headlines(evicted: Iterable[Evict], cluster: Cluster, workloads: Workloads, now_ns: int) -> list[Headline]:
    """The headlines in the order of the decisions. ``cluster`` is what the first of these cycles was decided on."""
    sets: dict[tuple[str, str], list[Evict]] = {}
    for each in evicted:
        sets.setdefault((each.action, each.cause or f"{each.action} {each.group}"), []).append(each)
    found, pods = [], _pods_by_group(cluster, workloads)
    for (action, _), members in sets.items():
        cause = members[0].cause
        winner = workloads.of(cause) if cause else None
        victims = _victims(members, cluster, workloads, now_ns, pods)
        asked = sum(pod_gpus(pod) for pod in pods.get(cause, ()) if not pod.node) if cause else 0.0
        found.append(Headline(winner, _queue_of(cluster, cause), asked, action, rule(members[0]), tuple(victims)))
    return found


def victims_of(
    evicted: Sequence[Evict], cluster: Cluster, workloads: Workloads, now_ns: int, again: Set[str] = frozenset()
) -> list[Victim]:
    """Who loses pods, by name; the evictions of a pod count once, and as moved if it is bound ``again``."""
    members = _pods_by_group(cluster, workloads) if evicted else {}
    return _victims(evicted, cluster, workloads, now_ns, members, again)


def _pods_by_group(cluster: Cluster, workloads: Workloads) -> dict[str, list[Pod]]:
    """The pods that have not ended, by the key of their group."""
    found: dict[str, list[Pod]] = {}
    for key, pod in cluster.pods.items():
        if not pod.has_ended:
            found.setdefault(workloads.pods.get(key, ""), []).append(pod)
    return found


def _victims(
    evicted: Sequence[Evict],
    cluster: Cluster,
    workloads: Workloads,
    now_ns: int,
    members: Mapping[str, Sequence[Pod]],
    again: Set[str] = frozenset(),
) -> list[Victim]:
    pods: dict[str, dict[str, Evict]] = {}
    for each in evicted:
        pods.setdefault(each.group, {}).setdefault(each.pod, each)
    found = []
    for group, lost in pods.items():
        workload = workloads.of(group)
        held = sum(dict(each.freed).get("gpu", 0.0) for each in lost.values())
        moved = sum(bool(each.moves_to) or each.pod in again for each in lost.values())
        leaving = (cluster.pods[key] for key in lost if key in cluster.pods)
        up_s = since(started_ns(cluster.pod_groups.get(group), leaving), now_ns)
        size = max(len(members.get(group, ())), len(lost))
        found.append(Victim(workload, _queue_of(cluster, group), len(lost), size, held, up_s, moved))
    return sorted(found, key=lambda each: (each.workload.namespace, each.workload.name, each.workload.group))


def paid_text(victims: Sequence[Victim]) -> str:
    """Who pays: "llama3-70b-sft (nlp): 6 pods, 48 GPUs, up 2d 2h"; workloads that differ in a number as one."""
    sets: dict[object, list[Victim]] = {}
    for each in victims:
        key = (pattern(each.workload.name), each.queue, each.pods, each.gpus)
        sets.setdefault(key, []).append(each)
    return ", and ".join(_paid_alike(members) for members in sets.values())


def _paid_alike(members: Sequence[Victim]) -> str:
    first = members[0]
    names = alike([each.workload.name for each in members])
    up = max(each.up_s for each in members)
    pods = count(first.pods, "pod")
    if first.pods < first.of_pods:
        pods = f"{first.pods} of its {first.of_pods} pods"
    amount = f", {gpus(first.gpus)}" if first.gpus else ""
    each_of = f"{len(members)} x " if len(members) > 1 else ""
    queue = f" ({first.queue})" if first.queue else ""
    return f"{names}{queue}: {each_of}{pods}{amount}" + (f", up {duration(up)}" if up else "")


@dataclass(frozen=True, slots=True)
class Costs:
    """What a change costs others: ``victims`` lose or move pods that they keep without it, ``late`` start without."""

    victims: tuple[Victim, ...]
    late: tuple[Workload, ...]

    @property
    def text(self) -> str:
        """ "evicts llama3-70b-sft (nlp): 6 pods, 48 GPUs", "moves ..." if they start again, or "evicts nobody"."""
        moved = [each for each in self.victims if each.moved == each.pods]
        lost = [each for each in self.victims if each.moved < each.pods]
        sets = (("evicts", lost), ("moves", moved))
        text = ", and ".join(f"{verb} {paid_text(paid)}" for verb, paid in sets if paid) or "evicts nobody"
        return f"{text}; {some([each.name for each in self.late])} then waits" if self.late else text


def _queue_of(cluster: Cluster, group: str) -> str:
    found = cluster.pod_groups.get(group)
    if found is not None:
        return found.queue
    pod = cluster.pods.get(unmarked(group))
    return pod.queue if pod else ""
