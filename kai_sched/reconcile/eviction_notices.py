"""Which Events, conditions and annotations an eviction leads to, on which objects (API 6.3, 6.4); the sentences are in
``plan.receipts``.

The eviction tracker groups evictions into plans by ``plans_of``; the status thread computes the writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kai_sched.api import names
from kai_sched.model.keys import split_key, unmarked
from kai_sched.model.store import Cluster
from kai_sched.model.times import format_time
from kai_sched.plan.effects import Annotate, Effect, Emit, Evict, Plan, Ref, SetCondition, Write
from kai_sched.plan.receipts import STALE, gains, notice
from kai_sched.plan.waits import by_group
from kai_sched.reconcile.events import emit


def plans_of(effects: Sequence[Effect], cluster: Cluster) -> list[Plan]:
    """Return the evictions of a cycle as plans, in the order of the decisions; ``cluster`` is the view of the cycle."""
    waiting = by_group(effects, cluster.pods)
    batches: dict[tuple[str, str], list[Evict]] = {}
    for effect in effects:
        if isinstance(effect, Evict):
            batches.setdefault((effect.action, effect.cause or effect.group), []).append(effect)
    return [Plan(tuple(batch), tuple(waiting.get(batch[0].cause, ()))) for batch in batches.values()]


def plan_writes(plan: Plan, cluster: Cluster, now_ns: int) -> Iterator[Write]:
    """Yield the writes at the start of a plan: the time on the groups of the victims, and events for the preemptors."""
    first = plan.evictions[0]
    if first.action == STALE:
        return
    for key in dict.fromkeys(eviction.group for eviction in plan.evictions):
        ref = _group_ref(key, cluster)
        if ref is not None and ref.kind == "PodGroup":
            yield Annotate(ref, {names.LAST_EVICTION_ANNOTATION: format_time(now_ns)})
    if not first.cause:
        return
    text, cause = gains(plan), _group_ref(first.cause, cluster)
    if cause is not None:
        yield emit(cause, names.NORMAL, names.EVICTING, text)
    for winner in plan.winners:
        namespace, name = split_key(winner.pod)
        pod = Ref("v1", "Pod", namespace, name, winner.uid)
        yield SetCondition(pod, names.POD_SCHEDULED, "False", names.PIPELINED, f"{text}; this pod on {winner.node}")


def victim_writes(eviction: Evict, plan: Plan, cluster: Cluster) -> Iterator[Write]:
    """Yield the events for a victim and its group: for whom it was evicted, by which rule, and what it frees."""
    namespace, name = split_key(eviction.pod)
    facts = {
        names.EVICTED_PODS_ANNOTATION: str(len(plan.evictions)),
        names.EVICTOR_ACTION_ANNOTATION: eviction.action,
    }
    if eviction.cause:
        space, cause = split_key(unmarked(eviction.cause))
        facts |= {names.EVICTOR_GROUP_ANNOTATION: cause, names.EVICTOR_NAMESPACE_ANNOTATION: space}
    pod, group = Ref("v1", "Pod", namespace, name, eviction.uid), _group_ref(eviction.group, cluster)
    for ref in (pod,) if group is None or group == pod else (pod, group):
        event = emit(ref, names.NORMAL, names.EVICT, notice(eviction))
        yield Emit(ref, event.type, event.reason, event.message, facts)


def _group_ref(key: str, cluster: Cluster) -> Ref | None:
    """Return the reference of the PodGroup, or of the pod that is a group of its own."""
    group = cluster.pod_groups.get(key)
    if group is not None:
        return Ref(names.POD_GROUP_VERSION, "PodGroup", group.namespace, group.name, group.uid)
    pod = cluster.pods.get(unmarked(key))
    return Ref("v1", "Pod", pod.namespace, pod.name, pod.uid) if pod is not None else None
