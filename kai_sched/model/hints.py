"""The fields of ``SchedulingHints``, what one cycle hands to the next; ``cycle.hint_tracker`` fills them.

A cycle keeps no state of its own. A program that runs cycles one after the other passes these hints on
(``cycle.hint_tracker`` makes them), so that groups do not take room from each other in turn and every group gets its
search for victims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ALL_PODS = 2**31 - 1
Amounts = tuple[float, float, float]  # CPU in millicores, memory in bytes, GPUs in devices
NOTHING: Amounts = (0.0, 0.0, 0.0)


def add(one: Amounts, other: Amounts) -> Amounts:
    """The sum."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


@dataclass(frozen=True, slots=True)
class QueueAmounts:
    """What the pods of a queue, and of the queues below it, hold and request in some node pools (semantics 2.2)."""

    held: Amounts = NOTHING
    held_fixed: Amounts = NOTHING
    requested: Amounts = NOTHING


@dataclass(frozen=True, slots=True)
class PoolAmounts:
    """What some node pools bring to a division of capacity over all of them (semantics 2.8): the capacity of their
    nodes, and the amounts of queues by name; queues that are not named hold and request nothing there."""

    capacity: Amounts = NOTHING
    queues: Mapping[str, QueueAmounts] = field(default_factory=dict)


NO_POOLS = PoolAmounts()


@dataclass(frozen=True, slots=True)
class SchedulingHints:
    """How a cycle treats single groups. Groups are named by their key, pods by theirs.

    Attributes
    ----------
    first
        Groups that are tried before all others, and for how many of their pods that holds. Further pods are tried
        among the other groups. ``ALL_PODS`` sets no bound.
    deferred
        Groups that are not tried in this cycle.
    pipelined_free
        With ``victims: original``, groups that an earlier cycle pipelined onto room that was free already
        (``CycleResult.pipelined_free``). A group that would be pipelined in this way once more is bound instead.
    nominated_nodes
        Node by pod: the pod gets this node where it still fits.
    searched
        What each evicting action found (``snapshot.tables.Help``) for groups that have had their search for victims
        while others have not. No pod is evicted for these groups until the others have had theirs.
    may_search
        Where this is not empty, the only groups for which pods may be evicted in this cycle.
    brief
        Groups whose claims for devices were too hard to decide in earlier cycles. In this one the search for their
        devices ends early, so that others have their turn.
    closed_nodes
        Nodes that get no pods that share GPUs: a device could not be reserved there.
    awaited_devices
        (node, group) of shared devices whose pods hold them although no reservation pod shows it: it is about to be
        made, for the first time or again (``Config.proves_shares``).
    refused_victims
        Pods whose eviction the API server has refused, again and again: as long as they have nodes, the jobs that they
        are in are no victims.
    elsewhere
        With ``Config.fair_share`` "cluster", what the other node pools bring to the division.
    """

    first: Mapping[str, int] = field(default_factory=dict)
    deferred: frozenset[str] = frozenset()
    pipelined_free: frozenset[str] = frozenset()
    nominated_nodes: Mapping[str, str] = field(default_factory=dict)
    searched: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    may_search: frozenset[str] = frozenset()
    closed_nodes: frozenset[str] = frozenset()
    brief: frozenset[str] = frozenset()
    awaited_devices: frozenset[tuple[str, str]] = frozenset()
    refused_victims: frozenset[str] = frozenset()
    elsewhere: PoolAmounts = NO_POOLS

    def defers_search(self, group: str) -> bool:
        """Whether no pod is evicted for the group in this cycle, because other groups search first."""
        return group in self.searched or (bool(self.may_search) and group not in self.may_search)


NO_HINTS = SchedulingHints()
