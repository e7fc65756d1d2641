"""Raw objects, a clock that tests set, and a loop whose binder only keeps what it is given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kai_sched.cluster.pod_binder import BindFailure
from kai_sched.cycle.quarantine import Run
from kai_sched.cycle.run import run_cycle
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import QUEUE, Kind
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.operator.cycle.loop import CycleLoop
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.delivery.bind_tracker import BindTracker
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.operator.delivery.cycle_executor import CycleExecutor
from kai_sched.operator.delivery.eviction_tracker import EvictionTracker
from kai_sched.operator.selector_service import SelectorService
from kai_sched.plan.effects import Bind, Evict, Plan
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.builders import Intake

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


def raw_node(name: str, version: int = 1, gpus: int = 8, labels: Mapping[str, str] | None = None, **spec: Any) -> bytes:
    size = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = {"type": "Ready", "status": "True"}
    meta = {"labels": dict(labels)} if labels else {}
    return raw(name, version, metadata=meta, spec=spec, status={"allocatable": size, "conditions": [ready]})


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
        self.raises: Exception | None = None

    def take(self, group: Sequence[Bind], _: Cluster) -> None:
        if self.raises is not None:
            raise self.raises
        self.groups.append(list(group))

    def submit(self, evictions: Iterable[Evict]) -> None:
        self.victims.extend(evictions)

    @property
    def pods(self) -> list[str]:
        return [bind.pod for group in self.groups for bind in group]


class Reports:
    """Stands where the status reporter does."""

    def __init__(self) -> None:
        self.cycles: list[DecidedCycle] = []
        self.failures: list[tuple[Bind, BindFailure, float | None]] = []
        self.plans: list[Plan] = []
        self.gone: list[str] = []

    def bound(self, bind: Bind, seconds: float) -> None:
        pass

    def failed(self, *failure: Any) -> None:
        self.failures.append(failure)  # type: ignore[arg-type]

    def planned(self, plan: Plan, _: Cluster) -> None:
        self.plans.append(plan)

    def evicted(self, eviction: Evict, _plan: Plan, _cluster: Cluster) -> None:
        self.gone.append(eviction.pod)


class OneShard:
    """The settings of a process for one shard."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.shards: Mapping[str, Config] = {"default": self.config}


class World:
    """A sink and a loop over it; ``time`` and ``wall_ns`` are what its clock says, ``leads`` whether it may act.

    ``run`` computes each cycle; tests replace it. ``unready`` has the node pools of shards that have to wait.
    """

    def __init__(self, health: CycleHealth | None = None) -> None:
        self.time = 1000.0
        self.wall_ns = 1_800_000_000 * 10**9
        self.leads = True
        self.unready: set[str] = set()
        self.run: Run = run_cycle
        self.store = Store()
        self.hands, self.reports = Hands(), Reports()
        self.decided, self.failures = self.reports.cycles, self.reports.failures
        self.plans, self.evicted = self.reports.plans, self.reports.gone
        clock = Clock(lambda: self.time, lambda: self.wall_ns)
        self.intake = Intake(self.store, changed=lambda matters: self.trigger.request(matters))
        self.sink, overlay = self.intake.sink, self.intake.overlay
        self.trigger = CycleTrigger(overlay)
        nothing: Any = None  # no pod of these tests has claims
        claims = ClaimReservations(nothing, overlay.claims, self.trigger.request)
        self.binds = BindTracker(self.store, overlay, self.trigger, self.reports, clock, claims)
        self.evictions = EvictionTracker(
            self.store,
            overlay,
            self.hands,  # type: ignore[arg-type]
            self.reports,
            self.trigger,
            clock,
        )
        executor = CycleExecutor(self.evictions, self.binds, self.hands.take, self.decided.append)
        self.selectors = SelectorService(self.store, self.trigger.request, clock.monotonic)
        self.settings = OneShard()
        self.health = health or CycleHealth(Metrics(), lambda _: None, lambda: False, ("", ""), clock.monotonic)
        self.loop = CycleLoop(
            self.selectors,
            self.settings,
            self.trigger,
            lambda: self.leads,
            executor,
            self.health,
            clock,
            lambda *arguments: self.run(*arguments),
        )
        self.loop.is_ready = lambda config: config.node_pool not in self.unready
        self.sink.changed(QUEUE, raw_queue("org"))
        self.sink.changed(QUEUE, raw_queue("team", parent="org"))

    def put(self, kind: Kind, *contents: bytes) -> None:
        for content in contents:
            self.sink.changed(kind, content)
