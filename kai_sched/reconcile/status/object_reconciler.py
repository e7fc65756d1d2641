"""The base class of the reconcilers: objects that are marked or due by time, and what an exception at one of them
costs.

``StatusReconciler`` has one ObjectReconciler for each kind. An object is reconciled when something about it has
changed, or when the write throttle says that its time has come. An exception costs only its own object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Write
from kai_sched.plan.result import CycleResult, QueueState
from kai_sched.reconcile.status.usage import QueueUsage
from kai_sched.reconcile.status.write_throttle import TrackedObject, WriteThrottle


@dataclass(frozen=True, slots=True)
class StatusInput:
    """What writes are computed from: a cycle, the usage by its pods, and the time that people see."""

    cluster: Cluster
    result: CycleResult
    usage: QueueUsage
    queues: Mapping[str, QueueState]
    placed: frozenset[str]  # pods that get a node in this cycle
    now_ns: int


@dataclass(frozen=True, slots=True)
class ReconcileFault:
    """An object that could not be reconciled; all others were."""

    kind: str
    key: str
    error: Exception


class ObjectReconciler(ABC):
    """Objects by key. For one thread."""

    kind = ""

    def __init__(self) -> None:
        self._throttle = WriteThrottle()
        self._marked: dict[str, None] = {}  # to be reconciled, in this order

    def mark(self, keys: Iterable[str]) -> None:
        """Reconcile these objects."""
        self._marked.update(dict.fromkeys(keys))

    @property
    def marked(self) -> int:
        """The number of objects that are still to be reconciled."""
        return len(self._marked)

    @property
    def next_ns(self) -> int | None:
        """When the next object is due although nothing changes; None if none is."""
        return self._throttle.next_ns

    def begin(self, steady_ns: int, n_waiting: int) -> None:
        """Begin a new round: mark the objects that are due. See ``WriteThrottle.begin``."""
        for tracked in self._throttle.begin(steady_ns, n_waiting):
            self.mark(self._keys(tracked))

    def writes(self, inputs: StatusInput, most: int, faults: list[ReconcileFault]) -> list[Write]:
        """Return the writes that are due; once there are ``most`` or more, the rest is left for the next time."""
        marked, self._marked = self._marked, {}
        found: list[Write] = []
        rest = iter(marked)
        for key in rest:
            try:
                found += self._reconcile(key, inputs)
            except Exception as error:  # the other objects are reconciled all the same
                faults.append(ReconcileFault(self.kind, key, error))
            if len(found) >= most:
                break
        self.mark(rest)
        return found

    def _keys(self, tracked: TrackedObject) -> Iterable[str]:
        """Return what to reconcile when the time of the tracked object has come."""
        return (tracked.key,)

    @abstractmethod
    def _reconcile(self, key: str, inputs: StatusInput) -> Iterable[Write]:
        """Return what is to be written about the object, which may be gone."""
