"""What selectors say about the devices of a cycle: which devices look alike to an expression, the answers that came
with the cluster, and the questions that are still open (semantics 8.6; ADR 16).

Cost: for each expression a step for each device, in numpy; views are made once for all devices that look alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from kai_sched.model.claims.objects import Device
from kai_sched.model.claims.selector_text import DevicePart, parts_of
from kai_sched.model.claims.selectors import (
    NO_ANSWERS,
    DeviceView,
    SelectorAnswer,
    SelectorAnswers,
    SelectorError,
    SelectorQuestion,
    UnansweredError,
    failure,
    text_fault,
    values_of,
    view_of,
)
from kai_sched.snapshot.tables import Flags, Ints, Longs

ASKED_MAX = 2**18  # characters of the expressions that a namespace asks about in one cycle, and
ASKED_EACH = 512  # so many for each of them
KEPT_BYTES = 32 * 2**20  # of what is known of expressions
TEXTS_MAX = 4 * 2**20  # characters of expressions whose parts are known
VIEWS_BYTES = 16 * 2**20  # of the views of sets of parts that are kept
FEW = 32  # if parts tell more devices apart, an expression counts as seeing all of each device

Parts = frozenset[DevicePart] | None


class SelectorVerdict(IntEnum):
    """What an expression says about a device."""

    NO = 0
    YES = 1
    FAILS = 2
    UNKNOWN = 3


MAY_BE = (SelectorVerdict.YES, SelectorVerdict.UNKNOWN)


class SelectorBook:
    """What selectors say about these devices.

    ``questions`` are those that the current cycle has asked for so far.
    """

    def __init__(self, devices: list[tuple[str, Device]]) -> None:
        self._devices = devices
        self._answers = NO_ANSWERS
        self._asked: dict[str, set[str]] = {}  # the namespaces that ask, by expression
        self._length_of: dict[str, int] = {}  # of what each namespace has asked for, as ``ASKED_MAX`` counts
        self._verdicts: dict[str, tuple[SelectorAnswer, Flags]] = {}
        self._views: dict[Parts, tuple[Ints, tuple[DeviceView, ...]]] = {}
        self._columns: dict[DevicePart, Ints] | None = None
        self._parts: dict[str, Parts] = {}
        self._parts_length = 0

    def begin(self, answers: SelectorAnswers) -> bool:
        """A cycle begins with these answers. Whether something that was known before is not any more."""
        self._asked, self._length_of = {}, {}
        if answers is self._answers:
            return False
        self._answers = answers
        stale = [text for text, (answer, _) in self._verdicts.items() if answers.get(text) is not answer]
        for text in stale:
            del self._verdicts[text]
        return bool(stale)

    @property
    def questions(self) -> tuple[SelectorQuestion, ...]:
        found = []
        for expression, namespaces in sorted(self._asked.items()):
            _, views = self._seen(expression)
            answer = self._answers.get(expression)
            if answer is not None:
                views = tuple(view for view in views if view.key not in answer.of)
            found.append(SelectorQuestion(expression, tuple(sorted(namespaces)), views))
        return tuple(found)

    def ask(self, expressions: Iterable[str], namespace: str) -> None:
        """Ask what is not known of these expressions, for the namespace, up to ``ASKED_MAX``."""
        for expression in expressions:
            if namespace in self._asked.get(expression, ()) or text_fault(expression) or self._is_known(expression):
                continue
            length = self._length_of.get(namespace, 0) + len(expression) + ASKED_EACH
            if length <= ASKED_MAX:
                self._length_of[namespace] = length
                self._asked.setdefault(expression, set()).add(namespace)

    def selected(self, expressions: Iterable[str]) -> Flags:
        """(V,) 1 for the devices that all expressions select. Raises SelectorError; UnansweredError until all is known.

        An expression may fail for devices that those before it do not select.
        """
        verdicts = [(expression, self._verdict(expression)) for expression in expressions]
        found = np.ones(len(self._devices), np.uint8)
        for expression, verdict in verdicts:
            if (failing := np.flatnonzero(found & (verdict == SelectorVerdict.FAILS))).size:
                raise self._failure(expression, int(failing[0]))
            found &= verdict == SelectorVerdict.YES
        return found

    def selected_or_unknown(self, expressions: Iterable[str]) -> Flags:
        """(V,) 1 for the devices that all expressions select, or may select once there are answers: for objects of the
        cluster, whose questions are asked here. An expression that cannot be used selects nothing."""
        found = np.ones(len(self._devices), np.uint8)
        for expression in expressions:
            self.ask((expression,), "")
            try:
                found &= np.isin(self._verdict(expression, partial=True), MAY_BE)
            except UnansweredError:
                continue
            except SelectorError:
                found[:] = 0
        return found

    def _is_known(self, expression: str) -> bool:
        answer = self._answers.get(expression)
        return answer is not None and (
            bool(answer.fault) or not (self._verdict_of(expression) == SelectorVerdict.UNKNOWN).any()
        )

    def _verdict(self, expression: str, partial: bool = False) -> Flags:
        """(V,) NO, YES or FAILS; with ``partial`` UNKNOWN as well. Raises SelectorError."""
        if fault := text_fault(expression):
            raise SelectorError(expression, fault)
        answer = self._answers.get(expression)
        if answer is None:
            raise UnansweredError(expression)
        if answer.fault:
            raise SelectorError(expression, answer.fault)
        found = self._verdict_of(expression)
        if not partial and (found == SelectorVerdict.UNKNOWN).any():
            raise UnansweredError(expression)
        return found

    def _verdict_of(self, expression: str) -> Flags:
        answer = self._answers[expression]
        known = self._verdicts.get(expression)
        if known is not None and known[0] is answer:
            return known[1]
        rows, views = self._seen(expression)
        codes = np.array([_code(answer.of.get(view.key)) for view in views], np.uint8)
        found: Flags = codes[rows] if codes.size else np.zeros(0, np.uint8)
        if (len(self._verdicts) + 1) * (found.size + 200) > KEPT_BYTES:
            self._verdicts.clear()
        self._verdicts[expression] = answer, found
        return found

    def _failure(self, expression: str, v: int) -> SelectorError:
        rows, views = self._seen(expression)
        driver, device = self._devices[v]
        detail = self._answers[expression].of[views[rows[v]].key]
        return failure(expression, driver, device.name, str(detail))

    def _seen(self, expression: str) -> tuple[Ints, tuple[DeviceView, ...]]:
        """(V,) the number of what the expression sees of each device, and what it sees, by number."""
        parts, columns = self._parts_of(expression), self._all_columns()
        parts = None if parts is None else parts.intersection(columns)
        if parts not in self._views:
            rows, first = self._distinct(columns if parts is None else parts)
            if parts is not None and first.size > FEW:
                # So that what tells most devices apart costs no more however it is put together.
                self._parts[expression] = None
                return self._seen(expression)
            seen = [self._devices[v] for v in first.tolist()]
            views = tuple(view_of(driver, device, parts) for driver, device in seen)
            if (len(self._views) + 1) * (rows.nbytes + 500) > VIEWS_BYTES:
                self._views.clear()
            self._views[parts] = rows, views
        return self._views[parts]

    def _parts_of(self, expression: str) -> Parts:
        """The parts that the expression can see; None: any."""
        if expression not in self._parts:
            if self._parts_length > TEXTS_MAX:
                self._parts, self._parts_length = {}, 0
            self._parts[expression] = parts_of(expression)
            self._parts_length += len(expression)
        return self._parts[expression]

    def _distinct(self, parts: Iterable[DevicePart]) -> tuple[Ints, Longs]:
        """(V,) a number for all devices that these parts do not tell apart, and the first device of each number."""
        rows: npt.NDArray[np.int64] = np.zeros(len(self._devices), np.int64)
        for part in sorted(parts):
            column = self._all_columns()[part].astype(np.int64)
            _, rows = np.unique(rows * (int(column.max(initial=0)) + 1) + column, return_inverse=True)
            rows = rows.reshape(-1)
        _, first = np.unique(rows, return_index=True)
        return rows.astype(np.int32), first.astype(np.int64)

    def _all_columns(self) -> dict[DevicePart, Ints]:
        """(V,) for each part that devices have, the number of its value; 0 where a device has none."""
        if self._columns is None:
            found: dict[DevicePart, Ints] = {}
            numbers: dict[DevicePart, dict[object, int]] = {}
            for v, (driver, device) in enumerate(self._devices):
                for part, value in values_of(driver, device):
                    if part not in found:
                        found[part], numbers[part] = np.zeros(len(self._devices), np.int32), {}
                    of_part = numbers[part]
                    key = (type(value), str(value))
                    found[part][v] = of_part.setdefault(key, len(of_part) + 1)
            self._columns = found
        return self._columns


def _code(answer: bool | str | None) -> int:
    if answer is None:
        return SelectorVerdict.UNKNOWN
    return SelectorVerdict.FAILS if isinstance(answer, str) else int(answer)
