"""Devices that parts block (semantics 4.7): all of a device counts for those who have parts of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.lowering.devices import PART_UNIT
from kai_sched.snapshot.tables import GPU, Status
from kai_sched.solver.eviction.rules import blocked_devices
from kai_sched.solver.eviction.rules.losses import keep_old_shares as keep_old_shares_kernel
from kai_sched.solver.jit import entry
from tests.unit.solver.kernels.test_devices import MEMORY, SHARES, WHOLE, size_in, snapshot_of
from tests.unit.solver.searches import MINIMAL, searching

note_blocked, is_entitled = entry(blocked_devices.note_blocked), entry(blocked_devices.is_entitled)
keep_old_shares = entry(keep_old_shares_kernel)
GPUS = 4
PRICE_ERROR = 1 / PART_UNIT  # of a pod: what it pays for its parts is a multiple of that
CLASSES = st.integers(len(WHOLE), len(WHOLE) + len(SHARES) - 1)
STATUSES = st.sampled_from([Status.RUNNING, Status.RUNNING, Status.BOUND, Status.RELEASING])


@given(st.data())
def test_all_of_a_device_counts(data: st.DataObject) -> None:
    """In sum, what pods pay for and what they block is the devices in use, or what they pay for if that is more."""
    running: list[tuple[int, list[int], Status]] = []
    held, parts = [0] * GPUS, [0] * GPUS
    for c in data.draw(st.lists(CLASSES, max_size=6)):
        count, size, _ = size_in(c)
        free = [d for d in range(GPUS) if held[d] + size <= MEMORY]
        if len(free) < count:
            continue
        chosen, status = sorted(data.draw(st.permutations(free))[:count]), data.draw(STATUSES)
        running.append((c, chosen, status))
        for d in chosen:
            held[d] += size
            parts[d] += size if status != Status.RELEASING else 0
    snapshot = snapshot_of(1, GPUS, 20, running)
    ctx, search = searching(snapshot, MINIMAL)
    keep_old_shares(ctx.state.book, search.queues)
    note_blocked(0, ctx, search)
    first = 2 * (len(WHOLE) + len(SHARES))
    total = 0.0
    for t, (c, chosen, status) in enumerate(running, first):
        counted = sum(size_in(c)[1] / parts[d] for d in chosen) if status != Status.RELEASING else 0.0
        paid = len(chosen) * -(-100 * size_in(c)[1] // MEMORY) / 100
        expected = max(0.0, counted - paid) if status != Status.RELEASING else 0.0
        assert search.tasks.blocked[t] == pytest.approx(expected, abs=PRICE_ERROR)
        total += expected
    assert search.queues.blocked[0] == pytest.approx(total, abs=len(running) * PRICE_ERROR)


@pytest.mark.parametrize(("quota", "entitled"), [(2.0, True), (1.9, False)])
def test_a_part_that_waits_counts_as_a_device(quota: float, entitled: bool) -> None:
    """A pod with a quarter of a device alone on it, and one that asks for a half."""
    snapshot = snapshot_of(1, GPUS, 20, [(len(WHOLE) + 1, [0], Status.RUNNING)])
    ctx, search = searching(snapshot, MINIMAL)
    ctx.state.book.quota[0, GPU] = quota
    search.pending[0] = 2 * len(WHOLE)
    keep_old_shares(ctx.state.book, search.queues)
    note_blocked(1, ctx, search)
    assert search.queues.blocked[0] == pytest.approx(0.75)
    assert is_entitled(0, ctx, search) == entitled
