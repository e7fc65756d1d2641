"""In which order the decisions of a cycle are carried out: evictions first, then the binds of each group; and who hears
of them.

The cycle loop calls it; the trackers keep what is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.model.store import Cluster
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.delivery.bind_tracker import BindTracker
from kai_sched.operator.delivery.eviction_tracker import EvictionTracker
from kai_sched.operator.delivery.group_retries import GroupRetries
from kai_sched.plan.effects import Bind


class CycleExecutor:
    """For one event loop.

    Parameters
    ----------
    evictions, binds
        What is under way.
    send
        Takes the binds of one group, and the view that they were decided on.
    report
        Called with what was carried out: a cycle, or those of all shards as one.
    """

    def __init__(
        self,
        evictions: EvictionTracker,
        binds: BindTracker,
        send: Callable[[Sequence[Bind], Cluster], None],
        report: Callable[[DecidedCycle], None],
    ) -> None:
        self._evictions = evictions
        self._binds = binds
        self._send = send
        self._report = report

    @property
    def retries(self) -> GroupRetries:
        """Groups whose binds failed."""
        return self._binds.retries

    def refused_victims(self) -> frozenset[str]:
        """``SchedulingHints.refused_victims`` as of now."""
        return self._evictions.refused_victims()

    async def carry_out(self, decided: DecidedCycle) -> None:
        """Hand the evictions and binds of the cycle to those who send them."""
        await self._evictions.carry_out(decided)
        time_slice = TimeSlice()
        for group, binds in _binds_by_group(decided).items():
            if await self._binds.assume(group, binds, decided.cluster.pods, time_slice):
                self._send(binds, decided.cluster)

    def report(self, decided: DecidedCycle) -> None:
        """Tell what was carried out."""
        self._report(decided)


def _binds_by_group(decided: DecidedCycle) -> dict[str, list[Bind]]:
    groups: dict[str, list[Bind]] = {}
    for effect in decided.result.effects:
        if isinstance(effect, Bind):
            groups.setdefault(decided.cluster.pods[effect.pod].group_key, []).append(effect)
    return groups
