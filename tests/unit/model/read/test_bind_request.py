"""BindRequests of the original (API 1.4, 7.2; semantics 0.1)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import BindRequest
from tests.unit.model.reading import read

SPEC = {"podName": "p", "selectedNode": "a"}


def request(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": "r", "namespace": "ml"}, "spec": spec, "status": status}


def test_all_fields() -> None:
    spec = {
        **SPEC,
        "receivedResourceType": "Fraction",
        "receivedGPU": {"count": 2, "portion": "0.50"},
        "selectedGPUGroups": ["y", "x", "x"],
        "backoffLimit": 3,
    }
    assert read("BindRequest", request(spec)) == (BindRequest("ml", "r", "p", "a", True, ("x", "y")), [])


def test_keys() -> None:
    item, _ = read("BindRequest", request(SPEC))
    assert (item.key, item.pod_key) == ("ml/r", "ml/p")


@pytest.mark.parametrize(
    ("limit", "status", "is_live"),
    [
        (None, None, True),
        (None, {"phase": "Pending"}, True),
        (None, {"phase": "Succeeded"}, False),
        (None, {"phase": "Failed", "reason": "no such volume"}, False),
        (2, {"phase": "Failed", "failedAttempts": 1}, True),
        (2, {"phase": "Failed"}, True),
        (2, {"phase": "Failed", "failedAttempts": 2}, False),
        (0, {"phase": "Failed"}, False),
    ],
)
def test_liveness(limit: int | None, status: dict[str, Any] | None, is_live: bool) -> None:
    """A failure is final without a limit, or once the limit is reached."""
    spec = SPEC if limit is None else {**SPEC, "backoffLimit": limit}
    item, found = read("BindRequest", request(spec, status))
    assert (item.is_live, found) == (is_live, [])


@pytest.mark.parametrize(
    ("spec", "status", "field"),
    [
        ({"selectedNode": "a"}, None, "spec.podName"),
        ({"podName": "p"}, None, "spec.selectedNode"),
        ({**SPEC, "selectedGPUGroups": "x"}, None, "spec.selectedGPUGroups"),
        (SPEC, {"failedAttempts": "two"}, "status.failedAttempts"),
    ],
)
def test_faults(spec: dict[str, Any], status: dict[str, Any] | None, field: str) -> None:
    with pytest.raises(FieldError) as fault:
        read("BindRequest", request(spec, status))
    assert fault.value.field == field


def test_an_unknown_field_is_told() -> None:
    _, found = read("BindRequest", request({**SPEC, "podname": "p"}))
    assert [field for field, _ in found] == ["spec.podname"]
