"""What the process keeps for each shard that it decides for: its settings, hints, objects left out, when it is due, and
what its pool brings to shares of the whole cluster (``ServedShard``).

The cycle loop has one for each shard. Nothing here is shared between shards, so that a fault costs one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.quarantine import Quarantine, Run
from kai_sched.model.config import Config
from kai_sched.model.hints import PoolAmounts
from kai_sched.plan.result import CycleResult

DEADLINE_MAX_S = 60.0  # the longest wait for a deadline; a jump of a clock delays a cycle by no more than this
LATE_S = 0.05  # the wait after a deadline, so that one cycle handles deadlines that are close together


class ShardSettings(Protocol):
    """The settings in force (``LiveSettings``)."""

    @property
    def config(self) -> Config:
        """Those of the process."""

    @property
    def shards(self) -> Mapping[str, Config]:
        """Those of each shard, by name, in the order in which they are decided."""


class ServedShard:
    """One shard. For one event loop; its quarantine is for the solver's thread.

    Attributes
    ----------
    name
        That of the SchedulingShard; "" where it is the only one.
    config
        The settings that its next cycle is decided with.
    due
        When time alone may change the decisions (monotonic); None: never.
    retry_at
        When an object that is left out is tried again (monotonic).
    again_at
        Before then it is not decided, as its last cycle failed (monotonic).
    amounts
        What its pool brought to shares of the cluster when that was counted last.
    leads
        Whether it was decided since this replica leads.
    last
        What it decided last; None before the first cycle.
    """

    def __init__(self, name: str, config: Config, run: Run) -> None:
        self.name = name
        self.config = config
        self.quarantine = Quarantine(run)
        self.tracker = HintTracker()
        self.due: float | None = None
        self.retry_at: float | None = None
        self.again_at = 0.0
        self.amounts = PoolAmounts()
        self.leads = False
        self.last: CycleResult | None = None

    def note_deadline(self, deadline_ns: int, wall_ns: int, now: float) -> None:
        """Note when time alone may change the decisions, in nanoseconds since the epoch; 0: never."""
        wait_s = min(DEADLINE_MAX_S, max(0.0, (deadline_ns - wall_ns) / 1e9))
        self.due = now + wait_s + LATE_S if deadline_ns else None

    def forget_times(self) -> None:
        """It waits for something else than a time: one that has passed would have the loop turn without a rest."""
        self.due = self.retry_at = None
        self.again_at = 0.0

    def next_end(self) -> float | None:
        """When it has to be decided if nothing changes (monotonic)."""
        ends = [end for end in (self.due, self.retry_at) if end is not None]
        return max(min(ends), self.again_at) if ends else self.again_at or None


class ServedShards:
    """The shards of the settings, each with what it has kept; ``run`` computes a cycle."""

    def __init__(self, settings: ShardSettings, run: Run) -> None:
        self._settings = settings
        self._run = run
        self._kept: dict[tuple[str, str], ServedShard] = {}  # by name and node pool

    def current(self) -> list[ServedShard]:
        """The shards as the settings are now, in their order. One with another node pool is another shard."""
        configs = self._settings.shards
        before, self._kept = self._kept, {}
        for name, config in configs.items():
            key = name, config.node_pool
            shard = before.pop(key, None) or ServedShard(name, config, self._run)
            shard.name = name if len(configs) > 1 else ""
            shard.config = config
            self._kept[key] = shard
        for gone in before.values():
            gone.quarantine.stop()
        return list(self._kept.values())

    def next_end(self) -> float | None:
        """When the next of them has to be decided if nothing changes (monotonic)."""
        return min((end for shard in self._kept.values() if (end := shard.next_end()) is not None), default=None)

    def stop(self) -> None:
        """End a search that is under way."""
        for shard in self._kept.values():
            shard.quarantine.stop()
