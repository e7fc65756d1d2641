"""Shares of GPU devices (semantics 8), against a twin that knows by name who holds what and counts anew each time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.lowering.devices import part_of
from kai_sched.model.objects import GpuShare
from kai_sched.snapshot.choices import GpuOrder
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, PODS, Devices, Snapshot, Status, Tasks
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt, devices, fit
from kai_sched.solver.kernels.devices import Room
from kai_sched.solver.kernels.undo import rollback as rollback_kernel
from kai_sched.solver.state import Context
from tests.unit.solver.tables import ALL_ON, Member, assemble, class_table, node_table, opened, table

put, has_room, has_room_now = entry(attempt.place_on_node), entry(fit.has_room), entry(fit.has_room_now)
keep_later, rollback = entry(devices.keep_later), entry(rollback_kernel)
price_of, survey = entry(devices.price_of), entry(devices.survey_devices)

MEMORY = 100
# Classes: no GPU, one and two whole ones, then shares: devices, part, memory.
WHOLE = [0.0, 1.0, 2.0]
SHARES = [(1, 0.5, 0), (1, 0.25, 0), (2, 0.5, 0), (1, 0.0, 40), (2, 0.0, 30), (1, 1.0, 0), (1, 0.7, 0)]


def snapshot_of(n_nodes: int, gpus: int, slots: int, running: list[tuple[int, list[int], Status]]) -> Snapshot:
    """Equal nodes, one job of two pending pods of each class; ``running``: class, devices, status on node 0."""
    request = [[0.0, 0.0, gpu, 1.0, 0.0] for gpu in WHOLE]
    parts = [part_of(GpuShare(count, part, memory), [MEMORY]) * count for count, part, memory in SHARES]
    request += [[0.0, 0.0, part, 1.0, 0.0] for part in parts]
    zeros = [0] * len(WHOLE)
    shares = [*zeros, *(count for count, _, _ in SHARES)]
    classes = class_table(
        request,
        shares=shares,
        portion=[*zeros, *(part for _, part, _ in SHARES)],
        memory=[*zeros, *(memory for _, _, memory in SHARES)],
        cpu_only=[row[GPU] == 0.0 for row in request],
    )
    statuses = [Status.PENDING] * (2 * len(request)) + [status for _, _, status in running]
    cls = [c for c in range(len(request)) for _ in range(2)] + [c for c, _, _ in running]
    nodes = node_table([[0.0, 0.0, float(gpus), float(slots), 0.0]] * n_nodes, device_memory=[MEMORY] * n_nodes)
    base = assemble(
        [Member(0, statuses)],
        nodes=nodes,
        request=request,
        tasks={"cls": cls, "node": [NULL] * (2 * len(request)) + [0] * len(running), "nominated": [NULL] * len(cls)},
    )
    counts = [shares[c] for c in cls]
    device = np.full(sum(counts), NULL)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    for t, (_, rows, _) in enumerate(running, 2 * len(request)):
        device[ptr[t] : ptr[t + 1]] = rows
    columns = base.tasks._asdict() | {"share_ptr": ptr, "device": device}
    ledger = table(
        Devices,
        ptr=[gpus * n for n in range(n_nodes + 1)],
        reserved=[0] * (gpus * n_nodes),
        closed=[0] * (gpus * n_nodes),
    )
    return base._replace(classes=classes, devices=ledger, tasks=table(Tasks, **columns))


@dataclass
class Holder:
    """A pod on a node: what it takes of each device, or whole devices; here now, and here later."""

    task: int
    node: int
    devices: list[int]
    size: int
    whole: float
    now: bool
    later: bool


@dataclass
class Twin:
    """Who holds what. Devices are numbered over all nodes, ``gpus`` on each."""

    gpus: int
    slots: int
    holders: list[Holder] = field(default_factory=list)

    def held(self, d: int, later: bool) -> int:
        return sum(h.size * h.devices.count(d) for h in self.holders if (h.later if later else h.now))

    def of(self, n: int) -> range:
        return range(n * self.gpus, (n + 1) * self.gpus)

    def used(self, n: int, later: bool) -> list[int]:
        return [d for d in self.of(n) if self.held(d, later)]

    def whole(self, n: int, later: bool) -> float:
        taken = sum(h.whole for h in self.holders if h.node == n and (h.later if later else h.now))
        return self.gpus - taken - len(self.used(n, later))

    def free_slots(self, n: int, later: bool) -> int:
        pods = sum(h.node == n and (h.later if later else h.now) for h in self.holders)
        return self.slots - pods - len(self.used(n, later))

    def room(self, n: int, count: int, size: int, whole: float) -> Room:
        fits = []
        for later in (True, False):
            slots = self.free_slots(n, later)
            if count == 0:
                fits.append(slots >= 1 and whole <= self.whole(n, later))
                continue
            joined = [d for d in self.used(n, True) if self.held(d, True) + size <= MEMORY]
            if not later:
                joined = [d for d in joined if self.held(d, False) and self.held(d, False) + size <= MEMORY]
            fresh = min(self.whole(n, True), self.whole(n, later), slots - 1, self.free_slots(n, True) - 1)
            fits.append(size <= MEMORY and slots >= 1 and len(joined) + max(0, fresh) >= count)
        if not fits[0]:
            return Room.NEVER
        return Room.NOW if fits[1] else Room.LATER


def size_in(c: int) -> tuple[int, int, float]:
    """How many devices, how much of each, and whole GPUs of a class."""
    if c < len(WHOLE):
        return 0, 0, WHOLE[c]
    count, part, memory = SHARES[c - len(WHOLE)]
    return count, memory or max(1, int(part * MEMORY + 1e-6)), 0.0


def check(ctx: Context, twin: Twin, n_nodes: int) -> None:
    """All columns follow from who holds what, and the kernels say what the twin says of each class."""
    for n in range(n_nodes):
        for d in twin.of(n):
            assert ctx.state.devices.now[d] == twin.held(d, False)
            assert ctx.state.devices.later[d] == twin.held(d, True)
        room = ctx.state.idle[n] + ctx.state.releasing[n]
        assert ctx.state.idle[n, GPU] - ctx.state.spare[n, 0] == twin.whole(n, False)
        assert room[GPU] - ctx.state.spare[n, 1] == twin.whole(n, True)
        assert ctx.state.idle[n, PODS] == twin.free_slots(n, False)
        assert room[PODS] == twin.free_slots(n, True)
        for c in range(len(WHOLE) + len(SHARES)):
            expected = twin.room(n, *size_in(c))
            assert has_room(c, n, ctx) == (expected != Room.NEVER), (c, expected)
            if expected != Room.NEVER:  # else nobody asks
                assert has_room_now(c, n, ctx) == (expected == Room.NOW), (c, expected)


def note(twin: Twin, ctx: Context, t: int, n: int) -> None:
    """Read off where the pod went: its devices are all different, on its node, and not over-packed."""
    c = int(ctx.snapshot.tasks.cls[t])
    count, size, whole = size_in(c)
    first = ctx.snapshot.tasks.share_ptr[t]
    rows = ctx.state.shares[first : first + count].tolist()
    assert len(set(rows)) == count
    assert set(rows) <= set(twin.of(n))
    now = ctx.state.task.status[t] != Status.PIPELINED
    twin.holders.append(Holder(t, n, rows, size, whole, now, True))
    for d in rows:
        assert twin.held(d, True) <= MEMORY
        assert not now or twin.held(d, False) <= MEMORY


@given(st.data())
def test_the_ledger_is_that_of_the_twin(data: st.DataObject) -> None:
    n_nodes, gpus, slots = data.draw(st.sampled_from([(1, 2, 9), (2, 2, 4), (1, 4, 20)]))
    order = data.draw(st.sampled_from(GpuOrder))
    ctx = opened(snapshot_of(n_nodes, gpus, slots, []), ALL_ON._replace(gpu_order=int(order), minimal=1))
    twin = Twin(gpus, slots)
    check(ctx, twin, n_nodes)
    pending = list(range(2 * (len(WHOLE) + len(SHARES))))
    for _ in range(8):
        what = data.draw(st.sampled_from(["place", "place", "place", "leave", "undo"]))
        if what == "leave" and any(h.later for h in twin.holders):
            holder = data.draw(st.sampled_from([h for h in twin.holders if h.later]))
            leave(ctx, holder)
            holder.later = False
            if not holder.now:
                twin.holders.remove(holder)
        elif pending:
            t, n = data.draw(st.sampled_from(pending)), data.draw(st.integers(0, n_nodes - 1))
            c = int(ctx.snapshot.tasks.cls[t])
            if not has_room(c, n, ctx):
                continue
            before = [column.copy() for column in (ctx.state.floats, ctx.state.integers)]
            sizes = ctx.log.size.tolist()
            put(0, t, n, not has_room_now(c, n, ctx) or data.draw(st.booleans()), ctx)
            if what == "undo":
                rollback(*sizes, ctx)
                assert (ctx.state.floats == before[0]).all()
                assert (ctx.state.integers == before[1]).all()
            else:
                note(twin, ctx, t, n)
                pending.remove(t)
            ctx.log.size[:] = 0
        check(ctx, twin, n_nodes)


def leave(ctx: Context, holder: Holder) -> None:
    """The pod is evicted: what it holds is releasing, what it was promised is nobody's."""
    c = int(ctx.snapshot.tasks.cls[holder.task])
    keep_later(holder.task, holder.node, -1, ctx)
    ctx.log.size[:] = 0
    ctx.state.releasing[holder.node] += ctx.snapshot.classes.request[c]


