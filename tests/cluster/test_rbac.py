"""The operator with the rights of manifests/ and no more: installed in one go, as the ServiceAccount that pods get."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kai_sched.api import names
from kai_sched.operator.http import authority, certificate
from tests.cluster import claims, objects
from tests.cluster.client import KINDS, Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT, SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.installed import MANIFESTS, call_on_loopback
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy
from tests.tree import ROOT

# What is done for workloads alone: the tests of workloads run with these rights.
GROUPING = {
    ("patch", "pods"),
    ("create", "podgroups"),
    ("get", "podgroups"),
    ("update", "podgroups"),
}
# Asked for from Kubernetes 1.36 on, by an admission plugin that is off by default, and where agents tell of NUMA zones.
LATER = {("update", "resourceclaims/binding"), ("update", "pods/finalizers")} | {
    (verb, "noderesourcetopologies") for verb in ("list", "watch")
}


def install(cluster: Cluster) -> None:
    """`kubectl apply -k manifests` on a cluster that has never heard of us."""
    crds = [crd["metadata"]["name"] for crd in cluster.list("CustomResourceDefinition")]
    cluster.kubectl("delete", "customresourcedefinitions", "--wait", *crds)
    cluster.kubectl("apply", "-k", str(MANIFESTS))
    mine = {(kind, name) for kind, _, name in cluster.everything()}
    assert {("PriorityClass", name) for name in ("train", "build-preemptible", "build", "inference")} <= mine
    assert ("Deployment", "kai-scheduler-default") in mine
    assert {("CustomResourceDefinition", name) for name in crds} <= mine


def share_gpus(cluster: Cluster) -> None:
    """The component for parts of GPUs, whose policy says which ConfigMaps the scheduler may write."""
    for name in ("namespace", "rbac", "policies"):
        cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / f"components/gpu-sharing/{name}.yaml"))


def granted(cluster: Cluster) -> set[tuple[str, str]]:
    """Verb and subject of all that the roles of the manifests allow."""
    names = ("kai-scheduler", "kai-scheduler-certificate")
    roles = [cluster.get(kind, name, SYSTEM_NAMESPACE) for kind in ("ClusterRole", "Role") for name in names]
    return {
        (verb, subject)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for subject in rule["resources"]
    }


def claimed(name: str, **spec: Any) -> list[Object]:
    """A storage class that waits for the first consumer, a claim of it and a pod with the claim."""
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": objects.meta(name),
        "volumeBindingMode": "WaitForFirstConsumer",
        **spec,
    }
    size = {"requests": {"storage": "1Gi"}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": objects.meta(name, "default"),
        "spec": {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": size},
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return [storage, claim, objects.pod(name, volumes=[volume])]


def local_volume(name: str, node: str) -> Object:
    """A free volume on one node, of the class of that name."""
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": objects.meta(name),
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
        },
    }


def due_certificate() -> Mapping[str, str]:
    """The data of a Secret with a certificate that is to be renewed."""
    name = authority.service_name(certificate.SERVICE, SYSTEM_NAMESPACE)
    pair = authority.issue(name, datetime.now(UTC) - authority.RENEW_AFTER - timedelta(days=1))
    fields = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": pair.authorities}
    return {field: base64.b64encode(value).decode() for field, value in fields.items()}


def claim_two(cluster: Cluster, proxy: Proxy) -> None:
    """Have two pods get devices of a slice: one by a claim, one by an extended resource, at the second attempt."""
    cluster.create(claims.device_class())
    cluster.create(claims.resource_slice(*cluster.add_nodes(1, gpus=0, prefix="devices")))
    cluster.create_all([claims.claim("device"), claims.pod("device", "device")])
    cluster.wait_bound(["device"])
    refused = proxy.add("POST", "/pods/extended/binding", status=403, times=1)
    cluster.create(claims.extended_pod("extended"))
    cluster.wait_bound(["extended"])
    refused.wait_hits()


def evict_one(cluster: Cluster) -> None:
    """Have a pod make room for another."""
    cluster.add_nodes(1, gpus=1, prefix="small", size="small")
    for name in ("train", "inference"):
        group = objects.pod_group(name, priorityClassName=name)
        cluster.create_all([group, objects.pod(name, group=name, nodeSelector={"size": "small"})])
        cluster.wait_bound([name])
    assert cluster.find("Pod", "train", "default") is None


def keep_accounts(cluster: Cluster) -> None:
    """Have the past count, and wait until it is kept."""
    cluster.kubectl("apply", "-f", str(ROOT / "examples" / "past-usage" / "shard.yaml"))
    cluster.patch("SchedulingShard", "default", {"spec": {"usageDBConfig": {"usageParams": {"fetchInterval": "1s"}}}})
    path = "kai-scheduler-usage", SYSTEM_NAMESPACE
    wait_until(lambda: cluster.get("ConfigMap", *path).get("binaryData"), "accounts that are kept")


def test_one_apply_installs_it_and_it_needs_no_right_but_those_it_is_given(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    install(cluster)
    share_gpus(cluster)
    token = own_plane.service_account_token(SYSTEM_NAMESPACE, "scheduler")
    kubeconfig = own_plane.kubeconfig("scheduler", proxy.url, token)
    mark = own_plane.audit.mark()
    replica = operator(kubeconfig=kubeconfig, webhooks=True, ready=False)
    assert replica.webhook_port
    call_on_loopback(cluster, replica.webhook_port)
    replica.wait_ready()

    # The default queues appear, through our own webhook, and the first pod without any label runs.
    wait_until(lambda: cluster.find("Queue", "default-queue"), "the default queues")
    assert {queue["metadata"]["name"] for queue in cluster.list("Queue")} == {"default-queue", "default-parent-queue"}
    cluster.create(objects.pod("first", queue=None))
    cluster.wait_condition("Pod", "first", names.POD_SCHEDULED, status="False", reason=names.UNSCHEDULABLE)
    # One answer to a binding gets lost, so that the operator has to look.
    lost = proxy.add("POST", "/pods/first/binding", cut=True, after=True, times=1)
    cluster.add_nodes()
    cluster.wait_bound(["first"])
    lost.wait_hits()
    told = wait_until(lambda: cluster.wait_event("first", names.SCHEDULED), "the pod being told")
    assert told["source"]["component"] == "kai-scheduler"

    # Gangs, status, volumes, claims for devices.
    cluster.add_queues("team")
    cluster.create_all(objects.gang("gang", 2, priorityClassName="build"))
    cluster.wait_bound(["gang-0", "gang-1"])

    def shown() -> bool:
        group = cluster.get("PodGroup", "gang")
        assert "allocated" in group.get("status", {}).get("resourcesStatus", {}), f"{group}"
        return names.LAST_START_ANNOTATION in group["metadata"].get("annotations", {})

    wait_until(shown, "the group's status and start")
    cluster.create(local_volume("local", "node-0"))
    cluster.patch("PersistentVolume", "local", {"status": {"phase": "Available"}}, subresource="/status")
    cluster.create_all(claimed("local", provisioner="kubernetes.io/no-provisioner"))
    cluster.create_all(claimed("made", provisioner="example.com/maker"))
    wait_until(lambda: cluster.get("PersistentVolume", "local")["spec"].get("claimRef"), "the volume being reserved")
    chosen = wait_until(
        lambda: cluster.get("PersistentVolumeClaim", "made")["metadata"].get("annotations"), "a node being chosen"
    )
    assert chosen[names.SELECTED_NODE_ANNOTATION] == "node-0"
    claim_two(cluster, proxy)
    evict_one(cluster)
    keep_accounts(cluster)

    # The certificate is made, and made anew by the next one to start.
    assert replica.terminate() == 0
    cluster.patch("Secret", certificate.SECRET, {"data": due_certificate()}, SYSTEM_NAMESPACE)
    operator(kubeconfig=kubeconfig, webhooks=True, ready=False).wait_ready()

    asked = own_plane.audit.since(mark, ACCOUNT)
    assert [(one.verb, one.subject, one.name) for one in asked if one.status == 403] == []
    plurals = {plural for _, plural, _ in KINDS.values()}
    used = {(one.verb, one.subject) for one in asked if one.subject.partition("/")[0] in plurals}
    assert used == granted(cluster) - GROUPING - LATER
