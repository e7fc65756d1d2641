"""Does a request fit a node: now, or once what is leaving has left (semantics 0.3)."""

from __future__ import annotations

from kai_sched.snapshot.tables import Floats
from kai_sched.solver.jit import inner, kernel


@kernel
def fits_now(request: Floats, idle: Floats) -> bool:
    """Whether ``request`` (R,) <= ``idle`` (R,) in every entry; an overcommitted entry (below 0) refuses every pod."""
    for r in range(request.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r]:
            return False
    return True


@inner
def fits_later(request: Floats, idle: Floats, releasing: Floats) -> bool:
    """Whether ``request`` (R,) <= ``idle + releasing`` (R,) in every entry."""
    for r in range(request.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r] + releasing[r]:
            return False
    return True
