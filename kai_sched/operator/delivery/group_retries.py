"""Groups whose binds failed, and nodes where no device could be reserved: for how long each waits, and which gangs are
bound in part and therefore go first.

The bind tracker records failures. Before each cycle, the cycle loop asks which groups wait and which are placed first.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from kai_sched.cluster.backoff import Backoff, RetryTimer
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.model.hints import ALL_PODS, NO_HINTS, SchedulingHints
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult, GroupState

BACKOFF_MAX_S = 60.0
BACKOFF = Backoff(1.0, BACKOFF_MAX_S)
NODE_BACKOFF = Backoff(30.0, 600.0)
ACTIVE = ("Binding", "Bound", "Running")
Devices = frozenset[tuple[str, str]]  # (node, group)
_WAITING = frozenset({"Pending", "Binding", "Pipelined"})


@dataclass(slots=True)
class GroupRetries:
    """For one event loop.

    Attributes
    ----------
    timers
        By group: when a group whose binds failed is tried again.
    partial
        Gangs that are bound in part: they go before all other jobs, since what they hold is of no use yet.
    nodes
        By node: until when it gets no pods that share GPUs.
    awaited_devices
        Returns ``SchedulingHints.awaited_devices`` as of now.
    under_way
        Returns the groups whose binds are under way: an attempt may last for minutes, and is no time without a failure.
    """

    timers: dict[str, RetryTimer] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)
    nodes: dict[str, RetryTimer] = field(default_factory=dict)
    awaited_devices: Callable[[], Devices] = frozenset
    under_way: Callable[[], Set[str]] = frozenset

    def add(self, group: str, now: float) -> float:
        """Count a failure of the group; return when it is tried again, in monotonic seconds."""
        self.partial.add(group)
        timer = self.timers.setdefault(group, RetryTimer(BACKOFF))
        timer.add(now)
        return timer.until

    def pause(self, group: str, now: float) -> float:
        """Let the group wait for the shortest delay, though nothing failed; return when it is tried again."""
        self.partial.add(group)
        timer = self.timers.setdefault(group, RetryTimer(BACKOFF))
        timer.until = max(timer.until, now + BACKOFF.first_s)
        return timer.until

    def close_node(self, node: str, now: float) -> None:
        """Place no pods that share GPUs on the node for a while: a device could not be reserved at ``now``."""
        self.nodes.setdefault(node, RetryTimer(NODE_BACKOFF)).add(now)

    def open_node(self, node: str) -> None:
        """A device was reserved on the node."""
        self.nodes.pop(node, None)

    def next_hints(
        self, now: float, tracker: HintTracker, awaited: Devices = NO_HINTS.awaited_devices
    ) -> SchedulingHints:
        """Return the hints for the next cycle: who goes first, who waits, and what the ``tracker`` says.

        ``awaited`` is what ``awaited_devices`` returned when the view of the cycle was taken.
        """
        self._forget(now)
        waiting = frozenset(group for group, timer in self.timers.items() if now < timer.until)
        closed = frozenset(node for node, timer in self.nodes.items() if now < timer.until)
        hints = tracker.next_hints(dict.fromkeys(self.partial, ALL_PODS), waiting, closed)
        return replace(hints, awaited_devices=awaited)

    def _forget(self, now: float) -> None:
        over = _over(self.timers, now)
        for group in over - self.under_way() if over else over:
            del self.timers[group]
        for node in _over(self.nodes, now):
            del self.nodes[node]

    def next_end(self, now: float) -> float | None:
        """Return when the next group or node may be tried again, in monotonic seconds."""
        timers = chain(self.timers.values(), self.nodes.values())
        return min((timer.until for timer in timers if timer.until > now), default=None)

    def settle(self, cluster: Cluster, result: CycleResult, hints: SchedulingHints) -> None:
        """Forget groups that have recovered or are gone, as of a cycle on ``cluster`` that was given these hints.

        Groups that are there and that the cycle does not know may be those of another shard, and are kept.
        """
        for key in hints.first:
            group = result.groups.get(key)
            if not (_exists(key, cluster) if group is None else _is_partial(group)):
                self.partial.discard(key)
        for key in self.timers.keys() - self.under_way() if self.timers else ():
            group = result.groups.get(key)
            if not (_exists(key, cluster) if group is None else group.counts.keys() & _WAITING):
                del self.timers[key]


def partial_groups(result: CycleResult) -> set[str]:
    """Return the gangs that are bound in part: a crash may have ended their binds."""
    return {key for key, group in result.groups.items() if _is_partial(group)}


def _over(timers: dict[str, RetryTimer], now: float) -> set[str]:
    """Those of which nothing has failed for long. Some groups always have pods that wait."""
    return {key for key, timer in timers.items() if timer.is_over(now)}


def _exists(key: str, cluster: Cluster) -> bool:
    """Whether there is a group, or a bare pod, with this key."""
    return key in cluster.pod_groups or key in cluster.pods


def _is_partial(group: GroupState) -> bool:
    active = sum(group.counts.get(status, 0) for status in ACTIVE)
    needed = group.min_member - group.counts.get("Succeeded", 0)
    return 0 < active < needed and group.counts.keys().isdisjoint({"Gated"}) and "Pending" in group.counts
