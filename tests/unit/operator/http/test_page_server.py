"""The page of the operator: who gets it, what the API server is asked and how often, and when there is another one."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from kai_sched.cluster.access_reviews import AccessReviews
from kai_sched.cluster.failure import ApiFailure
from kai_sched.cycle.run import run_cycle
from kai_sched.model.store import Cluster
from kai_sched.operator.clock import Clock
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.http import live_page, page_server, path_access
from kai_sched.operator.http.live_page import PERIOD_S, REST, LivePage
from kai_sched.operator.http.page_server import COOKIE, COOKIE_BYTES_MAX, PageServer
from kai_sched.operator.http.path_access import ALLOWED_S, KEPT_MAX, REFUSED_S, WAITING_MAX, AccessVerdict, PathAccess
from kai_sched.report.page.content import PageInput
from tests.unit.report.page_sample import CONFIG, NOW_NS, small_objects

ROOT = {"username": "root", "groups": ["system:masters"], "extra": {"scopes": ["a"]}}
HTML = {"Accept": "text/html"}


@dataclass
class ReviewApi:
    """An API server that knows the tokens "root" and "guest", of which root may get /page."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    failure: ApiFailure | None = None
    gate: asyncio.Event | None = None

    async def request(self, method: str, path: str, *, body: bytes, guarded: bool, needs_right: bool) -> bytes:
        assert (method, guarded, needs_right) == ("POST", False, False)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        review = json.loads(body)
        self.asked.append(review)
        assert path == f"/apis/{review['apiVersion']}/{review['kind'].lower()}s"
        if review["kind"] == "TokenReview":
            token = review["spec"]["token"]
            known = token[:4] == "root" or token == "guest"
            user = ROOT if token[:4] == "root" else {"username": "guest"}
            return json.dumps({"status": {"authenticated": True, "user": user} if known else {}}).encode()
        return json.dumps({"status": {"allowed": review["spec"]["user"] == "root"}}).encode()


@dataclass
class Time:
    """A clock that goes when told."""

    s: float = 100.0

    def clock(self) -> Clock:
        return Clock(lambda: self.s, lambda: NOW_NS + round(self.s * 1e9))


def access(api: ReviewApi, time: Time) -> PathAccess:
    any_api: Any = api
    return PathAccess(AccessReviews(any_api), page_server.PATH, lambda: time.s)


def cycle() -> DecidedCycle:
    cluster = Cluster.of(small_objects())
    return DecidedCycle(cluster, run_cycle(cluster, CONFIG, NOW_NS), 0.1, CONFIG)


def live(time: Time, cycles: int = 1) -> LivePage:
    page = LivePage(True, "mine", time.clock())
    for _ in range(cycles):
        page.decided(cycle())
    return page


@asynccontextmanager
async def served(api: ReviewApi, page: LivePage, time: Time) -> AsyncIterator[tuple[aiohttp.ClientSession, PageServer]]:
    server = PageServer(access(api, time), page)
    await server.listen("127.0.0.1:0")
    jar = aiohttp.CookieJar(unsafe=True)  # takes cookies of addresses, too
    try:
        base = f"http://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession(base, cookie_jar=jar, auto_decompress=False) as session:
            yield session, server
    finally:
        await server.stop()


