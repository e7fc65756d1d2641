"""How host ports become tables: which conflict, and that no table grows with the square of what pods ask for."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

import numpy as np

from kai_sched import Cache, Config, Store, run_cycle
from kai_sched.lowering.host_ports import ANY_ADDRESS, CONFLICTS_MAX, POD_PORTS_MAX
from kai_sched.lowering.lower import lower
from kai_sched.model.constraints import HostPort
from kai_sched.model.objects import Node, Object, Phase, Pod, Queue, Shape, Share
from kai_sched.plan.effects import Bind
from kai_sched.snapshot.tables import Snapshot, TermRole

REQUEST = (("cpu", 1.0), ("pods", 1.0))
FREE = Share(math.inf, math.inf, 1.0)


def pod(name: str, ports: Sequence[HostPort], node: str = "") -> Pod:
    phase = Phase.RUNNING if node else Phase.PENDING
    shape = Shape(REQUEST, host_ports=tuple(ports))
    return Pod("ns", name, shape, uid=name, queue="q", scheduler=Config().scheduler_name, node=node, phase=phase)


def nodes(count: int) -> list[Object]:
    room = {"cpu": 1e6, "memory": 2.0**40, "pods": 1e5}
    return [Node(f"n{i}", allocatable=room) for i in range(count)]


def store_of(*objects: Object) -> Store:
    store = Store()
    for each in (Queue("q", cpu=FREE, memory=FREE, gpu=FREE), *objects):
        store.put(each)
    return store


def snapshot_of(*objects: Object) -> Snapshot:
    return lower(store_of(*objects).cluster(), Config(), 0, Cache()).snapshot


def elements(table: object) -> Iterator[int]:
    """The sizes of all arrays of a table and the tables in it."""
    if isinstance(table, np.ndarray):
        yield table.size
    elif isinstance(table, tuple):
        for each in table:
            yield from elements(each)


def bound(store: Store) -> dict[str, str]:
    result = run_cycle(store.cluster(), Config(), 0)
    return {each.pod: each.node for each in result.effects if isinstance(each, Bind)}


def test_the_tables_of_many_ports_are_as_large_as_what_pods_ask_for() -> None:
    asked = [pod(f"p{i}", [HostPort(i * 900 + j + 1) for j in range(900)]) for i in range(40)]
    assert max(elements(snapshot_of(*nodes(3), *asked))) < 5 * 36_000


def test_ports_that_no_two_pods_have_take_no_room_on_nodes() -> None:
    asked = [pod(f"p{i}", [HostPort(i + 1)]) for i in range(50)]
    assert snapshot_of(*nodes(3), *asked).host_ports.ptr.tolist() == [0]


def test_host_ports_conflict_by_number_protocol_and_address() -> None:
    rng = random.Random(3)
    addresses = (*ANY_ADDRESS, "10.0.0.1", "10.0.0.2")
    drawn = [HostPort(rng.choice((80, 443)), rng.choice(("TCP", "UDP")), rng.choice(addresses)) for _ in range(60)]
    for left in drawn[:5]:
        for right in drawn:
            wild = {left.host_ip, right.host_ip} & set(ANY_ADDRESS)
            same = (left.port, left.protocol) == (right.port, right.protocol)
            conflict = same and bool(wild or left.host_ip == right.host_ip)
            there = pod("there", [right], "n0")
            assert ("ns/new" in bound(store_of(*nodes(1), there, pod("new", [left])))) == (not conflict), (left, right)


def test_a_pod_with_too_many_ports_waits_and_is_told_and_the_others_go_on() -> None:
    large = pod("large", [HostPort(j + 1) for j in range(POD_PORTS_MAX + 1)])
    allowed = pod("allowed", [HostPort(j + 1) for j in range(POD_PORTS_MAX)])
    result = run_cycle(store_of(*nodes(2), large, allowed).cluster(), Config(), 0)
    assert [each.pod for each in result.effects if isinstance(each, Bind)] == ["ns/allowed"]
    reason = next(each.reason for key, each in result.groups.items() if key.endswith("ns/large"))
    assert reason is not None
    assert reason.code == "OverWorkLimit"
    assert f"{POD_PORTS_MAX + 1} host ports" in reason.message


def test_ports_that_many_pods_have_at_many_addresses_are_counted() -> None:
    """Each of these pods takes any address and conflicts with all: the pods with the most ports wait."""
    wide = [
        pod(f"w{i}", [HostPort(p + 1, host_ip=f"10.0.{i // 250}.{i % 250}") for p in range(100)]) for i in range(400)
    ]
    asks = [pod(f"a{i}", [HostPort(p + 1, host_ip="0.0.0.0") for p in range(100 - i)]) for i in range(60)]
    snapshot = snapshot_of(*nodes(2), *wide, *asks)
    roles, ptr = snapshot.term_roles.entry, snapshot.host_ports.ptr
    ports = roles[roles[:, 0] == TermRole.PORT, 1]
    assert (ptr[ports + 1] - ptr[ports]).sum() <= CONFLICTS_MAX
    assert int((snapshot.classes.refused > 0).sum()) > 0
