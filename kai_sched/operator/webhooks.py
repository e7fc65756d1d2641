"""The TLS server that the API server asks before it stores a queue, a pod group, a topology or a pod of ours."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable

from aiohttp import web

from kai_sched.operator.authority import Pair
from kai_sched.operator.listen import Listener, listen

MUTATE_POD = "/mutate--v1-pod"
VALIDATE_POD = "/validate--v1-pod"
VALIDATE_QUEUE = "/validate-scheduling-run-ai-v2-queue"
VALIDATE_POD_GROUP = "/validate-scheduling-run-ai-v2alpha2-podgroup"
VALIDATE_TOPOLOGY = "/validate-kai-scheduler-v1alpha1-topology"
PATHS = (MUTATE_POD, VALIDATE_POD, VALIDATE_QUEUE, VALIDATE_POD_GROUP, VALIDATE_TOPOLOGY)

# The API server takes objects of 3 MB, and an update carries two of them.
BODY_BYTES_MAX = 8 * 2**20

# The path and the body of an AdmissionReview to that of its answer; ValueError for a body that is none.
Review = Callable[[str, bytes], bytes]


class WebhookServer:
    """Answers reviews over TLS with the newest certificate it was given. Nothing of it touches a disk."""

    def __init__(self, review: Review) -> None:
        self._review = review
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._pair: Pair | None = None
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        """The port in use; 0 before ``start``."""
        return self._listener.port if self._listener else 0

    def problem(self) -> str:
        """What keeps reviews from being answered, in a sentence; empty where nothing does."""
        if self._pair is None:
            return "the webhook server has no certificate yet"
        return "" if self._listener else "the webhook server does not listen yet"

    def use(self, pair: Pair) -> None:
        """Show this certificate to whoever connects from now on; connections that are open go on."""
        if pair != self._pair:
            _load(self._tls, pair)
            self._pair = pair

    async def start(self, address: str) -> None:
        """Listen. Raises AddressError, and OSError where the address cannot be had."""
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.add_routes([web.post(path, self._answer) for path in PATHS])
        self._listener = await listen(application, address, self._tls)

    async def stop(self) -> None:
        """Answer what has come in, then close."""
        if self._listener:
            await self._listener.stop()
            self._listener = None

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            answer = self._review(request.path, body)
        except ValueError as wrong:
            return web.Response(status=400, text=f"not an admission review: {wrong}\n")
        return web.Response(body=answer, content_type="application/json")


def _load(tls: ssl.SSLContext, pair: Pair) -> None:
    """Give the context its certificate, which it takes from files only: here one that is memory, as no disk may be."""
    memory = os.memfd_create("webhook-certificate", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(pair.key + pair.certificate)
        tls.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
