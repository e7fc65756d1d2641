"""The columns of the search for victims: orders of queues and jobs, marks, lists and counters (semantics 4.3 to 4.5).

All of them are scratch of one cycle, allocated once by ``allocation.make_search`` and beside the working state
(``solver.state``): nothing here goes through the undo log. Each table is a tuple of named columns.

Shapes use the axes of docs/data-model.md in upper case: Q queues, J jobs, S sets, T tasks, N nodes, R resources, K
signatures. D is the number of domains of inter-pod terms, L the number of tasks of the longest job. Columns of width 3
hold the amounts that queues count: CPU in millicores, memory in bytes, GPUs in devices.

Conventions that all tables share:

- A link between tasks holds the next task plus 1, so that 0 ends a chain and zeros are empty chains.
- A mark is current where it equals the clock in ``Counts`` that its comment names. To forget all marks the clock moves
  on, which costs nothing; no table is cleared for each scenario.
- Chunks have numbers from 0 in the order of accumulation, so that a lower number is the less deserving victim.
"""

from __future__ import annotations

from typing import NamedTuple

from kai_sched.snapshot.tables import Amounts, Floats, Longs
from kai_sched.solver.eviction.minimal.tables import MinimalTables
from kai_sched.solver.eviction.original.tables import OriginalTables

DEAD = -7  # OrderedJobs.skip: not in the list; no clock has this value
# How many nodes, or pods, a light loop looks at in the time of a unit of ``Config.search_work``.
NODES_A_UNIT, PODS_A_UNIT = 64, 8
PODS_A_NODE = 2  # a node whose cost is asked for takes the time of so many pods more
MOST_KINDS = 4  # classes of pending tasks whose room is counted


class QueueHeap(NamedTuple):
    """The heaps of queues, (Q + 1,) each, by queue; row Q is for the root queues. ``entry`` is as ``Queues.child``.

    The last six columns are of leaf queues: where their jobs are in ``OrderedJobs``. Their places count from ``base``.
    """

    entry: Longs  # the queue at this place of the heap
    size: Longs  # how many queues the heap below the queue has
    dirty: Longs  # 1: the queue changed, and has to be put in its place when it comes to the top
    base: Longs  # the first row of the leaf in OrderedJobs; base[q + 1] is the row after its last one
    end: Longs  # the place after the last job of the list
    begin: Longs  # the place of the first job of the list
    cursor: Longs  # the next place of the list that this search has not passed
    job_heap_size: Longs  # how many jobs the heap of the leaf has
    first_by_size: Longs  # a row of by_size before which no job of the leaf is in the list


class QueueWeights(NamedTuple):
    """What queues are compared by (semantics 2.6): the first three (Q, 3), the others (Q,), used among victims only."""

    request: Floats  # what the first job asks for
    left: Floats  # minus what would be gone with the first job, too; below 0
    taken: Floats  # what this search took of the leaf
    tier: Longs  # steps 1 and 2: 2 if it is above its fair share, plus 1 if it is not within its quota
    violates: Longs  # step 4: 1 if it holds some of a resource of which its allocatable share is 0
    share_left: Floats  # step 5: the dominant share of what would be left, a ratio
    share: Floats  # step 6: the dominant share of what it holds, a ratio


class OrderedJobs(NamedTuple):
    """The jobs of each leaf in order, (J,): the first four by ``QueueHeap.base`` and a place, the others by job."""

    listed: Longs  # the sorted list, from begin to end
    run_end: Longs  # the place after the run of jobs that ask for no more than the one here (``mark_runs``)
    heap: Longs  # a binary heap of the jobs that stand differently in this search
    by_size: Longs  # all jobs of the leaf: the highest priority first, then the most pods, then the oldest
    stage: Longs  # below, at or above its minimums (``kernels.gang``), as it stands in this search
    skip: Longs  # DEAD: not in the list; the current clock: its entry in the list does not count
    place: Longs  # its row in by_size


class JobOrder(NamedTuple):
    """Jobs in the order of the queue tree: a list for each leaf that stays, a heap for jobs that stand differently now:
    contenders in the order of allocate (semantics 3.1), or victims in the order of 4.3."""

    last_first: int  # 1: the inverse order, as among victims
    heap: QueueHeap
    weights: QueueWeights
    jobs: OrderedJobs
    held: Floats  # (J, 3) what the job asks for next, or, of a victim, what it has left


