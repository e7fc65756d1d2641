"""The stream of potential victims of one probe: chunk after chunk, the least deserving first (semantics 4.3 to 4.5)."""

from __future__ import annotations

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Floats, Settings, Snapshot, Status, Verdict
from kai_sched.solver.hunt import (
    CHUNK_START,
    CLOCK,
    CURSOR,
    EMPTIED,
    FIRST_POTENTIAL,
    FIRST_TASK,
    GIVES_UP,
    GROUP,
    HEAPED,
    IN_JOB,
    IS_CHOSEN,
    KEPT,
    KIND_CLASS,
    KIND_KNOWN,
    KIND_NOW,
    KIND_ROOM,
    KIND_WANTED,
    KNOWN,
    KNOWN_GPUS,
    LAST_JOB,
    LAST_POTENTIAL,
    LAST_TASK,
    LEFT,
    LISTED,
    MOST_KINDS,
    N_GROUPS,
    N_KINDS,
    N_KNOWN,
    N_NODES,
    N_POTENTIAL,
    N_TOUCHED,
    N_TOUCHED_NODES,
    NODE_MARK,
    NODE_ORDER,
    ON_NODE,
    OPEN,
    PLACE_OF,
    POTENTIAL,
    POTENTIAL_GPUS,
    PROBE,
    RECORDED,
    REQUESTS,
    STAGE,
    STAGE_NOW,
    TAKEN,
    TOUCH_ORDER,
    TOUCHED,
    TOUCHED_JOBS,
    Lineup,
    Prey,
)
from kai_sched.solver.jit import inner
from kai_sched.solver.kernels.attempt import best_node
from kai_sched.solver.kernels.leaf import rewind
from kai_sched.solver.kernels.lineup import descend, give_back, line_up, take
from kai_sched.solver.kernels.surplus import is_left, remaining_stage, victim_chunk
from kai_sched.solver.state import ACTIVE, NODE, STATUS, Finder, Scratch, State

OK = int(Verdict.OK)
IS_PIPELINED = int(Status.PIPELINED)


@inner
def begin(
    ceiling: int,
    givers: bool,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    victims: Lineup,
    prey: Prey,
) -> None:
    """Forget what was accumulated, and line the victims of the open queues up anew (jobs below the ``ceiling``).

    With ``givers`` only those of leaves of which somebody may leave for good (GIVES_UP).
    """
    forget(victims, prey)
    queues, slot = snapshot.queues, victims.slot
    for q in range(queues.parent.shape[0]):
        slot[q, HEAPED] = 0
        rewind(q, victims)
        if prey.queue[q, OPEN] == 0.0 or (givers and prey.queue[q, GIVES_UP] == 0.0):
            slot[q, CURSOR] = slot[q, LISTED]
    line_up(ceiling, True, settings, queues, snapshot.jobs.priority, victims, state.book, prey.counts[CLOCK])
    for kind in range(prey.counts[N_KINDS]):
        prey.kind[kind, KIND_ROOM] = prey.kind[kind, KIND_NOW]
    for entry in range(prey.counts[N_KNOWN]):
        open_room(prey.lists[KNOWN, entry], snapshot, state, finder, prey)
    for kind in range(prey.counts[N_KINDS]):
        prey.kind[kind, KIND_KNOWN] = prey.kind[kind, KIND_ROOM]


@inner
def forget(victims: Lineup, prey: Prey) -> None:
    """Undo all marks of the last accumulation."""
    count = prey.counts
    for entry in range(count[N_TOUCHED]):
        j = prey.lists[TOUCHED_JOBS, entry]
        prey.job[j, TOUCHED] = 0
        prey.job[j, FIRST_POTENTIAL] = 0
        victims.job[j, STAGE] = prey.job[j, STAGE_NOW]
        for r in range(3):
            victims.held[j, r] = prey.held[j, r]
    for entry in range(count[N_POTENTIAL]):
        prey.task[prey.lists[POTENTIAL, entry], TAKEN] = 0
    for entry in range(count[N_KNOWN]):
        prey.task[prey.lists[KNOWN, entry], TAKEN] = 0
    for place in range(count[N_TOUCHED_NODES]):
        n = prey.node[place, TOUCH_ORDER]
        prey.node[n, NODE_MARK] = 0
        prey.node[n, FIRST_TASK] = 0
        for column in range(prey.room.shape[1]):
            prey.room[n, column] = 0.0
    count[PROBE] += 1
    count[N_TOUCHED] = 0
    count[N_POTENTIAL] = 0
    count[N_GROUPS] = 0
    count[N_NODES] = 0
    count[N_TOUCHED_NODES] = 0


