"""Claims that concern several nodes: what one pod takes changes where the next one can go, however the nodes are
remembered (``kernels.find``)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.world.pods import World, advance
from kai_sched.library import run_cycle
from kai_sched.model.claims.objects import (
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
from kai_sched.model.objects import Node, Object, Pod, PodGroup, PriorityClass, Queue, Shape, Share
from kai_sched.model.store import Store
from kai_sched.plan.effects import Bind, Evict, Pipeline
from kai_sched.snapshot.tables import Snapshot
from kai_sched.solver import pipeline
from kai_sched.solver.allocation import make_finder
from kai_sched.solver.state import Finder

FREE = Share(-1.0, -1.0, 1.0)
DRIVER = "gpu.example.com"
CLASS = DeviceClass("gpu.example.com", (f"device.driver == '{DRIVER}'",))
NOW_NS, STEP_NS, CYCLES = 10**18, 10**10, 3


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Ten nodes or more with few devices, some devices of all nodes or of a pool that shares counters; some claims are
    used by several pods, of one group or of two."""
    names = [f"n{number:02}" for number in range(draw(st.integers(10, 24)))]
    # The pods of a node are few, so that those of a claim do not all fit the best one. Mostly nodes are equal.
    rooms, counts = st.just(draw(st.integers(1, 3))), st.just(draw(st.integers(1, 2)))
    if draw(st.sampled_from([False, False, True])):
        rooms, counts = st.integers(1, 3), st.integers(0, 2)
    found: list[Object] = [Node(name, name, allocatable={"cpu": 1000.0 * draw(rooms), "pods": 9.0}) for name in names]
    counters = (("pool", "slices", Fraction(draw(st.integers(1, 4)))),)
    owned = {name: tuple(Device(f"d{k}", node=name) for k in range(draw(counts))) for name in names}
    found += [ResourceSlice(name, DRIVER, name, devices=own) for name, own in owned.items()]
    network = tuple(Device(f"net{k}", everywhere=True) for k in range(draw(st.integers(0, 3))))
    found.append(ResourceSlice("network", DRIVER, "network", devices=network))
    takes = (("pool", "slices", Fraction(1)),)
    parts = tuple(Device(f"part{k}", counters=takes, node=draw(st.sampled_from(names))) for k in range(3))
    found.append(ResourceSlice("parts", DRIVER, "parts", counters=counters, devices=parts))
    quotas = {name: float(draw(st.integers(0, 2))) for name in ("q1", "q2")}
    found += [Queue(name, cpu=FREE, memory=FREE, gpu=Share(quota, -1.0, 1.0)) for name, quota in quotas.items()]
    asks = ClaimRequests((DeviceRequest("r", (DeviceOption("gpu.example.com", "", (), 1),)),))
    shape = Shape((("cpu", 1000.0), ("pods", 1.0)), n_claims=1)
    shared: dict[str, str] = {}
    for g in range(draw(st.integers(2, 6))):
        queue = draw(st.sampled_from(["q1", "q2"]))
        value = draw(st.sampled_from(["low", "high"]))
        size = draw(st.integers(1, 4))
        least = draw(st.sampled_from([1, size]))
        found.append(PodGroup("a", f"g{g}", f"g{g}", g + 1, queue, value, preemptible=True, min_member=least))
        of_group = draw(st.sampled_from(["", f"g{g}", f"all-{queue}"]))
        for p in range(size):
            name = of_group or f"g{g}-{p}"
            use = PodClaim("c", name, named=bool(of_group))
            pod = Pod("a", f"g{g}-{p}", shape, uid=f"u{g}-{p}", group=f"g{g}", scheduler="kai-scheduler", claims=(use,))
            found.append(pod)
            if name not in shared:
                owner = "" if of_group else pod.uid
                found.append(ResourceClaim("a", name, asks=asks, queue=queue if of_group else "", owner=owner))
                shared[name] = queue
    return [*found, CLASS, PriorityClass("low", 50), PriorityClass("high", 75)]


