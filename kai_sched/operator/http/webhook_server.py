"""Admission reviews over TLS: how many at a time, by how many threads, how many bytes all together, and how soon each
is answered; ``listener`` bounds the connections.

Reviews are computed in threads of their own, so the event loop goes on with binds and watches however long one takes.
Any pod in the cluster may send requests, so the time and the memory of all reviews together are bounded.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog
from aiohttp import web

from kai_sched.operator.http.authority import Pair
from kai_sched.operator.http.listener import Listener, listen
from kai_sched.operator.http.metrics_page import PATH
from kai_sched.reconcile.admission.review import BODY_MAX

ALL_BODIES_BYTES_MAX = 64 * 2**20  # of those that are not small
SMALL_BODY_BYTES = 2**16  # one of so many always passes: the number of connections bounds what these hold
REVIEWS_MAX = 32  # under way, or waiting for a thread
THREADS = 2
ANSWER_S = 4.5  # from the first byte of the body to the answer; the API server waits 5 s (timeoutSeconds)

# Returns the answer to the path and the body of an AdmissionReview. Raises ValueError for a body that is none, and
# HTTPException where there is no answer. Several threads call it.
Review = Callable[[str, bytes], bytes]
Scrape = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger("webhooks")


@dataclass(slots=True, eq=False)
class _IncomingBody:
    """What has come of a body. It is refused, and empty again, where it had to go before it was complete."""

    data: bytearray = field(default_factory=bytearray)
    is_refused: bool = False

    def counted(self) -> int:
        """How many bytes count towards ALL_BODIES_BYTES_MAX."""
        return len(self.data) if len(self.data) > SMALL_BODY_BYTES else 0


class WebhookServer:
    """Answers reviews over TLS with the newest certificate that it got. Nothing is written to a disk.

    Parameters
    ----------
    review
        Computes an answer.
    answer_s
        The time from the first byte of a request to its answer.
    scrape
        Answers /metrics, None where that is served without TLS only.
    """

    def __init__(self, review: Review, answer_s: float = ANSWER_S, scrape: Scrape | None = None) -> None:
        self._review = review
        self._scrape = scrape
        self._answer_s = answer_s
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._pair: Pair | None = None
        self._listener: Listener | None = None
        self._threads = ThreadPoolExecutor(THREADS, "review")
        self._slots = asyncio.Semaphore(REVIEWS_MAX)
        self._held_bytes = 0  # of bodies that are not small
        self._incomplete: set[_IncomingBody] = set()
        self._leaving = False

    @property
    def port(self) -> int:
        """The port in use; 0 before ``start``."""
        return self._listener.port if self._listener else 0

    def problem(self) -> str:
        """Return what keeps reviews from being answered, or an empty string."""
        if self._pair is None:
            return "the webhook server has no certificate yet"
        return "" if self._listener else "the webhook server does not listen yet"

    def use(self, pair: Pair) -> None:
        """Use this certificate for new connections; open ones go on."""
        if pair != self._pair:
            _load(self._tls, pair)
            self._pair = pair

    async def start(self, address: str) -> None:
        """Listen. Raises AddressError, OSError."""
        application = web.Application()
        application.add_routes([web.post(path, self._answer) for path in BODY_MAX])
        if self._scrape is not None:
            application.add_routes([web.get(PATH, self._scrape)])
        self._listener = await listen(application, address, self._tls)

    def leave(self) -> None:
        """Go on answering, but close each connection after its next answer, so that clients turn to other replicas."""
        self._leaving = True

    async def stop(self) -> None:
        """Answer the requests that have arrived, then close."""
        if self._listener:
            await self._listener.stop()
            self._listener = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, request: web.Request) -> web.Response:
        body = _IncomingBody()
        try:
            async with asyncio.timeout(self._answer_s):
                await self._read(request, body)
                answer = await self._reviewed(request.path, bytes(body.data))
        except TimeoutError:
            log.warning("review.late", path=request.path, bytes=len(body.data))
            response = web.Response(status=503, text=f"not reviewed within {self._answer_s:g} s: try again\n")
        except web.HTTPException as refusal:
            response = web.Response(status=refusal.status, text=refusal.text)
        except (ConnectionError, web.RequestPayloadError) as gone:
            response = web.Response(status=400, text=f"the body did not come: {gone}\n")
        except ValueError as wrong:
            response = web.Response(status=400, text=f"not an admission review: {wrong}\n")
        except Exception as fault:
            log.exception("review.failed", path=request.path)
            response = web.Response(status=500, text=f"the review failed: {type(fault).__name__}: {fault}\n")
        else:
            response = web.Response(body=answer, content_type="application/json")
        finally:
            self._held_bytes -= body.counted()
        if self._leaving or response.status in (413, 503):
            response.force_close()
        return response

    async def _read(self, request: web.Request, body: _IncomingBody) -> None:
        """Fill ``body``. Raises HTTPException if it is too large, or had to go because all together were."""
        most = BODY_MAX[request.path]
        if (request.content_length or 0) > most:
            raise web.HTTPRequestEntityTooLarge(most, request.content_length or 0)
        self._incomplete.add(body)
        try:
            async for part in request.content.iter_any():
                if body.is_refused:
                    break
                self._add(body, part)
                if len(body.data) > most:
                    raise web.HTTPRequestEntityTooLarge(most, len(body.data))
        finally:
            self._incomplete.discard(body)
        if body.is_refused:
            raise web.HTTPServiceUnavailable(text="too many large objects are reviewed at once: try again\n")

    def _add(self, body: _IncomingBody, part: bytes) -> None:
        """The largest body that is not complete goes if that is too much: those who stop sending keep no one out."""
        before = body.counted()
        body.data += part
        self._held_bytes += body.counted() - before
        if self._held_bytes > ALL_BODIES_BYTES_MAX:
            largest = max(self._incomplete, key=_IncomingBody.counted)
            self._held_bytes -= largest.counted()
            largest.data.clear()
            largest.is_refused = True

    async def _reviewed(self, path: str, body: bytes) -> bytes:
        """Have a thread compute the answer. A review that is late keeps its slot until it ends."""
        await self._slots.acquire()
        loop = asyncio.get_running_loop()

        def ended(_: Future[bytes]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._slots.release)

        try:
            under_way = self._threads.submit(self._review, path, body)
        except BaseException:
            self._slots.release()
            raise
        under_way.add_done_callback(ended)
        return await asyncio.wrap_future(under_way)


def _load(tls: ssl.SSLContext, pair: Pair) -> None:
    """Give the context its certificate, which it reads from files only: here a file in memory."""
    memory = os.memfd_create("webhook-certificate", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(pair.key + pair.certificate)
        tls.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
