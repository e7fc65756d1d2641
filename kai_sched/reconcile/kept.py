"""Objects of one kind whose status is kept: looked at when something about them has changed, or their time has come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Write
from kai_sched.plan.result import CycleResult, QueueState
from kai_sched.reconcile.ledger import Ledger, Subject
from kai_sched.reconcile.tally import Tally


@dataclass(frozen=True, slots=True)
class Moment:
    """What writes are computed from: a cycle, what its pods add up to, and the time that people see."""

    cluster: Cluster
    result: CycleResult
    tally: Tally
    queues: Mapping[str, QueueState]
    placed: frozenset[str]  # pods that get a node in this cycle
    now_ns: int


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that could not be looked at, which keeps nothing from all others."""

    kind: str
    key: str
    error: Exception


class Kept(ABC):
    """By key. For one thread."""

    kind = ""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._marked: dict[str, None] = {}  # to be looked at, in this order

    def mark(self, keys: Iterable[str]) -> None:
        """Look at these."""
        self._marked.update(dict.fromkeys(keys))

    @property
    def marked(self) -> int:
        """How many are still to be looked at."""
        return len(self._marked)

    @property
    def next_ns(self) -> int | None:
        """When one of them is due though nothing changes; None where none will be."""
        return self._ledger.next_ns

    def begin(self, steady_ns: int, n_waiting: int) -> None:
        """A new moment has come, see ``Ledger.begin``."""
        for subject in self._ledger.begin(steady_ns, n_waiting):
            self.mark(self._keys(subject))

    def writes(self, moment: Moment, most: int, faults: list[Fault]) -> list[Write]:
        """What is due now; once that is ``most`` or more, the rest is left for the next time."""
        marked, self._marked = self._marked, {}
        found: list[Write] = []
        rest = iter(marked)
        for key in rest:
            try:
                found += self._look(key, moment)
            except Exception as error:  # whatever one object does to us, the others are told
                faults.append(Fault(self.kind, key, error))
            if len(found) >= most:
                break
        self.mark(rest)
        return found

    def _keys(self, subject: Subject) -> Iterable[str]:
        """What to look at when the subject's time has come."""
        return (subject.key,)

    @abstractmethod
    def _look(self, key: str, moment: Moment) -> Iterable[Write]:
        """What is to be written about the object; it may be gone."""