@inner
def slots(request: Floats, idle: Floats, releasing: Floats, leaving: Floats) -> int:
    """How many pods with this ``request`` (R,) the node takes once what is ``leaving`` (R,) is gone."""
    fits = np.inf
    for r in range(request.shape[0]):
        free = idle[r] + releasing[r] + leaving[r]
        if request[r] > 0.0:
            fits = min(fits, np.floor(free / request[r]))
        elif free < 0.0:
            return 0
    return int(max(0.0, fits)) if fits < np.inf else 0


@inner
def slots_now(request: Floats, idle: Floats, releasing: Floats) -> int:
    """How many pods with this ``request`` (R,) the node takes as it is."""
    fits = np.inf
    for r in range(request.shape[0]):
        free = idle[r] + releasing[r]
        if request[r] > 0.0:
            fits = min(fits, np.floor(free / request[r]))
        elif free < 0.0:
            return 0
    return int(max(0.0, fits)) if fits < np.inf else 0


@inner
def is_overcommitted(idle: Floats, releasing: Floats) -> bool:
    """Whether less than nothing of some resource is left on the node once all who leave have left."""
    for r in range(idle.shape[0]):  # noqa: SIM110 -- numba compiles no generators
        if idle[r] + releasing[r] < 0.0:
            return True
    return False