def plans(objects: list[Object]) -> Iterator[tuple[Store, list[Object]]]:
    """What is decided in some cycles, and the cluster after each."""
    store, tracker, config = Store(), HintTracker(), Config(max_consolidation_preemptees=-1)
    for each in objects:
        store.put(each)
    for cycle in range(CYCLES):
        cluster, now_ns = store.cluster(), NOW_NS + cycle * STEP_NS
        result = run_cycle(cluster, config, now_ns, hints=tracker.next_hints())
        tracker.record(cluster, result, config)
        advance(store, cluster, result, now_ns, World(STEP_NS))
        yield store, [each for each in result.effects if isinstance(each, Bind | Evict | Pipeline)]


def test_a_pod_is_not_bound_where_the_claim_that_it_shares_cannot_be_used() -> None:
    """Two pods fill the node with the device of the claim; the third was bound to one of the next block of nodes."""
    names = [f"n{number:02}" for number in range(9)]
    found: list[Object] = [Node(name, name, allocatable={"cpu": 2000.0, "pods": 9.0}) for name in names]
    found += [ResourceSlice(name, DRIVER, name, devices=(Device("d0", node=name),)) for name in names]
    asks = ClaimRequests((DeviceRequest("r", (DeviceOption("gpu.example.com", "", (), 1),)),))
    found += [CLASS, Queue("q", cpu=FREE, memory=FREE, gpu=FREE), ResourceClaim("a", "c", asks=asks, queue="q")]
    found += [PodGroup("a", "g", "g", 1, "q", "low", min_member=1), PriorityClass("low", 50)]
    shape, uses = Shape((("cpu", 1000.0), ("pods", 1.0)), n_claims=1), (PodClaim("c", "c", named=True),)
    of_group: dict[str, Any] = {"group": "g", "scheduler": "kai-scheduler", "claims": uses}
    found += [Pod("a", f"g-{p}", shape, uid=f"u{p}", **of_group) for p in range(3)]
    _, effects = next(plans(found))
    assert [(each.pod, each.node) for each in effects if isinstance(each, Bind)] == [("a/g-0", "n00"), ("a/g-1", "n00")]


@given(clusters())
def test_pods_are_bound_with_devices_that_their_node_has(objects: list[Object]) -> None:
    """And nobody else has: whatever pods come and go."""
    everywhere = {"network"}
    of_part = {
        device.name: device.node
        for each in objects
        if isinstance(each, ResourceSlice) and each.name == "parts"
        for device in each.devices
    }
    for store, effects in plans(objects):
        bound = {each.pod: each for each in effects if isinstance(each, Bind)}
        for bind in bound.values():
            for use in bind.claims:
                assert use.allocation.devices, bind.pod
        held: list[tuple[str, str]] = []
        cluster = store.cluster()
        for claim in cluster.resource_claims.values():
            held += [(each.pool, each.device) for each in (claim.allocation.devices if claim.allocation else ())]
        assert len(held) == len(set(held))
        for pod in cluster.pods.values():
            for use in pod.claims if pod.node else ():
                claim = cluster.resource_claims[f"a/{use.claim}"]
                assert claim.allocation is not None, pod.name
                for each in claim.allocation.devices:
                    assert each.pool in everywhere or pod.node in (each.pool, of_part.get(each.device)), pod.name


@given(clusters())
def test_the_plan_is_the_same_however_nodes_are_remembered(objects: list[Object]) -> None:
    """In blocks of one node, of some, or of all: then a change of any node forgets all."""

    def in_blocks(size: int) -> list[list[Object]]:
        def blocks(snapshot: Snapshot) -> Finder:
            finder = make_finder(snapshot)
            n_classes, count = finder.seen.shape[0], -(-snapshot.nodes.condition.size // size)
            finder.block[0] = size
            return finder._replace(
                stamp=np.zeros(count, np.int64),
                seen=np.full((n_classes, count), -1, np.int64),
                best=np.full((n_classes, count), -1, np.int64),
                points=np.zeros((n_classes, count)),
                preference=np.zeros((n_classes, count)),
            )

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "make_finder", blocks)
            return [effects for _, effects in plans(objects)]

    assert in_blocks(1) == in_blocks(4) == in_blocks(1000)
