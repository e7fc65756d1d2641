"""Workloads and PodGroups of Kubernetes itself, on Kubernetes 1.37: gangs start whole or not at all, and their status
says so; also those that the controller of Jobs makes. All other tests run on an API server without them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT, LOG, SERVICE_ACCOUNT, SYSTEM_NAMESPACE
from tests.cluster.control_plane import ADMIN, NEWER_KUBERNETES, ControlPlane
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.tree import ROOT
from tests.unit.cli.command import run

TOOLS = (NEWER_KUBERNETES.programs,)
EXAMPLE = ROOT / "examples" / "kubernetes-groups" / "gang.yaml"
GROUPS = "podgroups.scheduling.k8s.io"
OURS = "podgroups.scheduling.run.ai"
RACK = "example.com/rack"


@dataclass(frozen=True, slots=True)
class Newer:
    """A cluster of Kubernetes 1.37 with controllers, and our operator, which leads with the rights of the manifests."""

    plane: ControlPlane
    cluster: Cluster
    operator: Operator

    def get(self, resource: str, name: str, namespace: str) -> Object:
        """An object, by the resource and group that tell two kinds of one name apart."""
        found: Object = json.loads(self.cluster.kubectl("get", resource, name, "-n", namespace, "-o", "json"))
        return found

    def apply(self, *manifests: Object) -> None:
        """As people do."""
        for each in manifests:
            self.cluster.kubectl("apply", "-f", "-", input=json.dumps(each))

    def wait_scheduled(self, name: str, namespace: str, status: str) -> Object:
        """Wait for this status of the condition of the PodGroup, and return the condition."""

        def there() -> Object:
            conditions = self.get(GROUPS, name, namespace).get("status", {}).get("conditions", [])
            found = [each for each in conditions if each["type"] == names.GROUP_SCHEDULED]
            assert [each["status"] for each in found] == [status], found
            return dict(found[0])

        return wait_until(there, f"PodGroup {name} being scheduled: {status}")


@pytest.fixture(scope="module")
def newer_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newer]:
    """For all tests of the module; each of them has a namespace and a queue of its own."""
    folder = tmp_path_factory.mktemp("kubernetes-1.37")
    plane = ControlPlane(folder, NEWER_KUBERNETES)
    plane.start()
    operator: Operator | None = None
    try:
        cluster = Cluster(plane.server, plane.token(ADMIN), plane.authority, plane.kubeconfig(ADMIN), controlled=True)
        cluster.add_crds()
        cluster.add_namespace(SYSTEM_NAMESPACE)
        for name in ("rbac", "priority-classes"):
            cluster.kubectl("apply", "--server-side", "-f", str(ROOT / f"manifests/{name}.yaml"))
        plane.start_controller_manager()
        token = plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
        flags = (*LOG, "--namespace", SYSTEM_NAMESPACE, "--no-default-queues")
        operator = Operator(plane.kubeconfig(SERVICE_ACCOUNT, token=token), folder / "operator.log", *flags)
        operator.wait_ready()
        yield Newer(plane, cluster, operator)
    finally:
        if operator is not None:
            operator.end()
        plane.stop()


@pytest.fixture
def newer(newer_plane: Newer) -> Iterator[Newer]:
    """As ``newer_plane``, without nodes; nothing that the operator asked for is refused for want of a right."""
    mark = newer_plane.plane.audit.mark()
    yield newer_plane
    refused = [one for one in newer_plane.plane.audit.since(mark, ACCOUNT) if one.status == 403]
    assert [(one.verb, one.subject) for one in refused] == []
    newer_plane.cluster.kubectl("delete", "nodes", "--all", "--wait")
    status, text = newer_plane.operator.get("/readyz/scheduling")
    assert status == 200, text


def kubernetes_group(name: str, namespace: str, policy: Object, queue: str = "team", **spec: object) -> Object:
    """A PodGroup of Kubernetes in a queue."""
    version, kind = names.KUBERNETES_GROUP
    meta = objects.meta(name, namespace, labels={names.QUEUE_LABEL: queue} if queue else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"schedulingPolicy": policy} | spec}


def members(group: str, namespace: str, count: int, gpus: int = 1) -> list[Object]:
    """Pods of nobody that name the group: GROUP-0 and on."""
    named = {"schedulingGroup": {"podGroupName": group}}
    return [objects.pod(f"{group}-{n}", None, gpus, namespace=namespace, **named) for n in range(count)]


def test_the_manifest_of_the_guide_starts_whole_or_not_at_all(newer: Newer) -> None:
    """There is room for two of its four pods, so none is bound, and the PodGroup says why; then for all."""
    cluster, space = newer.cluster, newer.cluster.add_namespace("guide")
    cluster.add_queues("vision")
    cluster.add_nodes(1, 8, prefix="guide")
    cluster.kubectl("apply", "-n", space, "-f", str(EXAMPLE))
    condition = newer.wait_scheduled("allreduce", space, "False")
    assert condition["reason"] == "Unschedulable"
    assert "GPU" in condition["message"]
    assert cluster.bound(space) == {}
    pods = [pod["metadata"]["name"] for pod in cluster.list("Pod", space)]
    assert len(pods) == 4

    cluster.add_nodes(1, 8, prefix="more")
    cluster.wait_bound(pods, space)
    condition = newer.wait_scheduled("allreduce", space, "True")
    assert condition["reason"] == "Scheduled"
    cluster.kubectl("delete", "-n", space, "-f", str(EXAMPLE), "--wait")  # its finalizer goes with the last pod


def test_below_its_minimum_nobody_is_bound(newer: Newer) -> None:
    """Three of four pods are there. The minimum may change: with three they start."""
    cluster, space = newer.cluster, newer.cluster.add_namespace("below")
    cluster.add_queues("team")
    cluster.add_nodes(1, 8, prefix="below")
    newer.apply(kubernetes_group("few", space, {"gang": {"minCount": 4}}))
    cluster.create_all(members("few", space, 3))
    alone = objects.pod("alone", "team", namespace=space)
    cluster.create(alone)
    cluster.wait_bound(["alone"], space)
    assert set(cluster.bound(space)) == {"alone"}
    newer.apply(kubernetes_group("few", space, {"gang": {"minCount": 3}}))
    cluster.wait_bound(["few-0", "few-1", "few-2"], space, timeout_s=10.0)  # not when the pods are next looked at
    newer.wait_scheduled("few", space, "True")


def test_pods_wait_for_a_group_that_is_not_there_yet(newer: Newer) -> None:
    cluster, space = newer.cluster, newer.cluster.add_namespace("early")
    cluster.add_queues("team")
    cluster.add_nodes(1, 8, prefix="early")
    cluster.create_all(members("late", space, 2))
    event = cluster.wait_event("late-0", names.GROUPER_WARNING, space)
    assert "there is no PodGroup 'late' of scheduling.k8s.io/v1beta1" in event["message"]
    assert cluster.bound(space) == {}
    newer.apply(kubernetes_group("late", space, {"basic": {}}))
    cluster.wait_bound(["late-0", "late-1"], space)


def test_its_pods_share_a_rack(newer: Newer) -> None:
    """Two racks have room for two pods, one has room for four."""
    cluster, space = newer.cluster, newer.cluster.add_namespace("racks")
    cluster.add_queues("team")
    levels = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}
    topology = {"apiVersion": names.TOPOLOGY_VERSION, "kind": "Topology", "metadata": {"name": "racks"}, "spec": levels}
    newer.apply(topology)
    for rack, nodes in (("a", 1), ("b", 2), ("c", 1)):
        cluster.add_nodes(nodes, 2, prefix=f"rack-{rack}", **{RACK: rack})
    constraint = {"topology": [{"key": RACK}]}
    newer.apply(kubernetes_group("close", space, {"gang": {"minCount": 4}}, schedulingConstraints=constraint))
    cluster.create_all(members("close", space, 4))
    nodes_of = cluster.wait_bound([f"close-{n}" for n in range(4)], space)
    assert set(nodes_of.values()) == {"rack-b-0", "rack-b-1"}


@pytest.mark.parametrize("gang", [True, False])
def test_groups_of_the_controller_of_jobs(newer: Newer, gang: bool) -> None:
    """It makes a Workload and a PodGroup of each Job, which its pods name. One of policy basic leaves the gang that the
    annotation of the Job asks for."""
    cluster, space = newer.cluster, newer.cluster.add_namespace("gang" if gang else "basic")
    cluster.add_queues("team")
    cluster.add_nodes(1, 2, prefix=space)
    labels = {names.QUEUE_LABEL: "team"}
    spec: Object = {"parallelism": 3, "completions": 3}
    spec["template"] = {"spec": objects.pod("unnamed", None)["spec"] | {"restartPolicy": "Never"}}
    meta: Object = {"name": "sweep", "namespace": space, "labels": labels}
    if gang:
        spec["scheduling"] = {"schedulingPolicy": {"gang": {}}}
    else:
        meta["annotations"] = {names.BATCH_MIN_MEMBER_ANNOTATION: "3"}
    newer.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})

    def made() -> Object:
        found = json.loads(cluster.kubectl("get", GROUPS, "-n", space, "-o", "json"))["items"]
        assert len(found) == 1, found
        return dict(found[0])

    group = wait_until(made, "the PodGroup of the Job")
    name = group["metadata"]["name"]
    assert group["spec"]["schedulingPolicy"].keys() == {"gang" if gang else "basic"}
    newer.wait_scheduled(name, space, "False")
    pods = cluster.list("Pod", space)
    assert [pod["spec"]["schedulingGroup"] for pod in pods] == [{"podGroupName": name}] * 3
    assert cluster.bound(space) == {}
    ours = newer.get(OURS, f"pg-{name}-{group['metadata']['uid']}", space)
    assert (ours["spec"]["minMember"], ours["spec"]["queue"]) == (3, "team")

    cluster.add_nodes(1, 2, prefix=f"more-{space}")
    cluster.wait_bound([pod["metadata"]["name"] for pod in pods], space)
    newer.wait_scheduled(name, space, "True")
    warnings = [each for pod in pods for each in cluster.events(pod["metadata"]["name"], names.GROUPER_WARNING, space)]
    assert warnings == []


def test_a_dump_answers_as_the_cluster_does(newer: Newer, tmp_path: Path) -> None:
    """The gang that waits is in the dump, with the PodGroup of Kubernetes."""
    cluster, space = newer.cluster, newer.cluster.add_namespace("dumped")
    cluster.add_queues("team")
    cluster.add_nodes(1, 2, prefix="dumped")
    newer.apply(kubernetes_group("wide", space, {"gang": {"minCount": 3}}))
    cluster.create_all(members("wide", space, 3))
    newer.wait_scheduled("wide", space, "False")
    path = tmp_path / "cluster.json.gz"
    written = run("dump", "--kubeconfig", str(newer.plane.admin_kubeconfig), "-o", str(path))
    assert written.returncode == 0, written.stderr
    items = json.loads(gzip.decompress(path.read_bytes()))["items"]
    kinds = [each for each in items if (each["apiVersion"], each["kind"]) == names.KUBERNETES_GROUP]
    (uid,) = [each["metadata"]["uid"] for each in kinds if each["metadata"]["name"] == "wide"]
    answer = run("simulate", str(path), "-o", "json")
    assert answer.returncode == 0, answer.stderr
    assert "ignored" not in answer.stderr
    assert json.loads(answer.stdout)["cycles"][0]["groups"][f"{space}/pg-wide-{uid}"]["counts"] == {"Pending": 3}
