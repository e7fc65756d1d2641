"""The work queues of the grouper: owners to reconcile, PodGroups and pods to write; from when on they are open. The
delays of retries are those of PodGroups in ``cluster.retry``.

``Groups`` adds requests, the grouper and the PodGroup writer empty the queues. Nothing is queued before this replica
leads: then the WorkloadGrouper opens the queues and reconciles everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from kai_sched.cluster.retry import POD_GROUPS
from kai_sched.cluster.work_queue import WorkQueue
from kai_sched.model.read.kinds import Kind

BACKOFF = POD_GROUPS.backoff

Target = tuple[Kind, str]  # what is to be written: POD_GROUP or POD, and "namespace/name"


class GroupingRequests:
    """For one event loop.

    A *source* is what pods are decided together for (``members.source_of``): the uid of what owns them directly.

    Parameters
    ----------
    monotonic
        Seconds that never go back.
    rng
        Jitter of retries.
    """

    def __init__(self, monotonic: Callable[[], float], rng: random.Random) -> None:
        self._monotonic = monotonic
        self.reconciles: WorkQueue[str] = WorkQueue(rng, BACKOFF, patient=False)
        self.writes: WorkQueue[Target] = WorkQueue(rng, BACKOFF, patient=True)
        self._requested_s: dict[str, float] = {}
        self._uncached: set[str] = set()
        self._is_open = False

    @property
    def pending(self) -> int:
        """The number of requests that are due or under way."""
        return self.reconciles.pending + self.writes.pending

    def open(self) -> None:
        """This replica leads: requests are queued from now on."""
        self._is_open = True

    def reconcile(self, source: str, delay_s: float = 0.0, *, uncached: bool = False) -> None:
        """Ask for the source to be reconciled, ``delay_s`` seconds from now.

        With ``uncached`` nothing that is cached about its owners counts: the source may be gone.
        """
        if not self._is_open:
            return
        if uncached:
            self._uncached.add(source)
        # From now, and not from when it is due: sources that share an owner would each want an answer of their own.
        self._requested_s[source] = self._monotonic()
        self.reconciles.add(source, delay_s)

    def begin(self, source: str) -> tuple[float, bool]:
        """The reconciliation of the source begins: return when it was asked for, and whether the cache counts.

        It does not for a source that failed: an answer from before this retry would have it reconciled once more at
        once, as if it had not failed.
        """
        is_cached = source not in self._uncached and not self.reconciles.has_failed(source)
        self._uncached.discard(source)
        return self._requested_s.pop(source, self._monotonic()), is_cached

    def write(self, kind: Kind, key: str) -> None:
        """Ask for the PodGroup or the pod "namespace/name" to be written."""
        if self._is_open:
            self.writes.add((kind, key))
