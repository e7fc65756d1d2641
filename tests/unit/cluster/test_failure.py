"""What is known of requests that failed."""

from __future__ import annotations

import msgspec
import pytest

from kai_sched.cluster.failure import refused

OTHER = 'Pod "x" is invalid: metadata.uid: Invalid value: "25668bd6-5266": field is immutable'


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (422, OTHER, (409, "Conflict")),
        (422, 'Pod "x" is invalid: spec.nodeName: Invalid value: "n": field is immutable', (422, "Invalid")),
        (422, 'Pod "x" is invalid: metadata.uid: Required value', (422, "Invalid")),
        (500, OTHER, (500, "Invalid")),
    ],
)
def test_another_object_of_the_name_is_a_conflict(code: int, message: str, expected: tuple[int, str]) -> None:
    """The API server says so itself unless the other one comes while it carries the patch out."""
    body = msgspec.json.encode({"reason": "Invalid", "message": message, "code": code})
    found = refused("PATCH", "/api/v1/pods/x", code, "", "", body, "")
    assert (found.status, found.reason) == expected
    assert message in found.message