@inner
def count_kinds(k: int, settings: Settings, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> None:
    """Note the classes of the first ``k`` tasks of the wish, and for how many of each there is room as it is.

    One task needs no sum over all nodes: with a place for it there is room, without one there is none anywhere.
    """
    classes, kinds = snapshot.classes, prey.kind
    n_kinds = 0
    for entry in range(k):
        c = snapshot.tasks.cls[prey.wish[entry]]
        kind = 0
        while kind < n_kinds and kinds[kind, KIND_CLASS] != c:
            kind += 1
        if kind == MOST_KINDS:
            continue
        if kind == n_kinds:
            n_kinds += 1
            kinds[kind, KIND_CLASS] = c
            kinds[kind, KIND_WANTED] = 0
        kinds[kind, KIND_WANTED] += 1
    prey.counts[N_KINDS] = n_kinds
    for kind in range(n_kinds):
        c = kinds[kind, KIND_CLASS]
        verdicts = finder.verdicts[classes.signature[c]]
        room = 0
        if k == 1:
            room = 1 if best_node(prey.wish[0], settings, snapshot, state, finder) != NULL else 0
        else:
            for n in range(verdicts.shape[0]):
                if verdicts[n] == OK:
                    room += slots_now(classes.request[c], state.idle[n], state.releasing[n])
        kinds[kind, KIND_NOW] = room


@inner
def open_room(t: int, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> None:
    """Count what task ``t`` would leave on its node, and for how many tasks of the wish that makes room."""
    n = state.task[t, NODE]
    if n == NULL:
        return
    if prey.node[n, NODE_MARK] == 0:
        prey.node[n, NODE_MARK] = 1
        prey.node[prey.counts[N_TOUCHED_NODES], TOUCH_ORDER] = n
        prey.counts[N_TOUCHED_NODES] += 1
    classes = snapshot.classes
    c = snapshot.tasks.cls[t]
    idle, releasing, room = state.idle[n], state.releasing[n], prey.room[n]
    n_kinds = prey.counts[N_KINDS]
    for kind in range(n_kinds):
        wanted = prey.kind[kind, KIND_CLASS]
        if finder.verdicts[classes.signature[wanted], n] == OK:
            prey.kind[kind, KIND_ROOM] -= slots(classes.request[wanted], idle, releasing, room[REQUESTS:])
    for r in range(idle.shape[0]):
        if snapshot.nodes.allocatable[n, r] > 0.0:
            room[REQUESTS + r] += classes.request[c, r]
    for kind in range(n_kinds):
        wanted = prey.kind[kind, KIND_CLASS]
        if finder.verdicts[classes.signature[wanted], n] == OK:
            prey.kind[kind, KIND_ROOM] += slots(classes.request[wanted], idle, releasing, room[REQUESTS:])
    room[KNOWN_GPUS if prey.task[t, RECORDED] > 0 else POTENTIAL_GPUS] += classes.quota[c, GPU]


@inner
def may_suffice(column: int, prey: Prey) -> bool:
    """Whether there could be room for the wish by a ``column`` of ``prey.kind``, each class looked at by itself."""
    for kind in range(prey.counts[N_KINDS]):  # noqa: SIM110 -- numba compiles no generators
        if prey.kind[kind, column] < prey.kind[kind, KIND_WANTED]:
            return False
    return True


@inner
def accumulate(
    ceiling: int,
    settings: Settings,
    snapshot: Snapshot,
    state: State,
    finder: Finder,
    scratch: Scratch,
    victims: Lineup,
    prey: Prey,
) -> bool:
    """Add the next chunk of victims; False where there is none left."""
    queues, jobs, sets = snapshot.queues, snapshot.jobs, snapshot.sets
    clock = prey.counts[CLOCK]
    while True:
        q, _ = descend(True, queues, victims, state.book)
        if q == NULL:
            return False
        j = take(q, ceiling, True, settings, queues, jobs.priority, victims, state.book, clock)
        first, end = jobs.set_ptr[j], jobs.set_ptr[j + 1]
        if prey.job[j, TOUCHED] == 0:
            prey.job[j, TOUCHED] = 1
            prey.lists[TOUCHED_JOBS, prey.counts[N_TOUCHED]] = j
            prey.counts[N_TOUCHED] += 1
            for s in range(first, end):
                prey.set[s, LEFT] = state.sets[s, ACTIVE]
        length, emptied = victim_chunk(first, end, sets, state, scratch, prey, prey.chunk)
        known = False
        for entry in range(length):
            known = known or prey.task[prey.chunk[entry], RECORDED] > 0
        if known:
            length = known_tasks(j, snapshot, state, prey)
        prey.lists[CHUNK_START, prey.counts[N_GROUPS]] = prey.counts[N_POTENTIAL]
        prey.lists[EMPTIED, prey.counts[N_GROUPS]] = emptied
        prey.lists[IS_CHOSEN, prey.counts[N_GROUPS]] = 0
        prey.lists[KEPT, prey.counts[N_GROUPS]] = 0
        for entry in range(length):
            part(j, prey.chunk[entry], snapshot, state, victims, prey)
            if not known:
                add(j, prey.chunk[entry], snapshot, state, finder, prey)
        left = 0
        for s in range(first, end):
            if sets.child_ptr[s] == sets.child_end[s]:
                left += prey.set[s, LEFT]
        if left > 0:
            victims.job[j, STAGE] = remaining_stage(first, end, sets, prey.set)
            give_back(q, j, ceiling, True, settings, queues, jobs.priority, victims, state.book, clock)
        if not known:
            prey.counts[N_GROUPS] += 1
            prey.counts[LAST_JOB] = j
            return True


@inner
def known_tasks(j: int, snapshot: Snapshot, state: State, prey: Prey) -> int:
    """Write the recorded victims of a job to ``prey.chunk``; returns how many."""
    length = 0
    for t in range(snapshot.jobs.task_ptr[j], snapshot.jobs.task_ptr[j + 1]):
        if prey.task[t, RECORDED] > 0 and is_left(t, state, prey):
            prey.chunk[length] = t
            length += 1
    return length


@inner
def part(j: int, t: int, snapshot: Snapshot, state: State, victims: Lineup, prey: Prey) -> None:
    """Take a task from what is left of its job."""
    prey.task[t, TAKEN] = 1
    prey.set[snapshot.tasks.set[t], LEFT] -= 1
    if state.task[t, STATUS] != IS_PIPELINED and state.task[t, NODE] != NULL:
        for r in range(3):
            victims.held[j, r] -= snapshot.classes.quota[snapshot.tasks.cls[t], r]


@inner
def add(j: int, t: int, snapshot: Snapshot, state: State, finder: Finder, prey: Prey) -> None:
    """Append a potential victim, and to the chains of its job and its node."""
    count, task = prey.counts, prey.task
    entry = count[N_POTENTIAL]
    count[N_POTENTIAL] = entry + 1
    prey.lists[POTENTIAL, entry] = t
    task[t, GROUP] = count[N_GROUPS]
    task[t, IN_JOB] = 0
    task[t, ON_NODE] = 0
    if prey.job[j, FIRST_POTENTIAL] == 0:
        prey.job[j, FIRST_POTENTIAL] = t + 1
    else:
        task[prey.job[j, LAST_POTENTIAL], IN_JOB] = t + 1
    prey.job[j, LAST_POTENTIAL] = t
    n = state.task[t, NODE]
    if n == NULL:
        return
    open_room(t, snapshot, state, finder, prey)
    if prey.node[n, FIRST_TASK] == 0:
        prey.node[n, FIRST_TASK] = t + 1
        prey.node[count[N_NODES], NODE_ORDER] = n
        prey.node[n, PLACE_OF] = count[N_NODES]
        count[N_NODES] += 1
    else:
        task[prey.node[n, LAST_TASK], ON_NODE] = t + 1
    prey.node[n, LAST_TASK] = t
