"""Columns: nothing is cut off, nothing is wider than the line as long as it can be folded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kai_sched.report.layout import GAP, NARROWEST, Cell, Line, fit, fold, lay_out
from rich.cells import cell_len


def shown(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    rows = [
        [Cell("name"), Cell("n", right=True)],
        [Cell("a"), Cell("10", right=True)],
        [Cell("longer"), Cell("7", right=True)],
    ]
    assert [shown(lines) for lines in lay_out(rows, 80)] == [["name     n"], ["a       10"], ["longer   7"]]


def test_the_widest_column_is_folded() -> None:
    rows = [[Cell("name"), Cell("one two three four five")]]
    assert [shown(lines) for lines in lay_out(rows, 20)] == [["name  one two three", "      four five"]]


def test_a_word_that_is_too_long_is_broken_and_names_keep_their_hyphens() -> None:
    assert fold("gpu-node-1 gpu-node-2", 12) == ["gpu-node-1", "gpu-node-2"]
    assert fold("abcdefghij", 4) == ["abcd", "efgh", "ij"]


@given(st.text(alphabet="ab 数é", max_size=60), st.integers(2, 30))
def test_folding_loses_nothing_but_blanks(text: str, width: int) -> None:
    lines = fold(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) <= width for line in lines)


@given(st.lists(st.tuples(st.integers(1, 200), st.booleans()), min_size=1, max_size=6), st.integers(10, 200))
def test_a_line_fits_or_nothing_is_folded_in_vain(columns: list[tuple[int, bool]], width: int) -> None:
    widths, folds = [column[0] for column in columns], [column[1] for column in columns]
    fitted = fit(widths, folds, width)
    least = [min(before, NARROWEST) if may else before for before, may in zip(widths, folds, strict=True)]
    gaps = GAP * (len(widths) - 1)
    assert sum(fitted) + gaps <= width if sum(least) + gaps <= width else fitted == widths
    for now, before, may in zip(fitted, widths, folds, strict=True):
        assert now == before or (may and NARROWEST <= now < before)


def test_numbers_are_never_folded() -> None:
    rows = [[Cell("a name of some length"), Cell("1234567890", right=True)]]
    assert [shown(lines) for lines in lay_out(rows, 20)] == [["a name    1234567890", "of some", "length"]]