@pytest.mark.parametrize(
    ("order", "expected"),
    [(GpuOrder.PACK, [1]), (GpuOrder.OFF, [1]), (GpuOrder.SPREAD, [2])],
)
def test_the_most_used_device_is_packed_and_an_unused_one_spread(order: GpuOrder, expected: list[int]) -> None:
    running = [(4, [0], Status.RUNNING), (3, [1], Status.RUNNING)]
    ctx = opened(snapshot_of(1, 3, 9, running), ALL_ON._replace(gpu_order=int(order)))
    t = 2 * 4  # a quarter
    put(0, t, 0, False, ctx)
    first = ctx.snapshot.tasks.share_ptr[t]
    assert ctx.state.shares[first : first + 1].tolist() == expected
    assert ctx.state.task.status[t] == Status.ALLOCATED


def test_a_device_that_all_are_leaving_counts_as_a_whole_one() -> None:
    """The example of semantics 8.2: a whole GPU may be pipelined onto it, and a share waits for it."""
    running = [(3, [0], Status.RELEASING), (3, [0], Status.RELEASING), (1, [], Status.RUNNING)]
    ctx = opened(snapshot_of(1, 2, 9, running), ALL_ON._replace(minimal=1))
    assert (has_room(1, 0, ctx), has_room_now(1, 0, ctx)) == (True, False)
    assert survey(3, 0, ctx) == (Room.LATER, False)
    put(0, 6, 0, False, ctx)
    assert ctx.state.task.status[6] == Status.PIPELINED
    assert not has_room(1, 0, ctx)
    assert survey(4, 0, ctx) == (Room.LATER, True)


