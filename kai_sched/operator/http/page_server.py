"""The page of the operator (``--page-address``): its paths, how a browser and a program log in, and its bounds.

/page is the page, /page/events tells of later ones (server-sent events), /page/login takes a token and puts it into a
cookie that scripts cannot read and that other sites do not send, /page/logout removes it. A program sends the token as
a bearer. Nothing is written; ``path_access`` says who may read, ``live_page`` makes the page.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog
from aiohttp import web

from kai_sched.operator.http.listener import Listener, listen
from kai_sched.operator.http.live_page import LivePage
from kai_sched.operator.http.path_access import (
    STATUS,
    TOKEN_BYTES_MAX,
    AccessVerdict,
    Judged,
    PathAccess,
    bearer,
    refusal,
)
from kai_sched.report.page.rendering import render_login

PATH = "/page"
COOKIE = "kai-sched-token"
COOKIE_BYTES_MAX = 3_800  # browsers drop a cookie above 4,096 bytes without a word
VIEWER = "kai-scheduler-page-viewer"  # the ClusterRole of manifests/components/page for people
STREAMS_MAX = 64
HEARTBEAT_S = 15.0
FORM_BYTES_MAX = TOKEN_BYTES_MAX + 1024
FORM_S = 10.0  # for the whole form: a client that sends it slowly must not hold a connection
CONNECTIONS_MAX = 256
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
NOT_YET = "there is no page before the first cycle of this replica; the one that leads has it (/readyz names it)"

log = structlog.get_logger("page")


class PageServer:
    """For one event loop."""

    def __init__(self, access: PathAccess, live: LivePage) -> None:
        self._access = access
        self._live = live
        self._listener: Listener | None = None
        self._streams: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port in use, 0 without one."""
        return self._listener.port if self._listener else 0

    async def listen(self, address: str) -> None:
        """Answer from now on, unless the address is empty. Raises AddressError, ListenFailure."""
        if address:
            self._listener = await listen(self.application(), address, most=CONNECTIONS_MAX)

    async def stop(self) -> None:
        """End all streams, and stop answering."""
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        listener, self._listener = self._listener, None
        if listener:
            await listener.stop()

    def application(self) -> web.Application:
        """The application with the paths."""
        pages = web.Application(client_max_size=FORM_BYTES_MAX)
        pages.add_routes(
            [
                web.get("/", _to_page),
                web.get(PATH, self._page),
                web.get(f"{PATH}/events", self._events),
                web.post(f"{PATH}/login", self._login),
                web.post(f"{PATH}/logout", _logout),
            ]
        )
        pages.on_response_prepare.append(_add_headers)
        return pages

    async def _page(self, request: web.Request) -> web.StreamResponse:
        judged = await self._access.judge(_token(request))
        if judged.verdict is not AccessVerdict.ALLOWED:
            return _refusal(request, judged)
        made = await self._live.page()
        if made is None:
            return web.Response(status=503, text=f"{NOT_YET}\n", headers={"Retry-After": "5"})
        packs = "gzip" in request.headers.get("Accept-Encoding", "")
        headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if packs else {})
        body = made.packed if packs else made.body
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=headers)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        token = _token(request)
        judged = await self._access.judge(token)
        if judged.verdict is not AccessVerdict.ALLOWED:
            return _refusal(request, judged)
        if len(self._streams) >= STREAMS_MAX:
            return web.Response(status=503, text=f"{STREAMS_MAX} people look at the page already: try again later\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        stream = asyncio.create_task(self._send_events(request, response, token), name="page events")
        self._streams.add(stream)
        try:
            await stream
        except asyncio.CancelledError:
            stream.cancel()
        except (ConnectionError, web.HTTPException):
            pass  # the reader has left
        finally:
            self._streams.discard(stream)
        return response

    async def _send_events(self, request: web.Request, response: web.StreamResponse, token: str) -> None:
        """Send an event for each later page, else a comment now and then, while the token is good."""
        seen = _number(request)
        await response.prepare(request)
        while (await self._access.judge(token)).verdict is AccessVerdict.ALLOWED:
            text = b": nothing new\n\n"
            with suppress(TimeoutError):
                seen = await asyncio.wait_for(self._live.newer_than(seen), HEARTBEAT_S)
                text = f"event: cycle\nid: {seen}\ndata: {seen}\n\n".encode()
            await response.write(text)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return web.Response(status=403, text="the form of another site cannot log in\n")
        try:
            async with asyncio.timeout(FORM_S):
                form = await request.post()
        except TimeoutError:
            late = web.Response(status=408, text=f"the form did not come within {FORM_S:g} s\n")
            late.force_close()
            return late
        token = str(form.get("token", "")).strip()
        judged = await self._access.judge(token)
        if judged.verdict is not AccessVerdict.ALLOWED:
            return _refusal(request, judged)
        if len(token) > COOKIE_BYTES_MAX:
            text = f"the token has {len(token)} bytes, and a cookie holds {COOKIE_BYTES_MAX}: use a token of"
            return _login_page(f"{text} a service account (kubectl create token NAME)", 413)
        answer = web.Response(status=303, headers={"Location": PATH})
        is_secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
        answer.set_cookie(COOKIE, token, path=PATH, httponly=True, samesite="Strict", secure=is_secure)
        return answer


def _token(request: web.Request) -> str:
    """The bearer token, else that of the cookie."""
    return bearer(request) or request.cookies.get(COOKIE, "")


def _number(request: web.Request) -> int:
    """The number of the page that the reader has."""
    text = request.headers.get("Last-Event-ID") or request.query.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _refusal(request: web.Request, judged: Judged) -> web.Response:
    """A form for people, a line for programs."""
    status = STATUS[judged.verdict]
    sent = bool(_token(request)) or request.method == "POST"
    right = f"the page: it takes the verb get on nonResourceURLs {PATH} (the ClusterRole {VIEWER})"
    text = refusal(judged, sent, right)
    if "text/html" in request.headers.get("Accept", ""):
        return _login_page(text, status)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.Response(status=status, text=f"{text or 'send a token: Authorization: Bearer TOKEN'}\n", headers=headers)


def _login_page(problem: str, status: int) -> web.Response:
    return web.Response(status=status, text=render_login(problem), content_type="text/html", charset="utf-8")


async def _to_page(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": PATH})


async def _logout(_: web.Request) -> web.Response:
    answer = web.Response(status=303, headers={"Location": PATH})
    answer.del_cookie(COOKIE, path=PATH, httponly=True, samesite="Strict")
    return answer


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