class SearchTasks(NamedTuple):
    """By task, (T,)."""

    prior: Longs  # the status before it was evicted in the simulation
    home: Longs  # the node that it was evicted from, or NULL
    taken: Longs  # 1: a potential victim, or a recorded one that the accumulation passed
    recorded: Longs  # how often it is named as a recorded victim; 0: it is none
    next_on_node: Longs  # link: the next potential victim on its node
    next_of_job: Longs  # link: the next potential victim of its job
    next_in_scenario: Longs  # link: the next task of its job in the scenario
    chunk_of: Longs  # the chunk with which it became a potential victim
    recorded_with: Longs  # tasks of the scenario with the same number are recorded together
    times: Longs  # how often the scenario names it
    blocked: Floats  # GPUs that its parts keep from others beyond what its queue pays (``rules.blocked_devices``)
    left_node: Longs  # the node that it left in an earlier search of this cycle, plus 1; 0: none
    next_there: Longs  # link: the next task that was on its node when tasks were chained in this action


class SearchJobs(NamedTuple):
    """By job, (J,)."""

    touched: Longs  # 1: it gave a chunk in this accumulation
    first_potential: Longs  # link: its first potential victim
    last_potential: Longs  # its last potential victim, as long as it has a first one
    first_in_scenario: Longs  # link: its first task in the scenario
    last_in_scenario: Longs  # its last one
    scenario_mark: Longs  # scenario_clock: it has tasks in the scenario; minus that: it is entered as a contender
    stage: Longs  # its stage as a victim, in the working state
    stage_waiting: Longs  # its stage as a contender, in the working state
    settled: Longs  # 1: it got places by a search of this cycle, or is near such; no later search takes them


class SearchNodes(NamedTuple):
    """By node, (N,); ``touched`` and ``order`` are lists of nodes."""

    first_potential: Longs  # link: the first potential victim on the node
    last_potential: Longs  # the last one, as long as there is a first one
    mark: Longs  # 1: in the list ``touched``
    touched: Longs  # nodes with potential or recorded victims
    order: Longs  # nodes with potential victims, in the order in which they got the first one
    scenario_mark: Longs  # scenario_clock: the scenario has a victim on it
    place: Longs  # its place in ``order``
    first_there: Longs  # link: the first task that was on the node when tasks were chained in this action


class SearchSets(NamedTuple):
    """By set, (S,)."""

    left: Longs  # active tasks that are left, of the set or below it
    tail: Longs  # a task row: no task of the set at or behind it is left (``victims.chunk``)
    core: Longs  # how many victims of the set count within its minimum (semantics 4.7)
    gives: Longs  # 1: it has a surplus to give (4.4)
    over: Longs  # 1: something at or below it is above its minimum


class SearchQueues(NamedTuple):
    """By queue: the first five (Q, 3), the others (Q,). What is said of a leaf's victims holds for one scenario."""

    old_held: Floats  # what it held before the simulation
    old_fixed: Floats  # the same of non-preemptible jobs
    remains: Floats  # what the scenario leaves of it, as long as remains_mark is current
    involved: Floats  # 1: the scenario takes some of this resource
    overpaid: Floats  # what was paid back too often in this cycle (semantics 4.5)
    remains_mark: Longs  # loss_clock
    blocked: Floats  # GPUs that parts of pods below it keep from others beyond what it pays, before the simulation
    blocked_left: Floats  # what the scenario leaves of that, as long as remains_mark is current
    victims_surveyed: Longs  # 1: ``LeafVictims`` is up to date; a search that changes the leaf resets it
    is_open: Longs  # 1: a leaf that may lose pods for this preemptor (4.2)
    largest: Floats  # GPUs of its largest job; infinite if a task of the leaf was moved before in this cycle
    largest_below: Floats  # the same of the leaves below it that may lose pods
    in_scenario: Longs  # loss_clock: jobs of the leaf take part
    gives_up: Longs  # 1: shares let a job leave this leaf for good


class Rooms(NamedTuple):
    """By node: what the accumulated victims would leave."""

    potential_gpus: Floats  # (N,) GPUs of potential victims
    recorded_gpus: Floats  # (N,) GPUs of recorded victims
    capacity: Floats  # (N,) GPUs that could be free with both gone (``rank_nodes``)
    requests: Floats  # (N, R) all that both request, in the units of resources


class Kinds(NamedTuple):
    """By class of pending tasks, (4,): for how many tasks there is room, an upper bound, each class by itself."""

    cls: Longs  # the class
    wanted: Longs  # how many pending tasks are of it
    now: Longs  # the room without any evictions
    with_recorded: Longs  # with the recorded victims gone
    with_potential: Longs  # with the potential victims gone, too


