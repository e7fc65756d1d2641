"""The errors of grouping: a pod that cannot be grouped, an owner that is gone, and notes about what was ignored."""

from __future__ import annotations

from typing import NamedTuple

from kai_sched.model.field_errors import FieldError


class GroupingError(FieldError):
    """The pod gets no group until this is fixed. ``subject`` is the object, such as "RayCluster ml/train"."""

    def __init__(self, subject: str, field: str, message: str) -> None:
        super().__init__(field, message)
        self.subject = subject

    def __str__(self) -> str:
        return ": ".join(part for part in (self.subject, self.field, self.message) if part)


class OwnerGone(GroupingError):
    """The owner of the pod does not exist. After an ordinary deletion the pod goes, too, a moment later."""


class Note(NamedTuple):
    """Something that was ignored: the pod is grouped without it."""

    subject: str
    field: str
    message: str
