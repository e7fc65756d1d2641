"""When to write: what the API server shows, what was written last, and how long ago, decide it together.

What counts (a status, a reason) is written as soon as it changes. What only rewords it (numbers in a sentence) waits,
each object for a time of its own, so that thousands of objects never come due together.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

SECOND_NS = 1_000_000_000
# A write that is not seen in the API server by then is taken for lost.
RESEND_NS = 30 * SECOND_NS
REWORD_NS = 30 * SECOND_NS
REPEAT_NS = 30 * 60 * SECOND_NS
# All objects together are reworded so often at the most.
REWORDED_PER_SECOND = 50

# (what counts, the rest) of something that an object shows, each comparable.
Content = tuple[object, object]


@dataclass(slots=True)
class Note:
    """What was written last, and when."""

    content: Content
    at_ns: int


@dataclass(slots=True)
class Subject:
    """One object: whose it is (``uid``), and what was written to it by slot."""

    key: str
    uid: str
    notes: dict[str, Note] = field(default_factory=dict)


class Ledger:
    """Answers for one moment, set by ``begin``, whether something is to be written now.

    ``next_ns`` is when to ask again: the earliest time at which something that had to wait comes due.
    """

    def __init__(self) -> None:
        self._now_ns = 0
        self._reword_ns = REWORD_NS
        self.next_ns: int | None = None

    def begin(self, now_ns: int, n_objects: int) -> None:
        """Start to ask for a new moment, at which about so many objects have something to say."""
        self._now_ns = now_ns
        self._reword_ns = max(REWORD_NS, n_objects * SECOND_NS // REWORDED_PER_SECOND)
        self.next_ns = None

    def due(
        self, subject: Subject, slot: str, wanted: Content, shown: Content | None, pause_ns: int | None = None
    ) -> bool:
        """Whether ``wanted`` is to be written now; it is then noted as written.

        ``shown`` is what the API server shows, None for nothing. ``pause_ns`` is how long the rest waits when it
        changes alone; without it the time for rewording holds.
        """
        if shown == wanted:
            return False
        note = subject.notes.get(slot)
        behind = shown is None or shown[0] != wanted[0]
        pause = self._spread(subject, self._reword_ns) if pause_ns is None else pause_ns
        if note is None and shown is not None and not behind and pause_ns is None:
            # Written before our time, one cannot know when.
            subject.notes[slot] = note = Note(shown, self._now_ns)
        if note is None or note.content[0] != wanted[0]:
            return self._note(subject, slot, wanted)
        lost = behind or note.content == wanted
        if self._wait(note.at_ns + (RESEND_NS if lost else pause)):
            return self._note(subject, slot, wanted)
        return False

    def tell(self, subject: Subject, slot: str, known: bool = False) -> bool:
        """Whether an event is to be emitted now. ``known``: what it says was told before our time, so not yet again."""
        note = subject.notes.get(slot)
        if note is None and known:
            subject.notes[slot] = note = Note((None, None), self._now_ns)
        pause = self._spread(subject, REPEAT_NS)
        if note is None or self._wait(note.at_ns + pause):
            return self._note(subject, slot, (None, None), pause)
        return False

    def _note(self, subject: Subject, slot: str, content: Content, again_ns: int = RESEND_NS) -> bool:
        subject.notes[slot] = Note(content, self._now_ns)
        self._wait(self._now_ns + again_ns)
        return True

    def _wait(self, ready_ns: int) -> bool:
        """Whether the time has come; else it is remembered."""
        if ready_ns <= self._now_ns:
            return True
        self.next_ns = ready_ns if self.next_ns is None else min(self.next_ns, ready_ns)
        return False

    def _spread(self, subject: Subject, pause_ns: int) -> int:
        """From once to twice the pause, by the object's name."""
        return pause_ns + pause_ns * zlib.crc32(subject.key.encode()) // 2**32
