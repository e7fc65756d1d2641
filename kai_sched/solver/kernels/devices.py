"""Shares of GPU devices: which devices have room, which of them a pod gets, and the books of each (semantics 8).

The ledger has one row for each device that may be shared, and two numbers in it: ``devices.now`` (G,), the memory that
pods hold at present, those that are leaving included, and ``devices.later`` (G,), what is held once they have left,
promised shares included. So a share is bound only if it fits both, and may wait if it fits ``later``. A device is in
use if ``later`` is above 0. If it is 0, nobody stays, and the device counts as a whole one.

Which devices whole-GPU pods have is not known, but how many there are: the GPUs of a node in ``idle`` and ``releasing``
(N, R) count whole GPUs and parts alike. ``spare`` (N, 2) is what is left of devices in use, now and later; without it
whole devices remain. Parts are multiples of 2**-20, so these sums are exact.

Cost: one step for each device of the node. Invariant: ``spare`` and the pod slots that reservation pods need follow
from the rows of the node, and each change of a row goes through ``change_now`` and ``change_later``.
"""

from __future__ import annotations

import enum

import numpy as np

from kai_sched.snapshot.choices import GpuOrder
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.gpu_kinds import ROUNDING
from kai_sched.snapshot.tables import GPU, PODS, Snapshot
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.undo import add_float, set_integer
from kai_sched.solver.state import Context

SPREAD = int(GpuOrder.SPREAD)


class Room(enum.IntEnum):
    """When the devices of a node have room for a pod."""

    NEVER = 0
    LATER = 1  # once the pods that are leaving have left
    NOW = 2


NEVER = int(Room.NEVER)
LATER = int(Room.LATER)
NOW = int(Room.NOW)


@inner
def size_of(c: int, n: int, ctx: Context) -> int:
    """Return what a pod of class ``c`` takes of each of its devices on node ``n``, in MiB (8.1).

    A part is rounded down to whole MiB, so that parts that add up to 1 fit one device.
    """
    memory, classes = ctx.snapshot.nodes.device_memory[n], ctx.snapshot.classes
    if classes.memory[c] > 0:
        return int(classes.memory[c])
    return max(1, int(np.floor(classes.portion[c] * memory + ROUNDING)))


