"""Cycles over clusters with none or one object of each kind. Nobody chooses which of them are there: they come one by
one, and ``quarantine`` leaves some out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Config, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.claims import objects as c
from kai_sched.model.constraints import Taint
from kai_sched.model.numa import NodeZones
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from kai_sched.model.store import TABLES, Cluster

NOW_NS = 1_800_000_000 * 10**9
UNLIMITED = o.Share(-1.0, -1.0, 1.0)
SHAPE = o.Shape(
    (("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)), claims=("ml/data",), config_maps=("ml/map",), n_claims=1
)
POD = o.Pod(
    "ml",
    "p",
    SHAPE,
    "uid-p",
    labels={"app": "p"},
    group="g",
    queue="q",
    scheduler="kai-scheduler",
    priority_class="high",
    claims=(c.PodClaim("x", "claim", named=True),),
    extended=(c.ContainerDevices("c", 0, True, "example.com/gpu", 0, 1),),
)
ASKS = c.ClaimRequests((c.DeviceRequest("r", (c.DeviceOption("gpu.example.com"),)),))
HELD = c.Allocation((c.AllocatedDevice("r", "gpu.example.com", "n", "gpu-0"),))
DEVICE = c.Device("gpu-0", {"gpu.example.com/index": 0}, {}, (("set", "memory", Fraction(1)),), node="n")
ONE: tuple[o.Object, ...] = (
    o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),
    o.Node("n", labels={"zone": "z", "rack": "r"}, allocatable={"cpu": 8000.0, "gpu": 8.0, "pods": 100.0}),
    o.PodGroup("ml", "g", queue="q", priority_class="high", topology=o.TopologyConstraint("racks", "rack", "")),
    POD,
    o.BindRequest("ml", "b", "p", "n"),
    o.PriorityClass("high", 200),
    o.VolumeClaim("ml", "data", storage_class="fast"),
    o.Volume("pv"),
    o.StorageClass("fast", True, "disk.example.com"),
    StorageDriver("disk.example.com", True),
    StorageCapacity("ml", "here", "fast", None, 1e9),
    NodeVolumes("n", {"disk.example.com": 1}),
    o.Topology("racks", levels=("zone", "rack"), aliases=("", "")),
    o.ConfigMap("ml", "map"),
    NodeZones("n"),
    o.Namespace("ml"),
    c.DeviceClass("gpu.example.com", extended_resource="example.com/gpu"),
    c.ResourceSlice("s", "gpu.example.com", "n", counters=(("set", "memory", Fraction(1)),), devices=(DEVICE,)),
    c.ResourceClaim("ml", "claim", asks=ASKS, queue="q"),
    c.DeviceTaintRule("t", Taint("k", "", "NoSchedule"), driver="gpu.example.com"),
)
CORE = (o.Queue, o.Node, o.PodGroup, o.Topology, c.DeviceClass, c.ResourceSlice, c.ResourceClaim, c.DeviceTaintRule)
RUNS = replace(POD, node="n", phase=o.Phase.RUNNING)
SHARED = replace(POD, name="p2", uid="uid-p2", extended=())
FREE = o.Pod("other", "free", o.Shape((("cpu", 1.0), ("pods", 1.0))), queue="q", scheduler="kai-scheduler")


def cycle(objects: list[o.Object]) -> None:
    """Two cycles on one cluster, and all that can be read of the result."""
    cluster = Cluster.of(objects)
    for hints in (0, 1):
        result = run_cycle(cluster, Config(), NOW_NS + hints * 10**9)
        assert all(len(read) >= 0 for read in (result.pods, result.groups, result.nodes))


def test_one_of_every_kind_is_tried() -> None:
    assert {type(item) for item in ONE} == set(TABLES)


@pytest.mark.parametrize("pods", [(), (POD,), (RUNS,), (POD, SHARED, FREE)], ids=["no pod", "waits", "runs", "three"])
def test_any_kinds_of_what_claims_depend_on_may_be_missing(pods: tuple[o.Pod, ...]) -> None:
    rest = [item for item in ONE if not isinstance(item, (*CORE, o.Pod))]
    for there in product((False, True), repeat=len(CORE)):
        kinds = {kind for kind, is_there in zip(CORE, there, strict=True) if is_there}
        found = [item for item in ONE if type(item) in kinds]
        cycle([*found, *pods])
        held = [replace(item, allocation=HELD) if isinstance(item, c.ResourceClaim) else item for item in found]
        cycle([*held, *rest, *pods])


@given(st.sets(st.integers(0, len(ONE) - 1)), st.sets(st.integers(0, 2)), st.booleans())
def test_any_kinds_may_be_missing(one: set[int], more: set[int], allocated: bool) -> None:
    found = [ONE[i] for i in sorted(one)]
    if allocated:
        found = [replace(item, allocation=HELD) if isinstance(item, c.ResourceClaim) else item for item in found]
    cycle([*found, *((RUNS, SHARED, FREE)[i] for i in sorted(more))])


@pytest.mark.parametrize(
    "asks", [ASKS, c.ClaimRequests((c.DeviceRequest("r", (c.DeviceOption("other", selectors=("1 +",)),)),))]
)
def test_a_pod_gets_the_devices_that_its_claim_has_whatever_it_asks_for(asks: c.ClaimRequests) -> None:
    """The class may have been deleted since, or another scheduler knows more of the language of selectors."""
    kinds = (o.Queue, o.Node, c.ResourceSlice)
    there = [item for item in ONE if isinstance(item, kinds)] + [c.DeviceClass("other")]
    claim = c.ResourceClaim("ml", "claim", asks=asks, allocation=HELD, queue="q")
    pods = [replace(FREE, namespace="ml", name="p", claims=POD.claims), FREE]
    result = run_cycle(Cluster.of([*there, claim, *pods]), Config(), NOW_NS)
    assert {effect.pod for effect in result.effects} == {"ml/p", "other/free"}
    assert result.groups["ml/p"].nodes == {"n": 1}
