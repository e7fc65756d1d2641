"""The columns of the search for few victims alone (semantics 4.5, ``victims: minimal``): the choice of chunks, what
clearing nodes would cost, and what shares let go. ``eviction.tables`` has the columns of both searches, the axes, and
the conventions.
"""

from __future__ import annotations

from typing import NamedTuple

from kai_sched.snapshot.tables import Floats, Longs


class Supply(NamedTuple):
    """What may leave from each node, (N,), and leaves by their side, (Q,): scratch of ``minimal.node_supply``."""

    nodes: Longs  # the nodes with victims of a side
    may_leave: Floats  # GPUs that shares let leave for good
    side_holds: Floats  # GPUs of the victims of one side; 0 between two sides
    level_loses: Floats  # GPUs of jobs with a pod on the node, beside one queue of the path; 0 between two levels
    own_loses: Floats  # the same below a queue of the path
    first_leaf: Longs  # (Q,) link: the first leaf of a side
    next_leaf: Longs  # (Q,) link: the next leaf of the side


class DomainTries(NamedTuple):
    """How the domains of a set compare so far, by frame, (frames,), of ``scratch.topology`` (``domain_choice``)."""

    comparing: Longs  # 1: its domains are compared; 0: it is placed in the best
    chosen: Longs  # chunks that were chosen when the frame was opened
    placed: Longs  # entries of ``Lists.placed`` then
    best: Longs  # the best candidate so far, or NULL
    pods: Longs  # pods that are evicted for it
    last: Longs  # the last chunk of them


class MinimalTables(NamedTuple):
    """Scratch of one search. Chunks are rows of ``Lists.chunk_start``; marks are current where they equal ``clock``."""

    n_chosen: Longs  # (1,) the length of ``chosen``
    clock: Longs  # (1,) moves with each choice of chunks, and each class of pending tasks in it
    refuted: Longs  # (1,) 1: ``bounds.refute`` was asked in this search, and knows no proof
    looked: Longs  # (1,) pods that costs of nodes looked at and that are not yet part of ``Counts.work``
    chosen: Longs  # (T + 1,) the chosen chunks, in the order of their choice
    is_chosen: Longs  # (T + 1,) by chunk: 1 if it is chosen
    is_charged: Longs  # (T + 1,) by chunk: 1 if it is chosen, and ``queues.remains`` counts it as a loss
    kept: Longs  # (T + 1,) by chunk: 1 if its queue would take the room straight back (semantics 4.7, rule 4)
    emptied_by: Longs  # (S,) the chosen chunk that takes the last pods of the set, plus 1; 0: none (``leaving_out``)
    blockers: Longs  # (T + 1,) chunks that keep a class of pending tasks off a node (``minimal.blockers``)
    cost: Longs  # (N,) what clearing the node for one task would cost, as long as cost_mark is current
    cost_mark: Longs  # (N,) clock; minus that: the cost is no less than ``cost``
    barred: Longs  # (N,) clock: the node cannot be cleared
    best: Longs  # (N,) by block of places: the node with the least cost, as long as best_mark is current
    best_mark: Longs  # (N,) clock, by block of places
    given: Floats  # (Q,) GPUs of the potential victims below the queue that shares let go
    largest_given: Floats  # (Q,) the most of them that one chunk holds
    with_chosen: Longs  # (4,) by class of pending tasks: its room with the chosen chunks gone (``sum_up``)
    pending_in_order: Longs  # (L,) the pending tasks in the order of the job: a choice may reorder ``Search.pending``
    place: Longs  # (L,) the nodes that were chosen for the pending tasks
    attempt: Longs  # (1,) moves with each attempt of scenarios
    refused: Longs  # (H,) attempt: a validator refused the preemptor in this topology domain
    tries: DomainTries
    supply: Supply