@asynccontextmanager
async def answered(
    api: ReviewApi, page: LivePage, time: Time, path: str, headers: dict[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer to root's GET."""
    async with (
        served(api, page, time) as (session, _),
        session.get(path, headers=bearer("root") | (headers or {})) as answer,
    ):
        yield answer


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_the_review_asks_for_the_right_with_all_that_the_user_is() -> None:
    api = ReviewApi()
    assert (await access(api, Time()).judge("root")).verdict is AccessVerdict.ALLOWED
    token, right = api.asked
    assert token["spec"] == {"token": "root"}
    assert right["spec"] == {
        "user": "root",
        "uid": "",
        "groups": ["system:masters"],
        "extra": {"scopes": ["a"]},
        "nonResourceAttributes": {"path": "/page", "verb": "get"},
    }


async def test_a_verdict_lasts_for_a_while() -> None:
    api, time = ReviewApi(), Time()
    judge = access(api, time).judge
    for token, lasts_s in (("root", ALLOWED_S), ("guest", REFUSED_S)):
        first = await judge(token)
        asked = len(api.asked)
        time.s += lasts_s - 1
        assert await judge(token) == first
        assert len(api.asked) == asked
        time.s += 2
        assert await judge(token) == first
        assert len(api.asked) == asked + 2


@pytest.mark.parametrize("token", ["", "a\nb", "é", "x" * (path_access.TOKEN_BYTES_MAX + 1)])
async def test_what_is_no_token_is_not_reviewed(token: str) -> None:
    api = ReviewApi()
    assert (await access(api, Time()).judge(token)).verdict is AccessVerdict.UNKNOWN
    assert api.asked == []


async def test_few_are_reviewed_at_once_and_few_wait() -> None:
    api = ReviewApi(gate=asyncio.Event())
    judge = access(api, Time()).judge
    tasks = [asyncio.create_task(judge(f"root-{number}")) for number in range(WAITING_MAX)]
    await asyncio.sleep(0)
    over = await judge("one more")
    assert (over.verdict, "too many" in over.problem) == (AccessVerdict.UNAVAILABLE, True)
    assert api.gate is not None
    api.gate.set()
    assert {each.verdict for each in await asyncio.gather(*tasks)} == {AccessVerdict.ALLOWED}


async def test_equal_tokens_that_come_at_once_are_reviewed_once() -> None:
    api = ReviewApi()
    judge = access(api, Time()).judge
    await asyncio.gather(*(judge("root") for _ in range(WAITING_MAX)))
    assert len(api.asked) <= 2 * path_access.REVIEWS_AT_ONCE


async def test_few_verdicts_are_kept() -> None:
    api, time = ReviewApi(), Time()
    judge = access(api, time).judge
    await judge("root")
    for number in range(KEPT_MAX):
        await judge(f"no-{number}")
    asked = len(api.asked)
    await judge("root")
    assert len(api.asked) == asked + 2


async def test_a_failure_of_the_api_server_is_not_kept() -> None:
    api = ReviewApi(failure=ApiFailure("POST", "/apis", 403, "Forbidden", "may not create tokenreviews"))
    judge = access(api, Time()).judge
    refused = await judge("root")
    assert refused.verdict is AccessVerdict.UNAVAILABLE
    assert "may not create tokenreviews" in refused.problem
    api.failure = None
    assert (await judge("root")).verdict is AccessVerdict.ALLOWED


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({}, 401, "send a token"),
        (bearer("nobody"), 401, "does not know this token"),
        (bearer("guest"), 403, "guest may not read the page: it takes the verb get on nonResourceURLs /page"),
        (bearer("root"), 200, "4 nodes, 24 GPUs"),
        (HTML, 401, '<form method="post" action="/page/login">'),
        (HTML | bearer("guest"), 403, "guest may not read the page"),
    ],
)
async def test_who_gets_the_page(headers: dict[str, str], status: int, text: str) -> None:
    time = Time()
    async with served(ReviewApi(), live(time), time) as (session, _):
        for path in ("/page", "/page/events") if status != 200 else ("/page",):
            async with session.get(path, headers={"Accept-Encoding": "identity"} | headers) as answer:
                assert answer.status == status
                assert text in await answer.text()
                assert answer.headers["Cache-Control"] == "no-store"
                assert answer.headers["X-Frame-Options"] == "DENY"


