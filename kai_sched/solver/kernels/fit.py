"""Does a request fit a node: now, or once what is leaving has left (semantics 0.3)."""

from __future__ import annotations

from kai_sched.solver.jit import kernel


@kernel
def fits_now(request, idle):
    """Whether ``request`` (R,) <= ``idle`` (R,) in every entry; an overcommitted entry (below 0) refuses every pod."""
    for r in range(request.shape[0]):
        if request[r] > idle[r]:
            return False
    return True


@kernel
def fits_later(request, idle, releasing):
    """Whether ``request`` (R,) <= ``idle + releasing`` (R,) in every entry."""
    for r in range(request.shape[0]):
        if request[r] > idle[r] + releasing[r]:
            return False
    return True
