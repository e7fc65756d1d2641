"""How soon a status, condition or Event is written again: at once if it says something else, later if only its wording
has changed.

A change that counts (a status, a reason) is written at once. A change that only rewords a message (numbers in a
sentence) waits, each object for a time of its own, so that thousands of objects are never due together.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

SECOND_NS = 1_000_000_000
# A write that the API server does not show after this time is taken for lost.
RESEND_NS = 30 * SECOND_NS
REWORD_NS = 30 * SECOND_NS
REPEAT_NS = 30 * 60 * SECOND_NS
# The limit for all objects together.
REWORDED_PER_SECOND = 50
SPARE_ENTRIES = 1_000

# What an object shows: the part whose changes count, and the wording. Both can be compared.
Content = tuple[object, object]


@dataclass(slots=True)
class LastWrite:
    """What was written last, and when. ``rewords``: a new wording waits for its time."""

    content: Content
    at_ns: int
    rewords: bool = False


@dataclass(slots=True, eq=False)
class TrackedObject:
    """One object, and what was written about it by slot: a condition, an annotation, an event.

    ``due_ns`` is when it is reconciled again although nothing has changed, 0 for never.
    """

    key: str
    uid: str
    notes: dict[str, LastWrite] = field(default_factory=dict)
    due_ns: int = 0
    queued_ns: int = 0  # the time of its valid entry in the queue of the throttle, 0 for none

    def rewords(self, slot: str) -> bool:
        """Whether a new wording of the slot waits already."""
        note = self.notes.get(slot)
        return note is not None and note.rewords


class WriteThrottle:
    """Answers, as of the time given to ``begin``, whether something is to be written now. For objects of one kind.

    Questions about an object are asked between ``open`` and ``close``. An object with something that has to wait is
    returned by a later ``begin``.
    """

    def __init__(self) -> None:
        self._now_ns = 0
        self._reword_ns = REWORD_NS
        self._queue: list[tuple[int, int, TrackedObject]] = []  # a heap, with outdated entries
        self._entries = 0  # ever made: the tie-break of entries of the same time
        self._counting = 0

    def begin(self, now_ns: int, n_objects: int) -> list[TrackedObject]:
        """Begin a round with about ``n_objects`` objects to write about; return the objects that are due."""
        self._now_ns = now_ns
        self._reword_ns = max(REWORD_NS, n_objects * SECOND_NS // REWORDED_PER_SECOND)
        found = []
        while self._queue and self._queue[0][0] <= now_ns:
            due_ns, _, tracked = heappop(self._queue)
            if tracked.queued_ns == due_ns:
                self._queued(tracked, 0)
                found.append(tracked)
        return found

    @property
    def next_ns(self) -> int | None:
        """When the next object is due, in nanoseconds; None if none is."""
        while self._queue and self._queue[0][2].queued_ns != self._queue[0][0]:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def open(self, tracked: TrackedObject) -> None:
        """The questions that follow are about this object."""
        tracked.due_ns = 0

    def close(self, tracked: TrackedObject) -> None:
        """There are no more questions about the object in this round."""
        due_ns = tracked.due_ns
        if due_ns != tracked.queued_ns:
            self._queued(tracked, due_ns)
            if due_ns:
                self._entries += 1
                heappush(self._queue, (due_ns, self._entries, tracked))
                self._tidy()

    def forget(self, tracked: TrackedObject) -> None:
        """The object is gone."""
        self.open(tracked)
        self.close(tracked)

    def due(
        self, tracked: TrackedObject, slot: str, wanted: Content, shown: Content | None, pause_ns: int | None = None
    ) -> bool:
        """Return whether ``wanted`` is to be written now; if so, it counts as written.

        ``shown`` is what the API server shows, None for nothing. ``pause_ns`` is how long a change of the wording alone
        waits; without it the delay of rewording holds.
        """
        note = tracked.notes.get(slot)
        if note is not None:
            note.rewords = False
        if shown == wanted:
            return False
        behind = shown is None or shown[0] != wanted[0]
        pause = self._spread(tracked, self._reword_ns) if pause_ns is None else pause_ns
        if note is None and shown is not None and not behind and pause_ns is None:
            # It was written by an earlier process, at an unknown time.
            tracked.notes[slot] = note = LastWrite(shown, self._now_ns)
        if note is None or note.content[0] != wanted[0]:
            return self._note(tracked, slot, wanted)
        # A rewording that got lost waits like any other, so its time does not depend on its text.
        lost = behind or (pause_ns is not None and note.content == wanted)
        if self._wait(tracked, note.at_ns + (RESEND_NS if lost else pause)):
            return self._note(tracked, slot, wanted)
        note.rewords = pause_ns is None
        return False

    def may_emit(self, tracked: TrackedObject, slot: str, known: bool = False) -> bool:
        """Return whether an event is to be emitted now. ``known``: an earlier process did, so not yet again."""
        note = tracked.notes.get(slot)
        if note is None and known:
            tracked.notes[slot] = note = LastWrite((None, None), self._now_ns)
        pause = self._spread(tracked, REPEAT_NS)
        if note is None or self._wait(tracked, note.at_ns + pause):
            return self._note(tracked, slot, (None, None), pause)
        return False

    def _note(self, tracked: TrackedObject, slot: str, content: Content, again_ns: int = RESEND_NS) -> bool:
        tracked.notes[slot] = LastWrite(content, self._now_ns)
        self._wait(tracked, self._now_ns + again_ns)
        return True

    def _wait(self, tracked: TrackedObject, ready_ns: int) -> bool:
        """Return whether the time has come; otherwise the object is due then."""
        if ready_ns <= self._now_ns:
            return True
        tracked.due_ns = min(tracked.due_ns or ready_ns, ready_ns)
        return False

    def _queued(self, tracked: TrackedObject, at_ns: int) -> None:
        self._counting += (at_ns != 0) - (tracked.queued_ns != 0)
        tracked.queued_ns = at_ns

    def _tidy(self) -> None:
        """Drop outdated entries if most entries are."""
        if len(self._queue) > 2 * self._counting + SPARE_ENTRIES:
            latest = {id(tracked): entry for entry in self._queue if (tracked := entry[2]).queued_ns == entry[0]}
            self._queue = list(latest.values())
            heapify(self._queue)

    def _spread(self, tracked: TrackedObject, pause_ns: int) -> int:
        """From one to two times the pause, by the name of the object."""
        return pause_ns + pause_ns * zlib.crc32(tracked.key.encode()) // 2**32
