"""The judge of the soak finds what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.api import names
from tests.cluster import claims
from tests.cluster.client import Object
from tests.cluster.soak_clock import ServedClock
from tests.cluster.soak_devices import LOST_S, UNTOLD_S
from tests.cluster.soak_judge import STALE_S, Judge, Wanted, bound_twice, counted
from tests.cluster.soak_load import Load

NODES = {"a": (1000, 2), "b": (1000, 2)}


def judge(*pods: str, gpus: int = 1, milli_cpu: int = 100, apart: bool = False) -> Judge:
    """Of these pods, made at 100 s, which are one gang."""
    found = Judge(NODES, late_s=10.0, torn_s=20.0)
    found.lead(0.0)
    for name in pods:
        found.make(Wanted(name, "work", milli_cpu, gpus, apart=apart), 100.0)
    if len(pods) > 1:
        found.gang("work", list(pods))
    return found


def test_what_goes_well_is_no_fault() -> None:
    well = judge("x", "y", apart=True)
    well.look(101.0)
    for name, node in (("x", "a"), ("y", "b")):
        well.seen(name, node, "group", 103.0)
        well.seen(name, node, "group", 104.0)
    well.look(200.0)
    for name in ("x", "y"):
        well.leave(name)
        well.gone(name)
    well.look(300.0)
    well.forget("work", ["x", "y"])
    assert (well.faults, well.waits_s, well.groups) == ([], [3.0, 3.0], {})
    assert [room.pods for room in well.rooms.values()] == [set(), set()]


def test_nobody_is_late_before_the_replica_that_stays_leads() -> None:
    """While leaders end one after the other a pod may wait for several of them; then it counts from the last one on."""
    found = Judge(NODES, late_s=10.0, torn_s=20.0)
    for name in ("x", "y"):
        found.make(Wanted(name, name, 100, 1), 100.0)
    found.look(150.0)
    assert (found.faults, found.waits_s) == ([], [])
    found.lead(200.0)
    found.look(210.0)
    found.seen("x", "a", "", 204.0)
    assert (found.faults, found.waits_s) == ([], [4.0])
    found.look(211.0)
    assert found.faults == ["pod y was not bound in 10 s"]


def test_what_the_watch_shows_first_counts() -> None:
    early = judge()
    early.seen("x", "a", "", 99.0)
    early.make(Wanted("x", "work", 100, 1), 100.0)
    assert early.pods["x"].node == "a"
    assert early.waits_s == [0.0]


def test_a_pod_that_has_ended_holds_no_room() -> None:
    """As pods of Jobs do: they stay until they are deleted, and others start on their node before that."""
    well = judge("x", "y", "z", gpus=2)
    well.seen("x", "a", "", 101.0)
    well.seen("x", "a", "", 102.0, ended=True)
    well.seen("y", "a", "", 103.0)
    well.seen("y", "a", "", 104.0, ended=True)
    well.seen("y", "a", "", 105.0, ended=True)
    assert well.faults == []
    well.seen("z", "a", "", 106.0)
    well.make(Wanted("late", "other", 100, 1), 107.0)
    well.seen("late", "a", "", 108.0)
    assert well.fault_count == 1  # those that have not ended count


def test_a_pod_may_have_ended_before_we_know_that_it_is_made() -> None:
    early = judge("y", gpus=2)
    early.seen("x", "a", "", 98.0)
    early.seen("x", "a", "", 99.0, ended=True)
    early.seen("y", "a", "", 99.5)
    early.make(Wanted("x", "work", 100, 2), 100.0)
    assert early.faults == []
    assert early.pods["x"].node == "a"


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.booleans()), max_size=24))
def test_the_room_of_a_node_is_what_a_recount_finds(steps: list[tuple[int, str, bool]]) -> None:
    """Whatever pods do in whatever order. Each step moves a pod on: bound, ended (or straight away gone), gone."""
    names = [f"pod-{number}" for number in range(6)]
    found, expected, held = judge(*names), 0, dict[str, str]()
    stage = dict.fromkeys(names, 0)
    for number, node, ends in steps:
        name = names[number]
        if stage[name] == 0:
            held[name] = node
            expected += sum(where == node for where in held.values()) > 2
            found.seen(name, node, "", 101.0)
            stage[name] = 1
        elif stage[name] == 1 and ends:
            del held[name]
            found.seen(name, found.pods[name].node, "", 102.0, ended=True)
            stage[name] = 2
        elif stage[name] < 3:
            held.pop(name, None)
            found.leave(name)
            found.gone(name)
            stage[name] = 3
        assert {one: where for where, room in found.rooms.items() for one in room.pods} == held
    assert found.fault_count == expected


def test_a_list_tells_who_is_gone_before_who_came() -> None:
    """After a watch that was too slow: the room of one is another's by then. What is newer than the list stays."""
    found = judge("x", "y", gpus=2)
    found.make(Wanted("later", "other", 100, 0), 105.0)
    found.seen("x", "a", "", 101.0)
    found.leave("x")
    load = Load("https://127.0.0.1", "", Path(), found, 1.0, 1)
    pod = {"metadata": {"name": "y", "namespace": "default"}, "spec": {"nodeName": "a"}}
    load._listed_pods([raw(pod)], 104.0)
    assert found.faults == []
    assert [(one.node, one.is_gone) for one in found.pods.values()] == [("a", True), ("a", False), ("", False)]


