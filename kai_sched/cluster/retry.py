"""Whether and when a failed write is sent again, by HTTP status: binds, evictions, statuses, volumes, claims,
PodGroups; for lists and watches ``reflector`` decides.

``delivery.deliver`` and the PodGroup writer of the operator read it. A failure maps to one action by its HTTP status;
status 0 means that no answer came, or that the request was not sent.
A write that the lease guard refused is always given up: another replica may lead.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.failure import NOT_LEADER, ApiFailure

FOREVER = 2**31


class RetryAction(enum.Enum):
    """What follows a failed attempt."""

    RETRY = "retry"  # after the backoff
    GIVE_UP = "give up"  # no later attempt would succeed
    INSPECT = "inspect"  # the request may have been carried out: read the object first, then retry


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How one kind of write is retried.

    Attributes
    ----------
    attempts
        Requests that are sent at most.
    backoff
        The delay between two attempts.
    statuses
        The action for single HTTP statuses.
    client_errors
        The action for every other 4xx status.
    otherwise
        The action for all other failures: 5xx, and no answer.
    """

    attempts: int
    backoff: Backoff
    client_errors: RetryAction
    otherwise: RetryAction
    statuses: Mapping[int, RetryAction] = field(default_factory=dict)

    def action(self, failure: ApiFailure) -> RetryAction:
        """Return what to do after this failure."""
        if failure.reason == NOT_LEADER:
            return RetryAction.GIVE_UP
        rest = self.client_errors if 400 <= failure.status < 500 else self.otherwise
        return self.statuses.get(failure.status, rest)


_RETRY, _GIVE_UP, _INSPECT = RetryAction.RETRY, RetryAction.GIVE_UP, RetryAction.INSPECT

# A bind that the API server refused with 409 may be our own earlier one, and 404 need not be about the pod.
BINDS = RetryPolicy(
    attempts=6,
    backoff=Backoff(0.1, 2.0),
    statuses={401: _GIVE_UP, 403: _GIVE_UP, 422: _GIVE_UP, 429: _RETRY},
    client_errors=_INSPECT,
    otherwise=_INSPECT,
)
# 404 may be the result of an earlier attempt.
EVICTIONS = RetryPolicy(
    attempts=6,
    backoff=Backoff(0.2, 5.0, asked_max_s=5.0),
    statuses={401: _GIVE_UP, 403: _GIVE_UP, 422: _GIVE_UP, 429: _RETRY},
    client_errors=_INSPECT,
    otherwise=_INSPECT,
)
# 409: the object with that uid is gone, and so is what the write says about it.
STATUSES = RetryPolicy(
    attempts=5,
    backoff=Backoff(0.4, 10.0, asked_max_s=10.0),
    statuses={429: _RETRY},
    client_errors=_GIVE_UP,
    otherwise=_RETRY,
)
# Conditions name the version of the pod, which the store knows anew before each attempt. 409: somebody else has written
# to the pod, such as the group writer, and the store does not show that yet. If the pod is gone, nothing more is sent.
CONDITIONS = replace(STATUSES, backoff=Backoff(0.1, 10.0, asked_max_s=10.0), statuses={409: _RETRY, 429: _RETRY})
# The next cycle decides again about a group whose volumes were not written.
VOLUMES = RetryPolicy(attempts=1, backoff=Backoff(1.0, 1.0), client_errors=_GIVE_UP, otherwise=_GIVE_UP)
# Reservation pods, and what a pod that shares a GPU gets before its bind. Sent twice, they change nothing more.
SHARES = RetryPolicy(
    attempts=6,
    backoff=Backoff(0.1, 2.0),
    statuses={429: _RETRY},
    client_errors=_GIVE_UP,
    otherwise=_RETRY,
)
# Claims for devices, which are read anew before each attempt. 409: somebody else has written to the claim.
CLAIMS = RetryPolicy(
    attempts=8,
    backoff=Backoff(0.1, 2.0),
    statuses={409: _RETRY, 429: _RETRY},
    client_errors=_GIVE_UP,
    otherwise=_RETRY,
)
# What is reserved for a pod that was not bound is taken back, however long that takes: nobody else does it.
CLAIM_RELEASES = RetryPolicy(
    attempts=FOREVER,
    backoff=Backoff(0.2, 10.0),
    statuses=CLAIMS.statuses,
    client_errors=_GIVE_UP,
    otherwise=_RETRY,
)
# The work queue delays the retries of these two. 404 and 409 for a pod: the pod with that uid is gone; for a PodGroup:
# somebody else has deleted, changed or made it.
POD_GROUPS = RetryPolicy(
    attempts=FOREVER,
    backoff=Backoff(1.0, 60.0, low=0.8),
    statuses={404: _INSPECT, 409: _INSPECT},
    client_errors=_RETRY,
    otherwise=_RETRY,
)
GROUP_MEMBERS = RetryPolicy(
    attempts=FOREVER,
    backoff=POD_GROUPS.backoff,
    statuses={404: _GIVE_UP, 409: _GIVE_UP},
    client_errors=_RETRY,
    otherwise=_RETRY,
)
