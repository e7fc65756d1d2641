"""The columns of the search of v0.17.0 alone (semantics 4.5, ``victims: original``): scenarios of nodes, those that
failed, and what the proof by precedence knows of victims. ``eviction.tables`` has the columns of both searches, the
axes, and the conventions.
"""

from __future__ import annotations

from typing import NamedTuple

from kai_sched.snapshot.tables import Flags, Floats, Longs

MOST_TRIED = 65536  # failed scenarios that are remembered


class LeafVictims(NamedTuple):
    """What is known of all possible victims of a leaf, (Q,) each, until a search changes a job of it
    (``SearchQueues.victims_surveyed``); see ``OriginalTables``."""

    victim_gpus: Floats
    last_victim: Longs
    smallest_victim: Floats
    fewest_pods: Floats
    alike: Longs  # the class of all of their tasks, plus 1; 0: they are not all of one kind
    moved: Longs  # how many of the tasks were moved before in this cycle


class OriginalTables(NamedTuple):
    """Scratch of one search."""

    restricted: Longs  # (1,) 1: only nodes with GPUs to give and those of victims are feasible
    lacks_gpus: Longs  # (1,) 1: fewer GPUs are free than the first task of the preemptor asks for (reclaim)
    alike: Longs  # (1,) the class of all possible victims, plus 1; 0: not of one kind, or nodes have room for more
    precedence_known: Longs  # (1,) 1: cannot_stay_evicted holds for this search
    node_local: Longs  # (1,) 1: the scenarios are node-local
    chunk_mark: Longs  # (T + 1,) by chunk: scenario_clock if the scenario has it
    feasible: Longs  # (N,) 1: it has idle or releasing GPUs; only read in a restricted search
    counted: Longs  # (N,) scenario_clock x 4 + class of pending tasks: its room is in the sum already
    rank: Longs  # (N,) places in ``SearchNodes.order``, the node with the least room first
    offered: Flags  # (N,) the verdicts on the nodes for one pod
    victim_gpus: Floats  # (Q,) GPUs of the victims of a leaf in the scenario
    last_victim: Longs  # (Q,) their last job in the order of the queue, plus 1; above the leaf 1: it has victims
    smallest_victim: Floats  # (Q,) the fewest GPUs of a task of theirs, of those with GPUs
    fewest_pods: Floats  # (Q,) the fewest pods of a job of theirs
    cannot_lose: Longs  # (Q,) 1: all of these victims would be placed again before the preemptor
    cannot_stay_evicted: Longs  # (Q,) 1: that holds for all possible victims of the leaf
    leaf_victims: LeafVictims
    n_needs: Longs  # (1,) how many sets of the preemptor require a level (``domain_capacity``)
    need: Floats  # (S,) the GPUs of the pods below such a set of the preemptor; 0: no such set
    is_served: Longs  # (S,) 1: a domain was found for it
    domain_gpus: Floats  # (H,) GPUs of a domain that are free with all victims so far gone
    domain_taken: Floats  # (H,) what the sets that were served take of them
    tried: Longs  # (65536, 2) scenarios that failed, by fingerprint; 0: none
