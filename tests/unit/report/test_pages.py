"""The pages for users keep up with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kai_sched.cycle.explain.groups import HELP_TEXTS, NODE_TEXTS, OTHERS_FIRST
from kai_sched.plan import reasons
from kai_sched.plan.reasons import Reason

PAGE = (Path(__file__).parents[3] / "docs" / "pending.md").read_text()


def test_every_reason_code_has_a_section() -> None:
    codes = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    codes -= reasons.NODE_STATES  # what is said of nodes is looked for below
    assert reasons.OVER_LIMIT in codes
    headings = {line.removeprefix("## ").split(" (")[0] for line in PAGE.splitlines() if line.startswith("## ")}
    assert codes - headings == set()


@pytest.mark.parametrize("state", ["pipelined", "gated", "releasing", "stuck in releasing"])
def test_every_state_that_needs_it_is_explained(state: str) -> None:
    """As plain words, since ``-o json`` has them as "Pipelined" and so on."""
    assert f"**{state}**" in PAGE.split("## Not pending, and not bound either")[1]


def test_the_page_has_all_that_is_told_of_searches_and_of_nodes() -> None:
    for text in (*HELP_TEXTS.values(), OTHERS_FIRST):
        assert f"\n| {text} | " in PAGE
    listed = " ".join(PAGE.split())
    for text in NODE_TEXTS.values():
        assert f"*{text}*" in listed


@pytest.mark.parametrize(
    "told",
    [
        reasons.not_ready([]),
        reasons.not_ready([("workers", 3, 2, 1)]),
        reasons.gated(1),
        reasons.nothing_to_add(),
        reasons.no_help(),
        reasons.no_queue("q", [], "above"),
        reasons.no_queue("q", [], ""),
        reasons.over_limit("q", "gpu", 4.0, 1.0, 2.0),
        reasons.over_quota("q", "gpu", 4.0, 1.0, 2.0),
    ],
    ids=lambda told: told.message,
)
def test_the_page_explains_each_wording(told: Reason) -> None:
    """By the words that make it out, in its section."""
    section = " ".join(PAGE.split(f"\n## {told.code}", 1)[1].split("\n## ", 1)[0].split())
    quoted = re.findall(r'"([^"]+)"', section)
    assert any(text in told.message for text in quoted), quoted
