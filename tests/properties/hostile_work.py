"""What one tenant may write that costs much: pods, groups and claims of one namespace, with many entries in each field.

``FAMILIES`` has a function for each list that is read of a tenant's objects. Each makes the objects of a number with so
many entries, which have something in common with those of other numbers or nothing, as ``shared`` says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import Reader
from kai_sched.model.store import Store

Object = dict[str, Any]
OBJECT_BYTES_MAX = 1_500_000  # what etcd takes
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
NAMESPACE = "evil"


def meta(name: str, namespace: str = NAMESPACE, **more: Any) -> Object:
    return {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", **more}


def pod(name: str, spec: Object, namespace: str = NAMESPACE, group: str = "", **labels: str) -> Object:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]
    annotations = {names.POD_GROUP_ANNOTATION: group} if group else {}
    marks = {"kai.scheduler/queue": namespace, **labels}
    whole = {"schedulerName": Config().scheduler_name, "containers": containers, **spec}
    found = {"metadata": meta(name, namespace, labels=marks, annotations=annotations), "spec": whole}
    return {"apiVersion": "v1", "kind": "Pod", **found, "status": {"phase": "Pending"}}


def selector(i: int, k: int, shared: bool) -> Object:
    """Matches all pods of the namespace, but is no other one."""
    other = {"key": "i", "operator": "NotIn", "values": [f"{k}" if shared else f"{i}-{k}"]}
    return {"matchExpressions": [{"key": "app", "operator": "Exists"}, other]}


def ports(i: int, length: int, shared: bool) -> list[Object]:
    numbers = [(k if shared else i * length + k) % 65_000 + 1 for k in range(length)]
    listed = [{"containerPort": 1, "hostPort": number} for number in dict.fromkeys(numbers)]
    return [pod(f"ports{i}", {"containers": [{"name": "c", "ports": listed}]})]


def addresses(i: int, length: int, shared: bool) -> list[Object]:
    listed = [
        {"containerPort": 1, "hostPort": 80 + k % 3, "hostIP": f"10.{0 if shared else i}.{k // 250}.{k % 250}"}
        for k in range(length)
    ]
    return [pod(f"addresses{i}", {"containers": [{"name": "c", "ports": listed}]})]


def terms(kind: str, required: bool) -> Callable[[int, int, bool], list[Object]]:
    field = f"{'required' if required else 'preferred'}DuringSchedulingIgnoredDuringExecution"

    def make(i: int, length: int, shared: bool) -> list[Object]:
        plain = [
            {"labelSelector": selector(i, k, shared), "topologyKey": "zone" if shared else f"key{k % 7}"}
            for k in range(length)
        ]
        listed = plain if required else [{"weight": 1, "podAffinityTerm": each} for each in plain]
        return [pod(f"{kind}{required}{i}".lower(), {"affinity": {kind: {field: listed}}}, app="x", i=str(i))]

    return make


def node_terms(i: int, length: int, shared: bool) -> list[Object]:
    listed = [{"key": f"k{k}", "operator": "NotIn", "values": ["x" if shared else f"{i}-{k}"]} for k in range(length)]
    required = {"nodeSelectorTerms": [{"matchExpressions": listed}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return [pod(f"nodes{i}", {"affinity": affinity})]


def tolerations(i: int, length: int, shared: bool) -> list[Object]:
    listed = [{"key": f"k{k}" if shared else f"k{i}-{k}", "operator": "Exists"} for k in range(length)]
    return [pod(f"tolerations{i}", {"tolerations": listed})]


def labels(i: int, length: int, shared: bool) -> list[Object]:
    return [pod(f"labels{i}", {}, **{f"l{k}" if shared else f"l{i}-{k}": "x" for k in range(length)})]


def resources(i: int, length: int, shared: bool) -> list[Object]:
    asked = {f"example.com/r{k}" if shared else f"example.com/r{i}-{k}": "1" for k in range(length)}
    return [pod(f"resources{i}", {"containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}]})]


def volumes(i: int, length: int, shared: bool) -> list[Object]:
    listed = [
        {"name": f"v{k}", "persistentVolumeClaim": {"claimName": f"c{k}" if shared else f"c{i}-{k}"}}
        for k in range(length)
    ]
    return [pod(f"volumes{i}", {"volumes": listed})]


def volume_claims(i: int, length: int, shared: bool) -> list[Object]:
    """A pod with claims that wait for it; all ask for the same volumes, or each for other ones."""
    found, listed = [], []
    for k in range(length):
        name = f"w{i}-{k}"
        other = {"key": "disk", "operator": "NotIn", "values": ["x" if shared else name]}
        spec = {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchExpressions": [other]},
        }
        found.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta(name), "spec": spec})
        found[-1]["status"] = {"phase": "Pending"}
        listed.append({"name": f"v{k}", "persistentVolumeClaim": {"claimName": name}})
    return [*found, pod(f"disks{i}", {"volumes": listed})]


def sub_groups(i: int, length: int, shared: bool) -> list[Object]:
    listed = [{"name": f"s{k}", "minMember": 1} for k in range(length)]
    spec = {"queue": NAMESPACE, "minMember": length if shared else 1, "subGroups": listed}
    group = {"apiVersion": names.POD_GROUP_VERSION, "kind": "PodGroup", "metadata": meta(f"g{i}"), "spec": spec}
    return [group, pod(f"group{i}", {}, group=f"g{i}", **{"kai.scheduler/subgroup-name": "s0"})]


def claims(i: int, length: int, shared: bool) -> list[Object]:
    own = {} if shared else {"selectors": [{"cel": {"expression": f"device.driver != 'x{i % 8}'"}}]}
    option = {"name": "o", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **own}
    requests = [{"name": f"r{k}", "firstAvailable": [option]} for k in range(min(length, 32))]
    constraints = [{"matchAttribute": "gpu.example.com/kind"}] * min(length, 32)
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    claim = {"apiVersion": names.DRA_VERSION, "kind": "ResourceClaim", "metadata": meta(f"c{i}"), "spec": spec}
    return [claim, pod(f"claims{i}", {"resourceClaims": [{"name": "c", "resourceClaimName": f"c{i}"}]})]


def selectors(i: int, length: int, shared: bool) -> list[Object]:
    """A claim with as many selectors as it may have; what most of them see tells all devices apart."""
    own = "" if shared else f"{i}-"
    texts = [f"device.attributes['gpu.example.com'].uuid != '{own}{k}'" for k in range(min(length, 512))]
    listed = [{"cel": {"expression": text}} for text in texts]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": listed}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    labels = {"kai.scheduler/queue": NAMESPACE}
    found = {"apiVersion": names.DRA_VERSION, "kind": "ResourceClaim", "metadata": meta(f"s{i}", labels=labels)}
    return [
        found | {"spec": spec},
        pod(f"selectors{i}", {"resourceClaims": [{"name": "c", "resourceClaimName": f"s{i}"}]}),
    ]


FAMILIES: dict[str, Callable[[int, int, bool], list[Object]]] = {
    "ports": ports,
    "addresses": addresses,
    "required affinity": terms("podAffinity", required=True),
    "required anti-affinity": terms("podAntiAffinity", required=True),
    "preferred affinity": terms("podAffinity", required=False),
    "node terms": node_terms,
    "tolerations": tolerations,
    "labels": labels,
    "resources": resources,
    "volumes": volumes,
    "volume claims": volume_claims,
    "sub-groups": sub_groups,
    "claims": claims,
    "selectors": selectors,
}


def falling_gangs(n_pods: int, each: int) -> list[Object]:
    """Gangs of so many pods that find no free room; each asks for less than all before it, so that none is skipped."""
    found: list[Object] = []
    for i in range(n_pods):
        name = f"g{i // each}"
        if i % each == 0:
            spec = {"queue": NAMESPACE, "minMember": each}
            group = {"apiVersion": names.POD_GROUP_VERSION, "kind": "PodGroup"}
            found.append(group | {"metadata": meta(name), "spec": spec})
        requests = {"cpu": f"{101 + i // each % 400}", "memory": f"{3 * (n_pods - i)}Mi"}
        containers = [{"name": "c", "resources": {"requests": requests}}]
        found.append(pod(f"{name}-{i % each}", {"containers": containers}, group=name))
    return found


def running(nodes: int, each: int) -> list[Object]:
    """Pods of others that run on the nodes of ``cluster`` and take most of their room."""
    found = []
    for i in range(nodes * each):
        requests = {"cpu": f"{900 // each}", "memory": "1Mi"}
        containers = [{"name": "c", "resources": {"requests": requests}}]
        found.append(pod(f"run{i}", {"containers": containers, "nodeName": f"n{i % nodes}"}, "sane"))
        found[-1]["status"] = {"phase": "Running"}
    return found


def written(family: str, length: int, shared: bool, most_bytes: int) -> list[Object]:
    """As many objects of the family as have so many bytes together, none larger than the API server takes."""
    found: list[Object] = []
    size = 0
    for i in range(most_bytes):
        more = FAMILIES[family](i, length, shared)
        sizes = [len(json.dumps(each)) for each in more]
        if max(sizes) > OBJECT_BYTES_MAX or size + sum(sizes) > most_bytes:
            break
        found, size = found + more, size + sum(sizes)
    return found


@st.composite
def tenants(draw: st.DrawFn, most_bytes: int) -> list[Object]:
    """What a tenant writes: objects of one to three families, of this size together."""
    families = draw(st.lists(st.sampled_from(sorted(FAMILIES)), min_size=1, max_size=3, unique=True))
    return [
        each
        for family in families
        for each in written(
            family,
            draw(st.sampled_from([1, 2, 10, 33, 100, 1000, 20_000])),
            draw(st.booleans()),
            most_bytes // len(families),
        )
    ]


def disks(nodes: int) -> list[Object]:
    """A free volume on each node, of a class that waits for the first consumer and makes none."""
    waits = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    found: list[Object] = [
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}, **waits}
    ]
    for i in range(nodes):
        near = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{i}"]}
        spec = {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [near]}]}},
        }
        labels = {"disk": f"d{i}"}
        found.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"d{i}", "labels": labels}})
        found[-1] |= {"spec": spec, "status": {"phase": "Available"}}
    return found


def cluster(nodes: int, waiting: int) -> list[Object]:
    """Nodes with devices of slices and local volumes, and pods of others that wait."""
    found: list[Object] = [
        {"apiVersion": names.QUEUE_VERSION, "kind": "Queue", "metadata": {"name": name, "uid": name}, "spec": spec}
        for name in (NAMESPACE, "sane")
        for spec in [{"resources": {"cpu": FREE, "memory": FREE, "gpu": FREE}}]
    ]
    found.append({"apiVersion": names.DRA_VERSION, "kind": "DeviceClass", "metadata": {"name": "gpu", "uid": "gpu"}})
    found[-1]["spec"] = {}
    room = {"cpu": "1000", "memory": "4Ti", "pods": "5000"}
    for i in range(nodes):
        name = f"n{i}"
        marks = {"kubernetes.io/hostname": name, "zone": f"z{i % 4}"}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "uid": name, "labels": marks},
                "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [
            {"name": f"d{k}", "attributes": {"kind": {"string": "a"}, "uuid": {"string": f"{i}-{k}"}}} for k in range(8)
        ]
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
        found.append(
            {"apiVersion": names.DRA_VERSION, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        )
    return found + disks(nodes) + [pod(f"sane{i}", {}, "sane") for i in range(waiting)]


def put(store: Store, reader: Reader, objects: list[Object]) -> int:
    """Read the objects into the store; returns their size in bytes."""
    size = 0
    for each in objects:
        raw = json.dumps(each).encode()
        size += len(raw)
        store.put(reader.read((each["apiVersion"], each["kind"]), raw, lambda *_: None))
    return size
