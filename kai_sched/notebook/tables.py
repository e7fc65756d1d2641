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

    __slots__ = ("_names", "_rows", "kind", "noun")

    def __init__(self, noun: str, kind: type[Row], rows: Iterable[Row], name: Callable[[Row], str]) -> None:
        self.noun, self.kind = noun, kind
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
        return frame(columns(self.kind), [record(row) for row in self._rows])

    def _repr_html_(self) -> str:
        return _html(self.kind, self._rows)


class NamedRows(Mapping[str, Row]):
    """Rows by name. ``noun`` says what they are; a name that is not there raises KeyError with the one most like it."""

    __slots__ = ("_rows", "kind", "noun")

    def __init__(self, noun: str, kind: type[Row], rows: Mapping[str, Row]) -> None:
        self.noun, self.kind = noun, kind
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
        return frame(columns(self.kind), [record(row) for row in self._rows.values()])

    def _repr_html_(self) -> str:
        return _html(self.kind, list(self._rows.values()))


def _brief(noun: str, names: Sequence[str]) -> str:
    title = f"{len(names):,} {noun}{'' if len(names) == 1 else 's'}"
    return f"<{title}: {some(names)}>" if names else f"<{title}>"


def columns(kind: type) -> list[str]:
    """The fields of a row and its properties; amounts by resource are columns of their own."""
    found: list[str] = []
    for each in fields(kind):
        parts = [f"{each.name}_{part.name}" for part in fields(Amounts)] if each.type == "Amounts" else [each.name]
        found += parts
    return found + [name for name, value in vars(kind).items() if isinstance(value, property)]


def record(row: object) -> dict[str, Any]:
    """The columns of a row as plain values."""
    found: dict[str, Any] = {}
    for name in columns(type(row)):
        field, _, resource = name.rpartition("_")
        holder = getattr(row, field, None)
        found[name] = getattr(holder, resource) if isinstance(holder, Amounts) else _plain(name, getattr(row, name))
    return found


def _plain(name: str, value: object) -> Any:
    if isinstance(value, tuple):
        return dict(value) if name == "nodes" else [_plain(name, each) for each in value]
    if isinstance(value, Workload):
        return str(value)
    for text in ("text", "message"):
        if is_dataclass(value) and hasattr(value, text):
            return getattr(value, text)
    return record(value) if is_dataclass(value) else value


def frame(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The records as a DataFrame with these columns. Raises ImportError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas needs pandas: install it with `pip install pandas`") from None
    return pandas.DataFrame(records, columns=list(names))


def _html(kind: type, rows: Sequence[object]) -> str:
    """An HTML table of the first rows, and how many are left out. All texts are escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns(kind))
    shown = [record(row).values() for row in rows[:ROWS_SHOWN_MAX]]
    cells = ("".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) for row in shown)
    body = "".join(f"<tr>{each}</tr>" for each in cells)
    more = f"<p>and {len(rows) - len(shown):,} more</p>" if len(rows) > len(shown) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} ({_cell(each)})" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return "" if value is None else str(value)


def html_text(lines: Iterable[str]) -> str:
    """Lines as they are printed, escaped."""
    return f"<pre>{html.escape(chr(10).join(lines))}</pre>"
