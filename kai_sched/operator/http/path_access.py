"""Who may read a path of this process: what the API server says of a token, kept for a while, with bounds on how often
it is asked.

The right is the verb get on the path (nonResourceURLs), and not one on queues: the page and the metrics name workloads
of all namespaces, and a right that people have for another purpose must not open them.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from kai_sched.cluster.access_reviews import AccessReviews
from kai_sched.cluster.client import ApiFailure

ALLOWED_S = 60.0  # a right that is taken away ends within this time
REFUSED_S = 10.0
KEPT_MAX = 256
REVIEWS_AT_ONCE = 4
WAITING_MAX = 32
TOKEN_BYTES_MAX = 16_384

log = structlog.get_logger("access")


class AccessVerdict(enum.Enum):
    """What becomes of a request."""

    ALLOWED = enum.auto()
    UNKNOWN = enum.auto()  # there is no token, or not a valid one
    FORBIDDEN = enum.auto()  # the user has no right
    UNAVAILABLE = enum.auto()  # the API server could not be asked, or too many ask


# The HTTP status of a refusal.
STATUS = {AccessVerdict.UNKNOWN: 401, AccessVerdict.FORBIDDEN: 403, AccessVerdict.UNAVAILABLE: 503}


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict, the name of the user, and what is wrong."""

    verdict: AccessVerdict
    user: str = ""
    problem: str = ""


def bearer(request: web.Request) -> str:
    """The token that a program sends, or an empty string."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def refusal(judged: Judged, sent: bool, right: str) -> str:
    """What a request that is not allowed is told; ``sent``: with a token, ``right``: what it takes, in words."""
    texts = {
        AccessVerdict.UNKNOWN: "the API server does not know this token" if sent else "",
        AccessVerdict.FORBIDDEN: f"{judged.user} may not read {right}",
        AccessVerdict.UNAVAILABLE: judged.problem,
    }
    return texts[judged.verdict]


class PathAccess:
    """For one path and one event loop. ``clock`` is in seconds and never goes back. Tokens are kept as digests only."""

    def __init__(self, reviews: AccessReviews, path: str, clock: Callable[[], float]) -> None:
        self._reviews = reviews
        self._path = path
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[Judged, float]] = OrderedDict()
        self._slots = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._waiting = 0

    async def judge(self, token: str) -> Judged:
        """Whether the bearer of the token may read the path."""
        if not token or len(token) > TOKEN_BYTES_MAX or not token.isascii() or not token.isprintable():
            return Judged(AccessVerdict.UNKNOWN)
        key = hashlib.sha256(token.encode()).digest()
        if (known := self._known(key)) is not None:
            return known
        if self._waiting >= WAITING_MAX:
            return Judged(AccessVerdict.UNAVAILABLE, problem="too many tokens are reviewed at once: try again")
        self._waiting += 1
        try:
            async with self._slots:
                return self._known(key) or self._keep(key, await self._ask(token))
        finally:
            self._waiting -= 1

    async def _ask(self, token: str) -> Judged:
        try:
            user = await self._reviews.user_of(token)
            if user is None:
                return Judged(AccessVerdict.UNKNOWN)
            if await self._reviews.may_get(user, self._path):
                log.info("access.allowed", path=self._path, user=user.name)
                return Judged(AccessVerdict.ALLOWED, user.name)
            return Judged(AccessVerdict.FORBIDDEN, user.name)
        except ApiFailure as failure:
            log.warning("access.review_failed", path=self._path, problem=str(failure))
            return Judged(AccessVerdict.UNAVAILABLE, problem=f"the API server did not review the token: {failure}")

    def _known(self, key: bytes) -> Judged | None:
        judged, until = self._kept.get(key, (None, 0.0))
        return judged if self._clock() < until else None

    def _keep(self, key: bytes, judged: Judged) -> Judged:
        """Keep the verdict, unless there is none; the oldest one goes where there are too many."""
        if judged.verdict is not AccessVerdict.UNAVAILABLE:
            lasts_s = ALLOWED_S if judged.verdict is AccessVerdict.ALLOWED else REFUSED_S
            self._kept[key] = (judged, self._clock() + lasts_s)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return judged
