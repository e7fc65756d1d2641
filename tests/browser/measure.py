"""The page of 1,000 nodes and 20,000 pods, in figures: `make bench-page`. Prints bytes, and medians in milliseconds."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from kai_sched.report.page.rendering import render
from tests.browser.tab import show, tab
from tests.unit.report.page_sample import large_objects, page_input

REPETITIONS = 5


def measure() -> None:
    """Print the line."""
    given = page_input(large_objects())
    made, drawn = [], []
    with tempfile.TemporaryDirectory() as folder, tab(1280, 900) as page:
        path = Path(folder) / "page.html"
        for _ in range(REPETITIONS):
            started = time.perf_counter()
            text = render(given)
            made.append(time.perf_counter() - started)
            path.write_text(text, "utf-8")
            started = time.perf_counter()
            show(page, path)
            drawn.append(time.perf_counter() - started)
    milliseconds = [1e3 * statistics.median(each) for each in (made, drawn)]
    print(f"page-1000n: {path.name} has {len(text.encode()):,} bytes, ", end="")
    print("made in {:.0f} ms, drawn in {:.0f} ms".format(*milliseconds))


if __name__ == "__main__":
    measure()
