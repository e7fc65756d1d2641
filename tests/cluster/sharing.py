"""Pods that share GPUs, as the tests of GPU sharing make them, and what must hold at each moment of the history."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec
import yaml

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.read.config import config_from_operator
from kai_sched.reconcile.gpu_reservation import GpuGroup, reservation_pod
from tests.cluster import objects
from tests.cluster.client import Client, Object, collection
from tests.cluster.cluster import Cluster
from tests.cluster.device_plugin import NAMESPACE, device_of
from tests.tree import ROOT

# As NVIDIA's operator has it, and admission gives it to pods.
RUNTIME_CLASS = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}"
SETTINGS = {
    "apiVersion": names.CONFIG_VERSION,
    "kind": "Config",
    "metadata": {"name": "kai-config"},
}


def turn_on(cluster: Cluster, timeout_s: int = 20, on: bool = True) -> None:
    """GPU sharing for the cluster; a reservation pod has ``timeout_s`` to say which device it has."""
    cluster.add_namespace(NAMESPACE)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAMESPACE, "namespace": NAMESPACE}}
    cluster.apply(account)
    reservation = {"allocationTimeout": timeout_s, "image": {"name": "kai-sched"}}
    spec = {"global": {"gpuSharing": on}, "binder": {"resourceReservation": reservation}}
    cluster.apply(SETTINGS | {"spec": spec})


def pod(name: str, fraction: str = "0.5", devices: int = 1, queue: str = "team", **more: Any) -> Object:
    """A pod with a part of a GPU, as admission leaves it."""
    notes = {names.GPU_FRACTION_ANNOTATION: fraction, names.SHARED_GPU_CONFIG_MAP_ANNOTATION: f"{name}-maps"}
    if devices > 1:
        notes[names.GPU_DEVICES_ANNOTATION] = str(devices)
    return objects.pod(name, queue, 0, annotations=notes, **more)


def reservation(name: str) -> Object:
    """A reservation pod of this name, as the scheduler makes it with the settings of the component."""
    content = yaml.safe_load((ROOT / "manifests/components/gpu-sharing/config.yaml").read_text())
    settings = config_from_operator(msgspec.json.encode(content["spec"]), Config(), lambda *_: None).reservation
    made = reservation_pod(GpuGroup("node-0", "g"), (), "kai-sched", True, settings)
    return made | {"metadata": made["metadata"] | {"name": name}}


def groups_of(pod: Object) -> list[str]:
    """The groups of the devices that the pod shares."""
    labels = pod["metadata"].get("labels") or {}
    several = [value for key, value in labels.items() if key.startswith(names.GPU_GROUPS_PREFIX)]
    return sorted(several) if several else [one for one in [labels.get(names.GPU_GROUP_LABEL)] if one]


def visible(cluster: Cluster, name: str) -> str:
    """The devices that the container of the pod is told to use."""
    found = {part: cluster.get("ConfigMap", f"{name}-maps-0{part}")["data"] for part in ("", "-evar")}
    assert found[""][names.VISIBLE_DEVICES_ENV] == found["-evar"][names.VISIBLE_DEVICES_ENV]
    text: str = found[""][names.VISIBLE_DEVICES_ENV]
    return text


def version(client: Client) -> str:
    """From where ``history`` may begin."""
    found: str = client.request("GET", collection("Pod"))["metadata"]["resourceVersion"]
    return found


def history(client: Client, since: str) -> Iterator[tuple[str, Object]]:
    """All events on pods since then, in their order."""
    path = f"{collection('Pod')}?watch=1&resourceVersion={since}&timeoutSeconds=2"
    answer = client.request("GET", path)
    lines = answer["text"].splitlines() if "text" in answer else [json.dumps(answer)] if answer else []
    for line in lines:
        event = json.loads(line)
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
        yield event["type"], event["object"]


def check_history(client: Client, since: str) -> int:
    """No moment had more than one GPU's worth on a device, or two reservations of one; returns the events seen."""
    shares: dict[tuple[str, str], dict[str, Fraction]] = defaultdict(dict)  # by node and group: by uid
    devices: dict[str, dict[str, str]] = defaultdict(dict)  # by node: by name of the reservation pod
    seen = 0
    for kind, pod in history(client, since):
        seen += 1
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        is_there = kind != "DELETED" and pod["status"].get("phase") not in ("Succeeded", "Failed")
        if meta["namespace"] == NAMESPACE:
            devices[node].pop(meta["name"], None)
            if is_there and device_of(pod):
                devices[node][meta["name"]] = device_of(pod)
            held = list(devices[node].values())
            assert len(held) == len(set(held)), f"{node}: {devices[node]}"
            continue
        for key in [key for key, users in shares.items() if meta["uid"] in users]:
            del shares[key][meta["uid"]]
        share = Fraction((meta.get("annotations") or {}).get(names.GPU_FRACTION_ANNOTATION, "0"))
        for group in groups_of(pod) if node and is_there and share else []:
            users = shares[node, group]
            users[meta["uid"]] = share
            assert sum(users.values()) <= 1, f"{group} on {node} has {users}"
    return seen


def reservations(cluster: Cluster) -> list[Object]:
    """All reservation pods."""
    return cluster.list("Pod", NAMESPACE)
