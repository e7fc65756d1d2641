"""When to write: what the API server shows, what was written last, and how long ago, decide it together.

What counts (a status, a reason) is written as soon as it changes. What only rewords it (numbers in a sentence) waits,
each object for a time of its own, so that thousands of objects never come due together.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

SECOND_NS = 1_000_000_000
# A write that is not seen in the API server by then is taken for lost.
RESEND_NS = 30 * SECOND_NS
REWORD_NS = 30 * SECOND_NS
REPEAT_NS = 30 * 60 * SECOND_NS
# All objects together are reworded so often at the most.
REWORDED_PER_SECOND = 50
SPARE_ENTRIES = 1_000

# (what counts, the rest) of something that an object shows, each comparable.
Content = tuple[object, object]


@dataclass(slots=True)
class Note:
    """What was written last, and when. ``rewords``: what it shows would be worded otherwise now, and it is not time."""

    content: Content
    at_ns: int
    rewords: bool = False


@dataclass(slots=True, eq=False)
class Subject:
    """One object: whose it is (``uid``), and what was written to it by slot.

    ``due_ns`` is when it is looked at again though nothing has changed, 0 for never.
    """

    key: str
    uid: str
    notes: dict[str, Note] = field(default_factory=dict)
    due_ns: int = 0
    queued_ns: int = 0  # the time of its entry in the ledger's queue that counts, 0 for none

    def rewords(self, slot: str) -> bool:
        """Whether what the slot says is reworded anyway once the time for that has come."""
        note = self.notes.get(slot)
        return note is not None and note.rewords


class Ledger:
    """Answers for one moment, set by ``begin``, whether something is to be written now, for objects of one kind.

    Questions about a subject stand between ``open`` and ``close``: what has to wait brings it back in its time.
    """

    def __init__(self) -> None:
        self._now_ns = 0
        self._reword_ns = REWORD_NS
        self._queue: list[tuple[int, int, Subject]] = []  # a heap; entries that do not count any more stay for a while
        self._entries = 0  # ever made, which tells those of one time apart
        self._counting = 0

    def begin(self, now_ns: int, n_objects: int) -> list[Subject]:
        """Start to ask for a new moment, at which about so many objects have something to say; those that are due."""
        self._now_ns = now_ns
        self._reword_ns = max(REWORD_NS, n_objects * SECOND_NS // REWORDED_PER_SECOND)
        found = []
        while self._queue and self._queue[0][0] <= now_ns:
            due_ns, _, subject = heappop(self._queue)
            if subject.queued_ns == due_ns:
                self._queued(subject, 0)
                found.append(subject)
        return found

    @property
    def next_ns(self) -> int | None:
        """When the next subject is due; None where none is."""
        while self._queue and self._queue[0][2].queued_ns != self._queue[0][0]:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def open(self, subject: Subject) -> None:
        """What follows is about this subject."""
        subject.due_ns = 0

    def close(self, subject: Subject) -> None:
        """That was all about it, for now."""
        due_ns = subject.due_ns
        if due_ns != subject.queued_ns:
            self._queued(subject, due_ns)
            if due_ns:
                self._entries += 1
                heappush(self._queue, (due_ns, self._entries, subject))
                self._tidy()

    def forget(self, subject: Subject) -> None:
        """The object is gone."""
        self.open(subject)
        self.close(subject)

    def due(
        self, subject: Subject, slot: str, wanted: Content, shown: Content | None, pause_ns: int | None = None
    ) -> bool:
        """Whether ``wanted`` is to be written now; it is then noted as written.

        ``shown`` is what the API server shows, None for nothing. ``pause_ns`` is how long the rest waits when it
        changes alone; without it the time for rewording holds.
        """
        note = subject.notes.get(slot)
        if note is not None:
            note.rewords = False
        if shown == wanted:
            return False
        behind = shown is None or shown[0] != wanted[0]
        pause = self._spread(subject, self._reword_ns) if pause_ns is None else pause_ns
        if note is None and shown is not None and not behind and pause_ns is None:
            # Written before our time, one cannot know when.
            subject.notes[slot] = note = Note(shown, self._now_ns)
        if note is None or note.content[0] != wanted[0]:
            return self._note(subject, slot, wanted)
        # A rewording that got lost waits like any other, so that when it comes does not hang on what it says.
        lost = behind or (pause_ns is not None and note.content == wanted)
        if self._wait(subject, note.at_ns + (RESEND_NS if lost else pause)):
            return self._note(subject, slot, wanted)
        note.rewords = pause_ns is None
        return False

    def tell(self, subject: Subject, slot: str, known: bool = False) -> bool:
        """Whether an event is to be emitted now. ``known``: what it says was told before our time, so not yet again."""
        note = subject.notes.get(slot)
        if note is None and known:
            subject.notes[slot] = note = Note((None, None), self._now_ns)
        pause = self._spread(subject, REPEAT_NS)
        if note is None or self._wait(subject, note.at_ns + pause):
            return self._note(subject, slot, (None, None), pause)
        return False

    def _note(self, subject: Subject, slot: str, content: Content, again_ns: int = RESEND_NS) -> bool:
        subject.notes[slot] = Note(content, self._now_ns)
        self._wait(subject, self._now_ns + again_ns)
        return True

    def _wait(self, subject: Subject, ready_ns: int) -> bool:
        """Whether the time has come; else the subject is due then."""
        if ready_ns <= self._now_ns:
            return True
        subject.due_ns = min(subject.due_ns or ready_ns, ready_ns)
        return False

    def _queued(self, subject: Subject, at_ns: int) -> None:
        self._counting += (at_ns != 0) - (subject.queued_ns != 0)
        subject.queued_ns = at_ns

    def _tidy(self) -> None:
        """Drop entries that do not count where they are the most."""
        if len(self._queue) > 2 * self._counting + SPARE_ENTRIES:
            latest = {id(subject): entry for entry in self._queue if (subject := entry[2]).queued_ns == entry[0]}
            self._queue = list(latest.values())
            heapify(self._queue)

    def _spread(self, subject: Subject, pause_ns: int) -> int:
        """From once to twice the pause, by the object's name."""
        return pause_ns + pause_ns * zlib.crc32(subject.key.encode()) // 2**32
