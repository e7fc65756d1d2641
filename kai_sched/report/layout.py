"""Tables of text: the widths of columns, and how cells are folded.

Laid out here and not by a table library, which takes 0.3 ms a row: a cluster may have 40,000 pod groups.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

GAP = 2
NARROWEST = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a row. ``style`` is a style name of the terminal library."""

    text: str
    style: str = ""
    right: bool = False


Line = list[tuple[str, str]]  # (text, style) one after the other


def lay_out(rows: Sequence[Sequence[Cell]], width: int | None) -> Iterator[list[Line]]:
    """The lines of each row. All rows have equal numbers of cells. Text columns are folded to ``width``, if given."""
    columns = range(len(rows[0]))
    widths = [max(_length(row[column].text) for row in rows) for column in columns]
    if width is not None:
        widths = fit(widths, [not any(row[column].right for row in rows) for column in columns], width)
    for row in rows:
        yield _lines(row, widths)


def fit(widths: Sequence[int], folds: Sequence[bool], width: int) -> list[int]:
    """Narrow the widest column that folds until the line fits; if it cannot fit, leave all widths as they are.

    Columns of numbers do not fold: half a number is another number.
    """
    fitted = list(widths)
    for _ in range(sum(widths) + GAP * (len(widths) - 1) - width):
        widest = max((column for column, may in enumerate(folds) if may), key=lambda column: fitted[column], default=0)
        if not folds[widest] or fitted[widest] <= NARROWEST:
            return list(widths)
        fitted[widest] -= 1
    return fitted


def _lines(row: Sequence[Cell], widths: Sequence[int]) -> list[Line]:
    parts = [fold(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    lines: list[Line] = []
    for number in range(max(len(part) for part in parts)):
        line: Line = []
        for cell, part, width in zip(row, parts, widths, strict=True):
            text = part[number] if number < len(part) else ""
            pad = " " * (width - _length(text))
            line.append((pad + text if cell.right else text + pad, cell.style))
            line.append((" " * GAP, ""))
        lines.append(_trim(line))
    return lines


def _trim(line: Line) -> Line:
    """The line without trailing blanks."""
    while line:
        text, style = line.pop()
        if text := text.rstrip():
            line.append((text, style))
            break
    return line


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most ``width`` columns, broken between words; a word that is too long is broken, too."""
    if _length(text) <= width:
        return [text]
    if text.isascii():
        return textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    return list(_fold_wide(text, width))


def _fold_wide(text: str, width: int) -> Iterator[str]:
    """As ``fold``, for text with characters that take two columns or none."""
    line, used = "", 0
    for word in _words(text, width):
        length = cell_len(word)
        if line and used + 1 + length > width:
            yield line
            line, used = "", 0
        line, used = (f"{line} {word}", used + 1 + length) if line else (word, length)
    if line:
        yield line


def _words(text: str, width: int) -> Iterable[str]:
    for word in text.split(" "):
        piece, used = "", 0
        for sign in word:
            length = cell_len(sign)
            if piece and used + length > width:
                yield piece
                piece, used = "", 0
            piece, used = piece + sign, used + length
        if piece:
            yield piece


def _length(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