async def test_the_page_is_compressed_for_those_who_take_it() -> None:
    time = Time()
    async with answered(ReviewApi(), live(time), time, "/page", {"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert b"24 GPUs" in gzip.decompress(await answer.read())


async def test_a_browser_logs_in_with_a_cookie_that_scripts_cannot_read_and_out_again() -> None:
    time = Time()
    async with served(ReviewApi(), live(time), time) as (session, _):
        async with session.post("/page/login", data={"token": " root "}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/page")
            cookie = answer.headers["Set-Cookie"]
            for part in (f"{COOKIE}=root", "HttpOnly", "SameSite=Strict", "Path=/page"):
                assert part in cookie
        async with session.get("/page", headers=HTML) as answer:
            assert answer.status == 200
        async with session.post("/page/logout", allow_redirects=False) as answer:
            assert answer.status == 303
        async with session.get("/page", headers=HTML) as answer:
            assert answer.status == 401


async def test_a_form_that_comes_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "FORM_S", 0.2)

    async def slowly() -> AsyncIterator[bytes]:
        yield b"token="
        await asyncio.sleep(30)

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    async with (
        served(ReviewApi(), live(Time()), Time()) as (session, _),
        session.post("/page/login", data=slowly(), headers=form) as answer,
    ):
        assert answer.status == 408


@pytest.mark.parametrize(
    ("token", "headers", "status", "text"),
    [
        ("nobody", HTML, 401, "does not know this token"),
        ("guest", HTML, 403, "guest may not"),
        ("root", HTML | {"Sec-Fetch-Site": "cross-site"}, 403, "another site"),
        ("root" * COOKIE_BYTES_MAX, HTML, 413, "a cookie holds 3800"),
    ],
)
async def test_logins_that_fail_set_no_cookie(token: str, headers: dict[str, str], status: int, text: str) -> None:
    time = Time()
    async with (
        served(ReviewApi(), live(time), time) as (session, _),
        session.post("/page/login", data={"token": token}, headers=headers) as answer,
    ):
        assert answer.status == status
        assert text in await answer.text()
        assert "Set-Cookie" not in answer.headers


async def test_before_the_first_cycle_there_is_no_page() -> None:
    time = Time()
    async with answered(ReviewApi(), live(time, cycles=0), time, "/page") as answer:
        assert answer.status == 503
        assert "before the first cycle" in await answer.text()


async def test_nothing_can_be_written() -> None:
    time = Time()
    async with served(ReviewApi(), live(time), time) as (session, _):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            async with session.request(method, "/page", headers=bearer("root")) as answer:
                assert answer.status == 405


async def test_the_page_of_a_cycle_is_made_once_for_all_and_not_often() -> None:
    time = Time()
    page = live(time)
    first, second = await asyncio.gather(page.page(), page.page())
    assert first is second
    page.decided(cycle())
    assert await page.page() is first
    time.s += PERIOD_S
    later = await page.page()
    assert later is not None
    assert first is not None
    assert (first.number, later.number) == (1, 2)
    time.s += PERIOD_S
    assert await page.page() is later  # no cycle since


async def test_events_tell_of_later_pages() -> None:
    time = Time()
    page = live(time)
    async with answered(ReviewApi(), page, time, "/page/events?after=1") as answer:
        assert answer.content_type == "text/event-stream"
        page.decided(cycle())
        assert await answer.content.readuntil(b"\n\n") == b"event: cycle\nid: 2\ndata: 2\n\n"
        page.decided(cycle())
        assert await answer.content.readuntil(b"\n\n") == b"event: cycle\nid: 3\ndata: 3\n\n"


async def test_a_reader_who_was_away_hears_at_once() -> None:
    time = Time()
    headers = {"Last-Event-ID": "1"}
    async with answered(ReviewApi(), live(time, cycles=2), time, "/page/events?after=nonsense", headers) as answer:
        assert await answer.content.readuntil(b"\n\n") == b"event: cycle\nid: 2\ndata: 2\n\n"


async def test_events_end_with_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "HEARTBEAT_S", 0.01)
    api, time = ReviewApi(), Time()
    async with answered(api, live(time), time, "/page/events?after=1") as answer:
        assert await answer.content.readuntil(b"\n\n") == b": nothing new\n\n"
        api.failure = ApiFailure("POST", "/apis", 500, "InternalError", "down")
        time.s += ALLOWED_S + 1
        rest = await answer.content.read()
        assert set(rest.split(b"\n\n")) <= {b": nothing new", b""}


async def test_few_streams_are_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "STREAMS_MAX", 1)
    time = Time()
    async with (
        served(ReviewApi(), live(time), time) as (session, _),
        session.get("/page/events?after=1", headers=bearer("root")),
        session.get("/page/events?after=1", headers=bearer("root")) as second,
    ):
        assert second.status == 503


async def test_a_page_that_is_not_served_keeps_no_cycle() -> None:
    reported: list[DecidedCycle] = []
    page = LivePage(False, "mine", Time().clock())
    page.after(reported.append)(cycle())
    assert len(reported) == 1
    assert await page.page() is None


async def test_a_page_that_is_served_sees_each_cycle_that_is_reported() -> None:
    reported: list[DecidedCycle] = []
    page = LivePage(True, "mine", Time().clock())
    page.after(reported.append)(cycle())
    assert len(reported) == 1
    made = await page.page()
    assert made is not None
    assert b"<title>mine - kai-sched</title>" in made.body


async def test_a_page_that_takes_long_is_made_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    make = live_page.render

    def slow(given: PageInput) -> str:
        time.s += 2.0
        return make(given)

    monkeypatch.setattr(live_page, "render", slow)
    page = live(time)
    first = await page.page()
    page.decided(cycle())
    time.s += 2.0 * REST - 0.1
    assert await page.page() is first
    time.s += 0.2
    assert await page.page() is not first
