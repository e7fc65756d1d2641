"""How often large objects are read: updates of a namespace's large objects take a bounded share of the event loop.

Reading takes time in proportion to the size, and whoever may write an object may do so many times a second. So after a
large object of a namespace was read, the next one is read only after a rest in proportion to its size. Of one object
the latest version counts. Deletions, complete lists, small objects and what administrators write are never held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kai_sched.model.read.kinds import NODE, NODE_TOPOLOGY, RESOURCE_SLICE, Kind
from kai_sched.operator.intake.event_sink import EventSink
from kai_sched.operator.intake.object_head import read_name

LARGE_BYTES = 100_000
REST_S_PER_BYTE = 4e-6  # reading takes a fifth of a microsecond for each byte at most: 5 % of the time

# Their drivers may write many that are large at once, and no tenant may.
OF_ADMINISTRATORS = frozenset({NODE, RESOURCE_SLICE, NODE_TOPOLOGY})

Read = Callable[[Kind, bytes], None]


class PacedSink:
    """Stands before an ``EventSink``, for one event loop. It implements ``cluster.reflector.Sink``.

    Parameters
    ----------
    sink
        Takes all events.
    """

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._resting: set[str] = set()  # namespaces; each has a timer
        self._held: dict[str, dict[tuple[Kind, str], tuple[Read, bytes]]] = {}  # by namespace, the oldest first

    def begin(self, kind: Kind) -> None:
        """A complete list follows: it is newer than what is held back, some of which may be gone."""
        for held in self._held.values():
            for each in [each for each in held if each[0] == kind]:
                del held[each]
        self._sink.begin(kind)

    def item(self, kind: Kind, raw: bytes) -> None:
        """One object of the list."""
        self._sink.item(kind, raw)

    def finish(self, kind: Kind) -> None:
        """The list is complete."""
        self._sink.finish(kind)

    def changed(self, kind: Kind, raw: bytes) -> None:
        """The object exists, in this version."""
        self._pace(self._sink.changed, kind, raw)

    def changed_late(self, kind: Kind, raw: bytes) -> None:
        """As ``changed``, for events of kopf (``EventSink.changed_late``)."""
        self._pace(self._sink.changed_late, kind, raw)

    def deleted(self, kind: Kind, raw: bytes) -> None:
        """The object was deleted; ``raw`` is its last version."""
        if self._held:
            namespace, name = read_name(raw)
            self._held.get(namespace, {}).pop((kind, name), None)
        self._sink.deleted(kind, raw)

    def _pace(self, read: Read, kind: Kind, raw: bytes) -> None:
        if len(raw) < LARGE_BYTES or kind in OF_ADMINISTRATORS:
            read(kind, raw)  # an older version that is held back is ignored once its time comes
            return
        namespace, name = read_name(raw)
        if namespace in self._resting:
            held = self._held.setdefault(namespace, {})
            before = held.get((kind, name))
            late = before is not None and read == self._sink.changed_late
            held[kind, name] = before if before is not None and late else (read, raw)
            return
        self._read(namespace, read, kind, raw)

    def _read(self, namespace: str, read: Read, kind: Kind, raw: bytes) -> None:
        self._resting.add(namespace)
        asyncio.get_running_loop().call_later(len(raw) * REST_S_PER_BYTE, self._go_on, namespace)
        read(kind, raw)

    def _go_on(self, namespace: str) -> None:
        """Read the oldest object that is held back, if there is any."""
        self._resting.discard(namespace)
        held = self._held.get(namespace)
        if not held:
            self._held.pop(namespace, None)
            return
        (kind, name), (read, raw) = next(iter(held.items()))
        del held[kind, name]
        self._read(namespace, read, kind, raw)
