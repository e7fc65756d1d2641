"""A cluster lowered with what its selectors of devices say, as a cycle offline does."""

from __future__ import annotations

from dataclasses import replace

from kai_sched.library import answer, with_answers
from kai_sched.lowering.cache import Cache
from kai_sched.lowering.lower import Lowered, lower
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS, SchedulingHints
from kai_sched.model.store import Cluster


def lower_answered(cluster: Cluster, config: Config, now_ns: int, hints: SchedulingHints = NO_HINTS) -> Lowered:
    """The lowered cluster, once no selector waits for its answer."""
    cluster, cache = with_answers(cluster), Cache()
    lowered = lower(cluster, config, now_ns, cache, hints)
    while lowered.claims.questions and (answers := answer(lowered.claims.questions)) is not None:
        cluster = replace(cluster, selector_answers=answers)
        lowered = lower(cluster, config, now_ns, cache, hints)
    return lowered
