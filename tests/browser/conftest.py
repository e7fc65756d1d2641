"""Fixtures of the tests in Chromium. They fail where there is none: `make test-all` installs it first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from kai_sched.report.page.rendering import render
from tests.browser import chromium
from tests.unit.report.page_sample import page_input, small_objects

FOLDER = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("browser")


@dataclass(slots=True)
class Opened:
    """A page in a tab: what the console said, and which requests it made but for the page itself."""

    page: Page
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


OpenPage = Callable[..., Opened]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests that lie here alone: while it is open, its event loop keeps others from running one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.program(), args=list(chromium.FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the small cluster, as a file."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render(page_input(small_objects())), "utf-8")
    return path


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """open_page(path, **options of the context): the file in a tab of its own, without a network.

    After the test neither an error on the console nor a request of the page is tolerated.
    """
    opened: list[Opened] = []

    def start(path: Path, **options: object) -> Opened:
        size = {"width": 1200, "height": 800}
        context = browser.new_context(offline=True, viewport=size, **options)  # type: ignore[arg-type]
        found = Opened(context.new_page())
        opened.append(found)
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("dialog", lambda dialog: (found.said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        own = path.as_uri()
        found.page.on("request", lambda request: found.requests.append(request.url) if request.url != own else None)
        found.page.goto(own)
        return found

    yield start
    for each in opened:
        each.page.context.close()
        assert each.said == []
        assert each.requests == []
