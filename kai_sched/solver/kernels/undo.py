"""Writes to the working state through the undo log, and their rollback: how attempts and simulations are statements
(semantics 3.6).

All mutable state lies in two flat buffers, one of floats and one of integers (``state.State``). An entry of the log is
a position in one of them and the value that stood there, so a rollback restores every bit, which adding and
subtracting floats would not do. A checkpoint is the pair of log sizes at some time; a commit sets both sizes to 0.

Cost: O(1) for a write, O(entries) for a rollback; nothing is copied.
Invariant: whatever stages write after the books are open goes through these kernels, unless it is final. The log
does not grow: ``log_size.make_log`` gives it room for the longest statement, and no bound is checked here.
"""

from __future__ import annotations

from kai_sched.snapshot.tables import Longs
from kai_sched.solver.jit import inner
from kai_sched.solver.state import Context


@inner
def set_float(at: int, value: float, ctx: Context) -> None:
    """Write ``state.floats[at] = value`` and append the old value to the log. The log must have room."""
    floats, log = ctx.state.floats, ctx.log
    size = log.size[0]
    log.float_at[size] = at
    log.float_was[size] = floats[at]
    log.size[0] = size + 1
    floats[at] = value


@inner
def set_integer(at: int, value: int, ctx: Context) -> None:
    """Write ``state.integers[at] = value`` and append the old value to the log. The log must have room."""
    integers, log = ctx.state.integers, ctx.log
    size = log.size[1]
    log.integer_at[size] = at
    log.integer_was[size] = integers[at]
    log.size[1] = size + 1
    integers[at] = value


@inner
def add_float(at: int, change: float, ctx: Context) -> None:
    """Add ``change`` to ``state.floats[at]`` through the log."""
    set_float(at, ctx.state.floats[at] + change, ctx)


@inner
def add_integer(at: int, change: int, ctx: Context) -> None:
    """Add ``change`` to ``state.integers[at]`` through the log."""
    set_integer(at, ctx.state.integers[at] + change, ctx)


@inner
def rollback(to_float: int, to_integer: int, ctx: Context) -> None:
    """Undo all writes since the log had these sizes, newest first, and mark the nodes whose room changes.

    Restores ``state.floats`` and ``state.integers`` in place; the finder must see the rooms (N, R) that came back, so
    it marks their blocks as changed.

    Parameters
    ----------
    to_float, to_integer : the sizes of the two parts of the log (``log.size``) at the checkpoint
    """
    state, log = ctx.state, ctx.log
    # Room on nodes is at the front of the buffer: idle, then releasing, N x R each.
    n_rooms, n_resources = 2 * state.idle.size, state.idle.shape[1]
    # Newest first: where a position was written more than once, the oldest value is the one that must remain.
    for entry in range(log.size[0] - 1, to_float - 1, -1):
        at = log.float_at[entry]
        state.floats[at] = log.float_was[entry]
        if at < n_rooms:
            touch(ctx.finder.block, ctx.finder.stamp, (at % (n_rooms // 2)) // n_resources)
    for entry in range(log.size[1] - 1, to_integer - 1, -1):
        state.integers[log.integer_at[entry]] = log.integer_was[entry]
        if log.integer_at[entry] == state.at.elsewhere:
            touch_all(ctx.finder.block)
    log.size[0] = to_float
    log.size[1] = to_integer


@inner
def undo_all(ctx: Context) -> None:
    """Undo everything since the last commit: the rooms (N, R) and all counters are as they were then."""
    rollback(0, 0, ctx)


@inner
def touch(block: Longs, stamp: Longs, node: int) -> None:
    """Mark the block of ``node`` as changed, so that the finder searches it again before it uses it.

    ``block`` (3,) is the number of nodes in a block and a clock that only grows; ``stamp`` (B,) gets the new time, in
    place and not through the log: an older stamp must never come back, as it could equal ``finder.seen`` (C, B).
    """
    block[1] += 1
    stamp[node // block[0]] = block[1]


@inner
def touch_all(block: Longs) -> None:
    """Mark all blocks (B,) as changed for classes with claims, as ``touch`` marks one for all classes."""
    block[1] += 1
    block[2] = block[1]
