"""What goes over the pipes to the process that evaluates expressions: frames of a length and JSON, and their bounds."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

HEADER = struct.Struct(">I")
ANSWER_MAX = 400 * 6  # bytes of one answer, or of a fault, with all of its characters escaped


class Request(msgspec.Struct, array_like=True):
    """An expression, and the devices (``DeviceView.content``) that it is asked about."""

    expression: str
    devices: list[msgspec.Raw]


class Reply(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Why the expression can be used for no device; else for each device whether it selects it, or why it fails.

    ``is_last``: the process ends now, as it has become too large. The first reply is to no request: the process runs.
    """

    fault: str
    answers: list[bool | str]
    is_last: bool = False


def framed(message: Any) -> bytes:
    """The message as a frame."""
    content = msgspec.json.encode(message)
    return HEADER.pack(len(content)) + content
