"""Which searches for devices have more than their free steps, what counts, and the books of one device."""

from __future__ import annotations

import numpy as np
import pytest

from kai_sched.solver.jit import entry
from kai_sched.solver.kernels.claims import devices as slice_devices
from kai_sched.solver.kernels.claims import steps as claim_steps
from kai_sched.solver.kernels.claims.steps import CLASS_STEPS, CUT, CYCLE_STEPS, LEFT_OUT, QUEUE_STEPS, SEARCH_STEPS
from tests.unit.solver.kernels.claims.test_search import cluster_of, rollback

more_steps, spend = entry(claim_steps.more_steps), entry(claim_steps.spend)
is_free, use_later, use_now = (
    entry(slice_devices.is_free),
    entry(slice_devices.use_later),
    entry(slice_devices.use_now),
)


@pytest.mark.parametrize("above", [-1, 0, 1])
@pytest.mark.parametrize("place", ["class", "queue", "cycle"])
def test_a_class_has_more_steps_until_it_its_queue_or_the_cycle_has_none(place: str, above: int) -> None:
    ctx, _ = cluster_of([[0], [0]])
    steps = ctx.finder.steps
    if place == "class":
        steps.spent[0] = CLASS_STEPS + above
    elif place == "queue":
        steps.spent_by_queue[steps.queue[0]] = QUEUE_STEPS + above
    else:
        steps.spent_in_all[0] = CYCLE_STEPS + above
    assert more_steps(0, True, ctx) == (SEARCH_STEPS if above < 0 else 0)
    assert more_steps(0, False, ctx) == SEARCH_STEPS, "a place that was found has to be found again"


def test_steps_beyond_the_free_ones_count_everywhere() -> None:
    ctx, _ = cluster_of([[0], [0]])
    steps = ctx.finder.steps
    spend(0, -5, 0, ctx)
    assert steps.spent_in_all[0] == 0
    spend(0, 7, SEARCH_STEPS, ctx)
    assert (steps.spent[0], steps.spent_by_queue[steps.queue[0]], steps.spent_in_all[0]) == (7, 7, 7)
    assert not steps.cut.any()


@pytest.mark.parametrize(("more", "spent", "expected"), [(1, 0, CUT), (0, CLASS_STEPS, CUT), (0, 9, LEFT_OUT)])
def test_a_cut_search_says_whose_steps_were_used_up(more: int, spent: int, expected: int) -> None:
    ctx, _ = cluster_of([[0], [0]])
    ctx.finder.steps.spent[0], ctx.scratch.picks.length[1] = spent, 1
    spend(0, 0, more, ctx)
    assert ctx.finder.steps.cut[0] == expected


def test_a_whole_device_is_free_until_it_is_used_and_after_a_rollback() -> None:
    ctx, _ = cluster_of([[0], [0]])
    before = ctx.state.integers.copy()
    v = int(np.flatnonzero(ctx.snapshot.dra_devices.shared == 0)[0])
    assert is_free(v, 0, True, ctx)
    use_later(v, 0, 1, ctx)
    assert not is_free(v, 0, False, ctx)
    use_later(v, 0, -1, ctx)
    use_now(v, 0, 1, ctx)
    assert is_free(v, 0, False, ctx)
    assert not is_free(v, 0, True, ctx), "it is free once the pod has left"
    rollback(0, 0, ctx)
    assert (ctx.state.integers == before).all()
