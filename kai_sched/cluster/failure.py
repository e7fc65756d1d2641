"""What is known of a request that failed: its HTTP status, reason, message, Retry-After, and whether a right is
missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

MESSAGE_MAX = 300
NOT_LEADER = "NotLeader"  # the reason of a write that the guard refused
INVALID = "Invalid"  # the reason, and the status, of a request that no API server could accept: it is not sent
NOT_FOUND = 404
CONFLICT = 409
INVALID_STATUS = 422
TOO_MANY = 429

# The message of the API server if RBAC, or another authorizer, has no rule for us. Quotas and admission policies also
# refuse with 403, but because of the object: no right would change that.
_MISSING_RIGHT = re.compile(r'([^\s"]+( "[^"]*")? is )?forbidden: User "[^"]*" cannot \S+ (resource|path) ')

# A patch that names the uid of its object, which goes while another one of its name comes, is mostly answered with 409;
# where that happens within the request, with this.
_OTHER_UID = re.compile(r"metadata\.uid: Invalid value: .*: field is immutable")

T = TypeVar("T")


class ApiFailure(Exception):
    """A request that did not succeed. ``status`` 0: no answer (timeout, cut connection, DNS), or it was not sent."""

    def __init__(
        self, verb: str, path: str, status: int, reason: str, message: str, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"{verb} {path}: {f'{status} ' if status else ''}{reason}: {message}")
        self.verb = verb
        self.path = path
        self.status = status
        self.reason = reason  # of the Status object, as "Conflict"; "Timeout", "NoAnswer" or "NotLeader" for status 0
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def is_missing_right(self) -> bool:
        """Whether a right is missing, whatever the object says."""
        return self.status == 403 and _MISSING_RIGHT.match(self.message) is not None


class _Details(msgspec.Struct):
    retry_after_s: float | None = msgspec.field(name="retryAfterSeconds", default=None)


class _Status(msgspec.Struct):
    """What the API server answers instead of an object."""

    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


def forget_frames(error: BaseException) -> None:
    """Free the frames that the exception, and those it comes from, went through: what was read from a connection that
    was cut keeps them in a cycle of references, until a full garbage collection finds it."""
    found: BaseException | None = error
    while found is not None and found.__traceback__ is not None:  # each has its own once
        found.__traceback__, found = None, found.__cause__ or found.__context__


def refused(verb: str, path: str, code: int, phrase: str, retry_after: str, body: bytes, note: str) -> ApiFailure:
    """Return the failure for an answer with HTTP status ``code``; ``note`` is added to its message."""
    try:
        status = _decode_status(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(message=body[:MESSAGE_MAX].decode(errors="replace").strip())
    after_s = float(retry_after) if retry_after.isdecimal() else (status.details or _Details()).retry_after_s
    reason = status.reason or phrase or "Unknown"
    if code == INVALID_STATUS and _OTHER_UID.search(status.message or ""):
        code, reason = 409, "Conflict"
    return ApiFailure(verb, path, code, reason, (status.message or "no message") + note, after_s)


def read(decode: Callable[[bytes], T], raw: bytes, path: str, what: str) -> T:
    """Return the decoded answer. Raises ApiFailure if it cannot be decoded: a proxy may answer anything."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, ValueError) as wrong:
        raise ApiFailure("GET", path, 0, "NoAnswer", f"{what} cannot be read: {wrong}") from wrong
