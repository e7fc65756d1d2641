"""Columns: one record a line, names whole in a pipe and elided in the middle on a terminal, texts folded at blanks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kai_sched.report.columns import GAP, LEAST_TEXT, SHORTEST, Cell, Line, cells, elide, folded, lay_out

NODE = "ip-10-20-0-100.eu-central-1.compute.internal"
TEXT = st.text(alphabet="ab 数é", max_size=60)


def shown(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def drawn(rows: list[list[Cell]], width: int | None, indent: int = 0) -> list[str]:
    return shown(list(lay_out(rows, width, indent)))


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    rows = [
        [Cell("name"), Cell("n", right=True)],
        [Cell("a"), Cell("10", right=True)],
        [Cell("longer"), Cell("7", right=True)],
    ]
    assert drawn(rows, 80) == ["name     n", "a       10", "longer   7"]
    assert drawn(rows, None, indent=2) == ["  name     n", "  a       10", "  longer   7"]


def test_rows_may_be_of_different_lengths() -> None:
    assert drawn([[Cell("a")], [Cell("long"), Cell("b")]], 80) == ["a", "long  b"]
    assert drawn([], 80) == []


def test_no_line_ends_in_blanks() -> None:
    assert drawn([[Cell("a"), Cell("")], [Cell("longer"), Cell("b")]], 80) == ["a", "longer  b"]


def test_a_pipe_gets_every_name_in_full() -> None:
    rows = [[Cell(NODE, elastic=True), Cell("a text " * 20, last=True)]]
    assert drawn(rows, None) == [f"{NODE}  {'a text ' * 20}".rstrip()]


def test_on_a_terminal_a_name_loses_its_middle() -> None:
    rows = [[Cell(NODE, elastic=True), Cell("8", right=True)]]
    assert drawn(rows, 24) == ["ip-10-20-0…e.internal  8"]


def test_a_text_at_the_end_gives_way_before_a_name_does() -> None:
    rows = [[Cell(NODE, elastic=True), Cell("why it waits, at some length, with numbers", last=True)]]
    (line,) = drawn(rows, len(NODE) + GAP + LEAST_TEXT)
    assert line.startswith(NODE)
    assert line.endswith("…")
    assert cell_len(line) == len(NODE) + GAP + LEAST_TEXT
    (narrow,) = drawn(rows, len(NODE) + GAP + LEAST_TEXT - 10)
    assert "…" in narrow[: len(NODE)]


def test_the_widest_name_gives_way_first() -> None:
    rows = [[Cell("a" * 40, elastic=True), Cell("b" * 20, elastic=True)]]
    assert drawn(rows, 52) == ["a" * 15 + "…" + "a" * 14 + "  " + "b" * 20]


def test_what_is_not_elastic_is_never_cut() -> None:
    rows = [[Cell("a name of some length"), Cell("1234567890", right=True)]]
    assert drawn(rows, 20) == ["a name of some length  1234567890"]


@given(st.lists(st.tuples(TEXT, st.booleans()), min_size=1, max_size=6), TEXT, st.integers(40, 200))
def test_a_line_fits_unless_nothing_can_give(names: list[tuple[str, bool]], why: str, width: int) -> None:
    """What is as short as it may be, or is no name, may still be too wide."""
    row = [*(Cell(f"x{text}x", elastic=may) for text, may in names), Cell(f"x{why}x", last=True)]
    least = [min(cell_len(each.text), SHORTEST) if each.elastic else cell_len(each.text) for each in row]
    least[-1] = min(least[-1], SHORTEST)
    (line,) = drawn([row], width)
    assert cell_len(line) <= max(width, sum(least) + GAP * (len(row) - 1))


@given(TEXT, st.integers(3, 30))
def test_an_elided_text_has_its_beginning_and_its_end(text: str, width: int) -> None:
    found = elide(text, width)
    assert cell_len(found) <= width
    if cell_len(text) <= width:
        assert found == text
    else:
        head, _, tail = found.partition("…")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert cell_len(found) >= width - 2  # a character of two columns may not fit into what is left


def test_wide_characters_take_two_columns() -> None:
    assert elide("数据" * 10, 9) == "数据…数据"
    rows = [[Cell("数据"), Cell("b")], [Cell("abcde"), Cell("c")]]
    assert drawn(rows, 80) == ["数据   b", "abcde  c"]
    assert drawn([[Cell("数" * 40, last=True)]], 40) == ["数" * 19 + "…"]


def test_columns_of_every_character_are_those_of_the_terminal_library() -> None:
    """Most text needs no table of widths; what is taken for narrow is."""
    signs = [chr(code) for code in range(0x20, 0x3000) if not 0x7F <= code < 0xA0]
    assert {sign: cells(sign) for sign in signs} == {sign: cell_len(sign) for sign in signs}


def test_a_long_line_is_broken_at_blanks() -> None:
    line = [("  To place 8 GPUs", "magenta"), (" this evicts", ""), (": llama", "")]
    assert shown(list(folded(line, 20, 4))) == ["  To place 8 GPUs", "    this evicts:", "    llama"]
    assert shown(list(folded(line, 80))) == shown(list(folded(line, None))) == ["  To place 8 GPUs this evicts: llama"]


@pytest.mark.parametrize("width", [5, 12, 40])
def test_a_word_that_is_too_long_stays_whole(width: int) -> None:
    assert NODE in [line.strip() for line in shown(list(folded([(f"on {NODE} now", "")], width)))]


@given(TEXT, st.integers(6, 40))
def test_folding_loses_nothing_but_blanks(text: str, width: int) -> None:
    lines = shown(list(folded([(text, "")], width, 2)))
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    longest = max([cell_len(word) for word in text.split(" ")], default=0)
    begin = len(text) - len(text.lstrip(" "))
    assert all(cell_len(line.rstrip()) <= max(width, longest + max(2, begin)) for line in lines)