def raw(content: Object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(content))


def sharing_judge(*shares: str, devices: int = 1) -> Judge:
    """Of pods p-0 and on with these parts of a GPU, each a workload of its own, made at 100 s."""
    found = Judge(NODES, late_s=10.0, torn_s=20.0)
    found.lead(0.0)
    for number, share in enumerate(shares):
        wanted = Wanted(f"p-{number}", f"work-{number}", 100, 0, share=Fraction(share), devices=devices)
        found.make(wanted, 100.0)
    return found


def test_shared_gpus_are_filled_and_emptied() -> None:
    well = sharing_judge("1/2", "1/2", "3/4", "1/2")
    for number in range(2):
        well.devices.tell(f"p-{number}", ("GPU-0",), 100.5)
        well.seen(f"p-{number}", "a", "", 101.0, gpus=["g"])
    well.seen("p-2", "a", "", 101.0, gpus=["h"])
    well.devices.tell("p-2", ("GPU-1",), 101.5)
    well.seen("p-0", "a", "", 102.0, ended=True, gpus=["g"])
    well.leave("p-2")
    well.gone("p-2")
    well.devices.tell("p-3", ("GPU-0",), 102.5)
    well.seen("p-3", "a", "", 103.0, gpus=["g"])
    well.devices.look(200.0)
    assert well.faults == []
    assert well.devices.groups_on("a") == 1


def test_watches_of_load_tell_the_judge_of_shared_gpus_and_claims() -> None:
    """As the API server writes them."""
    found = sharing_judge("7/10", "7/10")
    load = Load("https://127.0.0.1", "", Path(), found, 1.0, 1)
    for name, group in (("p-0", "g"), ("p-1", "h")):
        meta = {"name": name, "namespace": "default", "labels": {names.GPU_GROUP_LABEL: group}}
        load._seen_pod("MODIFIED", raw({"metadata": meta, "spec": {"nodeName": "a"}}))
        owner = {"kind": "Pod", "name": name}
        told = {"metadata": {"name": f"{name}-0", "ownerReferences": [owner]}, "data": {}}
        load._seen_map("ADDED", raw(told))
        load._seen_map("MODIFIED", raw(told | {"data": {names.VISIBLE_DEVICES_ENV: "GPU-0"}}))
        result = {"driver": "d", "pool": "a", "device": "dev-0", "request": "gpu"}
        status = {"allocation": {"devices": {"results": [result]}}}
        load._listed_claims([raw(claims.claim(name) | {"status": status})], 0.0)
        load._seen_claim("MODIFIED", raw(claims.claim(f"{name}-later") | {"status": status}))
    assert [text.partition(" is ")[0] for text in found.faults] == [
        "device dev-0 of a",
        "device GPU-0 of a",
        "device dev-0 of a",
    ]


