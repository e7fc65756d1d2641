"""Whether a write may be sent: only while the lease is held, asked again once the connection is open."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

import aiohttp
from aiohttp.connector import Connection

from kai_sched.cluster.failure import NOT_LEADER, ApiFailure


class WriteGuard(Protocol):
    """Says whether this process may write. ``LeaderLease`` is one."""

    @property
    def guarded_s(self) -> float:
        """The longest that a write may take after ``held`` has returned true, in seconds."""

    def held(self) -> bool:
        """Return whether a write may be sent now."""


# The guard of the request that the session is about to make.
current_guard: ContextVar[WriteGuard | None] = ContextVar("current_guard", default=None)


class GuardedRequest(aiohttp.ClientRequest):
    """Asks the guard again when the connection is open: opening one takes time, in which the lease may end."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        guard = current_guard.get()
        if guard is not None and not guard.held():
            raise not_leader(self.method, self.url.raw_path)
        return await super().send(conn)


def not_leader(verb: str, path: str) -> ApiFailure:
    """Return the failure of a write that the guard refused."""
    return ApiFailure(verb, path, 0, NOT_LEADER, "not sent: this process does not hold the lease")
