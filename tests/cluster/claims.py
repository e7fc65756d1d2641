"""Devices of slices and claims for them, as the tests of claims make them, and what must hold at each moment."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Client, Object, collection

DRIVER = "gpu.example.com"
UNITS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}  # as powers of two
IMPLICIT = f"deviceclass.resource.kubernetes.io/{DRIVER}"


def device_class(name: str = DRIVER, **spec: Any) -> Object:
    """The class of all devices of the driver."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    content = {"selectors": [selector]} | spec
    return {
        "apiVersion": names.DRA_VERSION,
        "kind": "DeviceClass",
        "metadata": objects.meta(name),
        "spec": content,
    }


def resource_slice(node: str, devices: int = 2, **fields: Any) -> Object:
    """The devices of a node, dev-0 and on; its pool is named after the node."""
    listed = [
        {"name": f"dev-{n}", "attributes": {"index": {"int": n}}, "capacity": {"memory": {"value": "80Gi"}}} | fields
        for n in range(devices)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": names.DRA_VERSION,
        "kind": "ResourceSlice",
        "metadata": objects.meta(f"{node}-devices"),
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed},
    }


def devices_of(count: int = 1, **spec: Any) -> Object:
    """``spec.devices`` of a claim for so many devices."""
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}
    return {"requests": [{"name": "gpu", "exactly": exactly}]} | spec


def claim(name: str, count: int = 1, queue: str = "team", **spec: Any) -> Object:
    """A claim of the queue; ``spec`` is more of ``spec.devices``."""
    return {
        "apiVersion": names.DRA_VERSION,
        "kind": "ResourceClaim",
        "metadata": objects.meta(name, "default", labels={names.QUEUE_LABEL: queue}),
        "spec": {"devices": devices_of(count, **spec)},
    }


def template(name: str, count: int = 1) -> Object:
    """A template of claims for so many devices."""
    return {
        "apiVersion": names.DRA_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": objects.meta(name, "default"),
        "spec": {"spec": {"devices": devices_of(count)}},
    }


def pod(name: str, claim: str = "", template: str = "", **fields: Any) -> Object:
    """A pod with one claim: that of the name, or one made from the template."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    return objects.pod(name, gpus=0, resourceClaims=[{"name": "gpu"} | source], **fields)


def extended_pod(name: str, count: int = 1, resource: str = IMPLICIT, **fields: Any) -> Object:
    """A pod whose container asks for devices as an extended resource."""
    found = objects.pod(name, gpus=0, **fields)
    resources = found["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources[part] = resources[part] | {resource: str(count)}
    return found


def made_for(client: Client, pod: str) -> list[Object]:
    """The claims that were made for extended resources of the pod."""
    return [
        each
        for each in client.list("ResourceClaim", "default")
        if [owner["name"] for owner in each["metadata"].get("ownerReferences", ())] == [pod]
    ]


def results(content: Object) -> list[Object]:
    """The results of the allocation of the claim."""
    return content.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or []


def allocated(content: Object) -> list[tuple[str, str]]:
    """Pool and name of the devices that the claim has."""
    return sorted((each["pool"], each["device"]) for each in results(content))


def reserved(content: Object) -> list[str]:
    """The names of the pods that the claim is reserved for."""
    return sorted(each["name"] for each in content.get("status", {}).get("reservedFor") or [])


def version(client: Client) -> str:
    """From where ``check_history`` may begin."""
    found: str = client.request("GET", collection("ResourceClaim"))["metadata"]["resourceVersion"]
    return found


def check_history(client: Client, since: str) -> int:
    """At no moment more was allocated than there is, or without its finalizer; returns the events seen."""
    path = f"{collection('ResourceClaim')}?watch=1&resourceVersion={since}&timeoutSeconds=2"
    answer = client.request("GET", path)
    lines = answer["text"].splitlines() if "text" in answer else [json.dumps(answer)] if answer else []
    slices = client.list("ResourceSlice")
    holders: dict[str, list[Object]] = {}  # results by uid of the claim
    for line in lines:
        event = json.loads(line)
        content = event["object"]
        found = [] if event["type"] == "DELETED" else results(content)
        assert not found or names.CLAIM_FINALIZER in content["metadata"]["finalizers"]
        holders[content["metadata"]["uid"]] = found
        check_allocated([each for found in holders.values() for each in found], slices)
    return len(lines)


def check_allocated(found: Sequence[Object], slices: Sequence[Object]) -> None:
    """Of these results of all claims no device is in two, unless it allows that, and nothing is over-used.

    That is capacities of devices, and counters of pools. Admin access uses nothing.
    """
    specs = [each["spec"] for each in slices]
    devices = {(spec["pool"]["name"], each["name"]): each for spec in specs for each in spec.get("devices", ())}
    users: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for each in found:
        if not each.get("adminAccess"):
            users[each["pool"], each["device"]].append(each)
    used: Counter[tuple[str, str, str]] = Counter()  # by pool, set and counter
    for (pool, name), uses in users.items():
        device = devices.get((pool, name), {})
        if not device.get("allowMultipleAllocations"):
            assert len(uses) == 1, f"{name} of {pool} is in {uses}"
        elif len(uses) > 1:
            for what, capacity in device["capacity"].items():
                total = sum(amount(use["consumedCapacity"][what]) for use in uses)
                assert total <= amount(capacity["value"]), f"{total} {what} of {name} of {pool}: {uses}"
        for consumed in device.get("consumesCounters", ()):
            for counter, value in consumed["counters"].items():
                used[pool, consumed["counterSet"], counter] += amount(value["value"])
    for spec in specs:
        for each in spec.get("sharedCounters", ()):
            for counter, value in each["counters"].items():
                total = used[spec["pool"]["name"], each["name"], counter]
                assert total <= amount(value["value"]), f"{total} of {counter} of {each['name']}: {users}"


def amount(text: str) -> int:
    """A quantity of whole numbers, such as 80Gi."""
    shift = next((bits for unit, bits in UNITS.items() if text.endswith(unit)), 0)
    return int(text[:-2] if shift else text) << shift
