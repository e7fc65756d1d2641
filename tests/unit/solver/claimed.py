"""A node with devices, and pods with claims for them, for the tests of claims in kernels."""

from __future__ import annotations

from fractions import Fraction

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
from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Object, Pod, Queue, Shape, Share
from kai_sched.model.store import Cluster
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.state import Context
from tests.answered import lower_offline
from tests.unit.solver.tables import opened

FREE = Share(-1.0, -1.0, 1.0)


def cluster_of(pods: list[list[int]]) -> tuple[Context, Search]:
    """A node with whole devices, partitions of a card and a shared device; ``pods``: what each claim asks for.

    The last two pods have a claim together.
    """
    devices = [Device(f"w{number}", node="n") for number in range(3)]
    devices += [Device(f"p{number}", counters=(("card", "s", Fraction(number + 1)),), node="n") for number in range(3)]
    devices.append(Device("s", capacity={"d/memory": Capacity(Fraction(4), Fraction(1))}, node="n", shared=True))
    kinds = {0: "w", 1: "p", 2: "s"}
    slices = ResourceSlice("n", "d", "n", counters=(("card", "s", Fraction(3)),), devices=tuple(devices))
    classes = [DeviceClass(name, (f'device.driver == "d" && {test}',)) for name, test in (
        ("w", '!device.allowMultipleAllocations && !("d" in device.capacity)'),
        ("p", '!device.allowMultipleAllocations'),
        ("s", "device.allowMultipleAllocations"),
    )]  # fmt: skip
    objects: list[Object] = [Node("n", allocatable={"cpu": 9.0, "pods": 99.0}), slices, *classes]
    objects.append(Queue("q", cpu=FREE, memory=FREE, gpu=FREE))
    for p, asked in enumerate(pods):
        names = ["both" if p >= len(pods) - 2 and c == 0 else f"p{p}-{c}" for c in range(len(asked))]
        shape = Shape((("cpu", 1.0), ("pods", 1.0)), n_claims=len(asked))
        uses = tuple(PodClaim(name, name, named=True) for name in names)
        objects.append(Pod("a", f"p{p:02}", shape, uid=f"p{p:02}", queue="q", scheduler="kai-scheduler", claims=uses))
        for name, kind in zip(names, asked, strict=True):
            request = DeviceRequest("r", (DeviceOption(kinds[kind]),))
            objects.append(ResourceClaim("a", name, asks=ClaimRequests((request,))))
    snapshot = lower_offline(Cluster.of(objects), Config(), 10**18).snapshot
    ctx = opened(snapshot)
    return ctx, make_search(snapshot)