@pytest.mark.parametrize("told", [False, True])
def test_a_reservation_that_was_told_to_go_is_not_lost(told: bool) -> None:
    """Pods of a GPU whose reservation was lost may have to leave; those of another one may not."""
    found = sharing_judge("1/2")
    load = Load("https://127.0.0.1", "", Path(), found, 1.0, 1)
    meta: Object = {"name": "r", "namespace": "kai-resource-reservation", "uid": "u"}
    meta["labels"] = {names.GPU_GROUP_LABEL: "g"}
    content = {"metadata": meta, "spec": {"nodeName": "a"}}
    load._seen_pod("ADDED", raw(content))
    if told:
        load._seen_pod("MODIFIED", raw(content | {"metadata": meta | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
    load._seen_pod("DELETED", raw(content))
    found.seen("p-0", "a", "", 101.0, gpus=["g"])
    found.gone("p-0")
    assert found.fault_count == told


def test_containers_of_a_pod_that_ends_need_not_be_told() -> None:
    """Its ConfigMap goes with it, and the watch of ConfigMaps may be faster than that of pods."""
    found = sharing_judge("1/2")
    found.seen("p-0", "a", "", 101.0, gpus=["g"])
    found.devices.tell("p-0", ("GPU-0",), 102.0)
    found.devices.tell("p-0", (), 102.0 + UNTOLD_S)
    found.look(103.0 + UNTOLD_S)
    assert found.faults == []
    found.look(103.0 + 2 * UNTOLD_S)
    assert found.fault_count == 1


def test_claims_that_are_listed_anew_take_the_place_of_all() -> None:
    devices = Judge(NODES, 10.0, 20.0).devices
    faults: list[str] = []
    devices._fault = faults.append
    first, second = frozenset({("a", "dev-0")}), frozenset({("a", "dev-1")})
    devices.claims_listed({"c": first, "d": second})
    devices.claims_listed({"c": second, "e": first})
    devices.claim("e", frozenset())
    devices.claim("f", first)
    assert faults == []


def test_what_a_fault_of_ours_ends_is_asked_for_no_more() -> None:
    """A node that is deleted, with a gang on it; one whose GPU was unreserved, whose pod then has to leave."""
    well = judge("x", "y")
    well.seen("x", "a", "", 101.0)
    well.delete_node("a", 102.0)
    assert well.ended == {"work"}
    well.look(200.0)
    well.gone("x")
    well.seen("y", "a", "", 103.0)  # decided before
    well.forget("work", ["x", "y"])
    assert (well.ended, well.ended_count) == (set(), 1)
    well.add_node("a", 1000, 2)
    well.make(Wanted("shares", "other", 100, 0, share=Fraction(1, 2)), 103.0)
    well.seen("shares", "a", "", 104.0, gpus=["g"])
    well.unreserve("a", "g", 105.0)
    well.gone("shares")
    well.cordon("b", 100.0)
    well.make(Wanted("soon", "third", 100, 0), 105.0)
    well.seen("soon", "b", "", 100.0 + STALE_S)
    assert well.faults == []
    assert well.ended == {"other"}


def test_the_clock_stands_still_while_there_is_no_api_server() -> None:
    times = iter([100.0, 101.0, 131.0, 132.0])
    clock = ServedClock(lambda: next(times))
    assert clock.now_s() == 100.0
    with clock.outage():
        assert (clock.now_s(), clock.now_s()) == (101.0, 101.0)
    assert clock.now_s() == 102.0


def late(found: Judge) -> None:
    found.look(110.5)
    found.look(111.5)


def torn(found: Judge) -> None:
    found.seen("x", "a", "", 101.0)
    found.look(101.0)
    found.pods["y"].is_late = True  # told already
    found.look(122.0)


def twice(found: Judge) -> None:
    found.seen("x", "a", "", 101.0)
    found.seen("x", "b", "", 102.0)


def together(found: Judge) -> None:
    found.seen("x", "a", "", 101.0)
    found.seen("y", "a", "", 101.0)


def deleted(found: Judge) -> None:
    found.gone("x")


def nowhere(found: Judge) -> None:
    found.seen("x", "c", "", 101.0)


def closed(found: Judge) -> None:
    found.cordon("a", 101.0)
    found.seen("x", "a", "", 101.5 + STALE_S)


def deleted_node(found: Judge) -> None:
    found.delete_node("a", 101.0)
    found.seen("x", "a", "", 101.0 + STALE_S)


def one_group(found: Judge) -> None:
    for name in ("p-0", "p-1"):
        found.seen(name, "a", "", 101.0, gpus=["g"])


def one_device(found: Judge) -> None:
    for name, group in (("p-0", "g"), ("p-1", "h")):
        found.devices.tell(name, ("GPU-0",), 101.0)
        found.seen(name, "a", "", 101.0, gpus=[group])


def one_device_long_after_a_loss(found: Judge) -> None:
    found.unreserve("a", "g", 101.0 - LOST_S)
    one_device(found)


def three_groups(found: Judge) -> None:
    for number in range(3):
        found.seen(f"p-{number}", "a", "", 101.0, gpus=[f"g-{number}"])


def no_group(found: Judge) -> None:
    found.seen("p-0", "a", "", 101.0)


def untold(found: Judge) -> None:
    found.seen("p-0", "a", "", 101.0, gpus=["g"])
    found.look(101.5 + UNTOLD_S)
    found.look(102.5 + UNTOLD_S)


def one_claimed_device(found: Judge) -> None:
    for name in ("c", "d"):
        found.devices.claim(name, frozenset({("a", "dev-0")}))


@pytest.mark.parametrize(
    ("happens", "found", "said"),
    [
        (late, judge("x"), "was not bound in 10 s"),
        (torn, judge("x", "y"), "1 of 2 pods of gang work are bound for 21 s"),
        (twice, judge("x"), "bound to a and then to b"),
        (together, judge("x", "y", gpus=2), "overfull with y: 4 GPUs"),
        (together, judge("x", "y", milli_cpu=600), "overfull with y: 2 GPUs, 1200 millicores"),
        (together, judge("x", "y", apart=True), "are to be apart"),
        (deleted, judge("x"), "deleted by somebody else"),
        (nowhere, judge("x"), "which is no node"),
        (deleted_node, judge("x"), "which is no node"),
        (closed, judge("x"), "to a, which is cordoned for 30 s"),
        (one_group, sharing_judge("1/2", "3/4"), "GPU group g of a is over-packed: p-0 0.5, p-1 0.75"),
        (one_device, sharing_judge("1/2", "3/4"), "device GPU-0 of a is over-packed: p-0 0.5, p-1 0.75"),
        (one_device_long_after_a_loss, sharing_judge("1/2", "3/4"), "device GPU-0 of a is over-packed"),
        (three_groups, sharing_judge("1/2", "3/4", "3/4"), "overfull with p-2: 3 GPUs"),
        (no_group, sharing_judge("1/2"), "shares 0 GPUs instead of 1"),
        (untold, sharing_judge("1/2"), "pod p-0 was not told its GPUs in 30 s"),
        (one_claimed_device, judge(), "device dev-0 of a is allocated to claims c and d"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_fault_is_found_once(happens: Callable[[Judge], None], found: Judge, said: str) -> None:
    happens(found)
    assert found.fault_count == 1
    assert said in found.faults[0]


def test_a_second_binding_is_found() -> None:
    assert bound_twice(counted(["u", "v", "u"])) == ["the pod of uid u was bound 2 times"]
    assert bound_twice(counted(["u", "v"])) == []
