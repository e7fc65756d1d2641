"""What is written about evictions: events on victim and beneficiary, and when a group last lost a pod (6.3, 6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kai_sched.api import names
from kai_sched.model.store import Cluster
from kai_sched.model.times import format_time
from kai_sched.plan.effects import Annotate, Emit, Evict, Ref, Write
from kai_sched.plan.receipts import STALE, gains, receipt
from kai_sched.reconcile.events import emit


def eviction_writes(evictions: Sequence[Evict], cluster: Cluster, now_ns: int) -> Iterator[Write]:
    """For evictions of one cycle that were carried out; ``cluster`` is the view that they were decided on."""
    batches: dict[tuple[str, str], list[Evict]] = {}
    for eviction in evictions:
        batches.setdefault((eviction.action, eviction.cause or eviction.group), []).append(eviction)
    for (action, _), batch in batches.items():
        for eviction in batch:
            yield from _victim(eviction, len(batch), cluster)
        for group in dict.fromkeys(eviction.group for eviction in batch):
            ref = _group_ref(group, cluster)
            if action != STALE and ref is not None and ref.kind == "PodGroup":
                yield Annotate(ref, {names.LAST_EVICTION_ANNOTATION: format_time(now_ns)})
        cause = _group_ref(batch[0].cause, cluster) if batch[0].cause else None
        if cause is not None:
            yield emit(cause, names.NORMAL, names.EVICTING, gains(batch))


def _victim(eviction: Evict, size: int, cluster: Cluster) -> Iterator[Write]:
    namespace, name = eviction.pod.split("/", 1)
    pod, text = Ref("v1", "Pod", namespace, name, eviction.uid), receipt(eviction)
    told = emit(pod, names.NORMAL, names.EVICT, text)
    facts: Mapping[str, str] = {
        names.EVICTED_PODS_ANNOTATION: str(size),
        names.EVICTOR_ACTION_ANNOTATION: eviction.action,
    }
    if eviction.cause:
        space, _, cause = eviction.cause.removeprefix(names.BARE_MARK).partition("/")
        facts = {**facts, names.EVICTOR_GROUP_ANNOTATION: cause, names.EVICTOR_NAMESPACE_ANNOTATION: space}
    group = _group_ref(eviction.group, cluster)
    for ref in (pod, group):
        if ref is not None and (ref is pod or ref.key != pod.key):
            yield Emit(ref, told.type, told.reason, told.message, facts)


def _group_ref(key: str, cluster: Cluster) -> Ref | None:
    """The PodGroup of that key in the result, or the pod that is a group of its own."""
    group = cluster.pod_groups.get(key)
    if group is not None:
        return Ref(names.POD_GROUP_VERSION, "PodGroup", group.namespace, group.name, group.uid)
    pod = cluster.pods.get(key.removeprefix(names.BARE_MARK))
    return Ref("v1", "Pod", pod.namespace, pod.name, pod.uid) if pod is not None else None
