"""Offline, volumes that are made take of the capacity of their driver, and those that leave with pods give it back."""

from __future__ import annotations

from dataclasses import replace

from kai_sched import Config, CycleResult, Store, run_cycle
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model.objects import (
    Node,
    Object,
    Phase,
    Pod,
    PriorityClass,
    Queue,
    Shape,
    Share,
    StorageClass,
    Volume,
    VolumeClaim,
)
from kai_sched.model.storage import StorageCapacity, StorageDriver

UNLIMITED = Share(-1.0, -1.0, 1.0)
NOW_NS = 1_000_000_000_000
PLAIN = World(revives=False, restarts_clocks=False)


def store_of(*objects: Object) -> Store:
    store = Store()
    for each in (
        Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),
        Node("n", allocatable={"cpu": 8000.0, "pods": 10.0}),
        StorageClass("fast", True, "disk"),
        StorageDriver("disk", True),
        PriorityClass("low", 10),
        PriorityClass("high", 60),
        *objects,
    ):
        store.put(each)
    return store


def pod(name: str, claim: str, rank: str, node: str = "") -> Pod:
    shape = Shape((("cpu", 1000.0), ("pods", 1.0)), claims=(f"ns/{claim}",))
    found = Pod("ns", name, shape, uid=name, queue="q", scheduler="kai-scheduler", priority_class=rank)
    return replace(found, node=node, phase=Phase.RUNNING) if node else found


def step(store: Store, config: Config) -> CycleResult:
    cluster = store.cluster()
    result = run_cycle(cluster, config, NOW_NS)
    advance(store, cluster, result, NOW_NS, PLAIN)
    return result


def left(store: Store) -> tuple[float | None, float | None]:
    (found,) = store.all(StorageCapacity).values()
    return found.size_bytes, found.largest_bytes


def test_a_volume_that_is_made_takes_of_the_capacity() -> None:
    capacity = StorageCapacity("sys", "c", "fast", None, 8.0, 6.0)
    store = store_of(capacity, VolumeClaim("ns", "data", storage_class="fast", size_bytes=5.0), pod("p", "data", "low"))
    step(store, Config())
    (volume,) = store.all(Volume).values()
    assert (volume.driver, volume.handle, volume.claim) == ("disk", volume.name, "ns/data")
    assert left(store) == (3.0, 3.0)


def test_a_volume_that_leaves_with_its_pod_gives_it_back() -> None:
    """The pod of higher priority gets its volume once that of the other one is gone, which then waits for capacity."""
    held = VolumeClaim("ns", "old", "Bound", "v", "fast", size_bytes=5.0, pod_uid="r")
    store = store_of(
        StorageCapacity("sys", "c", "fast", None, 1.0),
        held,
        Volume("v", None, "fast", "ns/old", "Bound", size_bytes=5.0, driver="disk"),
        VolumeClaim("ns", "new", storage_class="fast", size_bytes=5.0),
        pod("r", "old", "low", node="n"),
        pod("g", "new", "high"),
    )
    config = Config(schedule_csi_storage=True)
    assert step(store, config).evicted == ("ns/r",)
    assert (left(store), "v" in store.all(Volume)) == ((6.0, None), False)
    step(store, config)
    assert store.all(Pod)["ns/g"].node == "n"
    assert left(store) == (1.0, None)
    reason = step(store, config).groups["ns/r"].reason
    assert reason is not None
    assert "storage of class fast" in reason.message
