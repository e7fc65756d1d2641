"""What is wrong with the input: one line each, naming the file, the document, the object, the field, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding. ``fatal`` ones stop the command (exit 2); the others are warnings and the rest is decided.

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


def printable(text: str) -> str:
    """The text in one line, with control characters escaped: what people read may come from anybody."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
