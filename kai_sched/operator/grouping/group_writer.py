"""Writes PodGroups, and the names of the PodGroup and the sub-group into pods: how many at a time, and what follows a
conflict. Binds have precedence.

It takes writes from the queue that ``Groups`` fills. The content is computed when the write is sent, so that several
changes cost one request. ``cluster.retry`` says when a write that failed is sent again.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.delivery import Workers
from kai_sched.cluster.failure import CONFLICT, NOT_FOUND, TOO_MANY
from kai_sched.cluster.group_requests import create_group, get_group, mark_pod, replace_group
from kai_sched.cluster.retry import GROUP_MEMBERS, POD_GROUPS, RetryAction
from kai_sched.model.read.kinds import POD, POD_GROUP
from kai_sched.operator.grouping.groups import Groups
from kai_sched.operator.grouping.problem_reporter import GroupingReporter, pod_ref
from kai_sched.operator.grouping.requests import GroupingRequests, Target
from kai_sched.operator.intake.event_sink import EventSink

WORKERS = 32
_DELAY_AFTER_CONFLICT_S = 0.05
CONTESTED = 3  # times that the same is written before somebody else is taken to undo it
UNDONE = (
    "somebody else undoes what is written of it, so it is written less and less often: end the other writer, which "
    "metadata.managedFields names"
)

log = structlog.get_logger("grouping")


class GroupWriter:
    """For one event loop.

    Parameters
    ----------
    api
        The client of the API server.
    groups
        Knows what is to be written.
    sink
        Gets the answers of the API server, so that they count at once; those that come after news of a deletion do not.
    requests
        What is to be written.
    reporter
        Hears of writes that are refused.
    is_busy
        While it returns true, binds wait, and only one write is under way.
    """

    def __init__(
        self,
        api: Api,
        groups: Groups,
        sink: EventSink,
        requests: GroupingRequests,
        reporter: GroupingReporter,
        is_busy: Callable[[], bool],
    ) -> None:
        self._api = api
        self._groups = groups
        self._sink = sink
        self._queue = requests.writes
        self._reporter = reporter
        self._workers = Workers("grouper", self._queue, self._write, WORKERS, is_busy, _describe)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._workers.run()

    async def _write(self, target: Target) -> None:
        kind, key = target
        known = self._sink.known(POD_GROUP).get(key)  # the version that a PodGroup is written over
        try:
            times = await (self._write_group(key) if kind == POD_GROUP else self._write_pod(key))
        except ApiFailure as failure:
            await self._failed(target, failure, known)
            return
        if times < CONTESTED:
            self._queue.done(target)
            return
        self._queue.failed(target)  # the next write waits, longer each time, until one of them stays
        if times == CONTESTED:
            self._reporter.write_refused(None, key, f"{kind[1]} {key}: {UNDONE}")

    async def _write_group(self, key: str) -> int:
        """Return how many times in a row the same was written; 0 where nothing was to be written."""
        found = self._groups.group_write(key)
        if found is None:
            return 0
        exists, body = found
        write = replace_group if exists else create_group
        self._sink.changed_late(POD_GROUP, await write(self._api, key, body))
        return self._groups.group_written(key)

    async def _write_pod(self, key: str) -> int:
        metadata = self._groups.pod_write(key)
        if metadata is not None:
            self._groups.pod_written(key, metadata, await mark_pod(self._api, key, metadata))
        return 0

    async def _failed(self, target: Target, failure: ApiFailure, known: int | None) -> None:
        kind, key = target
        action = (POD_GROUPS if kind == POD_GROUP else GROUP_MEMBERS).action(failure)
        if action is RetryAction.GIVE_UP:
            self._queue.done(target)
            return
        if action is RetryAction.INSPECT and await self._has_changed(key, known):
            self._queue.done(target)
            self._queue.add(target, _DELAY_AFTER_CONFLICT_S)
            return
        wait_s = self._queue.failed(target)
        note = log.info if _is_transient(failure) else log.warning
        note("grouping.write_failed", kind=kind[1], object=key, problem=str(failure), retry_s=round(wait_s, 1))
        if _is_transient(failure) or not 400 <= failure.status < 500 or failure.is_missing_right:
            return  # nothing that the owners of the object could mend
        uid = self._groups.uid_of(key) if kind == POD else ""
        ref = pod_ref(key, uid) if uid else None
        self._reporter.write_refused(ref, key, f"{kind[1]} {key} cannot be written: {failure.message}")

    async def _has_changed(self, key: str, known: int | None) -> bool:
        """Return whether the PodGroup is another one than the version that was known, and read it where it is not."""
        if self._sink.known(POD_GROUP).get(key) == known:
            try:
                self._sink.changed_late(POD_GROUP, await get_group(self._api, key))
            except ApiFailure as failure:
                log.info("group.unread", group=key, problem=str(failure))
        return self._sink.known(POD_GROUP).get(key) != known


def _is_transient(failure: ApiFailure) -> bool:
    """Whether the write met another one, of this PodGroup or of a quota, or a deletion, or too many other requests."""
    return failure.status in (CONFLICT, TOO_MANY) or (failure.verb == "PUT" and failure.status == NOT_FOUND)


def _describe(target: Target) -> str:
    kind, key = target
    return f"{kind[1]} {key}"
