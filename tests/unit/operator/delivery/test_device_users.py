"""Who uses which device, and what reserves it, by the journal of the store and by looking at everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.config import Config
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, Shape
from kai_sched.model.store import Store
from kai_sched.operator.delivery.device_users import DeviceUsers
from kai_sched.reconcile.gpu_reservation import GpuGroup

CONFIG = Config()
HALF = Shape(share=GpuShare(1, 0.5))
NAMESPACE = CONFIG.reservation.namespace
RESERVES = {"app": CONFIG.reservation.app_label}
DEVICES = [GpuGroup(node, group) for node in ("n1", "n2") for group in ("a", "b")]

pods = st.builds(
    lambda name, reserves, shape, node, groups, phase, leaves: Pod(
        NAMESPACE if reserves else "ml",
        name,
        shape,
        uid=name,
        labels=RESERVES if reserves else {},
        node=node,
        gpu_groups=tuple(sorted(groups)),
        phase=phase,
        deleted_ns=leaves,
        scheduler="kai-scheduler",
    ),
    st.sampled_from(["x", "y", "z"]),
    st.booleans(),
    st.sampled_from([HALF, Shape((("gpu", 1.0),))]),
    st.sampled_from(["", "n1", "n2"]),
    st.sets(st.sampled_from("ab")),
    st.sampled_from([Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED]),
    st.sampled_from([0, 0, 1]),
)


@given(st.lists(st.tuples(st.booleans(), pods, st.booleans()), max_size=20))
def test_the_journal_tells_as_much_as_a_look_at_everything(steps: list[tuple[bool, Pod, bool]]) -> None:
    """Whenever it is read. What changed is among the devices that it names."""
    store = Store()
    for node in ("n1", "n2"):
        store.put(Node(node, allocatable={"gpu": 2.0}))
    overlay = Overlay(store)
    users = DeviceUsers(store, overlay, lambda: CONFIG)
    named: set[GpuGroup] = set()
    before = seen(users)
    for stays, pod, reads in steps:
        if stays:
            overlay.observe(pod)
        else:
            overlay.gone(pod.key)
        if reads:
            named |= users.catch_up()
    named |= users.catch_up()
    fresh = DeviceUsers(store, overlay, lambda: CONFIG)
    fresh.catch_up()
    assert seen(users) == seen(fresh)
    assert {device for device in DEVICES if seen(users)[device][:4] != before[device][:4]} <= named


def seen(users: DeviceUsers) -> dict[GpuGroup, tuple[object, ...]]:
    return {
        device: (
            [pod.key for pod in users.users(device)],
            [pod.key for pod in users.bound(device)],
            [pod.key for pod in users.reservations(device)],
            device in users.reserved_on(device.node),
            users.is_closing(device.node),
        )
        for device in DEVICES
    }


def test_a_pod_whose_bind_is_under_way_uses_its_device_and_is_not_bound_yet() -> None:
    store = Store()
    overlay = Overlay(store)
    users = DeviceUsers(store, overlay, lambda: CONFIG)
    overlay.observe(Pod("ml", "x", HALF, uid="x", scheduler="kai-scheduler"))
    overlay.assume("ml/x", "x", "n1", ("a",))
    assert users.catch_up() == {GpuGroup("n1", "a")}
    assert [pod.name for pod in users.users(GpuGroup("n1", "a"))] == ["x"]
    assert users.bound(GpuGroup("n1", "a")) == []
    overlay.observe(Pod("ml", "x", HALF, uid="x", node="n1", gpu_groups=("a",), scheduler="kai-scheduler"))
    users.catch_up()
    assert [pod.name for pod in users.bound(GpuGroup("n1", "a"))] == ["x"]
    overlay.gone("ml/x")
    assert users.catch_up() == {GpuGroup("n1", "a")}
    assert users.users(GpuGroup("n1", "a")) == []


def test_whether_a_pod_is_being_bound_costs_no_look_at_all_that_are() -> None:
    """Each device is asked in each cycle, and thousands of binds may be under way."""

    class Assumed(dict[str, Any]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all of them are gone through")

    store = Store()
    overlay = Overlay(store)
    overlay._assumed = Assumed()
    users = DeviceUsers(store, overlay, lambda: CONFIG)
    for name in "xy":
        overlay.observe(Pod("ml", name, HALF, uid=name, scheduler="kai-scheduler"))
    overlay.assume("ml/x", "x", "n1", ("a",))
    users.catch_up()
    assert users.is_being_bound(GpuGroup("n1", "a"))
    assert not users.is_being_bound(GpuGroup("n1", "b"))
