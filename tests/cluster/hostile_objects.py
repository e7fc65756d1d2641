"""What a tenant, or an administrator by mistake, may put into a cluster: chosen by hand, and drawn by a fixed seed.

The API server takes all pods that are chosen; of other objects what their schemas let in, and of what is drawn what it
likes. All of it lies in the namespace ``evil``, asks in the queue ``evil``, and can only run on one node.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.properties.hostile_values import DIGITS, HUGE, LISTS
from tests.properties.hostile_wire import Leaf, put, schema_of, whole
from tests.properties.hostile_world import BASES, sites_of

EVIL = "evil"
ARENA = "arena-0"
GPU = objects.GPU
ONLY_ARENA = {"kubernetes.io/hostname": ARENA}
NO_NAMES = {
    "control": "a\nb",
    "injected": "x HTTP/1.1\r\nHost: k\r\n\r\nDELETE /api/v1/namespaces/victim/pods/p",
    "above": "../../../../api/v1/nodes/n",
    "dots": "..",
    "query": "?watch=1",
    "fragment": "a#b",
    "encoded": "%2e%2e%2f",
    "long": "a" * 9000,
    "unicode": "\u00e9\u202e\U0001f600",
    "zero": "a\x00b",
}


def pod(name: str, gpus: int = 0, **parts: Any) -> Object:
    """A pod of the tenant's."""
    return objects.pod(name, EVIL, gpus, namespace=EVIL, nodeSelector=ONLY_ARENA, **parts)


def owned(pod_name: str, /, **reference: str) -> Object:
    """A pod whose owner is whatever the reference says."""
    content = pod(pod_name)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": f"job-of-{pod_name}", **reference}
    content["metadata"]["ownerReferences"] = [owner]
    return content


def asking(name: str, **requests: str) -> Object:
    """A pod that asks for that and nothing else."""
    content = pod(name)
    limits = {key: value for key, value in requests.items() if "/" in key or key.startswith("hugepages")}
    content["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
    return content


def _affine(name: str, **affinity: Any) -> Object:
    return pod(name, affinity=affinity)


def _nodes(*expressions: Object) -> Object:
    terms = [{"matchExpressions": [each]} for each in expressions]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _sub_groups(count: int) -> list[Object]:
    found: list[Object] = [{"name": "s0", "minSubGroup": 1}]
    found += [{"name": f"s{i}", "parent": f"s{i - 1}", "minSubGroup": 1} for i in range(1, count - 1)]
    return [*found, {"name": f"s{count - 1}", "parent": f"s{count - 2}", "minMember": 1}]


def pods() -> Iterator[Object]:
    """Of tenants; those whose name ends with "-far" are of another scheduler."""
    for length in (30, 63):
        digits = {names.TASK_PRIORITY_LABEL: "9" * length}
        yield pod(f"priority-{length}", labels=digits)
        yield pod(f"priority-{length}-far", labels=digits, scheduler="default-scheduler")
    for what, text in NO_NAMES.items():
        yield owned(f"owner-{what}", name=text)
        yield owned(f"owner-kind-{what}", kind=text)
        yield pod(f"group-{what}", group=text)
        yield pod(f"notes-{what}", annotations=dict.fromkeys((names.GPU_FRACTION_ANNOTATION, "gpu-memory"), text))
    for i, version in enumerate(("v1", "a/v1", "../v1", "apps/v1?x", "batch/..", "batch/v1\r\n")):
        yield owned(f"owner-version-{i}", apiVersion=version)
    for i, digits_ in enumerate(DIGITS):
        notes = {
            names.GPU_MEMORY_ANNOTATION: digits_,
            names.GPU_DEVICES_ANNOTATION: digits_,
            "nvidia.com/mig-1g": digits_,
        }
        yield pod(f"digits-{i}", annotations=notes)
    most = str(2**63 - 1)
    yield asking("asks-most", cpu="9E", memory="8Ei", **{GPU: most})
    yield asking("asks-least", cpu="1n", memory="1m", **{"ephemeral-storage": "1n"})
    yield asking("asks-odd", **{"example.com/odd": most, "hugepages-2Mi": "2Mi", "cpu": "1e-9", "memory": "1"})
    yield _affine("gt", nodeAffinity=_nodes({"key": "a", "operator": "Gt", "values": ["9" * 63]}))
    yield _affine("lt", nodeAffinity=_nodes({"key": "a", "operator": "Lt", "values": ["9" * 30]}))
    yield _affine("many", nodeAffinity=_nodes({"key": "a", "operator": "In", "values": [f"v{i}" for i in range(1000)]}))
    selector = {"matchExpressions": [{"key": names.QUEUE_LABEL, "operator": "Exists"}]}
    term = {"topologyKey": "nowhere", "labelSelector": selector, "namespaceSelector": {}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 20}
    yield _affine("terms", podAntiAffinity=terms, podAffinity=terms)
    yield pod("endures", tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -(2**63)}])
    yield pod("a" * 253)
    yield pod(
        "volumes", volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(20)]
    )
    yield pod("gates", schedulingGates=[{"name": "example.com/never"}])


