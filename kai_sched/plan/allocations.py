"""The allocation of a claim as the API has it (resource.k8s.io/v1, ``status.allocation``), and the claims that are made
for extended resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from kai_sched.api import names
from kai_sched.model.claims.objects import AllocatedDevice, Allocation, ExtendedRequests
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


def whole_allocation(
    allocation: Mapping[str, Any],
    devices: Mapping[str, Any],
    class_config: Callable[[str], Iterable[Mapping[str, Any]]],
) -> dict[str, Any]:
    """The allocation as it is written to the claim: with what drivers are told, and which taints are tolerated.

    Parameters
    ----------
    allocation
        As of ``wire_allocation``.
    devices
        ``spec.devices`` of the claim, as the API server has it.
    class_config
        ``spec.config`` of the DeviceClass of a name.
    """
    options = dict(_options(devices))
    results = []
    for each in allocation["devices"]["results"]:
        tolerations = options.get(each["request"], {}).get("tolerations")
        results.append({**each, "tolerations": tolerations} if tolerations else each)
    names = list(dict.fromkeys(each["request"] for each in results))
    config = [
        {**part, "source": "FromClass", "requests": [name]}
        for name in names
        for part in class_config(options.get(name, {}).get("deviceClassName", ""))
    ]
    # The config of a claim may name a request, or one option of it.
    known = {*names, *(name.partition("/")[0] for name in names)}
    config += [
        {**part, "source": "FromClaim"}
        for part in devices.get("config") or ()
        if not part.get("requests") or not known.isdisjoint(part["requests"])
    ]
    return {**allocation, "devices": {"results": results, **({"config": config} if config else {})}}


def _options(devices: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The exact requests of a claim, by the name that results have of them."""
    for request in devices.get("requests") or ():
        if request.get("exactly"):
            yield request["name"], request["exactly"]
        for option in request.get("firstAvailable") or ():
            yield f"{request['name']}/{option['name']}", option


def extended_claim(namespace: str, name: str, pod: tuple[str, str], made: ExtendedRequests) -> dict[str, Any]:
    """The claim that is made for extended resources of a pod (name, uid), as it is created (API 7.6)."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod[0], "uid": pod[1]}
    requests = [
        {
            "name": each.name,
            "exactly": {
                "deviceClassName": each.options[0].device_class,
                "allocationMode": "ExactCount",
                "count": each.options[0].count,
            },
        }
        for each in made.requests
    ]
    return {
        "apiVersion": names.DRA_VERSION,
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": {names.EXTENDED_CLAIM_ANNOTATION: "true"},
            "finalizers": [names.CLAIM_FINALIZER],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"devices": {"requests": requests}},
    }


def claim_status_of_pod(name: str, made: ExtendedRequests) -> dict[str, Any]:
    """``status.extendedResourceClaimStatus`` of the pod for which the claim of this name was made."""
    mappings = [
        {"containerName": container, "resourceName": resource, "requestName": request}
        for container, resource, request in made.mappings
    ]
    return {"resourceClaimName": name, "requestMappings": mappings}


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
