"""Whether a request fits a node: now, or once what is leaving has left (semantics 0.3).

Cost: one comparison for each of R resources. Nothing is written. Rows compare all resources, not only those that are
requested: a negative amount (an overcommitted node) refuses every pod, as 0 > -1; a resource that the node does not
have is 0 and refuses only pods that request it.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import Floats
from kai_sched.solver.jit import inner, kernel


@kernel
def fits_now(request: Floats, idle: Floats) -> bool:
    """Return whether ``request`` (R,) is at most ``idle`` (R,) in every entry: the pod can be bound (0.3)."""
    for r in range(request.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r]:
            return False
    return True


@inner
def fits_later(request: Floats, idle: Floats, releasing: Floats) -> bool:
    """Return whether ``request`` (R,) is at most ``idle + releasing`` (R,) in every entry: room to wait for (0.3)."""
    for r in range(request.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if request[r] > idle[r] + releasing[r]:
            return False
    return True
