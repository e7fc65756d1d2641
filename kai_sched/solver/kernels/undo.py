"""Change by log, undo by checkpoint. The log keeps old values, so that a rollback restores every bit.

All mutable state lies in two flat buffers, one of floats and one of integers (``state.State``); a log entry is a
position in one of them and the value that stood there.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import Longs
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context


@inner
def set_float(at: int, value: float, ctx: Context) -> None:
    """Write ``state.floats[at] = value`` and remember the old value. The log must have room (``state.make_log``)."""
    floats, log = ctx.state.floats, ctx.log
    size = log.size[0]
    log.float_at[size] = at
    log.float_was[size] = floats[at]
    log.size[0] = size + 1
    floats[at] = value


@inner
def set_integer(at: int, value: int, ctx: Context) -> None:
    """Write ``state.integers[at] = value`` and remember the old value."""
    integers, log = ctx.state.integers, ctx.log
    size = log.size[1]
    log.integer_at[size] = at
    log.integer_was[size] = integers[at]
    log.size[1] = size + 1
    integers[at] = value


@inner
def add_float(at: int, change: float, ctx: Context) -> None:
    """Add to ``state.floats[at]`` and remember the old value."""
    set_float(at, ctx.state.floats[at] + change, ctx)


@inner
def add_integer(at: int, change: int, ctx: Context) -> None:
    """Add to ``state.integers[at]`` and remember the old value."""
    set_integer(at, ctx.state.integers[at] + change, ctx)


@inner
def rollback(to_float: int, to_integer: int, ctx: Context) -> None:
    """Undo all writes since the log had these sizes, newest first. Nodes that change are marked for the finder."""
    state, log = ctx.state, ctx.log
    # Room on nodes is at the front of the buffer: idle, then releasing, N x R each.
    n_rooms, n_resources = 2 * state.idle.size, state.idle.shape[1]
    for entry in range(log.size[0] - 1, to_float - 1, -1):
        at = log.float_at[entry]
        state.floats[at] = log.float_was[entry]
        if at < n_rooms:
            touch(ctx.finder.block, ctx.finder.stamp, (at % (n_rooms // 2)) // n_resources)
    for entry in range(log.size[1] - 1, to_integer - 1, -1):
        state.integers[log.integer_at[entry]] = log.integer_was[entry]
    log.size[0] = to_float
    log.size[1] = to_integer


@inner
def undo_all(ctx: Context) -> None:
    """Take back everything since the last commit."""
    rollback(0, 0, ctx)


@inner
def touch(block: Longs, stamp: Longs, node: int) -> None:
    """Mark the node's block as changed, so that its best node is looked for again (``Finder.block`` and ``stamp``)."""
    block[1] += 1
    stamp[node // block[0]] = block[1]
