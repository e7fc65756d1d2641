"""Each view of the working state begins at its offset, and the views share nothing of the buffers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kai_sched.solver.allocation import make_state
from kai_sched.solver.state import Offsets, State
from tests.unit.solver.test_data_model import SAMPLE


def views_of(state: State) -> dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]]:
    """The views that are written through the log, by the names of their offsets."""
    book, sets, domains, claims, volumes = state.book, state.sets, state.domains, state.claims, state.volumes
    return {
        "idle": state.idle,
        "releasing": state.releasing,
        "held": book.held,
        "held_fixed": book.held_fixed,
        "spare": state.spare,
        "zone_free": state.zones.free,
        "zone_leaving": state.zones.leaving,
        "zone_held": state.zones.held,
        "status": state.task.status,
        "node": state.task.node,
        "active": sets.active,
        "pending": sets.pending,
        "waiting": sets.waiting,
        "cursor": sets.cursor,
        "matched": domains.matched,
        "carried": domains.carried,
        "device_now": state.devices.now,
        "device_later": state.devices.later,
        "shares": state.shares,
        "users_now": claims.users_now,
        "users_later": claims.users_later,
        "claim_device": claims.device,
        "claim_option": claims.option,
        "uses_now": claims.uses_now,
        "uses_later": claims.uses_later,
        "used_now": claims.used_now,
        "used_later": claims.used_later,
        "counted_now": claims.counted_now,
        "counted_later": claims.counted_later,
        "elsewhere": claims.elsewhere,
        "holder": volumes.holder,
        "users": volumes.users,
        "volume": volumes.volume,
        "made_on": volumes.node,
        "leaving_matched": state.leaving_domains.matched,
        "leaving_carried": state.leaving_domains.carried,
        "ports": state.ports,
        "leaving_ports": state.leaving_ports,
    }


def test_each_view_is_at_its_offset() -> None:
    state = make_state(SAMPLE)
    views = views_of(state)
    assert tuple(views) == Offsets._fields
    for name, view in views.items():
        buffer, begin = state.floats if view.dtype == np.float64 else state.integers, getattr(state.at, name)
        buffer[begin : begin + view.size] = np.arange(view.size) + 7
        assert (view.ravel() == np.arange(view.size) + 7).all(), name


def test_views_do_not_overlap_and_leave_no_room() -> None:
    state = make_state(SAMPLE)
    state.floats[:], state.integers[:] = 0.0, 0
    unlogged = [view for name, view in state.book._asdict().items() if name not in Offsets._fields]
    for view in (*views_of(state).values(), *unlogged):
        view += 1
    assert (state.floats == 1.0).all()
    assert (state.integers == 1).all()
