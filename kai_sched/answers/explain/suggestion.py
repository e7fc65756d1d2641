"""What an explanation proposes: a change that starts the group, or how far one of that kind was looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kai_sched.answers.changes import Change
from kai_sched.answers.explain.search import Changes, TrialSearch

ROLES = USER, OWNER, ADMINISTRATOR, WAITING = "user", "queue owner", "administrator", "waiting"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The smallest change of one kind that starts the group, seen in a whole simulation.

    Attributes
    ----------
    kind
        Such as "gpusPerPod" or "quota".
    role
        Who can make it: USER, OWNER, ADMINISTRATOR, or WAITING.
    text
        The change in words, as what to do.
    unit
        What "smallest" is counted in, such as "GPU of a pod"; "" for a change that is made or not.
    changes
        What was applied.
    exact
        Whether every smaller change of the kind was tried and does not start the group; else the next smaller one was.
    more
        How many others of this kind start it as well and are not listed.
    """

    kind: str
    role: str
    text: str
    unit: str
    changes: tuple[Change, ...]
    exact: bool = True
    more: int = 0


@dataclass(frozen=True, slots=True)
class NothingHelps:
    """No change of this kind starts the group, as far as ``bound`` says."""

    kind: str
    role: str
    bound: str


Finding = Suggestion | NothingHelps


def smallest_set(search: TrialSearch, parts: Sequence[Changes]) -> list[int]:
    """The places of parts of which none can be left out, of some that start the group together."""
    kept = list(range(len(parts)))
    for place in range(len(parts)):
        fewer = [other for other in kept if other != place]
        if fewer and search.starts(tuple(change for other in fewer for change in parts[other])):
            kept = fewer
    return kept
