"""The judge of the soak finds what it is there for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.soak import Memory
from tests.cluster.soak_judge import Judge, Wanted, bound_twice, counted
from tests.cluster.soak_load import Load

NODES = {"a": (1000, 2), "b": (1000, 2)}


def judge(*pods: str, gpus: int = 1, milli_cpu: int = 100, apart: bool = False) -> Judge:
    """Of these pods, made at 100 s, which are one gang."""
    found = Judge(NODES, late_s=10.0, torn_s=20.0)
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


async def test_a_list_tells_who_is_gone_before_who_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a watch that was too slow: the room of one is another's by then."""
    found = judge("x", "y", gpus=2)
    found.seen("x", "a", "", 101.0)
    found.leave("x")
    load = Load("https://127.0.0.1", "", Path(), found, 1.0, 1)
    pod = {"metadata": {"name": "y", "resourceVersion": "7"}, "spec": {"nodeName": "a"}}

    async def pods(_: str) -> bytes:
        return json.dumps({"metadata": {"resourceVersion": "8"}, "items": [pod]}).encode()

    monkeypatch.setattr(load, "_get", pods)
    assert await load._list() == "8"
    assert found.faults == []


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


@pytest.mark.parametrize(("seconds", "grows"), [(120.0, False), (120.0, True), (600.0, False), (600.0, True)])
def test_memory_that_grows_is_found(seconds: float, grows: bool) -> None:
    memory = Memory([(at_s, 200.0 + at_s * (0.6 if grows else 0.0)) for at_s in range(int(seconds))])
    assert memory.figures(seconds)[-1].verdict == ("MISSED" if grows else "ok")
