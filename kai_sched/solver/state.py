"""The working copy of a cycle: everything that stages change, and the scratch space they need, allocated once.

Mutable state lies in two flat buffers with named views onto them, so that the undo log is a list of positions and old
values (``kernels.undo``) and two states can be compared bit for bit. Views that belong together are columns of one
array.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Floats, Ints, Longs, Settings, Snapshot

Number = TypeVar("Number", np.float64, np.int64)


class Book(NamedTuple):
    """The books of the queues, (Q + 1, 3) each; row Q, the cluster, has only ``share``. inf: unlimited."""

    quota: Floats
    limit: Floats
    fair: Floats  # fair share
    share: Floats  # allocatable share (2.5)
    held: Floats
    held_fixed: Floats  # what is held for non-preemptible jobs
    asked: Floats
    priority: Floats  # (Q + 1,)


class TaskState(NamedTuple):
    """By task, (T,)."""

    status: Longs
    node: Longs


class SetState(NamedTuple):
    """By set, (S,)."""

    active: Longs  # pods placed, pipelined ones included
    pending: Longs
    waiting: Longs  # the pipelined ones among the placed
    cursor: Longs  # before which of its pods none is pending


class DomainState(NamedTuple):
    """By domain of an inter-pod term, (D,)."""

    matched: Longs  # pods that match the term
    carried: Longs  # the weight of pods that carry it


class Offsets(NamedTuple):
    """Where each view that is written through the log begins in its buffer."""

    idle: int
    releasing: int
    held: int
    held_fixed: int
    status: int
    node: int
    active: int
    pending: int
    waiting: int
    cursor: int
    matched: int
    carried: int
    ports: int


class State(NamedTuple):
    """``floats`` and ``integers`` hold all of it; the others are views."""

    floats: Floats
    integers: Longs
    at: Offsets
    idle: Floats  # (N, R) what a pod can be bound to now
    releasing: Floats  # (N, R) what comes back, less what is promised; only idle + releasing has a meaning
    book: Book
    task: TaskState
    sets: SetState
    domains: DomainState
    ports: Longs  # (N, P) pods that hold a host port


class Log(NamedTuple):
    """Old values, oldest first. ``size`` (2,): number of float and of integer entries."""

    float_at: Longs
    float_was: Floats
    integer_at: Longs
    integer_was: Longs
    size: Longs


class Finder(NamedTuple):
    """The best node of each block by class, and what of it is still true: ``seen[c, b] == stamp[b]``."""

    block: Longs  # (2,) nodes in a block, and a clock
    stamp: Longs  # (B,)
    seen: Longs  # (C, B)
    best: Longs  # (C, B) the best node, or NULL
    points: Floats  # (C, B) its points for idle room and node type
    preference: Floats  # (C, B) how much it is preferred among nodes of as many points
    verdicts: Flags  # (K, N) static feasibility
    dynamic: Flags  # (C,) 1: scored in full, as its best node depends on more than each node by itself
    refused: Flags  # (C,) verdict on every node, 0 if none


class Tree(NamedTuple):
    """The heaps of queues and jobs (``kernels.order``)."""

    queue_heap: Ints  # (Q,) like Queues.child
    queue_size: Ints  # (Q + 1,)
    dirty: Flags  # (Q,)
    extra: Floats  # (Q, 3) what the job on top of the path of heads asks for
    job_ptr: Ints  # (Q + 1,)
    job_size: Ints  # (Q,)
    job_heap: Ints  # (J,)
    sorted_jobs: Ints  # (J,) scratch
    request: Floats  # (J, 3) what the job's next chunk asks of its queues
    stage: Ints  # (J,)


class Survey(NamedTuple):
    """By set, (S,)."""

    met: Ints  # satisfied members or placed pods
    able: Ints  # 1: there is something to ask for


class Returning(NamedTuple):
    """By set, (S,), of a job that returns."""

    left: Ints  # how many of its tasks may return
    before: Ints  # before which of its tasks there is none


class Division(NamedTuple):
    """One resource divided among siblings, (Q,) each: the first six are the problem, ``given`` is the answer."""

    quota: Floats
    limit: Floats
    weight: Floats
    request: Floats
    usage: Floats
    priority: Floats
    given: Floats
    requestable: Floats
    remainder: Floats
    strength: Floats


class Scratch(NamedTuple):
    """Space to work in; all but the last four serve one job at a time."""

    survey: Survey
    order: Ints  # (S,)
    stack: Ints  # (S + 1,)
    chunk: Ints  # (longest job,)
    node: Ints  # (longest job,)
    away: Flags  # (longest job,) by task of a job that returns: 1 where it is not asked for (any more)
    returning: Returning
    need: Floats  # (3,)
    work: Division
    wanted: Flags  # (K,) signatures that some pending pod has
    largest: Floats  # (R,) the largest node
    own: Floats  # (N, 3) what other schedulers' pods leave of a node


class Decisions(NamedTuple):
    """The decision log, in the order of deciding, and by job why something of it is still pending (``Verdict``).

    ``eviction``: the task, the ``Action``, the job for which it leaves (NULL for stale gangs), where it ran, and
    whether another place was found for it along with that.
    ``sides``: what the two queues that were weighed held before, the victim's first (CPU, memory, GPU each).
    """

    length: Longs  # (2,) placements, evictions
    task: Ints  # (2 T,) placements; NULL where another one took its place
    node: Ints  # (2 T,)
    waits: Flags  # (2 T,)
    row: Ints  # (T,) the task's placement; NULL
    eviction: Ints  # (T, 5)
    sides: Floats  # (T, 6)
    evicted: Flags  # (T,)
    help: Flags  # (J, 4) by Action, a Help
    verdict: Flags  # (J,)
    free: Flags  # (J,) a RoomState (``eviction.pipelined_room``)
    blocking_row: Ints  # (J,) queue of a gate, or the task that found no node
    resource: Ints  # (J,) of a gate
    asked: Ints  # (J,) tasks in the chunk that failed
    placed: Ints  # (J,) how many of them had a place before the failure
    need: Floats  # (J,) of the resource, where a gate was in the way


class Context(NamedTuple):
    """What the kernels of a cycle work on: the input, the working state with the log that undoes it, what is known of
    nodes, space to work in, and what has been decided.
    """

    settings: Settings
    snapshot: Snapshot
    state: State
    log: Log
    finder: Finder
    scratch: Scratch
    decisions: Decisions


def make_state(snapshot: Snapshot) -> State:
    """A state with zeros for counters and NULL for nodes; the ``account`` and ``share`` kernels fill it."""
    n_nodes, n_resources = snapshot.nodes.allocatable.shape
    n_queues, n_tasks, n_sets = snapshot.queues.parent.size + 1, snapshot.tasks.job.size, snapshot.sets.parent.size
    rooms: list[tuple[int, ...]] = [(n_nodes, n_resources)] * 2
    floats, (idle, releasing, *books), at_floats = _buffer([*rooms, *[(n_queues, 3)] * 7, (n_queues,)], np.float64)
    lengths = [n_tasks] * 2 + [n_sets] * 4 + [snapshot.n_domains] * 2
    counters: list[tuple[int, ...]] = [(length,) for length in lengths]
    integers, views, at_integers = _buffer([*counters, (n_nodes, snapshot.ports.shape[0])], np.int64)
    task, sets, domains, ports = TaskState(*views[:2]), SetState(*views[2:6]), DomainState(*views[6:8]), views[8]
    task.node[:] = NULL
    held = 2 + Book._fields.index("held")
    at = Offsets(*at_floats[:2], *at_floats[held : held + 2], *at_integers)
    return State(floats, integers, at, idle, releasing, Book(*books), task, sets, domains, ports)


def _buffer(
    shapes: list[tuple[int, ...]], dtype: type[Number]
) -> tuple[npt.NDArray[Number], list[npt.NDArray[Number]], list[int]]:
    sizes = [math.prod(shape) for shape in shapes]
    offsets = [sum(sizes[:place]) for place in range(len(sizes))]
    buffer = np.zeros(sum(sizes), dtype)
    views = [buffer[at : at + size].reshape(shape) for at, size, shape in zip(offsets, sizes, shapes, strict=True)]
    return buffer, views, offsets


def make_log(snapshot: Snapshot, evicting: bool = False) -> Log:
    """A log with room for placing the longest job and for every cursor.

    With ``evicting`` it is for a search, which may evict every task and place every job once.
    """
    n_moves, n_sets = longest_job(snapshot), snapshot.sets.parent.size
    n_charges = 6 * _depth(snapshot)
    if evicting:
        # A task leaves and comes back; a victim's attempt may place tasks that were pending before.
        n_moves = 2 * snapshot.tasks.job.size + n_moves
    counters = int(np.diff(snapshot.bonds.ptr).max(initial=0))
    n_floats = n_moves * (snapshot.nodes.allocatable.shape[1] + n_charges) + 1
    # Coming back, a task is counted out and in, where it was and where it ran.
    n_integers = n_moves * (6 + 8 * counters) + 2 * n_sets + 1
    return Log(
        np.empty(n_floats, np.int64),
        np.empty(n_floats),
        np.empty(n_integers, np.int64),
        np.empty(n_integers, np.int64),
        np.zeros(2, np.int64),
    )


def longest_job(snapshot: Snapshot) -> int:
    """The number of tasks of the largest job."""
    return int(np.diff(snapshot.jobs.task_ptr).max(initial=0))


def _depth(snapshot: Snapshot) -> int:
    depth = [1] * snapshot.queues.parent.size
    for q, parent in enumerate(snapshot.queues.parent.tolist()):
        if parent != NULL:
            depth[q] = depth[parent] + 1
    return max(depth, default=1)


def make_finder(snapshot: Snapshot) -> Finder:
    """Nothing seen yet. Blocks are about the square root of the nodes: as much to compare as to look through."""
    n_nodes = snapshot.nodes.condition.size
    n_classes = snapshot.classes.signature.size
    block = max(8, int(n_nodes**0.5))
    n_blocks = -(-n_nodes // block)
    return Finder(
        np.array([block, 0], np.int64),
        np.zeros(n_blocks, np.int64),
        np.full((n_classes, n_blocks), NULL, np.int64),
        np.full((n_classes, n_blocks), NULL, np.int64),
        np.zeros((n_classes, n_blocks)),
        np.zeros((n_classes, n_blocks)),
        np.zeros((snapshot.signatures.toleration.size, n_nodes), np.uint8),
        np.zeros(n_classes, np.uint8),
        snapshot.classes.refused.copy(),
    )


def make_tree(snapshot: Snapshot) -> Tree:
    """Empty heaps."""
    n_queues, n_jobs = snapshot.queues.parent.size, snapshot.jobs.queue.size
    job_ptr = np.zeros(n_queues + 1, np.int32)
    known = snapshot.jobs.queue[snapshot.jobs.queue != NULL]
    np.cumsum(np.bincount(known, minlength=n_queues), out=job_ptr[1:])
    return Tree(
        np.zeros(n_queues, np.int32),
        np.zeros(n_queues + 1, np.int32),
        np.zeros(n_queues, np.uint8),
        np.zeros((n_queues, 3)),
        job_ptr,
        np.zeros(n_queues, np.int32),
        np.zeros(n_jobs, np.int32),
        np.zeros(n_jobs, np.int32),
        np.zeros((n_jobs, 3)),
        np.zeros(n_jobs, np.int32),
    )


def make_scratch(snapshot: Snapshot) -> Scratch:
    """Room for the largest job."""
    n_sets, longest = snapshot.sets.parent.size, longest_job(snapshot)
    return Scratch(
        Survey(*np.zeros((2, n_sets), np.int32)),
        np.zeros(n_sets, np.int32),
        np.zeros(n_sets + 1, np.int32),
        np.zeros(longest, np.int32),
        np.zeros(longest, np.int32),
        np.zeros(longest, np.uint8),
        Returning(*np.zeros((2, n_sets), np.int32)),
        np.zeros(3),
        Division(*np.zeros((len(Division._fields), snapshot.queues.parent.size))),
        np.zeros(snapshot.signatures.toleration.size, np.uint8),
        np.zeros(snapshot.nodes.allocatable.shape[1]),
        np.zeros((snapshot.nodes.allocatable.shape[0], 3)),
    )


def make_decisions(snapshot: Snapshot) -> Decisions:
    """An empty decision log."""
    n_tasks, n_jobs = snapshot.tasks.job.size, snapshot.jobs.queue.size
    return Decisions(
        np.zeros(2, np.int64),
        np.zeros(2 * n_tasks, np.int32),
        np.zeros(2 * n_tasks, np.int32),
        np.zeros(2 * n_tasks, np.uint8),
        np.full(n_tasks, NULL, np.int32),
        np.zeros((n_tasks, 5), np.int32),
        np.zeros((n_tasks, 6)),
        np.zeros(n_tasks, np.uint8),
        np.zeros((n_jobs, 4), np.uint8),
        np.zeros(n_jobs, np.uint8),
        np.zeros(n_jobs, np.uint8),
        np.full(n_jobs, NULL, np.int32),
        np.full(n_jobs, NULL, np.int32),
        np.zeros(n_jobs, np.int32),
        np.zeros(n_jobs, np.int32),
        np.zeros(n_jobs),
    )
