"""The columns of the working state and of scratch space; ``allocation`` makes them.

Mutable state lies in two flat buffers with named views onto them. So the undo log is a list of positions and old values
(``kernels.undo``), and two states can be compared bit for bit.

Axes, as in docs/data-model.md: Q queues, J jobs, S sets, T tasks, N nodes, C classes, R resources, K static signatures,
H topology domains, P host ports, F claims that wait for volumes, Z free volumes; and D domains of inter-pod terms, G
GPU devices that may be shared, X shares of tasks, M shares of a pod at most, B blocks of nodes. Amounts by resource are
in the order CPU (millicores), memory (bytes), GPUs where there are three, and in the order of axis R otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from kai_sched.snapshot.tables import Flags, Floats, Ints, Longs, Settings, Snapshot
from kai_sched.solver.claim_state import ClaimState, ClaimSteps, Picks
from kai_sched.solver.decisions import Decisions


class Book(NamedTuple):
    """The books of the queues, (Q + 1, 3) each (semantics 2); inf is unlimited. Row Q, the cluster, has only shares.

    ``quota`` and ``limit`` are those of the snapshot. ``fair`` and ``share`` are computed once; ``held`` and
    ``held_fixed`` change with each placement and eviction, through the undo log. ``asked`` stays as it was at the
    start.
    """

    quota: Floats  # deserved
    limit: Floats  # most that may be held
    fair: Floats  # fair share (2.3, 2.4)
    share: Floats  # allocatable share (2.5); of row Q the capacity (2.1)
    steady: Floats  # steady share (4.9); 0 where the setting is off
    keep: Floats  # what a queue may keep by it, as the allocatable share; of row Q the capacity
    held: Floats  # what is allocated: bound, running or pipelined
    held_fixed: Floats  # what of it non-preemptible jobs hold
    asked: Floats  # what is requested: held or pending
    priority: Floats  # (Q + 1,) higher is served first


class TaskState(NamedTuple):
    """Where tasks are now, by task, (T,): ``status`` is a ``Status``, ``node`` a row of nodes or NULL."""

    status: Longs
    node: Longs


class SetState(NamedTuple):
    """How many tasks each pod set has of which kind, by set, (S,); 0 for sets of sub-groups."""

    active: Longs  # tasks with a place, pipelined ones included
    pending: Longs  # pending tasks, and those that a search has evicted
    waiting: Longs  # the pipelined ones among the active
    cursor: Longs  # no task before this place in the set is pending


class DomainState(NamedTuple):
    """Pods counted for inter-pod terms, by domain, (D,): each term has a domain of its own for each topology value."""

    matched: Longs  # pods that match the term
    carried: Longs  # sum of the weights of pods that have the term themselves


class DeviceState(NamedTuple):
    """What pods hold of the GPU devices that may be shared, by device, (G,), in MiB (``kernels.devices``)."""

    now: Longs  # at present, by pods that are leaving as well
    later: Longs  # once these have left, promised shares included


class VolumeState(NamedTuple):
    """Who gets which free volume (``kernels.volumes``). Rows and nodes are counted from 1; 0 is none."""

    holder: Longs  # (Z,) the claim that takes the volume
    users: Longs  # (F,) how many pods with the claim have a place
    volume: Longs  # (F,) the volume that the claim takes, while it has users
    node: Longs  # (F,) or the node on which one is made for it


class ZoneState(NamedTuple):
    """What is left of NUMA zones, and what tasks hold of them (``kernels.numa``), in the units of resources."""

    free: Floats  # as NumaZones.free, row after row: what is free once leaving pods have left
    leaving: Floats  # what these hold until then
    held: Floats  # as NumaZones.held


class Offsets(NamedTuple):
    """The position in its buffer at which each view begins that is written through the log.

    Those up to ``zone_held`` are in ``floats``, the others in ``integers``. An entry of a view follows in C order:
    ``idle[n, r]`` is at ``at.idle + n * R + r``.
    """

    idle: int
    releasing: int
    held: int
    held_fixed: int
    spare: int
    zone_free: int
    zone_leaving: int
    zone_held: int
    status: int
    node: int
    active: int
    pending: int
    waiting: int
    cursor: int
    matched: int
    carried: int
    device_now: int
    device_later: int
    shares: int
    users_now: int
    users_later: int
    claim_device: int
    claim_option: int
    uses_now: int
    uses_later: int
    used_now: int
    used_later: int
    counted_now: int
    counted_later: int
    elsewhere: int
    holder: int
    users: int
    volume: int
    made_on: int
    leaving_matched: int
    leaving_carried: int
    ports: int
    leaving_ports: int


class State(NamedTuple):
    """The mutable state of a cycle. ``floats`` and ``integers`` hold all of it; the others are views.

    A kernel that may be undone writes through ``kernels.undo`` to the buffers, and reads the views.
    """

    floats: Floats
    integers: Longs
    at: Offsets
    idle: Floats  # (N, R) what a pod can be bound to now
    releasing: Floats  # (N, R) what leaving pods hold, less what is pipelined; only idle + releasing has a meaning
    book: Book
    spare: Floats  # (N, 2) what is left of shared devices, in GPUs: now, and once leaving pods have left
    task: TaskState
    sets: SetState
    domains: DomainState
    devices: DeviceState
    shares: Longs  # (X,) the devices that tasks share, as Tasks.device
    claims: ClaimState
    volumes: VolumeState
    leaving_domains: DomainState  # pods that are leaving, for anti-affinity: they no longer count in ``domains``
    ports: Longs  # (N, P) pods that hold a host port, or are promised it
    leaving_ports: Longs  # (N, P) pods that are leaving and hold a host port
    zones: ZoneState


class Log(NamedTuple):
    """The undo log: positions and old values, the oldest first.

    ``size`` (2,) is the number of entries for floats and for integers; the columns are longer, and nothing behind
    counts.
    """

    float_at: Longs  # position in State.floats
    float_was: Floats  # value before
    integer_at: Longs  # position in State.integers
    integer_was: Longs  # value before
    size: Longs


class Finder(NamedTuple):
    """The best node of each block by class; ``best[c, b]`` holds if ``seen[c, b]`` is the stamp of the block, or for
    a class with claims ``block[2]`` where that is later (``kernels.find``).

    It depends on the state alone and is not undone: a rollback changes the stamps of the blocks that it changes.
    """

    block: Longs  # (3,) nodes in a block; a clock that counts changes; when all nodes changed for claims, by that clock
    stamp: Longs  # (B,) when the block last changed, by that clock
    seen: Longs  # (C, B) the stamp for which the entry was made
    best: Longs  # (C, B) the best node, or NULL
    points: Floats  # (C, B) its points for idle room and node type
    preference: Floats  # (C, B) how much it is preferred among nodes of as many points
    verdicts: Flags  # (K, N) Verdict by static feasibility (12.2)
    dynamic: Flags  # (C,) 1: scored in full, as its best node depends on more than each node by itself
    refused: Flags  # (C,) Verdict on every node; 0: none
    steps: ClaimSteps


class Tree(NamedTuple):
    """The heaps of queues and jobs (``kernels.order``), made anew for each action, and what they are compared by."""

    queue_heap: Ints  # (Q,) queues by heap, laid out as Queues.child
    queue_size: Ints  # (Q + 1,) entries of the heap below the queue
    dirty: Flags  # (Q,) 1: has to be put in its place when it is the head
    extra: Floats  # (Q, 3) what the job reached from head to head below the queue asks for
    job_ptr: Ints  # (Q + 1,) where the heap of a leaf begins in job_heap
    job_size: Ints  # (Q,) jobs in the leaf
    job_heap: Ints  # (J,) jobs by leaf
    sorted_jobs: Ints  # (J,) scratch
    request: Floats  # (J, 3) what the next chunk of the job asks of its queues
    stage: Ints  # (J,) of the elastic order: BELOW_MINIMUM, AT_MINIMUM or ABOVE_MINIMUM


class Survey(NamedTuple):
    """How far each set of one job is, by set, (S,) (``gang.survey_sets``)."""

    met: Ints  # active tasks of a pod set, satisfied members of a set
    able: Ints  # 1: it can be asked for something


class Returning(NamedTuple):
    """What may return of one job whose tasks a search has evicted, by set, (S,) (``gang.count_returning``)."""

    left: Ints  # how many of its tasks may return
    before: Ints  # no task before this place in the set may return


class TopologySearch(NamedTuple):
    """Where a chunk may go by its topology constraints (``kernels.topology``): frames, domains (H,), nodes (N,).

    A frame is a set with a constraint whose tasks are being placed, the outermost first. The first ``size[0]`` are
    open, of which those below ``size[1]`` are suspended: a victim is placed meanwhile.
    """

    size: Longs  # (2,) open frames; suspended frames
    counts: Longs  # (3,) nodes that were visited for the chunk; a clock for ``holder``; 1: only nodes ``offered`` count
    parts: Longs  # (1,) 1: what is left of GPUs that pods share counts
    set: Ints  # (frames,) the set
    first: Ints  # (frames,) where its tasks begin in the chunk
    end: Ints  # (frames,) and end
    floats: Longs  # (frames,) the log when it was opened
    integers: Longs  # (frames,)
    candidate: Ints  # (frames, H) domains to try, in order
    n_candidates: Ints  # (frames,)
    tried: Ints  # (frames,) how many have failed; the next one is being tried
    points: Floats  # (frames, H) by domain of the preferred level
    offered: Flags  # (N,)
    verdicts: Flags  # (N,) verdicts on nodes, with those that the frames do not allow
    need: Floats  # (R,) what the tasks of a set request
    largest: Floats  # (R,) and one of them at most
    free: Floats  # (H, R) what is free in the domain, now or later
    pods: Floats  # (H,) how many of the pods it has room for
    ratio: Floats  # (H,) what is requested, as a part of what is free
    fits: Flags  # (H,) 1: it can hold the tasks by these numbers
    order: Ints  # (H,) domains by level, in the order in which they are tried
    begins: Ints  # (levels + 2,) where each level begins in ``order``
    holder: Longs  # (H,) the clock where pods of the set are in the domain
    blocked: Longs  # (3,) the set that was entered last, pods that its roomiest domain can hold or NULL, its tasks


class ZoneScratch(NamedTuple):
    """Where the placement of a pod in the NUMA zones of a node is worked out (``kernels.numa``)."""

    left: Floats  # by zone, then by resource: what is left of it
    draw: Floats  # the same: what the pod takes of it
    need: Floats  # by resource: what one request asks for
    rest: Floats  # what of it no chosen zone covers
    chosen: Longs  # zones in the order in which they are drawn from
    used: Longs  # marks of zones
    saved: Floats  # as NumaZones.held: what tasks held that are placed anew


class Division(NamedTuple):
    """One resource divided among siblings, (Q,) each, in units of the resource (``kernels.share``).

    The first six are the problem, ``given`` is the answer. ``requestable`` is the request within the limit,
    ``remainder`` the fraction that rounding took away (-1: none), ``strength`` the weight of a queue in one round.
    """

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
    """Space to work in, which no kernel may rely on after it has called another one that is said to overwrite it.

    All but the last five columns serve one job at a time.
    """

    survey: Survey
    order: Ints  # (S,) members of a set in member order
    stack: Ints  # (S + 1,) sets to visit
    chunk: Ints  # (longest job,) tasks of the chunk
    node: Ints  # (longest job,) nodes of these tasks
    devices: Longs  # (M,) devices that are chosen for a pod
    shares: Longs  # (X,) devices of tasks that are placed anew, as Tasks.device
    picks: Picks
    volumes: Longs  # (O,) volumes that claims of one pod would take
    roomy: Flags  # (N,) verdicts on the nodes for one pod
    excluded: Flags  # (longest job,) by task of a job that returns: 1 where it is not asked for (any more)
    returning: Returning
    need: Floats  # (3,) what a chunk requests
    topology: TopologySearch
    zones: ZoneScratch
    work: Division
    wanted: Flags  # (K,) 1: a pod that may be placed has the signature
    largest: Floats  # (R,) the largest allocatable amount of any node
    own: Floats  # (N, 3) what pods of other schedulers leave of a node
    steady: Longs  # (1,) 1: the search goes by steady shares (4.9)
    overshoot: Floats  # (1,) the most GPUs that a pod frees for each that its queue pays, at least 1


class Context(NamedTuple):
    """What the kernels of a cycle work on. Kernels get it as ``ctx``, by reference (ADR 7).

    ``settings`` and ``snapshot`` are the input and never written to.
    """

    settings: Settings
    snapshot: Snapshot
    state: State
    log: Log
    finder: Finder
    scratch: Scratch
    decisions: Decisions
