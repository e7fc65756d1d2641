"""Label selectors as texts: what each means, and what is refused with how to write it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.constraints import Requirement
from kai_sched.model.label_selector import LENGTH_MAX, parse_label_selector

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [Requirement("a", "In", ("b",))]),
        ("a == b", [Requirement("a", "In", ("b",))]),
        ("a=", [Requirement("a", "In", ("",))]),
        ("example.com/a!=b", [Requirement("example.com/a", "NotIn", ("b",))]),
        ("a in (b, c)", [Requirement("a", "In", ("b", "c"))]),
        ("a notin (b)", [Requirement("a", "NotIn", ("b",))]),
        ("a,!b", [Requirement("a", "Exists"), Requirement("b", "DoesNotExist")]),
        (" a = b , c in (d) ", [Requirement("a", "In", ("b",)), Requirement("c", "In", ("d",))]),
    ],
)
def test_what_a_text_means(text: str, expected: list[Requirement]) -> None:
    assert list(parse_label_selector(text)) == expected


@pytest.mark.parametrize(
    "text", ["", " ", ",", "a=b c=d", "a in b", "a in (b", "!a=b", "!", "=b", "a=b;c", "a > 1", "ä=b"]
)
def test_what_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="write it as"):
        parse_label_selector(text)


def test_a_long_text_is_refused() -> None:
    with pytest.raises(ValueError, match="shorten it"):
        parse_label_selector("a" * (LENGTH_MAX + 1))


@given(
    st.lists(st.tuples(NAMES, st.sampled_from(["In", "NotIn"]), st.lists(NAMES, min_size=1, max_size=3)), min_size=1)
)
def test_what_is_written_is_read(parts: list[tuple[str, str, list[str]]]) -> None:
    words = {"In": "in", "NotIn": "notin"}
    text = ",".join(f"{key} {words[op]} ({','.join(values)})" for key, op, values in parts)
    if len(text) <= LENGTH_MAX:
        assert list(parse_label_selector(text)) == [Requirement(key, op, tuple(values)) for key, op, values in parts]


@given(st.text(max_size=60))
def test_no_text_does_anything_else(text: str) -> None:
    """Each is read, or refused with how to write it."""
    with contextlib.suppress(ValueError):
        assert parse_label_selector(text)
