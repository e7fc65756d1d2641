"""When the next cycle is due if no object changes: at the first end of a delay, a grace or a minimum runtime.

Such periods are a group's preemption delay, the minimum runtime that protects running groups, the grace of a stale
gang, and the time after which a pod counts as stuck in releasing. The operator schedules its next cycle by it.
"""

from __future__ import annotations

import numpy as np

from kai_sched.lowering.limits import duration, moment
from kai_sched.lowering.lower import Lowered
from kai_sched.model.config import Config
from kai_sched.model.objects import Phase
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import DEFERRED, Settings, Status


def next_deadline(lowered: Lowered, settings: Settings, config: Config) -> int:
    """The first end of a period after ``settings.now``, in nanoseconds since the epoch; 0 where there is none.

    A cycle at that time may well give the same result as one now.
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
    coming = coming[(coming > now) & (coming < DEFERRED)]
    return int(coming.min()) if coming.size else 0
