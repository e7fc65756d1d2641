"""Devices of slices and claims for them, as the tests of claims make them, and what must hold at each moment."""

from __future__ import annotations

import json
from typing import Any

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Client, Object, collection

DRIVER = "gpu.example.com"
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


def allocated(content: Object) -> list[tuple[str, str]]:
    """Pool and name of the devices that the claim has."""
    results = content.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or []
    return sorted((each["pool"], each["device"]) for each in results)


def reserved(content: Object) -> list[str]:
    """The names of the pods that the claim is reserved for."""
    return sorted(each["name"] for each in content.get("status", {}).get("reservedFor") or [])


def version(client: Client) -> str:
    """From where ``check_history`` may begin."""
    found: str = client.request("GET", collection("ResourceClaim"))["metadata"]["resourceVersion"]
    return found


def check_history(client: Client, since: str) -> int:
    """No moment had a device in two claims, or an allocated claim without its finalizer; returns the events seen."""
    path = f"{collection('ResourceClaim')}?watch=1&resourceVersion={since}&timeoutSeconds=2"
    answer = client.request("GET", path)
    lines = answer["text"].splitlines() if "text" in answer else [json.dumps(answer)] if answer else []
    holders: dict[str, list[tuple[str, str]]] = {}  # by uid of the claim
    for line in lines:
        event = json.loads(line)
        content = event["object"]
        devices = [] if event["type"] == "DELETED" else allocated(content)
        assert not devices or names.CLAIM_FINALIZER in content["metadata"]["finalizers"]
        holders[content["metadata"]["uid"]] = devices
        held = [device for each in holders.values() for device in each]
        assert len(held) == len(set(held)), holders
    return len(lines)
