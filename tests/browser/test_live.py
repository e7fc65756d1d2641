"""The page of the operator in a browser: the login, and what an update leaves as it was."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from kai_sched.cycle.run import run_cycle
from kai_sched.model.objects import Object
from kai_sched.model.store import Cluster
from kai_sched.operator.decided_cycle import DecidedCycle
from kai_sched.operator.http.live_page import LivePage
from kai_sched.operator.http.page_server import PageServer
from tests.unit.operator.http.test_page_server import ReviewApi, Time, access
from tests.unit.report.page_sample import CONFIG, NOW_NS, job, small_objects


@dataclass
class Served:
    """A page server in a thread of its own."""

    url: str
    decide: Callable[[list[Object]], None]


@pytest.fixture
def served() -> Iterator[Served]:
    loop, time = asyncio.new_event_loop(), Time()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[LivePage, PageServer]:
        live = LivePage(True, "mine", time.clock())
        server = PageServer(access(ReviewApi(), time), live)
        await server.listen("127.0.0.1:0")
        return live, server

    live, server = asyncio.run_coroutine_threadsafe(start(), loop).result()

    def decide(objects: list[Object]) -> None:
        cluster = Cluster.of(objects)
        decided = DecidedCycle(cluster, run_cycle(cluster, CONFIG, NOW_NS), 0.1, CONFIG)

        async def hand_on() -> None:
            time.s += 120.0  # more than the page lasts, and than a sample of the queues
            live.decided(decided)

        asyncio.run_coroutine_threadsafe(hand_on(), loop).result()

    decide(small_objects())
    yield Served(f"http://127.0.0.1:{server.port}/", decide)
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab; what its console says is an error, but for what a refused request logs."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text) if "status of 401" not in message.text else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    assert said == []


def log_in(tab: Page, url: str, token: str) -> None:
    tab.goto(url)
    tab.get_by_label("Token of your cluster").fill(token)
    tab.keyboard.press("Enter")


def test_a_token_without_the_right_is_told_so(served: Served, tab: Page) -> None:
    log_in(tab, served.url, "nobody")
    expect(tab.get_by_role("alert")).to_have_text("the API server does not know this token")
    assert tab.context.cookies() == []


def test_a_token_opens_the_page_until_the_logout(served: Served, tab: Page) -> None:
    log_in(tab, served.url, "root")
    expect(tab.locator("#summary")).to_contain_text("24 GPUs")
    assert tab.evaluate("document.cookie") == ""
    tab.get_by_role("button", name="Log out").click()
    expect(tab.get_by_label("Token of your cluster")).to_be_visible()


def test_a_pod_that_comes_is_shown_without_a_reload(served: Served, tab: Page) -> None:
    log_in(tab, served.url, "root")
    expect(tab.locator("#live")).to_have_text("live")
    tab.locator("#waiting summary").click()
    tab.locator("#running thead button", has_text="GPUs").click()
    tab.locator("#filter").fill("n")
    tab.locator('.node[title="node-2"]').click()
    tab.evaluate("window.same = true")
    cpu = small_objects()[-1].shape  # type: ignore[union-attr]
    served.decide([*small_objects(), *job("newcomer", "nlp", 9, cpu)])
    expect(tab.locator("#waiting")).to_contain_text("ml/newcomer")
    assert tab.evaluate("window.same")
    expect(tab.locator("#waiting details[open]")).to_have_count(1)
    expect(tab.locator("#running thead th").nth(4)).to_have_attribute("aria-sort", "descending")
    expect(tab.locator("#filter")).to_have_value("n")
    expect(tab.locator('.node[title="node-2"]')).to_be_focused()
    expect(tab.locator("#node-detail strong")).to_have_text("node-2")
    expect(tab.locator("svg.hour").first).to_be_visible()
