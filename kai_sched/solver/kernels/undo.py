"""Change by log, undo by checkpoint. The log keeps old values, so that a rollback restores every bit.

All mutable state lies in two flat buffers, one of floats and one of integers (``state.State``); a log entry is a
position in one of them and the value that stood there.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import Floats, Longs
from kai_sched.solver.jit import kernel
from kai_sched.solver.state import Log


@kernel
def set_float(log: Log, floats: Floats, at: int, value: float) -> None:
    """Write ``floats[at] = value`` and remember the old value. The log must have room (``state.make_log``)."""
    size = log.size[0]
    log.float_at[size] = at
    log.float_was[size] = floats[at]
    log.size[0] = size + 1
    floats[at] = value


@kernel
def set_integer(log: Log, integers: Longs, at: int, value: int) -> None:
    """Write ``integers[at] = value`` and remember the old value."""
    size = log.size[1]
    log.integer_at[size] = at
    log.integer_was[size] = integers[at]
    log.size[1] = size + 1
    integers[at] = value


@kernel
def rollback(
    log: Log,
    floats: Floats,
    integers: Longs,
    n_rooms: int,
    n_resources: int,
    block: Longs,
    stamp: Longs,
    to_float: int,
    to_integer: int,
) -> None:
    """Undo all writes after the checkpoint (``to_float``, ``to_integer``), newest first.

    ``n_rooms``: how many floats at the front of the buffer are room on nodes (idle, then releasing, N x R each); nodes
    that change are marked for the finder.
    """
    for entry in range(log.size[0] - 1, to_float - 1, -1):
        at = log.float_at[entry]
        floats[at] = log.float_was[entry]
        if at < n_rooms:
            touch(block, stamp, (at % (n_rooms // 2)) // n_resources)
    for entry in range(log.size[1] - 1, to_integer - 1, -1):
        integers[log.integer_at[entry]] = log.integer_was[entry]
    log.size[0] = to_float
    log.size[1] = to_integer


@kernel
def touch(block: Longs, stamp: Longs, node: int) -> None:
    """Mark the node's block as changed, so that its best node is looked for again (``Finder.block`` and ``stamp``)."""
    block[1] += 1
    stamp[node // block[0]] = block[1]
