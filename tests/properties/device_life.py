"""Generated clusters with shared GPUs, MIG devices and claims for devices, and what happens to them over many cycles:
bound pods run, groups end, others come, and at last nothing changes any more.

Everything is drawn from one seed. The rules that must hold are in ``device_rules``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from kai_sched import Cache, Cluster, Config, CycleResult, HintTracker, Store, run_cycle
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model import objects as o
from kai_sched.model.claims.objects import (
    Capacity,
    ClaimRequests,
    Device,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
)
from kai_sched.model.hints import SchedulingHints
from kai_sched.plan.effects import Bind
from tests.properties.clusters import NOW_NS
from tests.properties.shares import MEMORY_LABEL, MIG_LARGE, MIG_SMALL, reservation

STEP_NS = 10 * 10**9
DRIVER, NETWORK = "gpu.example.com", "nic.example.com"
EVERY, LARGE, LATE = (
    f"device.driver == '{DRIVER}'",
    f"device.attributes['{DRIVER}'].model == 'large'",
    f"device.attributes['{DRIVER}'].slot > 1",
)
BUSY_CYCLES, CYCLES_MAX = 6, 40
FREE = o.Share(-1.0, -1.0, 1.0)
PLAIN = (("cpu", 1000.0), ("pods", 1.0))
KINDS = ("whole", "whole", "portion", "portion", "portion", "memory", "mig", "claim", "claim", "shared-claim", "plain")


class Moment(NamedTuple):
    """A cycle: what it was given, its result, and whether the cluster is at rest with it."""

    cluster: Cluster
    hints: SchedulingHints
    result: CycleResult
    at_rest: bool


@dataclass
class Life:
    """A cluster and all that will happen to it."""

    seed: int
    config: Config = field(default_factory=Config)
    store: Store = field(default_factory=Store)
    now_ns: int = NOW_NS
    _jobs: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.reserves = self.rng.random() < 0.7
        self.queues = self._make_queues()
        for item in (o.PriorityClass("train", 50), o.PriorityClass("inference", 125)):
            self.store.put(item)
        self._make_nodes()
        for _ in range(self.rng.randint(4, 30)):
            self._make_job()

    def cycles(self) -> Iterator[Moment]:
        """Cycle after cycle, until nothing changes any more; AssertionError without such an end."""
        tracker, cache = HintTracker(), Cache()
        for number in range(CYCLES_MAX + BUSY_CYCLES):
            cluster, hints = self.store.cluster(), tracker.next_hints()
            result = run_cycle(cluster, self.config, self.now_ns, cache, hints=hints)
            tracker.record(cluster, result, self.config)
            calm = number >= BUSY_CYCLES
            at_rest = calm and not result.effects and not tracker.due and not self._leaving()
            yield Moment(cluster, hints, result, at_rest)
            if at_rest:
                return
            self._move_on(cluster, result)
            if not calm:
                self._change()
        raise AssertionError(f"seed {self.seed}: no rest after {CYCLES_MAX} cycles without a change")

    # What there is at first

    def _make_queues(self) -> list[str]:
        rng, names = self.rng, []
        top = o.Queue("all", "all", NOW_NS, cpu=FREE, memory=FREE, gpu=o.Share(-1.0, -1.0, 1.0))
        self.store.put(top)
        for number in range(rng.randint(1, 4)):
            limit = rng.choice((-1.0, -1.0, -1.0, rng.randint(2, 24) + rng.choice((0.0, 0.5))))
            quota = float(rng.choice((0, 0, 1, 2, 4, 8, 16)))
            gpu = o.Share(quota if limit < 0 else min(quota, limit), limit, rng.choice((0.0, 1.0, 1.0, 3.0)))
            name = f"q{number}"
            priority = rng.choice((100, 100, 100, 50))
            self.store.put(
                o.Queue(name, name, NOW_NS + number, "all", priority=priority, cpu=FREE, memory=FREE, gpu=gpu)
            )
            names.append(name)
        return names

    def _make_nodes(self) -> None:
        rng = self.rng
        self.store.put(DeviceClass(DRIVER, (EVERY,)))
        self.store.put(DeviceClass(NETWORK, (f"device.driver == '{NETWORK}'",)))
        for number in range(rng.choice((2, 3, 4, 5, 6, 9, 12))):
            kind = rng.choice(("plain", "plain", "plain", "slices", "slices", "mig", "cpu"))
            capacity, labels = {"cpu": 64_000.0, "pods": float(rng.choice((110, 110, 8)))}, {}
            name = f"n{number:02}"
            if kind in ("plain", "mig"):
                capacity["gpu"] = float(rng.choice((1, 2, 4, 8)))
                if rng.random() < 0.9:
                    labels[MEMORY_LABEL] = str(rng.choice((10_000, 16_384, 20_000, 32_768)))
            if kind == "mig":
                capacity |= {MIG_SMALL: float(rng.choice((2, 4))), MIG_LARGE: float(rng.choice((1, 2)))}
                labels["nvidia.com/mig.strategy"] = "mixed"
            self.store.put(o.Node(name, name, labels, capacity))
            if kind == "slices":
                self._make_slice(name)
        if rng.random() < 0.3:
            devices = tuple(Device(f"nic-{k}", everywhere=True) for k in range(rng.randint(1, 3)))
            self.store.put(ResourceSlice("network", NETWORK, "network", devices=devices))

    def _make_slice(self, node: str) -> None:
        rng = self.rng
        counted = rng.random() < 0.2
        devices = []
        for slot in range(rng.choice((2, 3, 4, 8))):
            attributes: dict[str, int | str] = {
                f"{DRIVER}/slot": slot,
                f"{DRIVER}/model": rng.choice(("large", "small")),
            }
            uses = (("card", "slices", Fraction(rng.randint(1, 3))),) if counted else ()
            memory = {f"{DRIVER}/memory": Capacity(Fraction(8), default=Fraction(rng.choice((2, 8))))}
            shared = rng.random() < 0.2
            devices.append(Device(f"gpu-{slot}", attributes, memory, uses, node=node, shared=shared))
        counters = (("card", "slices", Fraction(rng.randint(3, 8))),) if counted else ()
        self.store.put(ResourceSlice(f"{node}-gpus", DRIVER, node, counters=counters, devices=tuple(devices)))

    # Groups come and end

    def _make_job(self) -> None:
        rng = self.rng
        self._jobs += 1
        name, kind = f"job{self._jobs:03}", rng.choice(KINDS)
        pods = rng.choice((1, 1, 1, 2, 3, 4))
        least = rng.choice((1, pods, pods))
        queue, created = rng.choice(self.queues), self.now_ns + self._jobs
        priority, fixed = rng.choice(("train", "train", "inference")), rng.choice((None, None, None, True))
        preemptible = False if fixed else (True if rng.random() < 0.5 else None)
        self.store.put(
            o.PodGroup("ml", name, f"{name}-uid", created, queue, priority, preemptible=preemptible, min_member=least)
        )
        shape, asks = self._shape(kind)
        if asks is not None and kind == "shared-claim":
            self.store.put(ResourceClaim("ml", name, f"{name}-claim", asks, queue=queue))
        for number in range(pods):
            pod = o.Pod("ml", f"{name}-{number}", shape, f"{name}-{number}-uid", created, group=name, queue=queue)
            pod = replace(pod, scheduler="kai-scheduler", priority_class=priority)
            if asks is not None and kind == "shared-claim":
                pod = replace(pod, claims=(PodClaim("gpus", name, named=True),))
            elif asks is not None:
                pod = replace(pod, claims=(PodClaim("gpus", pod.name),))
                self.store.put(ResourceClaim("ml", pod.name, f"{pod.name}-claim", asks, owner=pod.uid, queue=queue))
            self.store.put(pod)

    def _shape(self, kind: str) -> tuple[o.Shape, ClaimRequests | None]:
        rng = self.rng
        devices = rng.choice((1, 1, 1, 2, 3))
        match kind:
            case "whole":
                return o.Shape(tuple(sorted((*PLAIN, ("gpu", float(rng.choice((1, 1, 2, 4)))))))), None
            case "portion":
                return o.Shape(
                    PLAIN, share=o.GpuShare(devices, rng.choice((0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 1.0)))
                ), None
            case "memory":
                return o.Shape(PLAIN, share=o.GpuShare(devices, 0.0, rng.choice((1_000, 4_950, 8_192, 16_384)))), None
            case "mig":
                asked = (rng.choice((MIG_SMALL, MIG_LARGE)), float(rng.choice((1, 2))))
                return o.Shape(tuple(sorted((*PLAIN, asked)))), None
            case "claim" | "shared-claim":
                return o.Shape(PLAIN, n_claims=1), self._claim()
            case _:
                return o.Shape(tuple(sorted({**dict(PLAIN), "cpu": rng.choice((1000.0, 16_000.0))}.items()))), None

    def _claim(self) -> ClaimRequests:
        rng = self.rng
        if rng.random() < 0.15:
            return ClaimRequests((DeviceRequest("nic", (DeviceOption(NETWORK, count=1),)),))
        selectors = rng.choice(((), (), (LARGE,), (LATE,)))
        capacity = rng.choice(((), (), (("memory", Fraction(rng.choice((2, 3, 8)))),)))
        exact = DeviceOption(DRIVER, "", selectors, rng.choice((1, 1, 2, 3)), capacity=capacity)
        if rng.random() < 0.8:
            return ClaimRequests((DeviceRequest("gpus", (exact,)),))
        first, second = replace(exact, name="first"), DeviceOption(DRIVER, "second", count=1)
        return ClaimRequests((DeviceRequest("gpus", (first, second), exact=False),))

    def _change(self) -> None:
        """Some groups end, some pods leave slowly, some groups come."""
        rng, cluster = self.rng, self.store.cluster()
        for key in sorted(cluster.pod_groups):
            if rng.random() < 0.08:
                self._end(cluster, key)
        for _ in range(rng.choice((0, 1, 2, 3, 5))):
            self._make_job()

    def _end(self, cluster: Cluster, key: str) -> None:
        rng = self.rng
        slowly = rng.random() < 0.5
        for pod in [pod for pod in cluster.pods.values() if pod.group_key == key]:
            if slowly and pod.node:
                self.store.put(replace(pod, deleted_ns=pod.deleted_ns or self.now_ns))
            else:
                self._forget(pod)
        if not slowly:
            self.store.remove(o.PodGroup, key)

    def _forget(self, pod: o.Pod) -> None:
        self.store.remove(o.Pod, pod.key)
        claims = self.store.cluster().resource_claims
        for use in pod.claims:
            claim = claims.get(f"ml/{use.claim}")
            if claim is not None and claim.owner == pod.uid:
                self.store.remove(ResourceClaim, claim.key)
            elif claim is not None:
                left = tuple(each for each in claim.consumers if each[1] != pod.uid)
                self.store.put(replace(claim, consumers=left, allocation=claim.allocation if left else None))

    def _leaving(self) -> bool:
        return any(pod.deleted_ns for pod in self.store.cluster().pods.values())

    def _move_on(self, cluster: Cluster, result: CycleResult) -> None:
        """What kubelets, garbage collectors and the device plugin do until the next cycle."""
        gone = [pod for pod in cluster.pods.values() if pod.deleted_ns and pod.deleted_ns < self.now_ns - STEP_NS]
        advance(self.store, cluster, result, self.now_ns, World(STEP_NS, revives=False, restarts_clocks=False))
        for pod in gone:
            if self.store.get(o.Pod, pod.key) is not None:
                self._forget(pod)
        self._keep_reservations()
        self.now_ns += STEP_NS

    def _keep_reservations(self) -> None:
        used = {
            (pod.node, group)
            for pod in self.store.cluster().pods.values()
            if pod.node and pod.shape.share
            for group in pod.gpu_groups
        }
        there = {
            (pod.node, pod.gpu_groups[0]): pod
            for pod in self.store.cluster().pods.values()
            if pod.labels.get("app") == pod.namespace
        }
        for key in sorted(there.keys() - used):
            self.store.remove(o.Pod, there[key].key)
        if self.reserves:
            for node, group in sorted(used - there.keys()):
                self.store.put(reservation(node, group))


def bound(result: CycleResult) -> dict[str, Bind]:
    """The binds of the cycle by pod."""
    return {each.pod: each for each in result.effects if isinstance(each, Bind)}
