"""Columns for volumes: what the cache keeps of drivers, and what is bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kai_sched import Cache, Config, CycleResult, Store, run_cycle
from kai_sched.lowering import exclusive_claims, volume_amounts
from kai_sched.lowering.constraints import TRUTHS
from kai_sched.lowering.lower import lower
from kai_sched.model.budgets import OF_NAMESPACE
from kai_sched.model.constraints import Requirement
from kai_sched.model.objects import Node, Object, Pod, Queue, Shape, Share, StorageClass, Volume, VolumeClaim
from kai_sched.model.selectors import NODE_NAME
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from kai_sched.plan.effects import Bind

UNLIMITED = Share(-1.0, -1.0, 1.0)
ROOM = {"cpu": 64_000.0, "memory": 1e12, "pods": 110.0}
EVERYWHERE = None


def pod(name: str, *claims: str, node: str = "") -> Pod:
    shape = Shape((("cpu", 1000.0), ("pods", 1.0)), claims=tuple(f"ns/{each}" for each in claims))
    return Pod("ns", name, shape, uid=name, queue="q", scheduler="kai-scheduler", node=node)


def store_of(*objects: Object) -> Store:
    store = Store()
    for each in (Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED), *objects):
        store.put(each)
    return store


def capacity(size: float) -> StorageCapacity:
    return StorageCapacity("sys", "c", "fast", EVERYWHERE, size)


def bound(result: CycleResult) -> list[str]:
    return [each.pod for each in result.effects if isinstance(each, Bind)]


MADE = StorageClass("fast", True, "disk"), StorageDriver("disk", True), Node("n", allocatable=ROOM)


@pytest.mark.parametrize(
    "change",
    [capacity(5.0), StorageDriver("disk", False), StorageClass("fast", True, "other")],
    ids=["capacity", "driver", "class"],
)
def test_what_drivers_say_is_read_again_when_it_changes(change: Object) -> None:
    claim = VolumeClaim("ns", "data", storage_class="fast", size_bytes=2.0)
    store, cache = store_of(*MADE, capacity(1.0), claim, pod("p", "data")), Cache()
    assert bound(run_cycle(store.cluster(), Config(), 0, cache)) == []
    store.put(change)
    assert bound(run_cycle(store.cluster(), Config(), 0, cache)) == ["ns/p"]


def test_lists_of_nodes_with_capacity_are_forgotten_once_they_change() -> None:
    """As capacity changes with each volume that is made, and nodes may stay as they are for weeks."""
    names, claim = ("a", "b", "c", "d"), VolumeClaim("ns", "data", storage_class="fast", size_bytes=2.0)
    nodes = [Node(name, allocatable=ROOM) for name in names]
    store, cache = store_of(*MADE[:2], *nodes, claim, pod("p", "data")), Cache()
    for name in names:
        store.put(replace(capacity(5.0), nodes=((Requirement(NODE_NAME, "In", (name,)),),)))
        result = run_cycle(store.cluster(), Config(), 0, cache)
        assert [each.node for each in result.effects if isinstance(each, Bind)] == [name]
        assert list(cache.columns[TRUTHS]) == [Requirement(NODE_NAME, "In", (name,))]


def test_limits_of_a_node_are_read_again_when_they_change() -> None:
    volume = Volume("v", claim="ns/data", phase="Bound", driver="disk")
    claim = VolumeClaim("ns", "data", volume="v")
    store, cache = store_of(*MADE, NodeVolumes("n", {"disk": 0}), volume, claim, pod("p", "data")), Cache()
    assert bound(run_cycle(store.cluster(), Config(), 0, cache)) == []
    store.put(NodeVolumes("n", {"disk": 1}))
    assert bound(run_cycle(store.cluster(), Config(), 0, cache)) == ["ns/p"]


def test_a_cluster_without_limits_has_no_column() -> None:
    volume = Volume("v", claim="ns/data", phase="Bound", driver="disk")
    claim = VolumeClaim("ns", "data", volume="v")
    made = VolumeClaim("ns", "made", storage_class="fast", size_bytes=2.0)
    others = store_of(MADE[0], MADE[2], volume, claim, made, pod("p", "data", "made"))
    assert lower(others.cluster(), Config(), 0, Cache()).resources == ("cpu", "memory", "gpu", "pods")


def test_columns_are_last_and_named_after_drivers_and_classes() -> None:
    claim = VolumeClaim("ns", "data", storage_class="fast", size_bytes=2.0)
    store = store_of(*MADE, capacity(7.0), NodeVolumes("n", {"disk": 3}), claim, pod("p", "data"))
    lowered = lower(store.cluster(), Config(), 0, Cache())
    assert lowered.resources[4:] == ("attachable volumes of disk", "storage of class fast")
    assert np.array_equal(lowered.snapshot.classes.request[0, 4:], [1.0, 2.0])
    assert np.array_equal(lowered.snapshot.nodes.allocatable[0, 4:], [3.0, 7.0])


def test_too_many_contests_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the first pod may go, whatever becomes of it."""
    monkeypatch.setattr(exclusive_claims, "CELLS_MAX", 1)
    found: list[Object] = []
    for name in ("a", "b"):
        found.append(VolumeClaim("ns", name, volume=name, access_modes=("ReadWriteOncePod",)))
        found += [Volume(name, claim=f"ns/{name}", phase="Bound"), pod(f"{name}0", name), pod(f"{name}1", name)]
    result = run_cycle(store_of(MADE[2], *found).cluster(), Config(), 0)
    assert bound(result) == ["ns/a0", "ns/b0"]
    reasons = [result.groups[key].reason for key in ("ns/a1", "ns/b1")]
    texts = ["pod ns/a0 has got it", "pod ns/b0 comes first"]
    assert all(reason and text in reason.message for reason, text in zip(reasons, texts, strict=True)), reasons


def test_too_many_shared_volumes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace gets a part of the bound; pods with the fewest shared volumes come first."""
    monkeypatch.setattr(volume_amounts, "COMPARED_MAX", 2 * OF_NAMESPACE)
    names = ("a", "b", "c")
    found: list[Object] = [NodeVolumes("n", {"disk": 9})]
    for name in names:
        found.append(VolumeClaim("ns", name, volume=name))
        found.append(Volume(name, claim=f"ns/{name}", phase="Bound", driver="disk"))
    found += [pod("first", "a"), pod("second", "a", "b"), pod("third", "b", "c"), pod("fourth", "c")]
    result = run_cycle(store_of(MADE[2], *found).cluster(), Config(), 0)
    assert bound(result) == ["ns/first", "ns/fourth"]
    reason = result.groups["ns/second"].reason
    assert reason is not None
    assert (reason.code, "share volumes of drivers with attach limits" in reason.message) == ("OverWorkLimit", True)


def test_many_segments_of_one_node_each() -> None:
    """Each node has a capacity of its own, as with local disks; the one that has enough is found."""
    found: list[Object] = [MADE[0], MADE[1]]
    for k in range(50):
        found.append(Node(f"n{k:02}", labels={"host": f"{k}"}, allocatable=ROOM))
        here = ((Requirement("host", "In", (f"{k}",)),),)
        found.append(StorageCapacity("sys", f"c{k}", "fast", here, float(k)))
    found += [VolumeClaim("ns", "data", storage_class="fast", size_bytes=49.0), pod("p", "data")]
    (bind,) = run_cycle(store_of(*found).cluster(), Config(), 0).effects
    assert isinstance(bind, Bind)
    assert bind.node == "n49"
