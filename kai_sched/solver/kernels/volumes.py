"""Which free volume a claim takes that waits for its first pod, and on which nodes it can get one (semantics 12.2).

A volume serves one claim, and a claim has one volume for all pods that use it: the first of them that gets a place
decides, and the others go where that volume can be used. The claims of a pod take volumes one after the other, the
smallest claim first: the smallest free volume that serves it there; if there is none, one is made for it, where its
storage class does so. A volume that is made counts as one of its node alone.

Cost: for each claim two binary searches and the volumes that are taken already. Invariant: all writes go through the
undo log, and ``holder[v]`` (Z,) is w + 1 exactly where ``volume[w]`` (F,) is v + 1.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Longs
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.undo import add_integer, set_integer
from kai_sched.solver.state import Context


@inner
def volumes_fit(c: int, n: int, ctx: Context) -> bool:
    """Return whether all waiting claims of class ``c`` can have a volume on node ``n``, with what is taken so far.

    Overwrites ``scratch.volumes``. Reads ``state.volumes``, (Z,) and (F,).
    """
    volumes, state = ctx.snapshot.volumes, ctx.state.volumes
    picked = 0
    for at in range(volumes.ptr[c], volumes.ptr[c + 1]):
        w = int(volumes.claim[at])
        if state.users[w] > 0:
            if not is_reachable(w, n, ctx):
                return False
            continue
        v = free_volume(w, n, picked, ctx)
        if v != NULL:
            ctx.scratch.volumes[picked] = v
            picked += 1
        elif not is_made(w, n, ctx):
            return False
    return True


@inner
def take_volumes(c: int, n: int, ctx: Context) -> None:
    """Give the waiting claims of class ``c`` volumes on node ``n`` for one more pod, through the undo log.

    ``volumes_fit`` said that they can have them. Writes ``state.volumes``, (Z,) and (F,).
    """
    volumes, state, at = ctx.snapshot.volumes, ctx.state.volumes, ctx.state.at
    for entry in range(volumes.ptr[c], volumes.ptr[c + 1]):
        w = int(volumes.claim[entry])
        if state.users[w] == 0:
            v = free_volume(w, n, 0, ctx)
            if v != NULL:
                set_integer(at.holder + v, w + 1, ctx)
                set_integer(at.volume + w, v + 1, ctx)
            else:
                set_integer(at.made_on + w, n + 1, ctx)
        add_integer(at.users + w, 1, ctx)


@inner
def leave_volumes(c: int, ctx: Context) -> None:
    """Take back what ``take_volumes`` did for one pod of class ``c``, through the undo log.

    The volume of a claim without users is free again. Writes ``state.volumes``, (Z,) and (F,).
    """
    volumes, state, at = ctx.snapshot.volumes, ctx.state.volumes, ctx.state.at
    for entry in range(volumes.ptr[c], volumes.ptr[c + 1]):
        w = int(volumes.claim[entry])
        if state.users[w] == 0:
            continue
        add_integer(at.users + w, -1, ctx)
        if state.users[w] == 0:
            if state.volume[w] > 0:
                set_integer(at.holder + state.volume[w] - 1, 0, ctx)
            set_integer(at.volume + w, 0, ctx)
            set_integer(at.made_on + w, 0, ctx)


@inner
def is_reachable(w: int, n: int, ctx: Context) -> bool:
    """Return whether what claim ``w`` gets for another pod can be used on node ``n``; reads ``volume`` (F,)."""
    volumes, state, g = ctx.snapshot.volumes, ctx.state.volumes, ctx.snapshot.volumes.group[w]
    v = state.volume[w] - 1
    if v == NULL:
        return bool(state.node[w] == n + 1)
    place = first_near(g, n, v, ctx)
    if place < volumes.near_ptr[g + 1] and volumes.near_node[place] == n and volumes.near_volume[place] == v:
        return True
    place = first_from(volumes.far_volume, volumes.far_ptr[g], volumes.far_ptr[g + 1], v)
    return bool(place < volumes.far_ptr[g + 1] and volumes.far_volume[place] == v)


@inner
def may_have_volumes(c: int, n: int, freed: Longs, ctx: Context) -> bool:
    """Return whether each waiting claim of class ``c`` by itself may get a volume on node ``n`` after others have gone.

    ``freed`` (F,) counts the users of each claim that are gone. A claim that somebody uses now may get one.
    """
    volumes, state = ctx.snapshot.volumes, ctx.state.volumes
    for at in range(volumes.ptr[c], volumes.ptr[c + 1]):
        w = int(volumes.claim[at])
        if state.users[w] > 0 or is_made(w, n, ctx):
            continue
        g, least = volumes.group[w], volumes.least[w]
        near = first_near(g, n, least, ctx)
        far = first_from(volumes.far_volume, volumes.far_ptr[g], volumes.far_ptr[g + 1], least)
        while near < volumes.near_ptr[g + 1] and volumes.near_node[near] == n:  # Bound: the group on the node.
            if may_be_free(volumes.near_volume[near], freed, ctx):
                break
            near += 1
        if near < volumes.near_ptr[g + 1] and volumes.near_node[near] == n:
            continue
        far_end = volumes.far_ptr[g + 1]
        while far < far_end and not may_be_free(volumes.far_volume[far], freed, ctx):  # Bound: the group.
            far += 1
        if far == far_end:
            return False
    return True


@inner
def may_be_free(v: int, freed: Longs, ctx: Context) -> bool:
    """Return whether nobody takes volume ``v``, in ``holder`` (Z,), once the users in ``freed`` (F,) are gone."""
    w = ctx.state.volumes.holder[v] - 1
    return bool(w == NULL or freed[w] >= ctx.state.volumes.users[w])


@inner
def is_made(w: int, n: int, ctx: Context) -> bool:
    """Return whether a volume can be made for claim ``w`` on node ``n``: ``volumes.made`` (M, N)."""
    row = ctx.snapshot.volumes.topology[w]
    return bool(row != NULL and ctx.snapshot.volumes.made[row, n] == 1)


@inner
def free_volume(w: int, n: int, picked: int, ctx: Context) -> int:
    """Return the first free volume that serves claim ``w`` on node ``n``, or NULL.

    Free is a volume without ``state.volumes.holder`` (Z,) that is not among the first ``picked`` of
    ``scratch.volumes``.
    """
    volumes, g, least = ctx.snapshot.volumes, ctx.snapshot.volumes.group[w], ctx.snapshot.volumes.least[w]
    near, near_end = first_near(g, n, least, ctx), volumes.near_ptr[g + 1]
    far_end = volumes.far_ptr[g + 1]
    far = first_from(volumes.far_volume, volumes.far_ptr[g], far_end, least)
    while near < near_end and volumes.near_node[near] == n:  # Bound: the volumes of the group on the node.
        if is_unclaimed(volumes.near_volume[near], picked, ctx):
            break
        near += 1
    while far < far_end and not is_unclaimed(volumes.far_volume[far], picked, ctx):  # Bound: the volumes of the group.
        far += 1
    here = int(volumes.near_volume[near]) if near < near_end and volumes.near_node[near] == n else NULL
    there = int(volumes.far_volume[far]) if far < far_end else NULL
    if here == NULL or there == NULL:
        return max(here, there)
    return min(here, there)


@inner
def is_unclaimed(v: int, picked: int, ctx: Context) -> bool:
    """Return whether nobody takes volume ``v``: neither in ``holder`` (V,) nor in the first of ``scratch.volumes``."""
    if ctx.state.volumes.holder[v] > 0:
        return False
    for place in range(picked):  # noqa: SIM110 -- numba compiles no generators
        if ctx.scratch.volumes[place] == v:
            return False
    return True


@inner
def first_near(g: int, n: int, v: int, ctx: Context) -> int:
    """Return the first place of group ``g``, in ``near_node`` and ``near_volume`` not before ``(n, v)``."""
    volumes = ctx.snapshot.volumes
    low, high = int(volumes.near_ptr[g]), int(volumes.near_ptr[g + 1])
    while low < high:  # Bound: the logarithm of the length.
        middle = (low + high) // 2
        node = volumes.near_node[middle]
        if node < n or (node == n and volumes.near_volume[middle] < v):
            low = middle + 1
        else:
            high = middle
    return low


@inner
def first_from(column: Ints, low: int, high: int, v: int) -> int:
    """Return the first place in [low, high), at which the sorted ``column`` (*,) is not below ``v``."""
    low, high = int(low), int(high)
    while low < high:  # Bound: the logarithm of the length.
        middle = (low + high) // 2
        if column[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low
