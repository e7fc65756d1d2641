"""What other packages may ask of a decided cycle, in rows of the snapshot: placements, evictions, outcomes of jobs,
facts about classes, shares.

Cost: an answer reads its columns when it is asked. Invariant: nothing is written, and arrays must not be written to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kai_sched.snapshot.claim_tables import DraClaims
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Action, Flags, Floats, Help, Longs, Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver import jit
from kai_sched.solver.allocation import make_finder, make_scratch, make_tree
from kai_sched.solver.claim_state import ClaimState
from kai_sched.solver.eviction.rules.losses import sides_of
from kai_sched.solver.kernels.claims.steps import CUT
from kai_sched.solver.kernels.feasibility import judge_signature
from kai_sched.solver.log_size import make_log
from kai_sched.solver.pipelined_room import FREE
from kai_sched.solver.stages.explain import Facts
from kai_sched.solver.stages.line import list_line
from kai_sched.solver.state import Context, State

Bools = npt.NDArray[np.bool_]


class PlacedTask(NamedTuple):
    """A task that got a node: to be bound, or pipelined where ``waits``."""

    task: int
    node: int
    waits: bool


class HeldBefore(NamedTuple):
    """What a queue held before an eviction: CPU, memory, GPUs, in the units of queues."""

    queue: int
    amounts: tuple[float, float, float]


class EvictedTask(NamedTuple):
    """A task that is evicted.

    Attributes
    ----------
    task : row of the task
    action : the action that evicts
    preemptor : row of the job for which it is evicted; NULL for stale gangs
    node : row of the node where it ran
    moved : whether it had a place elsewhere when it was evicted
    moves_to : row of the node that it has at the end of the cycle; NULL for none
    held : the queues that were compared, the victim's first; one if both jobs are of one queue, or for a stale gang
    """

    task: int
    action: Action
    preemptor: int
    node: int
    moved: bool
    moves_to: int
    held: tuple[HeldBefore, ...]


class JobOutcome(NamedTuple):
    """Why tasks of a job are still pending.

    Attributes
    ----------
    verdict : OK if nothing stopped the job
    blocking_row : row of the queue of a gate, of the task that found no node, or of the set that found no domain;
        NULL if none of them
    resource : column of the resource of a gate
    need : how much of it the chunk requests
    asked : tasks in the chunk that failed
    placed : how many of them had a place before the failure
    """

    verdict: Verdict
    blocking_row: int
    resource: int
    need: float
    asked: int
    placed: int


class ClassFacts(NamedTuple):
    """What keeps pods of a class from the nodes, at the end of the cycle.

    Attributes
    ----------
    room : how many such pods would still fit, each by itself
    short : (R,) how many otherwise fit nodes lack the resource
    largest_free : (R,) most that one of these has free or freeing, in the units of resources
    nodes : how many nodes have each verdict
    """

    room: int
    short: Longs
    largest_free: Floats
    nodes: dict[Verdict, int]


class PoolShares(NamedTuple):
    """What a node pool brings to shares of the cluster (2.8): capacity (3,), and by queue, (Q, 3) each, what is held,
    held by jobs that are not preemptible, and requested."""

    capacity: Floats
    held: Floats
    fixed: Floats
    asked: Floats


class QueueShares(NamedTuple):
    """By queue, (Q, 3) each, in the units of queues: CPU, memory, GPUs; infinity is unlimited."""

    quota: Floats
    limit: Floats
    fair: Floats
    held: Floats
    held_fixed: Floats
    asked: Floats


def _shared_left(snapshot: Snapshot, state: State) -> Floats:
    """(N,) By the memory that pods hold; the books of nodes count memory as its part of the largest device."""
    memory, later = snapshot.nodes.device_memory, state.devices.later
    if not later.size:
        return np.zeros(memory.size)
    node = np.repeat(np.arange(memory.size), np.diff(snapshot.devices.ptr))
    left = np.where((later > 0) & (snapshot.devices.closed == 0), 1.0 - later / memory[node], 0.0).clip(min=0.0)
    found: Floats = np.bincount(node, left, memory.size).astype(np.float64)
    return found


class Solution:
    """The answers of one cycle.

    Attributes
    ----------
    status : (T,) of tasks at the end, each a ``Status``
    node : (T,) row of the node of each task, NULL for none
    lost : (T,) whether the pending task got a node in this cycle and lost it again, so that it is pending as before
    idle : (N, R) what is left of each node, in the units of resources; whole GPUs alone
    releasing : (N, R) what leaving pods hold, less what is pipelined
    shared_left : (N,) GPUs left of those that pods share, once leaving pods have left; counted in neither of these
    help : (J, 4) by action, what it found for the job, each a ``Help``
    simulated : (4,) by action, how many scenarios it simulated
    pipelined_free : (J,) whether the job is pipelined onto room that is free already
    hard_claims : (C,) whether a search for the devices of claims of the class was cut by its own steps
    queues : what each queue has, holds and requests
    pool : what the pool brings to shares of the cluster; None where it has shares of its own
    times : what the timer said before the first action and after each, in seconds
    """

    def __init__(self, ctx: Context, facts: Facts, times: tuple[float, ...], pool: PoolShares | None = None) -> None:
        snapshot, state, decisions = ctx.snapshot, ctx.state, ctx.decisions
        # Without what only a running cycle needs: kept as long as the result, it would be paged in anew each cycle.
        self._ctx = ctx._replace(log=None, finder=None, scratch=None)  # type: ignore[arg-type]
        self._snapshot = snapshot
        self._decisions = decisions
        self._facts = facts
        self.times = times
        self.status: Longs = state.task.status
        self.node: Longs = state.task.node
        self.lost: Bools = (snapshot.tasks.status == Status.PENDING) & (self.status == Status.RELEASING)
        self.idle: Floats = state.idle.copy()
        self.releasing: Floats = state.releasing.copy()
        # Users count whole GPUs; what is left of shared devices is no whole one.
        self.idle[:, GPU] -= state.spare[:, 0]
        self.releasing[:, GPU] -= state.spare[:, 1] - state.spare[:, 0]
        self.shared_left = _shared_left(snapshot, state)
        self._shares: Longs = state.shares
        self._claims = state.claims
        self._volumes = state.volumes
        self._zones = state.zones.held
        self.help = decisions.help
        self.simulated = decisions.simulated
        self.pipelined_free: Bools = decisions.free == FREE
        self.hard_claims: Bools = ctx.finder.steps.cut == CUT
        book, n_queues = state.book, snapshot.queues.parent.size
        shares = (book.quota, book.limit, book.fair, book.held, book.held_fixed, book.asked)
        self.queues = QueueShares(*(column[:n_queues] for column in shares))
        self.pool = pool

    def placements(self) -> Iterator[PlacedTask]:
        """Return the placements in the order of deciding."""
        log = self._decisions.placements
        count = int(log.length[0])
        columns = (column[:count].tolist() for column in (log.task, log.node, log.waits))
        for t, n, waits in zip(*columns, strict=True):
            if t != NULL:
                yield PlacedTask(t, n, bool(waits))

    def devices_of(self, t: int) -> list[int]:
        """Return the devices of which task ``t`` has a share, rows of ``Devices``; none if it has no place."""
        ptr = self._snapshot.tasks.share_ptr
        return [d for d in self._shares[ptr[t] : ptr[t + 1]].tolist() if d != NULL]

    def zones_of(self, t: int) -> Floats:
        """Return what task ``t`` holds of the zones of its node: a row for each, with the amounts (B,)."""
        numa = self._snapshot.numa
        first, end = numa.held_ptr[t], numa.held_ptr[t + 1]
        found: Floats = self._zones[first:end].reshape(-1, max(1, numa.free.shape[1]))
        return found

    def volumes_of(self, t: int) -> list[tuple[int, int]]:
        """Return the waiting claims of task ``t``, which has a place, and the volume of each, rows of ``Volumes``.

        NULL for a volume that is to be made. Claims without rows are left out.
        """
        volumes, c = self._snapshot.volumes, self._snapshot.tasks.cls[t]
        claims = volumes.claim[volumes.ptr[c] : volumes.ptr[c + 1]].tolist()
        return [(w, int(self._volumes.volume[w]) - 1) for w in claims]

    def device_uses(self) -> tuple[Longs, Longs]:
        """Return how many claims have each device of a slice, (V,) each: now, and once leaving pods have left."""
        return self._claims.uses_now, self._claims.uses_later

    def claimed_by(self, b: int) -> list[tuple[int, int]]:
        """Return the devices of claim ``b`` at the end, rows of ``DraDevices``, each with its row of options."""
        return self._claimed(b, self._claims)

    def claimed_first(self, b: int) -> list[tuple[int, int]]:
        """Return what ``claimed_by`` would return at the start."""
        return self._claimed(b, self._snapshot.dra_claims)

    def _claimed(self, b: int, claims: ClaimState | DraClaims) -> list[tuple[int, int]]:
        ptr = self._snapshot.dra_claims.slot_ptr
        columns = (column[ptr[b] : ptr[b + 1]].tolist() for column in (claims.device, claims.option))
        return [(v, o) for v, o in zip(*columns, strict=True) if v != NULL]

    def evictions(self) -> Iterator[EvictedTask]:
        """Return the evictions in the order of deciding."""
        log, jobs = self._decisions.evictions, self._snapshot.jobs
        count = int(log.length[0])
        rows = log.task[:count]
        columns = (rows, log.action[:count], log.preemptor[:count], log.node[:count], log.moved[:count])
        status, node = self.status[rows], self.node[rows]
        queues = jobs.queue[self._snapshot.tasks.job[rows]]
        amounts = (log.victim_held[:count], log.preemptor_held[:count])
        compared: dict[tuple[int, int], tuple[int, int]] = {}
        for t, action, p, n, moved, ends, to, victim, *held in zip(
            *(column.tolist() for column in (*columns, status, node, queues, *amounts)), strict=True
        ):
            pair = victim, NULL if p == NULL else int(jobs.queue[p])
            if pair not in compared:
                compared[pair] = self._compared(*pair)
            sides = zip(compared[pair], held, strict=True)
            yield EvictedTask(
                t,
                Action(action),
                p,
                n,
                bool(moved),
                to if ends == Status.PIPELINED else NULL,
                tuple(HeldBefore(q, (cpu, memory, gpus)) for q, (cpu, memory, gpus) in sides if q != NULL),
            )

    def _compared(self, victim: int, winner: int) -> tuple[int, int]:
        """The queues of both sides whose holdings were compared; the second is NULL if there is only one."""
        if NULL not in (victim, winner) and victim != winner:
            a, b = sides_of(victim, winner, self._snapshot.queues.parent)
            return int(a), int(b)
        return victim, NULL if winner == victim else winner

    def line(self) -> list[int]:
        """Return the rows of the jobs that wait, in the order in which they are tried next."""
        order = np.zeros(self._snapshot.jobs.queue.size, np.int32)
        log, finder, scratch = make_log(self._snapshot), make_finder(self._snapshot), make_scratch(self._snapshot)
        ctx = self._ctx._replace(log=log, finder=finder, scratch=scratch)
        length = list_line(jit.reference(ctx), make_tree(self._snapshot), order)
        found: list[int] = order[:length].tolist()
        return found

    def outcome(self, j: int) -> JobOutcome:
        """Return why tasks of job ``j`` are still pending."""
        decisions = self._decisions
        return JobOutcome(
            Verdict(int(decisions.verdict[j])),
            int(decisions.blocking_row[j]),
            int(decisions.resource[j]),
            float(decisions.need[j]),
            int(decisions.asked[j]),
            int(decisions.placed[j]),
        )

    def helped(self, j: int) -> tuple[Help, ...]:
        """Return what each action that evicts found for job ``j``, in the order of ``Action``."""
        return tuple(Help(code) for code in self.help[j].tolist())

    def class_facts(self, c: int) -> ClassFacts:
        """Return what keeps pods of class ``c`` from the nodes; measured only if a task of it found no node."""
        facts = self._facts
        nodes = {Verdict(int(v)): int(facts.nodes[c, v]) for v in np.flatnonzero(facts.nodes[c])}
        return ClassFacts(int(facts.room[c]), facts.short[c], facts.largest_free[c], nodes)

    def fixed_verdicts(self, c: int) -> Flags:
        """Return what keeps pods of class ``c`` from each node by its fixed properties alone, (N,); OK where none."""
        snapshot = self._snapshot
        verdicts = np.zeros(snapshot.nodes.condition.size, np.uint8)
        judge_signature(int(snapshot.classes.signature[c]), snapshot.nodes, snapshot.signatures, verdicts)
        return verdicts
