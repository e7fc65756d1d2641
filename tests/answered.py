"""A cluster lowered with what its selectors of devices say, as a cycle offline does."""

from __future__ import annotations

from kai_sched.cycle.run import lower_answered
from kai_sched.library import answer, with_answers
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.lower import Lowered
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.store import Cluster


def lower_offline(
    cluster: Cluster, config: Config, now_ns: int, cache: Cache | None = None, hints: SchedulingHints = NO_HINTS
) -> Lowered:
    """The lowered cluster, once no selector waits for its answer; with ``cache`` as a cycle that uses it would."""
    return lower_answered(with_answers(cluster), config, now_ns, cache or Cache(), hints, answer)
