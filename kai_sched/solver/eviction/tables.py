"""What a search for victims needs beside the working state: queues and jobs in order, and the tables of the search.

All of it is scratch of one action. Each table is a tuple of named columns; ``_columns`` allocates them. Links between
tasks hold the next task plus 1, so that 0 ends a chain. A mark is current where it equals the clock that it names.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Amounts, Flags, Floats, Longs, Snapshot
from kai_sched.solver.state import longest_job

Table = TypeVar("Table", bound=tuple[Any, ...])

DEAD = -7  # OrderedJobs.skip: not in the list
_BY_RESOURCE = ("old_held", "old_fixed", "remains", "involved", "overpaid")  # of SearchQueues
MOST_KINDS = 4  # classes of pending tasks whose room is counted
MOST_TRIED = 65536  # failed scenarios that are remembered


class QueueHeap(NamedTuple):
    """The heaps of queues, (Q + 1,) each, row Q above the roots; of a leaf, where its jobs are in OrderedJobs."""

    entry: Longs  # the heap's entry at this place, like Queues.child
    size: Longs  # of the heap below the queue
    dirty: Longs  # 1: the queue has to be put in its place
    base: Longs  # of a leaf: its first place in OrderedJobs
    end: Longs  # where its list ends, from base
    begin: Longs  # where its list begins
    cursor: Longs  # the next entry of the list
    job_heap_size: Longs
    first_by_size: Longs  # where in by_size the first job is that is in the list


class QueueWeights(NamedTuple):
    """What queues are compared by: the first three (Q, 3), the others (Q,), among victims only."""

    request: Floats  # what the first job asks for
    left: Floats  # minus what would be gone with the first job
    taken: Floats  # what is gone already
    tier: Longs  # 2: above its fair share, plus 1: above its quota
    violates: Longs  # 1: it holds some of what it is entitled to none of
    share_left: Floats  # the dominant share of what would be left
    share: Floats  # the dominant share of what it holds


class OrderedJobs(NamedTuple):
    """By place of a leaf: the sorted list, where a run of equal requests ends, the heap, and all jobs by priority and
    number of pods. By job: its stage, the clock at which it is passed over, and its place in by_size. (J,) each.
    """

    listed: Longs
    run_end: Longs
    heap: Longs
    by_size: Longs
    stage: Longs
    skip: Longs
    place: Longs


class JobOrder(NamedTuple):
    """Jobs by queue in an order: a list for each leaf that stays, a heap for those that stand differently now."""

    last_first: int  # 1: the last comes first, as among victims
    heap: QueueHeap
    weights: QueueWeights
    jobs: OrderedJobs
    held: Floats  # (J, 3) what the job asks for next, or, of a victim, what it has left


class SearchTasks(NamedTuple):
    """By task, (T,)."""

    prior: Longs  # status before it was evicted
    home: Longs  # node where it ran
    taken: Longs  # 1: a potential victim
    recorded: Longs  # how often it is recorded as a victim of a part of the pending tasks
    next_on_node: Longs
    next_of_job: Longs
    next_in_scenario: Longs
    batch: Longs  # the chunk with which it became a potential victim
    recorded_with: Longs  # tasks of the same number are recorded together
    times: Longs  # how often the scenario names it
    left_node: Longs  # the node that it left in an earlier search of this cycle, plus 1


class SearchJobs(NamedTuple):
    """By job, (J,)."""

    touched: Longs  # 1: it has potential victims
    first_potential: Longs
    last_potential: Longs
    first_in_scenario: Longs
    last_in_scenario: Longs
    scenario_mark: Longs
    stage: Longs  # as a victim
    stage_waiting: Longs  # as a contender
    settled: Longs  # 1: it has got a place by a search of this cycle, and keeps it


class SearchNodes(NamedTuple):
    """By node, (N,); ``touched`` and ``order`` are lists of nodes."""

    first_potential: Longs
    last_potential: Longs
    mark: Longs  # 1: in the list ``touched``
    touched: Longs
    order: Longs  # nodes with potential victims, as they came
    feasible: Longs
    scenario_mark: Longs
    counted: Longs
    rank: Longs
    cost: Longs  # what clearing the node for one task would cost, as long as cost_mark is current
    cost_mark: Longs
    barred: Longs  # 1: it cannot be cleared
    place: Longs  # its place in ``order``
    best: Longs  # by block of places: the one with the least cost, as long as best_mark is current
    best_mark: Longs


class SearchSets(NamedTuple):
    """By set, (S,)."""

    left: Longs  # active tasks that are left
    core: Longs  # victims within the minimum
    gives: Longs  # 1: it has a surplus to give
    over: Longs  # 1: something at or below it is above its minimum


class SearchQueues(NamedTuple):
    """By queue: the first five (Q, 3), the others (Q,)."""

    old_held: Floats  # what it held before the simulation
    old_fixed: Floats  # the same of non-preemptible jobs
    remains: Floats  # what the scenario leaves of it, as long as remains_mark is current
    involved: Floats  # 1: the scenario takes some of this resource
    overpaid: Floats  # what was paid back too often (4.5)
    remains_mark: Longs  # against Counts.presence
    is_open: Longs  # 1: a leaf that may lose pods
    largest: Floats  # GPUs of its largest job
    largest_below: Floats  # the same of the leaves below it that may lose pods
    in_scenario: Longs  # against Counts.presence: jobs of the leaf take part
    victim_gpus: Floats  # what its victims hold
    last_victim: Longs  # their last job in the order of the queue, plus 1
    smallest_victim: Floats  # the fewest GPUs of a task of theirs
    fewest_pods: Floats  # the fewest pods of a job of theirs
    cannot_lose: Longs  # 1: its victims would be back, in what was looked at last
    cannot_stay_evicted: Longs  # 1: they always would
    gives_up: Longs  # 1: shares let somebody go from this leaf
    given: Floats  # GPUs of the potential victims below it that shares let go
    most_given: Floats  # the most of one chunk of them


class LeafVictims(NamedTuple):
    """What all possible victims of a leaf come to, (Q,); see SearchQueues."""

    victim_gpus: Floats
    last_victim: Longs
    smallest_victim: Floats
    fewest_pods: Floats
    alike: Longs  # their class plus 1 if they are all alike
    moved: Longs  # how many were moved before in this cycle
    known: Longs  # 1: all this is known


class Rooms(NamedTuple):
    """By node what victims would leave."""

    potential_gpus: Floats  # (N,) whole GPUs of potential victims
    recorded_gpus: Floats  # (N,) whole GPUs of recorded ones
    capacity: Floats  # (N,) what it could have free
    requests: Floats  # (N, R) all that both hold


class Kinds(NamedTuple):
    """By class of pending tasks, (4,): for how many tasks there is room, an upper bound, each class by itself."""

    cls: Longs
    wanted: Longs
    now: Longs
    with_recorded: Longs  # with the recorded victims gone
    with_potential: Longs  # with the potential ones gone, too
    with_chosen: Longs  # with those gone that ``eviction.minimal_search`` looks at


class Lists(NamedTuple):
    """Lists of tasks, jobs or batches, (T + 1,) each; how long they are says ``Counts``."""

    potential: Longs  # potential victims
    scenario: Longs  # what the scenario evicts
    recorded: Longs  # recorded victims
    placed: Longs  # tasks that found a place in the simulation
    jobs: Longs  # jobs that take part in it
    touched_jobs: Longs
    batch_mark: Longs  # by batch: whether it was chosen
    chunk_start: Longs  # by chunk: its first entry in ``potential``
    chosen: Longs  # the chunks of a minimal scenario
    is_chosen: Longs  # by chunk
    emptied: Longs  # by chunk: the set of which nobody is left without it, or NULL
    kept: Longs  # by chunk: 1 where its queue would take the room back


class Counts(NamedTuple):
    """Lengths of lists, clocks, and facts of a search: (1,) each but ``short``."""

    potential: Longs
    batches: Longs
    scenario: Longs
    recorded: Longs
    placed: Longs
    nodes: Longs
    touched_nodes: Longs
    touched_jobs: Longs
    jobs: Longs
    kinds: Longs
    clock: Longs
    scenario_clock: Longs
    choice_clock: Longs
    presence: Longs
    last_job: Longs
    restricted: Longs
    probe: Longs
    runtimes: Longs
    refuted: Longs
    pending: Longs
    lacking: Longs
    alike: Longs
    work: Longs
    precedence_known: Longs
    local: Longs
    chosen: Longs
    retaken: Longs  # 1: the last scenario failed as somebody would take the room back (``eviction.retake``)
    short: Longs  # (3,) by resource: whether quotas of it say who may be taken from (``validate.take_amount``)


class Search(NamedTuple):
    """A search for victims: who competes for room, who may be evicted, potential victims in the order of accumulation,
    recorded ones, and the scenario.
    """

    contenders: JobOrder  # the fairest first
    victims: JobOrder  # the least fair first
    counts: Counts
    tasks: SearchTasks
    jobs: SearchJobs
    nodes: SearchNodes
    sets: SearchSets
    queues: SearchQueues
    leaves: LeafVictims
    rooms: Rooms
    kinds: Kinds
    lists: Lists
    freed: Floats  # (N, R) what all possible victims hold
    domain: Longs  # (D,) scratch
    offered: Flags  # (N,) scratch: the verdicts on the nodes for one pod
    held: Floats  # (J, 3) what each job holds, pipelined tasks apart
    ask: Floats  # (J, 3) what each job asks for next
    pending: Longs  # (longest job,) the chunk for which room is made
    pending_in_order: Longs  # (longest job,) the same, in the order of the job
    failed: Longs  # (J,) by equivalence class, the job that failed last
    tried: Longs  # (65536, 2) scenarios that failed, by fingerprint; 0: none
    chunk: Longs  # (longest job,) scratch
    hosts: Longs  # (longest job,) scratch
    place: Longs  # (longest job,) the nodes that were chosen for the pending tasks of the preemptor


class Preemptor(NamedTuple):
    """The job that others are evicted or moved for; it needs room for the first ``n_tasks`` of ``Search.pending``."""

    action: int
    job: int
    n_tasks: int
    ceiling: int  # victims have a lower priority than this
    need: Amounts
    lacking: float  # how many of its GPUs are not free
    moves: bool  # whether victims that may not leave for good are given other places


def make_search(snapshot: Snapshot) -> Search:
    """A search that knows of nobody yet."""
    n_tasks, n_jobs, n_queues = snapshot.tasks.job.size, snapshot.jobs.queue.size, snapshot.queues.parent.size
    n_nodes, n_resources = snapshot.nodes.allocatable.shape
    longest = longest_job(snapshot)
    return Search(
        make_job_order(snapshot, 0),
        make_job_order(snapshot, 1),
        _columns(Counts, 1)._replace(short=np.zeros(3, np.int64)),
        _columns(SearchTasks, n_tasks),
        _columns(SearchJobs, n_jobs),
        _columns(SearchNodes, n_nodes),
        _columns(SearchSets, snapshot.sets.parent.size),
        _columns(SearchQueues, n_queues, dict.fromkeys(_BY_RESOURCE, (n_queues, 3))),
        _columns(LeafVictims, n_queues),
        _columns(Rooms, n_nodes, {"requests": (n_nodes, n_resources)}),
        _columns(Kinds, MOST_KINDS),
        _columns(Lists, n_tasks + 1),
        np.zeros((n_nodes, n_resources)),
        np.zeros(snapshot.n_domains, np.int64),
        np.zeros(n_nodes, np.uint8),
        np.zeros((n_jobs, 3)),
        np.zeros((n_jobs, 3)),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
        np.full(n_jobs, NULL, np.int64),
        np.zeros((MOST_TRIED, 2), np.int64),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
    )


def make_job_order(snapshot: Snapshot, last_first: int) -> JobOrder:
    """Empty lists."""
    n_queues, jobs = snapshot.queues.parent.size, snapshot.jobs
    n_jobs = jobs.queue.size
    heap, ordered = _columns(QueueHeap, n_queues + 1), _columns(OrderedJobs, n_jobs)
    known = np.flatnonzero(jobs.queue != NULL)
    np.cumsum(np.bincount(jobs.queue[known], minlength=n_queues), out=heap.base[1:])
    by_size = known[np.lexsort((-np.diff(jobs.task_ptr)[known], -jobs.priority[known], jobs.queue[known]))]
    ordered.by_size[: by_size.size] = by_size
    ordered.place[by_size] = np.arange(by_size.size)
    weights = _columns(QueueWeights, n_queues, dict.fromkeys(("request", "left", "taken"), (n_queues, 3)))
    return JobOrder(last_first, heap, weights, ordered, np.zeros((n_jobs, 3)))


def _columns(of: type[Table], length: int, shapes: dict[str, tuple[int, ...]] | None = None) -> Table:
    """The table with zeros in columns of this length, but for those whose shape is given; equal types side by side."""
    columns: dict[str, Any] = {name: np.zeros(shape) for name, shape in (shapes or {}).items()}
    for dtype, kind in ((np.int64, Longs), (np.float64, Floats)):
        names = [name for name, each in _types(of).items() if each == kind and name not in columns]
        columns |= zip(names, np.zeros((len(names), length), dtype), strict=True)
    return of(**columns)


@cache
def _types(of: type[Any]) -> dict[str, Any]:
    """The types of the columns of a table."""
    return get_type_hints(of)
