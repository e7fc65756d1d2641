"""The pages for users keep up with the code."""

from __future__ import annotations

from pathlib import Path

from kai_sched.plan import reasons
from kai_sched.report.tables import LEGEND, WORDS

PAGE = (Path(__file__).parents[3] / "docs" / "pending.md").read_text()


def test_every_reason_code_has_a_section() -> None:
    codes = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    assert reasons.OVER_LIMIT in codes
    headings = {line.removeprefix("## ").split(" ")[0] for line in PAGE.splitlines() if line.startswith("## ")}
    assert codes - headings == set()


def test_every_state_that_needs_it_is_explained() -> None:
    assert set(LEGEND) < set(WORDS)
    for status in ("Pipelined", "Gated", "Releasing", "StuckInReleasing"):
        assert f"**{WORDS[status][0]}**" in PAGE
