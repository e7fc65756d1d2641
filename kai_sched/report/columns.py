"""Tables of text with one record a line: the widths of columns, and names that are elided in the middle on a terminal.

Names are never broken over lines. A pipe gets every name in full. Laid out here and not by a table library, which takes
0.3 ms a row: a cluster may have 40,000 pod groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Line = list[tuple[str, str]]  # (text, style) one after the other

GAP = 2
LEAST_TEXT = 28  # columns that a text at the end of a line keeps at least
SHORTEST = 18  # columns that an elided text keeps at least
ELLIPSIS = "\u2026"
# Text of which each character takes one column: ASCII, Latin, dashes and dots, and what bars are made of.
_NARROW = re.compile("[ -~\xa1-\xac\xae-\u02ff\u2010-\u2027\u2500-\u259f]*")
_WORD = re.compile(r" *[^ ]+| +")


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a row. ``style`` is a style name of the terminal library.

    ``elastic`` texts are names that are elided in their middle where a line does not fit. A text that is the ``last``
    of its row loses its end then, before any name is elided.
    """

    text: str
    style: str = ""
    right: bool = False
    elastic: bool = False
    last: bool = False


def lay_out(rows: Sequence[Sequence[Cell]], width: int | None, indent: int = 0) -> Iterator[Line]:
    """A line for each row; the last column is not padded. ``width`` in columns of the terminal, None for no limit."""
    if not rows:
        return
    columns = range(max(len(row) for row in rows))
    widths = [max((cells(row[column].text) for row in rows if column < len(row)), default=0) for column in columns]
    if width is not None:
        elastic = [any(row[column].elastic for row in rows if column < len(row)) for column in columns]
        ends = any(row[-1].last for row in rows)
        widths = _fit(widths, elastic, ends, width - indent)
    for row in rows:
        line: Line = [(" " * indent, "")] if indent else []
        for column, cell in enumerate(row):
            text = cell.text if width is None else _fitted(cell, widths[column])
            pad = " " * max(0, widths[column] - cells(text))
            is_last = column == len(row) - 1
            shown = pad + text if cell.right else text + ("" if is_last else pad)
            line += [(shown, cell.style), ("" if is_last else " " * GAP, "")]
        yield _trimmed(line)


def _fitted(cell: Cell, width: int) -> str:
    if cell.elastic:
        return elide(cell.text, width)
    return cell.text if not cell.last or cells(cell.text) <= width else _beginning(cell.text, width - 1) + ELLIPSIS


def _fit(widths: Sequence[int], elastic: Sequence[bool], ends: bool, width: int) -> list[int]:
    """Narrow the last column if it ends in a text, then the widest elastic one, until a line fits or none can give.

    The text at the end keeps LEAST_TEXT as long as names can give, and SHORTEST in any case.
    """
    fitted = list(widths)
    over = sum(widths) + GAP * (len(widths) - 1) - width
    if ends:
        over -= _narrow(fitted, len(fitted) - 1, over, LEAST_TEXT)
    names = [column for column, may in enumerate(elastic) if may]
    while names and over > 0 and _narrow(fitted, max(names, key=lambda each: fitted[each]), 1, SHORTEST):
        over -= 1
    if ends:
        _narrow(fitted, len(fitted) - 1, over, SHORTEST)
    return fitted


def _narrow(widths: list[int], column: int, by: int, least: int) -> int:
    """Take so many columns from this one, but for ``least`` of it; how many it gave."""
    given = max(0, min(by, widths[column] - least))
    widths[column] -= given
    return given


def elide(text: str, width: int) -> str:
    """The text in at most ``width`` columns, its middle left out: the end of a name tells as much as its beginning."""
    if cells(text) <= width:
        return text
    head = _beginning(text, width // 2)
    tail = _beginning(text[::-1], width - 1 - cells(head))[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def _beginning(text: str, width: int) -> str:
    """As much of the text as fits into ``width`` columns; some characters take two."""
    end = min(len(text), width)
    while cells(text[:end]) > width:
        end -= 1
    return text[:end]


def folded(line: Line, width: int | None, indent: int = 4) -> Iterator[Line]:
    """The line in lines of at most ``width`` columns, broken at blanks; what goes on is indented. Words stay whole."""
    if width is None:
        yield line
        return
    current: Line = []
    used, at_start = 0, True
    for text, style in line:
        for word in _WORD.findall(text):
            if word[0] == " " and not at_start and used + cells(word) > width:
                yield current
                current, used, word = [(" " * indent, "")], indent, word.lstrip()
            current.append((word, style))
            used += cells(word)
            at_start = at_start and word.isspace()
    yield current


def _trimmed(line: Line) -> Line:
    """The line without trailing blanks."""
    while line:
        text, style = line.pop()
        if text := text.rstrip():
            line.append((text, style))
            break
    return line


def cells(text: str) -> int:
    """Columns that the text takes on a terminal."""
    if _NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len  # only for other text: the import takes long

    return cell_len(text)
