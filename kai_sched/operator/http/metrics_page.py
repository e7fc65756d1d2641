"""The page /metrics: who gets it, with ``--authenticated-metrics``, and how many are made at once.

``pages`` serves it beside the probes; with that flag ``webhook_server`` serves it, too: over TLS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from kai_sched.operator.http.path_access import STATUS, AccessVerdict, PathAccess, bearer, refusal
from kai_sched.telemetry.metrics import Metrics

PATH = "/metrics"
READER = "kai-scheduler-metrics-reader"  # the ClusterRole for Prometheus
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MADE_AT_ONCE = 2  # each takes a thread, and memory for as long as a slow reader takes it
# Others are refused at once: connections that wait are kept, and without a bound would leave no room for probes.
ASKED_AT_ONCE = 8


class MetricsPage:
    """For one event loop.

    Parameters
    ----------
    metrics
        What is shown.
    observe
        Called before each answer, to bring the metrics up to date.
    protected
        Whether a token is asked for.

    Attributes
    ----------
    access
        Judges tokens; None until the API server can be asked.
    """

    def __init__(self, metrics: Metrics, observe: Callable[[], None], protected: bool) -> None:
        self._metrics = metrics
        self._observe = observe
        self._protected = protected
        self._slots = asyncio.Semaphore(MADE_AT_ONCE)
        self._asked = 0
        self.access: PathAccess | None = None

    async def answer(self, request: web.Request) -> web.Response:
        """The metrics of now, or why the sender does not get them."""
        if self._protected and (refused := await self._refused(bearer(request))) is not None:
            return refused
        if self._asked >= ASKED_AT_ONCE:
            return web.Response(status=503, text="too many ask for the metrics at once: try again\n")
        self._asked += 1
        try:
            async with self._slots:
                self._observe()
                body = await asyncio.to_thread(self._metrics.render)
        finally:
            self._asked -= 1
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _refused(self, token: str) -> web.Response | None:
        if self.access is None:
            return web.Response(status=503, text="tokens cannot be reviewed yet: ask again later\n")
        judged = await self.access.judge(token)
        if judged.verdict is AccessVerdict.ALLOWED:
            return None
        right = f"the metrics: it takes the verb get on nonResourceURLs {PATH} (the ClusterRole {READER})"
        text = refusal(judged, bool(token), right) or "send a token: Authorization: Bearer TOKEN"
        status = STATUS[judged.verdict]
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return web.Response(status=status, text=f"{text}\n", headers=headers)
