"""A small live cluster for the tests: objects, a result made by hand, and what the API server would show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Object, Pod, PodGroup, Queue, Shape, Share
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Annotate, Effect, Emit, PatchStatus, SetCondition, Write
from kai_sched.plan.reasons import Reason
from kai_sched.plan.result import CycleResult, GroupState, QueueState
from kai_sched.reconcile.status.owner_reconciler import OwnerIndex
from kai_sched.reconcile.status.pod_conditions import PodCondition
from kai_sched.reconcile.status.reconciler import StatusReconciler

SECOND_NS = 1_000_000_000
NOW_NS = 1_767_268_800 * SECOND_NS  # 2026-01-01T12:00:00Z
NOW = "2026-01-01T12:00:00Z"
OPEN = Share(-1, -1, 1)
SHAPE = Shape((("cpu", 500.0), ("gpu", 1.0), ("memory", 1e9), ("pods", 1.0)))
ONE = {"cpu": "500m", "memory": "1000000000", "nvidia.com/gpu": "1"}
NO_ROOM = Reason("PodSchedulingErrors", "no node for pod ml/a-0: 1 of 1 nodes lack the 1 GPU it asks for")
CONFIG = Config()


def queue(name: str, parent: str = "") -> Queue:
    return Queue(name, uid=f"uid-{name}", parent=parent, cpu=OPEN, memory=OPEN, gpu=OPEN)


def pod(name: str, group: str = "", node: str = "", **more: Any) -> Pod:
    fields: dict[str, Any] = {"uid": f"uid-{name}", "scheduler": "kai-scheduler", "queue": "team", **more}
    return Pod("ml", name, fields.pop("shape", SHAPE), group=group, node=node, **fields)


def pod_group(name: str, **more: Any) -> PodGroup:
    return PodGroup("ml", name, **{"uid": f"uid-{name}", "queue": "team", "min_member": 1, **more})


def state(key: str, counts: Mapping[str, int], reason: Reason | None = None, preemptible: bool = True) -> GroupState:
    return GroupState(key, "team", 50, preemptible, 1, counts, {}, reason)


def queue_state(name: str, fair: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> QueueState:
    infinite = (float("inf"),) * 3
    zero = (0.0, 0.0, 0.0)
    return QueueState(name, "", 0, 100, (1000.0, 2e9, 3.0), infinite, fair, zero, zero, (500.0, 1e9, 1.0))


def decided(
    groups: Iterable[GroupState] = (), queues: Sequence[QueueState] = (), effects: tuple[Effect, ...] = ()
) -> CycleResult:
    return CycleResult(effects, (), {}, {each.key: each for each in groups}, tuple(queues), {}, 0.0)


def cluster(*objects: Object) -> Cluster:
    return Cluster.of([Node("node-1"), *objects])


class World:
    """An API server that does what it is told, in memory, and tells the reconciler of it."""

    def __init__(self, *objects: Object, config: Config = CONFIG) -> None:
        self.reconciler = StatusReconciler(config)
        self.owners = OwnerIndex(self.reconciler.observe_owner)
        self.status: dict[str, dict[str, Any]] = {}
        self.conditions: dict[str, PodCondition] = {}
        self.events: list[tuple[str, str, str]] = []
        self.annotations: dict[str, dict[str, str | None]] = {}
        self.messages: list[str] = []
        self.objects = objects
        self.show()

    def show(self) -> None:
        """Tell the reconciler what is there."""
        for each in self.objects:
            raw = msgspec.json.encode(self.status.get(each.key, {}))
            if isinstance(each, Queue):
                self.reconciler.observe_queue(each.key, each.uid, raw)
            elif isinstance(each, PodGroup):
                self.reconciler.observe_pod_group(each.key, each.uid, raw)
            elif isinstance(each, Pod):
                self.reconciler.observe_pod(each.key, each.uid, self.conditions.get(each.key))

    def run(self, result: CycleResult, after_s: float = 0.0) -> tuple[list[Write], float | None]:
        """Ask the reconciler at a time, do what it says, and show it the outcome."""
        writes, again = self.ask(result, after_s)
        for write in writes:
            self.apply(write)
        self.show()
        return writes, again

    def ask(self, result: CycleResult, after_s: float = 0.0) -> tuple[list[Write], float | None]:
        now_ns = NOW_NS + round(after_s * SECOND_NS)
        return self.reconciler.writes(cluster(*self.objects), result, now_ns, round(after_s * SECOND_NS))

    def apply(self, write: Write) -> None:
        key = write.ref.key
        match write:
            case PatchStatus():
                self.status[key] = merged(self.status.get(key, {}), write.status)
            case SetCondition():
                assert write.type == "PodScheduled"
                self.conditions[key] = PodCondition(write.status, write.reason, write.message)
            case Annotate():
                self.annotations.setdefault(key, {}).update(write.annotations)
            case Emit():
                self.events.append((write.type, write.reason, key))
                self.messages.append(write.message)


def merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    found = dict(old)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            before = found.get(name)
            found[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            found[name] = value
    return found
