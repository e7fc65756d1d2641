"""A tab with a file in it, for what is no test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser import chromium


@contextmanager
def tab(width: int, height: int) -> Iterator[Page]:
    """An empty tab of that size in a browser of its own, without a network."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.program(), args=list(chromium.FLAGS))
        size = {"width": width, "height": height}
        yield browser.new_context(offline=True, viewport=size).new_page()  # type: ignore[arg-type]
        browser.close()


def show(page: Page, path: Path) -> None:
    """Open the file, and wait until it is drawn: a frame for what the script adds, and the next one for its paint."""
    page.goto(path.as_uri())
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
