"""How long 2,000 pods with parts of GPUs take until all are bound, against plain requests for the same writes.

Per pod: two ConfigMaps, a patch of labels, a binding; per device: a reservation pod, to which kwok gives its device.
The plain requests are all there beforehand, and each kind waits for the one before it.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Sequence

from kai_sched.api import names
from tests.cluster import sharing
from tests.cluster.bench import GPUS_A_NODE, NODES, PODS, Bench, Figure, send, wait_ready
from tests.cluster.client import MERGE, Object, collection, path_to
from tests.cluster.control_plane import OPERATOR
from tests.cluster.device_plugin import NAMESPACE
from tests.cluster.processes import wait_until

ROUNDS = 3
RATIO_MAX = 1.5
STAGE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: reservation-device}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {app: kai-resource-reservation}
    matchExpressions:
    - {key: '.metadata.annotations["run.ai/reserve_for_gpu_index"]', operator: DoesNotExist}
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
  weight: 1000
  next:
    patches:
    - root: metadata
      type: merge
      template: |
        annotations: {"run.ai/reserve_for_gpu_index": "GPU-{{ .metadata.uid }}"}
"""


def fraction(number: int) -> str:
    """Of pod ``number``: a tenth to nine tenths."""
    return f"0.{7 * number % 9 + 1}"


def shares(bench: Bench) -> list[Figure]:
    """Rounds of ours and of plain requests in turn."""
    cluster = bench.cluster
    cluster.add_nodes(NODES, gpus=GPUS_A_NODE)
    cluster.add_queues("team")
    sharing.turn_on(cluster)
    stage = bench.folder / "stage.yaml"
    stage.write_text(STAGE)
    bench.plane.stop_kwok()
    bench.plane.start_kwok(stage)
    ours_s, plain_s, asked, devices = [], [], [], []
    for round_ in range(ROUNDS):
        pods = cluster.create_all(sharing.pod(f"share-{round_}-{n}", fraction(n)) for n in range(PODS))
        assert len(pods) == PODS
        mark = bench.plane.audit.mark()
        bench.plane.collect_garbage()
        operator = bench.start()
        ready_s = wait_ready(operator)[1]
        times_s = bench.wait_bindings(mark, OPERATOR, PODS)
        writes = [one for one in bench.plane.audit.since(mark, OPERATOR) if one.verb in ("create", "patch")]
        within = [one for one in writes if ready_s - 1 <= one.received_s <= times_s[-1]]
        asked.append(len(within) / PODS)
        ours_s.append(times_s[-1] - min(ready_s, *(one.received_s for one in within if one.subject == "pods")))
        bound = cluster.list("Pod", "default")
        devices.append(len(sharing.reservations(cluster)))
        operator.terminate()
        _clear(bench)
        plain_s.append(_plain(bench, bound, f"plain-{round_}"))
        _clear(bench)
    ratios = [ours / plain for ours, plain in zip(ours_s, plain_s, strict=True)]
    return [
        Figure("devices reserved", statistics.median(devices), ""),
        Figure("plain writes, median", statistics.median(plain_s), "s"),
        Figure("all bound, median", statistics.median(ours_s), "s"),
        Figure("times plain, median", statistics.median(ratios), "", RATIO_MAX),
        Figure("times plain, highest", max(ratios), ""),
        Figure("writes a pod", statistics.median(asked), ""),
    ]


def _plain(bench: Bench, bound: Sequence[Object], prefix: str) -> float:
    """Seconds that the same writes take: reservations, ConfigMaps, labels, bindings."""
    pods = bench.cluster.create_all(sharing.pod(f"{prefix}-{n}") for n in range(len(bound)))
    for pod in pods:
        assert pod["metadata"]["uid"]
    places = {(pod["spec"]["nodeName"], sharing.groups_of(pod)[0]) for pod in bound}
    reserved = [_reservation(n, *place) for n, place in enumerate(sorted(places))]
    steps: list[tuple[str, str, list[tuple[str, bytes]]]] = [
        ("POST", "application/json", [(collection("Pod", NAMESPACE), _json(each)) for each in reserved])
    ]
    maps, patches, bindings = [], [], []
    for pod, like in zip(pods, bound, strict=True):
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        contents = [_map(f"{name}-maps-0{part}", name, uid) for part in ("", "-evar")]
        maps += [(collection("ConfigMap", "default"), _json(content)) for content in contents]
        labels = {names.GPU_GROUP_LABEL: sharing.groups_of(like)[0]}
        change = {"metadata": {"labels": labels, "annotations": {names.RECEIVED_TYPE_ANNOTATION: "Fraction"}}}
        patches.append((path_to("Pod", name), _json(change)))
        target = {"apiVersion": "v1", "kind": "Node", "name": like["spec"]["nodeName"]}
        meta = {"name": name, "namespace": "default", "uid": uid}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        bindings.append((path_to("Pod", name) + "/binding", _json(body)))
    steps += [("POST", "application/json", maps), ("PATCH", MERGE, patches), ("POST", "application/json", bindings)]
    bench.plane.collect_garbage()
    started = time.monotonic()
    for verb, how, requests in steps:
        asyncio.run(send(bench, verb, requests, how))
    return time.monotonic() - started


def _reservation(number: int, node: str, group: str) -> Object:
    amounts = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    labels = {names.APP_LABEL: NAMESPACE, names.GPU_GROUP_LABEL: group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"plain-{number}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


def _map(name: str, pod: str, uid: str) -> Object:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    data = {"NVIDIA_VISIBLE_DEVICES": f"GPU-{uid}", "GPU_PORTION": "0.50", "RUNAI_NUM_OF_GPUS": "0.50"}
    meta = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _json(content: Object) -> bytes:
    return json.dumps(content).encode()


def _clear(bench: Bench) -> None:
    """No pods and no ConfigMaps of pods any more."""
    cluster = bench.cluster
    for path in (collection("Pod", "default"), collection("Pod", NAMESPACE), collection("ConfigMap", "default")):
        cluster.request("DELETE", path, {"gracePeriodSeconds": 0})
    wait_until(lambda: not cluster.list("Pod", query="limit=1"), "no pods", 120.0, poll_s=1.0)
