"""When time alone, without any news, may change what is decided: delays end, protections run out, patience does."""

from __future__ import annotations

import numpy as np

from kai_sched.lowering.limits import duration, moment
from kai_sched.lowering.lower import Lowered
from kai_sched.model.config import Config
from kai_sched.model.objects import Phase
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import RESTS, Settings, Status


def next_change(lowered: Lowered, settings: Settings, config: Config) -> int:
    """The first such time after ``settings.now``, in nanoseconds since the epoch; 0 where there is none in sight.

    A decision at that time may well be the same.
    """
    snapshot, now = lowered.snapshot, settings.now
    jobs, status = snapshot.jobs, snapshot.tasks.status
    stale = (jobs.stale_since != 0) & (jobs.grace != NULL)
    times = [jobs.waits_until, jobs.stale_since[stale] + jobs.grace[stale]]
    if settings.min_runtime and (status == Status.PENDING).any():
        queues = snapshot.queues
        own = np.concatenate((queues.preempt_runtime, queues.reclaim_runtime))
        periods = {settings.preempt_runtime, settings.reclaim_runtime, *own.tolist()}
        starts = jobs.last_start[jobs.last_start != 0]
        times += [starts + period for period in periods if period > 0]
    threshold = duration(config.stuck_in_releasing_s)
    leaving = [pod for pod in lowered.pods[status == Status.RELEASING] if pod.phase == Phase.RUNNING]
    times.append(np.array([moment(pod.deleted_ns) + threshold for pod in leaving], np.int64))
    coming = np.concatenate(times)
    coming = coming[(coming > now) & (coming < RESTS)]
    return int(coming.min()) if coming.size else 0
