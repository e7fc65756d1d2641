"""The form of a finding about the input: one line with file, document, object, field, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NAMES_SHOWN_MAX = 10
QUOTED_MAX = 80


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding. A ``fatal`` one stops the command (exit status 2); others are warnings.

    ``source`` is "file.yaml, document 3" or empty, ``subject`` is "Queue team-a" or "Pod ml/train-0" or empty,
    ``field`` a path such as "spec.resources.gpu.quota" or empty, ``message`` what is wrong and what to do about it.
    """

    source: str
    subject: str
    field: str
    message: str
    fatal: bool = False

    def __str__(self) -> str:
        return printable(": ".join(part for part in (self.source, self.subject, self.field, self.message) if part))


def some_of(names: Sequence[str]) -> str:
    """The names in a list; if there are more than ten, the first ten and the number of the others."""
    more = len(names) - NAMES_SHOWN_MAX
    return ", ".join(names[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def near(name: str, known: Iterable[str]) -> str:
    """The end of an error about a name that does not exist: the name that is most like it, or those that exist."""
    import difflib  # needed for this error only

    names = sorted(known)
    if found := difflib.get_close_matches(name[:QUOTED_MAX], names, n=1):
        return f": did you mean {found[0]!r}?"
    return f": there are {some_of(names)}" if names else ": there is none"


def printable(text: str) -> str:
    """The text in one line, with control characters escaped, as parts of it may come from any user."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
