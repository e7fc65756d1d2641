"""The cluster of the soak: what is installed there, its nodes with GPUs or devices, what must be gone at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kai_sched.api import names
from tests.cluster import claims, objects
from tests.cluster.client import Object, parallel
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SERVICE_ACCOUNT, SYSTEM_NAMESPACE
from tests.cluster.control_plane import ControlPlane
from tests.cluster.device_plugin import NAMESPACE as RESERVATIONS
from tests.cluster.device_plugin import DevicePlugin
from tests.cluster.installed import MANIFESTS, call_on_loopback, dry_run
from tests.cluster.processes import wait_until
from tests.cluster.soak_workloads import GPU_MIB, NODE_GPUS, NODE_MILLI_CPU, QUEUES, TEMPLATE

GPU_NODES, DEVICE_NODES, DEVICES = 180, 20, 12
# Those whose work the scheduler counts on: what belongs to a pod goes with it, pods go with their nodes, and claims are
# made from templates and freed.
CONTROLLERS = "garbage-collector-controller,pod-garbage-collector-controller,resourceclaim-controller"
SHARING = ("namespace", "rbac", "policies", "config")
IMAGE = {"spec": {"binder": {"resourceReservation": {"image": {"name": "kai-sched"}}}}}
RUNTIME_CLASS = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}"
PLUGIN_POLL_S = 0.25
GONE_S = 120.0  # a node that is gone takes its pods along after 40 to 60 s
LEFT_SHOWN = 5
TOKEN_S = 24 * 3600
KWOK_DELETES = "pod-delete.yaml"
PODS_BUT_RESERVATIONS = f"""
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: pod-delete}}
spec:
  resourceRef: {{apiGroup: v1, kind: Pod}}
  selector:
    matchExpressions:
    - {{key: .metadata.deletionTimestamp, operator: Exists}}
    - {{key: .metadata.namespace, operator: NotIn, values: [{RESERVATIONS}]}}
  next: {{delete: true}}
"""


def is_of_devices(node: str) -> bool:
    """Whether the node has devices for claims; the others have GPUs."""
    return node.startswith("devices-")


def size_of(node: str) -> tuple[int, int]:
    """Its millicores and GPUs."""
    return NODE_MILLI_CPU, 0 if is_of_devices(node) else NODE_GPUS


def make_node(cluster: Cluster, name: str) -> None:
    """Create a node, ready, with its devices."""
    milli_cpu, gpus = size_of(name)
    labels: dict[str, Any] = {names.GPU_MEMORY_LABEL: str(GPU_MIB)} if gpus else {}
    cluster.create(objects.node(name, gpus, cpu=f"{milli_cpu}m", **labels))
    # Admission gives each new node the taint not-ready; the controller that takes it off is not there.
    cluster.patch("Node", name, {"spec": {"taints": None}})
    if is_of_devices(name):
        cluster.create(claims.resource_slice(name, DEVICES))


def remove_node(cluster: Cluster, name: str) -> None:
    """Delete a node with what it has."""
    cluster.delete("Node", name)
    if is_of_devices(name):
        cluster.delete("ResourceSlice", f"{name}-devices")


def install(cluster: Cluster, webhook_port: int) -> list[str]:
    """All of manifests/ with GPU sharing, webhooks at that port, queues, and the nodes, whose names are returned."""
    cluster.add_queues(*(f"team-{n}" for n in range(QUEUES)))
    cluster.create_all([claims.device_class(), claims.template(TEMPLATE)])
    nodes = [f"node-{n}" for n in range(GPU_NODES)] + [f"devices-{n}" for n in range(DEVICE_NODES)]
    parallel(lambda name: make_node(cluster, name), nodes)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS))
    for name in SHARING:
        path = MANIFESTS / "components" / "gpu-sharing" / f"{name}.yaml"
        cluster.kubectl("apply", "--server-side", "-f", str(path))
    cluster.patch("Config", "kai-config", IMAGE)  # the replicas run outside of pods, whose image they would take
    cluster.kubectl("apply", "-f", "-", input=RUNTIME_CLASS)  # as NVIDIA's operator does
    call_on_loopback(cluster, webhook_port)
    return nodes


@contextmanager
def controlled(plane: ControlPlane, cluster: Cluster) -> Iterator[DevicePlugin]:
    """With controllers, and devices for reservation pods, which kwok does not end."""
    plane.start_controller_manager(CONTROLLERS)
    stage = plane.folder / KWOK_DELETES
    stage.write_text(PODS_BUT_RESERVATIONS)
    plane.stop_kwok()
    plane.start_kwok(stage, without=KWOK_DELETES)
    try:
        with DevicePlugin(cluster, PLUGIN_POLL_S, ends_pods=True) as plugin:
            yield plugin
    finally:
        plane.stop_controller_manager()


def login(plane: ControlPlane, server: str) -> str:
    """The path of a kubeconfig with the account of the manifests, at that server."""
    token = plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT, lasts_s=TOKEN_S)
    return str(plane.kubeconfig(SERVICE_ACCOUNT, server, token))


def wait_admitted(cluster: Cluster) -> None:
    """Wait until webhooks let a pod with a part of a GPU pass."""
    pod = objects.pod("probe", "team-0", 0, annotations={names.GPU_FRACTION_ANNOTATION: "0.5"})

    def passes() -> bool:
        said = dry_run(cluster, pod)
        assert not said, said
        return True

    wait_until(passes, "a pod being admitted", 60.0, poll_s=0.5)


def left_over(cluster: Cluster, timeout_s: float = GONE_S) -> list[str]:
    """What is still there of workloads that are gone, once controllers had their time: a line for each kind."""
    ends_s = time.monotonic() + timeout_s
    while (found := leftovers(_what_there_is(cluster))) and time.monotonic() < ends_s:
        time.sleep(2.0)
    return found


def leftovers(found: Mapping[str, Sequence[Object]]) -> list[str]:
    """A line for each kind of which there is something."""
    return [
        f"{len(items)} {kind} left at the end: "
        + ", ".join(item["metadata"]["name"] for item in items[:LEFT_SHOWN])
        + (" ..." if len(items) > LEFT_SHOWN else "")
        for kind, items in found.items()
        if items
    ]


def _what_there_is(cluster: Cluster) -> dict[str, Sequence[Object]]:
    shared = f"labelSelector={names.SHARED_GPU_LABEL}%3Dtrue"
    return {
        "reservation pods": cluster.list("Pod", RESERVATIONS),
        "pods": cluster.list("Pod", "default"),
        "pod groups": cluster.list("PodGroup", "default"),
        "bind requests": cluster.list("BindRequest"),
        "resource claims": cluster.list("ResourceClaim"),
        "ConfigMaps for shared GPUs": cluster.list("ConfigMap", "default", shared),
    }
