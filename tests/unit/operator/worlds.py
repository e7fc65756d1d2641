"""Raw objects, a clock that tests set, and a loop whose binder only keeps what it is given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kai_sched.cluster.binding import BindFailure
from kai_sched.model.config import Config
from kai_sched.model.read import QUEUE, Kind
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.evictions import Evictions
from kai_sched.operator.feed import Feed
from kai_sched.operator.loop import Clock, Decided, Loop
from kai_sched.plan.effects import Bind, Evict, Plan

NODE: Kind = ("v1", "Node")
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def raw(name: str, version: int, namespace: str | None = None, **content: Any) -> bytes:
    meta = {"name": name, "resourceVersion": str(version), "uid": content.pop("uid", name)}
    if namespace:
        meta["namespace"] = namespace
    meta |= content.pop("metadata", {})
    return json.dumps({"metadata": meta, **content}).encode()


def raw_pod(
    name: str,
    version: int = 1,
    gpus: int = 1,
    node: str = "",
    scheduler: str = "kai-scheduler",
    tolerations: Sequence[dict[str, str]] = (),
    **metadata: Any,
) -> bytes:
    limits = {"nvidia.com/gpu": str(gpus)}
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", **limits}, "limits": limits}}],
    }
    spec |= {"nodeName": node} if node else {}
    spec |= {"tolerations": list(tolerations)} if tolerations else {}
    labels = {"kai.scheduler/queue": "team"}
    uid, status = metadata.pop("uid", name), {"phase": metadata.pop("phase", "Pending")}
    return raw(name, version, "ml", uid=uid, spec=spec, status=status, metadata={"labels": labels, **metadata})


def raw_node(name: str, version: int = 1, gpus: int = 8, **spec: Any) -> bytes:
    size = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = {"type": "Ready", "status": "True"}
    return raw(name, version, spec=spec, status={"allocatable": size, "conditions": [ready]})


def raw_group(name: str, size: int) -> bytes:
    return raw(name, 1, "ml", spec={"queue": "team", "minMember": size})


def raw_queue(name: str, version: int = 1, parent: str = "") -> bytes:
    spec = {"resources": {"cpu": FREE, "memory": FREE, "gpu": FREE}} | ({"parentQueue": parent} if parent else {})
    return raw(name, version, spec=spec)


class Hands:
    """Stands where the binder and the evicter do: keeps the groups of binds, and the evictions."""

    def __init__(self) -> None:
        self.groups: list[list[Bind]] = []
        self.victims: list[Evict] = []

    def take(self, group: Sequence[Bind], _: Cluster) -> None:
        self.groups.append(list(group))

    @property
    def pods(self) -> list[str]:
        return [bind.pod for group in self.groups for bind in group]


class World:
    """A feed and a loop over it; ``time`` and ``wall_ns`` are what its clock says, ``leads`` whether it may act."""

    def __init__(self, standby_s: float = 10.0) -> None:
        self.time = 1000.0
        self.wall_ns = 1_800_000_000 * 10**9
        self.leads = True
        self.store = Store()
        self.decided: list[Decided] = []
        self.failures: list[tuple[Bind, BindFailure, float | None]] = []
        self.hands = Hands()
        self.plans: list[Plan] = []
        self.evicted: list[str] = []
        clock = Clock(lambda: self.time, lambda: self.wall_ns)
        self.feed = Feed(self.store, Config(), lambda matters: self.loop.wake(matters), lambda *_: None)
        self.loop = Loop(
            self.store,
            self.feed.overlay,
            Config,
            lambda: self.leads,
            self.decided.append,
            lambda *failure: self.failures.append(failure),
            clock,
            standby_s,
        )
        self.loop.send = self.hands.take
        self.evictions = Evictions(
            self.store,
            self.feed.overlay,
            self.hands.victims.extend,
            lambda plan, _: self.plans.append(plan),
            lambda eviction, *_: self.evicted.append(eviction.pod),
            self.loop.wake,
            clock,
        )
        self.loop.evict = self.evictions.carry_out
        self.feed.changed(QUEUE, raw_queue("org"))
        self.feed.changed(QUEUE, raw_queue("team", parent="org"))

    def put(self, kind: Kind, *contents: bytes) -> None:
        for content in contents:
            self.feed.changed(kind, content)