def test_an_unused_device_needs_a_pod_slot_for_its_reservation() -> None:
    ctx = opened(snapshot_of(1, 2, 3, [(3, [0], Status.RUNNING)]))
    assert [has_room_now(c, 0, ctx) for c in (3, 8)] == [True, False]  # half joins, a whole device needs two slots


@pytest.mark.parametrize(("reserved", "slots", "expected"), [(1, 1, True), (0, 1, False), (0, 2, True)])
def test_a_device_that_is_being_left_needs_no_slot_where_its_reservation_pod_is(
    reserved: int, slots: int, expected: bool
) -> None:
    """The last pod that shares the device is leaving, and another one would share it after that."""
    snapshot = snapshot_of(1, 1, slots, [(3, [0], Status.RELEASING)])
    ledger = snapshot.devices._replace(reserved=np.array([reserved], np.uint8))
    ctx = opened(snapshot._replace(devices=ledger), ALL_ON._replace(minimal=1))
    assert has_room(3, 0, ctx) == expected
    if expected:
        put(0, 6, 0, True, ctx)
        assert ctx.state.devices.later[0] == MEMORY // 2
        assert ctx.state.idle[0, PODS] + ctx.state.releasing[0, PODS] == 0.0


@pytest.mark.parametrize(("c", "expected"), [(3, 0.5), (5, 1.0), (6, 0.4), (7, 0.6)])
def test_prices_go_by_the_devices_of_the_node(c: int, expected: float) -> None:
    assert price_of(c, GPU, 0, opened(snapshot_of(1, 2, 9, []))) == pytest.approx(expected)
