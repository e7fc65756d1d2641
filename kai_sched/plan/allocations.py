"""The allocation of a claim as the API has it (resource.k8s.io/v1, ``status.allocation``)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kai_sched.model.claims import AllocatedDevice, Allocation
from kai_sched.model.selectors import NODE_NAME


def wire_allocation(allocation: Allocation) -> dict[str, Any]:
    """The allocation as plain data; what is empty is left out."""
    found: dict[str, Any] = {"devices": {"results": [_result(each) for each in allocation.devices]}}
    if allocation.nodes is not None:
        terms = []
        for term in allocation.nodes:
            listed: dict[str, list[dict[str, Any]]] = {}
            for each in term:
                part = "matchFields" if each.key == NODE_NAME else "matchExpressions"
                requirement: dict[str, Any] = {"key": each.key, "operator": each.op}
                if each.values:
                    requirement["values"] = list(each.values)
                listed.setdefault(part, []).append(requirement)
            terms.append(listed)
        found["nodeSelector"] = {"nodeSelectorTerms": terms}
    return found


def _result(each: AllocatedDevice) -> dict[str, Any]:
    found: dict[str, Any] = {
        "request": each.request,
        "driver": each.driver,
        "pool": each.pool,
        "device": each.device,
    }
    if each.admin:
        found["adminAccess"] = True
    if each.share_id:
        found["shareID"] = each.share_id
    if each.consumed:
        found["consumedCapacity"] = {name: quantity(amount) for name, amount in each.consumed}
    return found


def quantity(amount: Fraction) -> str:
    """The amount as a Kubernetes quantity, exactly: they are multiples of one nano."""
    for scale, suffix in ((1, ""), (10**3, "m"), (10**6, "u")):
        if (amount * scale).denominator == 1:
            return f"{amount * scale}{suffix}"
    return f"{-(-amount * 10**9 // 1)}n"
