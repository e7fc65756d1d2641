"""Tables of results: sequences of rows and mappings by name, which notebooks show and pandas takes over."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from kai_sched.answers.words import number, some
from kai_sched.answers.workloads import Workload
from kai_sched.model.problems import near

if TYPE_CHECKING:
    from pandas import DataFrame

Row = TypeVar("Row")
ROWS_SHOWN_MAX = 200  # of an HTML table


@dataclass(frozen=True, slots=True)
class Amounts:
    """An amount of each resource: GPUs in devices, CPU in cores, memory in bytes. Infinity is unlimited."""

    gpu: float
    cpu: float
    memory: float

    def __repr__(self) -> str:
        gpus, cores, gi = number(self.gpu), number(self.cpu), number(self.memory / 2**30)
        return f"<{gpus} GPUs, {cores} CPU cores, {gi}Gi memory>"


class Rows(Sequence[Row]):
    """Rows in order. ``noun`` says what they are."""

    __slots__ = ("_names", "_rows", "noun")

    def __init__(self, noun: str, rows: Iterable[Row], name: Callable[[Row], str]) -> None:
        self.noun = noun
        self._rows = tuple(rows)
        self._names = [name(row) for row in self._rows]

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return _brief(self.noun, self._names)

    def to_pandas(self) -> DataFrame:
        """A row for each; units are those of the fields. Raises ImportError where pandas is not installed."""
        return frame(map(record, self._rows))

    def _repr_html_(self) -> str:
        return html_table([record(row) for row in self._rows[:ROWS_SHOWN_MAX]], len(self._rows))


class Named(Mapping[str, Row]):
    """Rows by name. ``noun`` says what they are; a name that is not there raises KeyError with the one most like it."""

    __slots__ = ("_rows", "noun")

    def __init__(self, noun: str, rows: Mapping[str, Row]) -> None:
        self.noun = noun
        self._rows = dict(rows)

    def __getitem__(self, name: str) -> Row:
        if name not in self._rows:
            raise KeyError(f"there is no {self.noun} {name!r}{near(str(name), self._rows)}")
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return _brief(self.noun, list(self._rows))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._rows)

    def to_pandas(self) -> DataFrame:
        """A row for each, with its name; units are those of the fields. Raises ImportError without pandas."""
        return frame(record(row) for row in self._rows.values())

    def _repr_html_(self) -> str:
        return html_table([record(row) for row in list(self._rows.values())[:ROWS_SHOWN_MAX]], len(self._rows))


def _brief(noun: str, names: Sequence[str]) -> str:
    title = f"{len(names):,} {noun}{'' if len(names) == 1 else 's'}"
    return f"<{title}: {some(names)}>" if names else f"<{title}>"


def record(row: object) -> dict[str, Any]:
    """The fields of a row as columns of plain values; an amount of each resource as a column of its own."""
    found: dict[str, Any] = {}
    for each in fields(row):  # type: ignore[arg-type]
        value = getattr(row, each.name)
        if isinstance(value, Amounts):
            found |= {f"{each.name}_{part.name}": getattr(value, part.name) for part in fields(value)}
        else:
            found[each.name] = _plain(value)
    return found


def _plain(value: object) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Workload):
        return str(value)
    text = getattr(value, "text", None)
    if isinstance(text, str):
        return text
    return record(value) if is_dataclass(value) else value


def frame(records: Iterable[Mapping[str, Any]]) -> DataFrame:
    """The records as a DataFrame. Raises ImportError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas needs pandas: install it with `pip install pandas`") from None
    return pandas.DataFrame(list(records))


def html_table(records: Sequence[Mapping[str, Any]], total: int) -> str:
    """An HTML table of these records, and how many of ``total`` are left out. All texts are escaped."""
    if not records:
        return "<p>nothing</p>"
    head = "".join(f"<th>{html.escape(name)}</th>" for name in records[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in each.values()) + "</tr>"
        for each in records
    )
    more = f"<p>and {total - len(records):,} more</p>" if total > len(records) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return str(value)


def html_text(lines: Iterable[str]) -> str:
    """Lines as they are printed, escaped."""
    return f"<pre>{html.escape(chr(10).join(lines))}</pre>"