class Lists(NamedTuple):
    """Lists of tasks, jobs or chunks, (T + 1,) each; ``Counts`` says how long they are."""

    potential: Longs  # potential victims, chunk after chunk
    scenario: Longs  # tasks that the scenario evicts
    recorded: Longs  # recorded victims
    placed: Longs  # tasks that got a place in the simulation
    jobs: Longs  # jobs that take part in it, the preemptor last
    touched_jobs: Longs  # jobs that gave a chunk in this accumulation
    chunk_start: Longs  # by chunk: its first entry in ``potential``
    emptied: Longs  # by chunk: the set of which no task is left without it, or NULL
    neighbours: Longs  # jobs that ``victims.neighbours`` has settled since it began


class Counts(NamedTuple):
    """Lengths of lists, clocks, and facts of a search, (1,) each so that kernels can write them."""

    potential: Longs  # of Lists.potential
    n_chunks: Longs  # chunks in it
    scenario: Longs  # of Lists.scenario
    recorded: Longs  # of Lists.recorded
    placed: Longs  # of Lists.placed
    nodes: Longs  # of SearchNodes.order
    touched_nodes: Longs  # of SearchNodes.touched
    touched_jobs: Longs  # of Lists.touched_jobs
    jobs: Longs  # of Lists.jobs
    kinds: Longs  # rows of Kinds in use
    neighbours: Longs  # of Lists.neighbours
    chained: Longs  # 1: tasks are chained by node in this action
    listed: Longs  # 1: the lists of contenders and victims are those of this action
    action: Longs  # the action that searches
    clock: Longs  # clock: moves with each search, that is, with each preemptor
    scenario_clock: Longs  # clock: moves with each scenario
    loss_clock: Longs  # clock: moves with each count of what queues lose
    accumulation: Longs  # clock: moves with each accumulation
    runtimes: Longs  # 1: some minimum runtime is set anywhere
    pending: Longs  # how many tasks the preemptor asks for
    work: Longs  # what the searches of this action have spent of their budget (semantics 4.8)
    devices: Longs  # GPUs that the pending tasks may keep from others, a part counted as a whole one
    scarce: Longs  # (3,) by resource: 1 if the quota branch of rule 1 applies to it (semantics 4.7)


class Search(NamedTuple):
    """A search for victims: the jobs that compete for room, the jobs that may be evicted, potential and recorded
    victims in the order of accumulation, the scenario, and space to work in."""

    contenders: JobOrder  # the fairest first
    victims: JobOrder  # the least deserving first
    counts: Counts
    tasks: SearchTasks
    jobs: SearchJobs
    nodes: SearchNodes
    sets: SearchSets
    queues: SearchQueues
    rooms: Rooms
    kinds: Kinds
    lists: Lists
    minimal: MinimalTables  # of the search for few victims alone
    original: OriginalTables  # of the search of v0.17.0 alone
    freed: Floats  # (N, R) what certain victims would leave, in the units of resources
    freed_matched: Longs  # (D,) of ``state.domains.matched``, for anti-affinity, what possible victims are
    freed_carried: Longs  # (D,) the same of ``carried``
    freed_ports: Longs  # (N, P) of ``state.ports``, what possible victims hold
    freed_users: Longs  # (F,) of ``state.volumes.users``, what possible victims are
    domain: Longs  # (D,) scratch
    met: Longs  # (D,) 1: a pod that matches stays in the domain of the term, or was looked for (``victims.neighbours``)
    held: Floats  # (J, 3) what each job holds in the working state, pipelined tasks not counted
    ask: Floats  # (J, 3) what each job asks for next in the working state
    pending: Longs  # (L,) the chunk for which room is made
    failed: Longs  # (J,) by equivalence class: the last job that failed, or NULL (``similar_jobs``)
    next_failed: Longs  # (J,) by job that failed: the one of its class before it, or NULL
    request_rank: Longs  # (C,) the place of the request among all requests, by the first resource in which two differ
    chunk: Longs  # (L,) scratch
    hosts: Longs  # (L,) scratch
    home_device: Longs  # (X,) the devices that evicted tasks shared, as Tasks.device
    home_claimed: Longs  # (Y,) the devices that their claims had
    home_option: Longs  # (Y,) and the options that these were allocated for
    home_zones: Floats  # what they held of NUMA zones, as NumaZones.held


class Preemptor(NamedTuple):
    """The job that others are evicted or moved for; it needs room for the first ``n_tasks`` of ``Search.pending``."""

    action: int  # an ``Action``
    job: int  # its row
    n_tasks: int  # the length of its chunk
    ceiling: int  # victims have a lower priority than this
    need: Amounts  # what the chunk asks of its queues
    lacking: float  # how many of its GPUs are not free, parts included; 0 or less: enough are free
    moves: bool  # whether victims that shares keep are given other places