def others() -> Iterator[Object]:
    """All that is no pod."""
    long = {"preemptionDelay": "2562047h", "stalenessGracePeriod": "2562047h"}
    yield objects.pod_group("delays", EVIL, namespace=EVIL) | {"spec": {"queue": EVIL, "minMember": 1, **long}}
    yield objects.pod_group("large", EVIL, 2**31 - 1, EVIL, schedulingBackoff=-(2**31))
    group = objects.pod_group("chain", EVIL, namespace=EVIL)
    yield group | {"spec": {"queue": EVIL, "minSubGroup": 1, "subGroups": _sub_groups(300)}}
    for what, text in NO_NAMES.items():
        constraint = {"topology": text, "requiredTopologyLevel": text}
        yield objects.pod_group(f"odd-{what}", text, 0, EVIL, priorityClassName=text, topologyConstraint=constraint)
    group = objects.pod_group("times", EVIL, namespace=EVIL)
    stamps = (names.STALE_ANNOTATION, names.LAST_START_ANNOTATION, names.LAST_EVICTION_ANNOTATION)
    group["metadata"]["annotations"] = dict.fromkeys(stamps, "9999-12-31T23:59:59Z")
    yield group
    yield objects.queue("most", quota=1e15, limit=1e15, weight=1e15, priority=2**31 - 1)
    yield objects.queue("lost", parent="../..", quota=-1, priority=-(2**31))
    yield {**_thing("PriorityClass", "lowest", "scheduling.k8s.io/v1"), "value": -(2**31)}
    storage = {"requests": {"storage": str(2**63 - 1)}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": storage, "storageClassName": "none"}
    yield {**_thing("PersistentVolumeClaim", "large", "v1", EVIL), "spec": claim}
    yield _thing("ConfigMap", "a" * 253, "v1", EVIL)
    opaque = {"driver": "gpu.example.com", "parameters": {"a": _nested(5_000)}}
    yield {
        **_thing("ResourceClaim", "deep", "resource.k8s.io/v1", EVIL),
        "spec": {"devices": {"config": [{"opaque": opaque}]}},
    }
    spec = {"podName": "../..", "selectedNode": "?watch=1", "backoffLimit": 0}
    yield {**_thing("BindRequest", "odd", names.BIND_REQUEST_VERSION, EVIL), "spec": spec}
    odd = objects.node("odd", **{names.GPU_COUNT_LABEL: "9" * 63})
    odd["status"]["allocatable"] |= {"cpu": "1n", "memory": "8Ei", "example.com/odd": str(2**63 - 1)}
    odd["spec"] = {"unschedulable": True}
    yield odd


def _nested(depth: int) -> object:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


def _thing(kind: str, name: str, version: str, namespace: str | None = None) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": objects.meta(name, namespace)}


# The API server works out all of its digits, for minutes, where it compares what a pod asks for.
ENDLESS = "1e999999999"


def drawn(count: int, seed: int) -> Iterator[Object]:
    """Objects with a value of each kind of extreme somewhere, as the properties draw them. None that holds settings
    or has cluster-wide effect by right."""
    chance = random.Random(seed)
    roles = [role for role in BASES if role.startswith("pod ") and "system" not in role]
    roles += ["PodGroup", "PersistentVolumeClaim", "BindRequest", "ConfigMap"]
    for number in range(count):
        role = chance.choice(roles)
        kind = BASES[role]["kind"]
        places = sites_of(kind)
        leaves = [site for group in places.values() for site in group if isinstance(site.node, Leaf)]
        site = chance.choice([each for each in leaves if "status" not in each.path and each.path[1] != "namespace"])
        sane = json.loads(json.dumps(BASES[role]))
        value = chance.choice([each for each in LISTS[site.node.kind] if each not in (HUGE, ENDLESS)])
        content = put(sane, whole(schema_of(kind)), site.path, value)
        yield _placed(content, f"drawn-{number}", named=site.path == ("metadata", "name"))


def _container(content: Object) -> Object:
    """With an image, and with the limits that whole devices have to have."""
    resources = content.get("resources") if isinstance(content.get("resources"), dict) else {}
    requests = resources.get("requests") if isinstance(resources.get("requests"), dict) else {}
    limits = {GPU: requests[GPU]} if GPU in requests else {}
    return {"image": "none", **content, "resources": {"limits": limits, **resources}}


def _placed(content: Object, name: str, named: bool) -> Object:
    """The object with a name of its own, in the namespace, and as the API server takes it where nothing is hostile."""
    meta = {key: value for key, value in content["metadata"].items() if key not in ("uid", "creationTimestamp")}
    content = {**content, "metadata": {**meta, "namespace": EVIL} | ({} if named else {"name": name})}
    if content["kind"] == "Pod" and isinstance(content["spec"], dict):
        spec = {**content["spec"], "nodeSelector": ONLY_ARENA, "terminationGracePeriodSeconds": 0}
        spec.pop("nodeName", None)
        if isinstance(spec.get("containers"), list):
            spec["containers"] = [_container(each) for each in spec["containers"] if isinstance(each, dict)]
        content["spec"] = spec
    content.pop("status", None)
    return content