@inner
def price_of(c: int, r: int, n: int, ctx: Context) -> float:
    """Return how much of resource ``r`` a pod of class ``c`` on node ``n`` counts for its queues (8.1).

    That is what ``classes.quota`` (C, 3) says: millicores, bytes or GPUs. But GPU memory is priced by the device, once
    there is a node (``n`` not NULL): the part that it is, rounded up to a hundredth.
    """
    classes = ctx.snapshot.classes
    size, memory = classes.memory[c], ctx.snapshot.nodes.device_memory[n] if n != NULL else 0
    if r != GPU or size == 0 or memory == 0:
        return float(classes.quota[c, r])
    return float((100 * size + memory - 1) // memory * classes.shares[c]) / 100.0


@inner
def part_of(c: int, ctx: Context) -> float:
    """Return the part of each device that a pod of class ``c`` counts with in ``request`` (C, R)."""
    classes = ctx.snapshot.classes
    return float(classes.request[c, GPU] / classes.shares[c])


@inner
def freed_by_pod(c: int, r: int, snapshot: Snapshot) -> float:
    """Return how much of resource ``r`` a node has more, at most, once a pod of class ``c`` has left.

    That is its row of ``classes.request`` (C, R), and with the last share of a device the pod slot of the reservation
    pod. Bounds on the room that victims leave count with all of these slots.
    """
    amount = snapshot.classes.request[c, r]
    return float(amount + snapshot.classes.shares[c] if r == PODS else amount)


@inner
def whole_now(n: int, ctx: Context) -> float:
    """Return how many devices of node ``n`` nobody holds at present, by ``state.idle`` (N, R)."""
    return float(ctx.state.idle[n, GPU] - ctx.state.spare[n, 0])


@inner
def whole_later(n: int, ctx: Context) -> float:
    """Return how many devices of node ``n`` nobody holds once leaving pods have left, (N, R)."""
    state = ctx.state
    return float(state.idle[n, GPU] + state.releasing[n, GPU] - state.spare[n, 1])


@inner
def unused_devices(n: int, ctx: Context) -> tuple[float, float]:
    """Return how many devices of node ``n`` that nobody uses a pod may begin to share: at present, and later.

    Each of them needs a reservation pod, and that a pod slot beside the one of the pod itself, unless its reservation
    pod is there: that of a device which is being left. Reads ``state.idle`` and ``releasing`` (N, R); both numbers may
    be below 0.
    """
    devices, reserved = ctx.snapshot.devices, 0.0
    for d in range(devices.ptr[n], devices.ptr[n + 1]):
        if devices.reserved[d] == 1 and ctx.state.devices.later[d] == 0:
            reserved += 1.0
    slots_now = ctx.state.idle[n, PODS] - 1.0
    return min(whole_now(n, ctx), slots_now), min(whole_later(n, ctx), free_slots(n, ctx) + reserved)


@inner
def free_slots(n: int, ctx: Context) -> float:
    """Return how many pod slots of node ``n`` reservation pods may have later, beside a pod; (N, R)."""
    return float(max(0.0, ctx.state.idle[n, PODS] + ctx.state.releasing[n, PODS] - 1.0))


@inner
def survey_devices(c: int, n: int, ctx: Context) -> tuple[int, bool]:
    """Return when the devices of node ``n`` have room for a pod of class ``c``, and whether it may join used ones.

    Reads ``state.devices`` (G,). A pod without a share of its own is judged by whole devices. It joins a device in use
    only if it asks for no GPU at all (9).

    Returns
    -------
    room : int, a ``Room``
    joins : bool, whether some device in use has room for it
    """
    classes, devices = ctx.snapshot.classes, ctx.state.devices
    first, end = ctx.snapshot.devices.ptr[n], ctx.snapshot.devices.ptr[n + 1]
    if classes.shares[c] == 0:
        request = classes.request[c, GPU]
        joins = False
        if request == 0.0:
            for d in range(first, end):
                joins = joins or devices.later[d] > 0
            return NOW, joins
        if request > whole_later(n, ctx):
            return NEVER, False
        return (NOW if request <= whole_now(n, ctx) else LATER), False
    size, memory = size_of(c, n, ctx), ctx.snapshot.nodes.device_memory[n]
    if size > memory:
        return NEVER, False
    used_later, used_now = 0, 0
    for d in range(first, end):
        if has_later(d, size, memory, ctx):
            used_later += 1
            used_now += has_now(d, n, size, ctx)
    wanted = classes.shares[c]
    # v0.17.0 scores a node as one with room now if there will be room; the pod waits all the same (8.3).
    if ctx.settings.minimal == 0:
        used_now = used_later
    unused_now, unused_later = unused_devices(n, ctx)
    if used_now + max(0.0, min(unused_now, unused_later)) >= wanted:
        return NOW, used_later > 0
    return (LATER if used_later + max(0.0, unused_later) >= wanted else NEVER), used_later > 0


@inner
def choose_devices(c: int, n: int, ctx: Context) -> int:
    """Choose the devices of node ``n`` for a pod of class ``c`` (8.4), and write them to ``scratch.devices``, in place.

    Used devices come before unused ones, the most used one first; with ``settings.gpu_order`` SPREAD the other way
    round. The lower row wins a tie. The pod must fit the node later, which is not checked.

    Returns
    -------
    room : int, a ``Room``: NOW if the pod can be bound on these devices, else LATER
    """
    wanted, spread = ctx.snapshot.classes.shares[c], ctx.settings.gpu_order == SPREAD
    size = size_of(c, n, ctx)
    unused_now, unused_later = unused_devices(n, ctx)
    slots, room = free_slots(n, ctx), NOW
    for entry in range(wanted):
        d = NULL
        if not spread or unused_later < 1.0:
            d = most_wanted_device(n, size, entry, ctx)
        if d == NULL:
            d = unused_device(n, entry, unused_now >= 1.0, slots >= 1.0, ctx)
            free = unused_now >= 1.0 and d != NULL and ctx.state.devices.now[d] == 0
            room = room if free else LATER
            unused_now, unused_later = unused_now - 1.0, unused_later - 1.0
            slots -= 1.0 if d != NULL and ctx.snapshot.devices.reserved[d] == 0 else 0.0
        elif not has_now(d, n, size, ctx):
            room = LATER
        ctx.scratch.devices[entry] = d
    return room


@inner
def has_later(d: int, size: int, memory: int, ctx: Context) -> bool:
    """Return whether device ``d`` in use of ``memory`` MiB has room for ``size`` more later: ``devices.later`` (G,)."""
    later = ctx.state.devices.later[d]
    return bool(later > 0 and later + size <= memory and ctx.snapshot.devices.closed[d] == 0)


@inner
def has_now(d: int, n: int, size: int, ctx: Context) -> bool:
    """Return whether device ``d`` in use has room for ``size`` MiB at present: ``devices.now`` (G,)."""
    now = ctx.state.devices.now[d]
    return bool(now > 0 and now + size <= ctx.snapshot.nodes.device_memory[n])


@inner
def is_chosen(d: int, entry: int, ctx: Context) -> bool:
    """Return whether device ``d`` is among the first ``entry`` of ``scratch.devices`` (M,)."""
    for place in range(entry):  # noqa: SIM110 -- numba compiles no generators
        if ctx.scratch.devices[place] == d:
            return True
    return False


@inner
def most_wanted_device(n: int, size: int, entry: int, ctx: Context) -> int:
    """Return the device in use on node ``n`` that a pod prefers of those with ``size`` MiB left, or NULL.

    The most used one, or the least used one with SPREAD, by ``devices.later`` (G,). The first ``entry`` of
    ``scratch.devices`` are taken already.
    """
    devices, memory, spread = ctx.state.devices, ctx.snapshot.nodes.device_memory[n], ctx.settings.gpu_order == SPREAD
    best, most = NULL, 0
    for d in range(ctx.snapshot.devices.ptr[n], ctx.snapshot.devices.ptr[n + 1]):
        if not has_later(d, size, memory, ctx) or is_chosen(d, entry, ctx):
            continue
        used = max(devices.now[d], devices.later[d])
        if best == NULL or (used < most if spread else used > most):
            best, most = d, used
    return best


@inner
def unused_device(n: int, entry: int, now: bool, slot: bool, ctx: Context) -> int:
    """Return a device of node ``n`` that nobody uses later, by ``devices.later`` (G,), or NULL: no caller expects that.

    Without a ``slot`` for a reservation pod it is one whose reservation pod is there. With ``now`` one that nobody
    holds at present is preferred, else one whose pods are leaving, as that is known to become free. With
    ``victims: original`` the latter are never preferred: a promise is a group of its own then, to which no victim
    returns. A closed one is for the pod alone that had it. The first ``entry`` of ``scratch.devices`` are taken.
    """
    devices, found = ctx.state.devices, NULL
    for d in range(ctx.snapshot.devices.ptr[n], ctx.snapshot.devices.ptr[n + 1]):
        if devices.later[d] > 0 or ctx.snapshot.devices.closed[d] == 1 or is_chosen(d, entry, ctx):
            continue
        if not slot and ctx.snapshot.devices.reserved[d] == 0:
            continue
        if (devices.now[d] == 0) == (now or ctx.settings.minimal == 0):
            return d
        if found == NULL:
            found = d
    return found


@inner
def take_devices(t: int, n: int, wait: bool, ctx: Context) -> None:
    """Give task ``t`` its share of the devices in ``scratch.devices`` on node ``n``, through the undo log.

    Writes ``state.shares`` (X,), ``state.devices`` (G,), ``spare`` (N, 2) and the pod slots of the node. With ``wait``
    the share is promised, and nothing is held at present.
    """
    c, first = ctx.snapshot.tasks.cls[t], ctx.snapshot.tasks.share_ptr[t]
    for entry in range(ctx.snapshot.classes.shares[c]):
        d = int(ctx.scratch.devices[entry])
        set_integer(ctx.state.at.shares + first + entry, d, ctx)
        change_later(d, n, c, 1, ctx)
        if not wait:
            change_now(d, n, c, 1, ctx)


@inner
def keep_later(t: int, n: int, sign: int, ctx: Context) -> None:
    """Let task ``t`` on node ``n`` leave its devices (``sign`` -1), or stay on them after all (1), by the undo log.

    Only ``devices.later`` (G,) changes: until the pod is gone it holds its share.
    """
    first = ctx.snapshot.tasks.share_ptr[t]
    for entry in range(first, ctx.snapshot.tasks.share_ptr[t + 1]):
        if ctx.state.shares[entry] != NULL:
            change_later(int(ctx.state.shares[entry]), n, ctx.snapshot.tasks.cls[t], sign, ctx)


@inner
def hold_now(t: int, n: int, sign: int, ctx: Context) -> None:
    """Let task ``t`` hold its promised share of the devices of node ``n`` (``sign`` 1), or wait for it (-1).

    Only ``devices.now`` (G,) changes, through the undo log.
    """
    first = ctx.snapshot.tasks.share_ptr[t]
    for entry in range(first, ctx.snapshot.tasks.share_ptr[t + 1]):
        if ctx.state.shares[entry] != NULL:
            change_now(int(ctx.state.shares[entry]), n, ctx.snapshot.tasks.cls[t], sign, ctx)


@inner
def change_later(d: int, n: int, c: int, sign: int, ctx: Context) -> None:
    """Add the share of a pod of class ``c`` to what is held of device ``d`` later, or (``sign`` -1) remove it.

    Keeps ``spare[n, 1]`` (N, 2) and the pod slot of the reservation pod, which goes with the last user of the device.
    """
    at, before = ctx.state.at, ctx.state.devices.later[d]
    after = before + sign * size_of(c, n, ctx)
    set_integer(at.device_later + d, after, ctx)
    opened = (1.0 if after > 0 else 0.0) - (1.0 if before > 0 else 0.0)
    if ctx.snapshot.nodes.allocatable[n, GPU] > 0.0:
        add_float(at.spare + 2 * n + 1, opened - sign * part_of(c, ctx), ctx)
    if opened != 0.0 and ctx.snapshot.devices.reserved[d] == 0:
        add_float(at.releasing + n * ctx.state.idle.shape[1] + PODS, -opened, ctx)


@inner
def change_now(d: int, n: int, c: int, sign: int, ctx: Context) -> None:
    """Add the share of a pod of class ``c`` to what is held of device ``d`` at present, or (``sign`` -1) remove it.

    Keeps ``spare[n, 0]`` (N, 2) and the pod slot of the reservation pod, which comes with the first user of the device.
    """
    at, before = ctx.state.at, ctx.state.devices.now[d]
    after = before + sign * size_of(c, n, ctx)
    set_integer(at.device_now + d, after, ctx)
    opened = (1.0 if after > 0 else 0.0) - (1.0 if before > 0 else 0.0)
    if ctx.snapshot.nodes.allocatable[n, GPU] > 0.0:
        add_float(at.spare + 2 * n, opened - sign * part_of(c, ctx), ctx)
    if opened != 0.0 and ctx.snapshot.devices.reserved[d] == 0:
        row = n * ctx.state.idle.shape[1] + PODS
        add_float(at.idle + row, -opened, ctx)
        add_float(at.releasing + row, opened, ctx)


@inner
def room_for_shares(c: int, n: int, ctx: Context) -> int:
    """Return for how many pods of class ``c`` the devices of node ``n`` have room later (8.3).

    With several devices for each pod this is what the free shares of all devices allow, which may be too high.
    """
    size, memory = size_of(c, n, ctx), ctx.snapshot.nodes.device_memory[n]
    shares = max(0, int(whole_later(n, ctx))) * (memory // size)
    for d in range(ctx.snapshot.devices.ptr[n], ctx.snapshot.devices.ptr[n + 1]):
        later = ctx.state.devices.later[d]
        if 0 < later < memory and ctx.snapshot.devices.closed[d] == 0:
            shares += (memory - later) // size
    return int(shares // ctx.snapshot.classes.shares[c])


@inner
def largest_part(n: int, ctx: Context) -> float:
    """Return the largest part of one device of node ``n`` that is free later from 0 to 1 (8.3)."""
    memory = ctx.snapshot.nodes.device_memory[n]
    most = 1.0 if whole_later(n, ctx) >= 1.0 else 0.0
    for d in range(ctx.snapshot.devices.ptr[n], ctx.snapshot.devices.ptr[n + 1]):
        if ctx.state.devices.later[d] > 0 and ctx.snapshot.devices.closed[d] == 0:
            most = max(most, (memory - ctx.state.devices.later[d]) / memory)
    return most
