"""Claims for devices: on generated nodes a pod gets devices exactly where some combination of them is right, and what
pods hold together is never more than there is.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.cycle.world.pods import World, advance
from kai_sched.library import run_cycle
from kai_sched.model.claims.objects import (
    Capacity,
    ClaimRequests,
    ContainerDevices,
    Device,
    DeviceClass,
    DeviceConstraint,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
)
from kai_sched.model.config import Config
from kai_sched.model.constraints import Taint, Toleration
from kai_sched.model.objects import Node, Object, Pod, PodGroup, PriorityClass, Queue, Shape, Share
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind
from tests.oracle.claims import DRIVER, SELECTORS, can_allocate, is_overused, serves, way_of

FREE = Share(-1.0, -1.0, 1.0)
BASE = next(iter(SELECTORS))
EXTENDED = "example.com/gpu"
OFFERED = st.sampled_from([{}, {}, {EXTENDED: 2000.0}])
SHAPE = Shape((("cpu", 1.0), ("pods", 1.0)), n_claims=1)


@st.composite
def devices(draw: st.DrawFn, number: int) -> Device:
    """A device of a few kinds; some are shared, some are partitions of a card, some are tainted."""
    shared = draw(st.sampled_from([False, False, True]))
    policy = draw(st.sampled_from([{}, {"default": Fraction(1)}, {"least": Fraction(2), "step": Fraction(2)}]))
    counters = draw(st.sampled_from([(), (), (("card", "slices", Fraction(draw(st.integers(1, 3)))),)]))
    return Device(
        f"d{number}",
        {f"{DRIVER}/slot": draw(st.integers(0, 3)), **draw(st.sampled_from([{}, {f"{DRIVER}/model": "A"}]))},
        {f"{DRIVER}/memory": Capacity(Fraction(draw(st.integers(1, 8))), **policy)},
        counters,
        draw(st.sampled_from([(), (), (Taint("broken", "", "NoSchedule"),)])),
        shared=shared,
    )


@st.composite
def options(draw: st.DrawFn, name: str) -> DeviceOption:
    chosen = ["device.attributes['gpu.example.com'].slot > 1", "device.allowMultipleAllocations"]
    return DeviceOption(
        "gpu.example.com",
        name,
        (BASE, *draw(st.lists(st.sampled_from(chosen), max_size=1))),
        draw(st.sampled_from([1, 1, 2, 3, None])),
        draw(st.sampled_from([False, False, False, True])),
        draw(st.sampled_from([(), (Toleration("broken", "Exists"),)])),
        draw(st.sampled_from([(), (("memory", Fraction(3)),)])),
    )


@st.composite
def claims(draw: st.DrawFn) -> ClaimRequests:
    requests = []
    for number in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            requests.append(DeviceRequest(f"r{number}", (draw(options("")),)))
        else:
            listed = tuple(draw(options(f"o{other}")) for other in range(2))
            requests.append(DeviceRequest(f"r{number}", listed, exact=False))
    attribute = st.sampled_from([f"{DRIVER}/slot", f"{DRIVER}/model"])
    named = st.sampled_from([(), ("r0",)])
    constraint = st.builds(DeviceConstraint, attribute, named, st.booleans())
    return ClaimRequests(tuple(requests), tuple(draw(st.lists(constraint, max_size=1))))


@st.composite
def nodes(draw: st.DrawFn) -> list[ResourceSlice]:
    """One or two nodes with a slice each."""
    found = []
    for node in ("n1", "n2")[: draw(st.integers(1, 2))]:
        listed = [draw(devices(number)) for number in range(draw(st.integers(0, 4)))]
        placed = tuple(
            Device(*(getattr(each, field) for field in ("name", "attributes", "capacity", "counters", "taints")), node,
                   shared=each.shared)
            for each in listed
        )  # fmt: skip
        counters = (("card", "slices", Fraction(draw(st.integers(0, 4)))),)
        found.append(ResourceSlice(node, DRIVER, node, counters=counters, devices=placed))
    return found


def decide(slices: list[ResourceSlice], pods: list[list[ClaimRequests]]) -> dict[str, Bind]:
    """The pods that are bound, in one cycle with allocate alone."""
    objects: list[Object] = [Node(each.name, allocatable={"cpu": 64.0, "pods": 9.0}) for each in slices]
    objects += [*slices, DeviceClass("gpu.example.com", (BASE,)), Queue("q", cpu=FREE, memory=FREE, gpu=FREE)]
    for p, listed in enumerate(pods):
        uses = tuple(PodClaim(f"c{c}", f"p{p}-c{c}") for c in range(len(listed)))
        shape = Shape((("cpu", 1.0), ("pods", 1.0)), n_claims=len(listed))
        owner = f"uid{p}"
        objects.append(
            Pod("a", f"p{p}", shape, uid=owner, queue="q", scheduler="kai-scheduler", claims=uses, created_ns=p + 1)
        )
        objects += [ResourceClaim("a", f"p{p}-c{c}", asks=asks, owner=owner) for c, asks in enumerate(listed)]
    result = run_cycle(Cluster.of(objects), Config(actions=("allocate",)), 10**18)
    return {effect.pod: effect for effect in result.effects if isinstance(effect, Bind)}


@given(nodes(), st.lists(claims(), min_size=1, max_size=2))
def test_a_pod_gets_devices_where_some_combination_is_right(
    slices: list[ResourceSlice], asked: list[ClaimRequests]
) -> None:
    possible = any(can_allocate(asked, each.devices, [each]) for each in slices)
    assert bool(decide(slices, [asked])) == possible


@given(nodes(), st.lists(st.lists(claims(), min_size=1, max_size=2), min_size=2, max_size=4))
def test_what_is_allocated_is_right_for_each_claim_and_no_more_than_there_is(
    slices: list[ResourceSlice], pods: list[list[ClaimRequests]]
) -> None:
    of_node = {each.name: each for each in slices}
    picks: dict[str, list] = {node: [] for node in of_node}  # type: ignore[type-arg]
    bound = decide(slices, pods)
    for p, listed in enumerate(pods):
        if (bind := bound.get(f"a/p{p}")) is None:
            continue
        for asks, use in zip(listed, bind.claims, strict=True):
            way = way_of(asks, use.allocation.devices, of_node[bind.node].devices)
            assert way is not None
            picks[bind.node] += [pick for _, pick in way]
    for node, listed_picks in picks.items():
        assert not is_overused(listed_picks, [of_node[node]])
    # Another order of the objects changes nothing.
    assert decide(slices[::-1], pods) == bound


@given(nodes(), st.data())
def test_extended_resources_are_served_where_a_plugin_or_some_combination_of_devices_does(
    slices: list[ResourceSlice], data: st.DataObject
) -> None:
    resources = (EXTENDED, "example.com/other")
    counts = st.dictionaries(st.sampled_from(resources), st.integers(1, 3), min_size=1)
    asked = data.draw(counts)
    offers = {each.name: data.draw(counts | st.just({})) for each in slices}
    room = {"cpu": 64.0, "pods": 9.0}
    objects: list[Object] = [Queue("q", cpu=FREE, memory=FREE, gpu=FREE), *slices]
    objects += [DeviceClass(f"class-{each[-5:]}", (BASE,), each) for each in resources]
    for name, offered in offers.items():
        objects.append(Node(name, allocatable=room | {each: 1000.0 * count for each, count in offered.items()}))
    uses = tuple(
        ContainerDevices("c", 0, True, name, place, count) for place, (name, count) in enumerate(sorted(asked.items()))
    )
    shape = Shape((*sorted((name, 1000.0 * count) for name, count in asked.items()), ("pods", 1.0)))
    objects.append(Pod("a", "p", shape, uid="u", queue="q", scheduler="kai-scheduler", extended=uses))
    result = run_cycle(Cluster.of(objects), Config(actions=("allocate",)), 10**18)
    bound = next((effect for effect in result.effects if isinstance(effect, Bind)), None)
    possible = [each.name for each in slices if serves(asked, offers[each.name], each.devices, [each])]
    assert (bound.node in possible) if bound else not possible
    if bound:
        had = [(each.request, each.pool) for use in bound.claims for each in use.allocation.devices]
        needed = sum(count for name, count in asked.items() if name not in offers[bound.node])
        assert [pool for _, pool in had] == [bound.node] * needed
        asks = ClaimRequests(bound.claims[0].made.requests) if bound.claims and bound.claims[0].made else None
        of_node = next(each for each in slices if each.name == bound.node)
        assert asks is None or way_of(asks, bound.claims[0].allocation.devices, of_node.devices) is not None


@st.composite
def crowds(draw: st.DrawFn) -> list[Object]:
    """Two queues that want each other's devices; some pods share a claim, some gangs wait, some ask for extended
    resources, which some nodes offer."""
    plain = tuple(Device(f"d{number}", node="n1") for number in range(draw(st.integers(2, 4))))
    slices = draw(nodes() | st.just([ResourceSlice("n1", DRIVER, "n1", devices=plain)]))
    room = {"cpu": 64.0, "pods": 20.0}
    found: list[Object] = [Node(each.name, allocatable=room | draw(OFFERED)) for each in slices]
    found += [*slices, DeviceClass("gpu.example.com", (BASE,), extended_resource=EXTENDED)]
    for queue in ("q1", "q2"):
        found.append(Queue(queue, cpu=FREE, memory=FREE, gpu=Share(float(draw(st.integers(0, 3))), -1.0, 1.0)))
    shared = draw(st.sampled_from(["", "q1", "q2"]))
    for g in range(draw(st.integers(2, 6))):
        queue = draw(st.sampled_from(["q1", "q2"]))
        size = draw(st.sampled_from([1, 1, 2]))
        value = draw(st.sampled_from(["low", "high"]))
        found.append(PodGroup("a", f"g{g}", f"g{g}", g + 1, queue, value, preemptible=True, min_member=size))
        simple = DeviceOption("gpu.example.com", "", (BASE,), draw(st.integers(1, 2)))
        asks = draw(st.just(ClaimRequests((DeviceRequest("r0", (simple,)),))) | claims())
        extended = draw(st.sampled_from([0, 0, 1, 2]))
        for p in range(size if extended else 0):
            uses = (ContainerDevices("c", 0, True, EXTENDED, 0, extended),)
            shape = Shape((("cpu", 1.0), (EXTENDED, 1000.0 * extended), ("pods", 1.0)))
            of_group: dict[str, Any] = {"group": f"g{g}", "scheduler": "kai-scheduler"}
            found.append(Pod("a", f"g{g}-{p}", shape, uid=f"u{g}-{p}", extended=uses, **of_group))
        for p in range(0 if extended else size):
            name = "both" if shared == queue and draw(st.booleans()) else f"g{g}-{p}"
            use = PodClaim("c", name, named=name == "both")
            key = ResourceClaim("a", name, asks=asks, queue=queue if name == "both" else "")
            found += [
                Pod("a", f"g{g}-{p}", SHAPE, uid=f"u{g}-{p}", group=f"g{g}", scheduler="kai-scheduler", claims=(use,)),
                key,
            ]
    return [*found, PriorityClass("low", 50), PriorityClass("high", 75)]


@given(crowds(), st.sampled_from(["minimal", "original"]))
def test_devices_are_never_given_twice_while_pods_come_and_go(objects: list[Object], victims: str) -> None:
    store, config = Store(), Config(victims=victims, max_consolidation_preemptees=-1)
    for each in objects:
        store.put(each)
    slices = {each.name: each for each in objects if isinstance(each, ResourceSlice)}
    for cycle in range(5):
        cluster = store.cluster()
        now_ns = 10**18 + cycle * 10**9
        # At first only some pods are there, so that the others have to take devices back.
        held = {key: pod for key, pod in cluster.pods.items() if cycle or pod.group in ("g0", "g1", "g2")}
        result = run_cycle(replace(cluster, pods=held, store_id=object()), config, now_ns)
        advance(store, cluster, result, now_ns, World())
        after = store.cluster()
        for node, each in slices.items():
            picks = []
            for claim in after.resource_claims.values():
                had = claim.allocation.devices if claim.allocation else ()
                if had and had[0].pool == node:
                    way = way_of(claim.asks, had, each.devices)
                    assert way is not None
                    picks += [pick for _, pick in way]
            assert not is_overused(picks, [each])
        made = {claim.owner: claim for claim in after.resource_claims.values() if claim.extended}
        for pod in after.pods.values():
            for use in pod.claims:
                assert not pod.node or after.resource_claims[f"a/{use.claim}"].allocation is not None
            needs = pod.extended and pod.node and EXTENDED not in after.nodes[pod.node].allocatable
            assert (pod.uid in made) == bool(needs)
            if needs:
                allocation = made[pod.uid].allocation
                assert allocation is not None
                assert [each.pool for each in allocation.devices] == [pod.node] * pod.extended[0].count
