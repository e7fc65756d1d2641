"""Groups of workloads while the API server, people and other programs get in the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kai_sched.api import names
from kai_sched.operator.grouping.prefetch import WORTH
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT, SERVICE_ACCOUNT, StartOperator
from tests.cluster.control_plane import OPERATOR, ControlPlane
from tests.cluster.faults import assert_bound_once
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy
from tests.cluster.workload_objects import groups_of, job, live_groups, simulated, simulated_groups, template, workload
from tests.tree import ROOT

LEAST = names.BATCH_MIN_MEMBER_ANNOTATION


@pytest.fixture
def room(cluster: Cluster) -> Cluster:
    """A cluster with room and a queue."""
    cluster.add_nodes()
    cluster.add_queues("team")
    return cluster


def owned(owner: Object, first: int, count: int, **metadata: Any) -> list[Object]:
    """Pods as a controller makes them, which is not there."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    found = []
    for n in range(first, first + count):
        pod = objects.pod(f"{meta['name']}-{n}", None, **metadata)
        pod["metadata"]["ownerReferences"] = [reference]
        found.append(pod)
    return found


def create_job(cluster: Cluster, pods: int, least: int, name: str = "train") -> tuple[Object, list[str]]:
    """A Job, of which so many pods start together, and its pods."""
    owner = cluster.create(job(name, pods, least=least))
    made = cluster.create_all(owned(owner, 0, pods))
    return owner, [pod["metadata"]["name"] for pod in made]


def wait_group(cluster: Cluster, owner: Object, pods: Sequence[str]) -> Object:
    """Wait until the PodGroup of the owner is there and all of these pods name it."""
    name = f"pg-{owner['metadata']['name']}-{owner['metadata']['uid']}"

    def there() -> Object:
        group = cluster.find("PodGroup", name)
        assert group is not None
        notes = [cluster.pod(pod)["metadata"].get("annotations", {}) for pod in pods]
        assert {note.get(names.POD_GROUP_ANNOTATION) for note in notes} == {name}, f"{notes}"
        return group

    return wait_until(there, f"the pods of {name}")


def writes(plane: ControlPlane, mark: int, verb: str, subject: str) -> list[tuple[str, int]]:
    return [(one.name, one.status) for one in plane.audit.since(mark, OPERATOR, subject) if one.verb == verb]


def test_decisions_do_not_wait_until_they_are_written(
    room: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    """Nor does a crash in between lose anything: the next one writes what is missing, and binds nothing again."""
    mark = own_plane.audit.mark()
    first = operator(proxy=proxy)
    held = proxy.add("POST", "/podgroups", hold=True)
    owner, pods = create_job(room, 3, 3)
    room.wait_bound(pods)
    held.wait_hits()
    assert groups_of(room) == []
    assert all(names.POD_GROUP_ANNOTATION not in room.pod(pod)["metadata"].get("annotations", {}) for pod in pods)
    first.kill()
    proxy.remove(held)
    operator(proxy=proxy)
    group = wait_group(room, owner, pods)
    assert group["spec"] == {"minMember": 3, "queue": "team", "priorityClassName": "train"}
    assert_bound_once(room, own_plane.audit, mark, pods)
    assert writes(own_plane, mark, "delete", "podgroups") == []


def test_a_replica_that_begins_to_lead_lists_many_owners(
    room: Cluster, own_plane: ControlPlane, operator: StartOperator, system_namespace: str
) -> None:
    """With the rights of the manifests, one request for all of them."""
    made = [create_job(room, 1, 1, f"job-{n}") for n in range(WORTH)]
    room.kubectl("apply", "--server-side", "-f", str(ROOT / "manifests" / "rbac.yaml"))
    token = own_plane.service_account_token(system_namespace, SERVICE_ACCOUNT)
    mark = own_plane.audit.mark()
    operator(kubeconfig=own_plane.kubeconfig(SERVICE_ACCOUNT, token=token))
    for owner, pods in made:
        wait_group(room, owner, pods)
    asked = own_plane.audit.since(mark, ACCOUNT, "jobs")
    assert [(one.verb, one.status) for one in asked] == [("list", 200)]


def test_all_or_none_though_owners_are_slow(room: Cluster, proxy: Proxy, operator: StartOperator) -> None:
    """The pods of a gang wait for their owner, others do not wait for them, and errors are tried again."""
    operator(proxy=proxy)
    failing = proxy.add("GET", "/jobs/", status=500, times=1)
    slow = proxy.add("GET", "/jobs/", hold=True)
    owner, pods = create_job(room, 3, 3)
    slow.wait_hits()
    room.create(objects.pod("alone"))
    room.wait_bound(["alone"])
    assert room.bound().keys() == {"alone"}
    assert failing.hits == 1
    proxy.remove(slow)
    room.wait_bound(pods)
    wait_group(room, owner, pods)


def test_what_cannot_be_written_is_tried_again(
    room: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    mark = own_plane.audit.mark()
    operator(proxy=proxy)
    refused = proxy.add("POST", "/podgroups", status=503, times=1)
    lost = proxy.add("POST", "/podgroups", cut=True, after=True, times=1)
    throttled = proxy.add("PATCH", "/pods/train-0$", status=429, times=1)
    owner, pods = create_job(room, 3, 3)
    wait_group(room, owner, pods)
    for rule in (refused, lost, throttled):
        rule.wait_hits()
    # The one whose answer was lost was carried out: that is seen, and nothing is made twice.
    assert sorted(status for _, status in writes(own_plane, mark, "create", "podgroups")) in ([201], [201, 409])
    assert writes(own_plane, mark, "patch", "pods").count(("train-1", 200)) == 1


def test_what_people_change_meanwhile_is_kept(
    room: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    """They move the group to another queue while its new size is on its way: that is refused, and then both hold."""
    mark = own_plane.audit.mark()
    room.add_queues("other")
    operator(proxy=proxy)
    owner, pods = create_job(room, 2, 2)
    name = wait_group(room, owner, pods)["metadata"]["name"]
    held = proxy.add("PUT", "/podgroups/", hold=True)
    room.patch("Job", "train", {"metadata": {"annotations": {LEAST: "1"}}})
    room.create_all(owned(owner, 2, 1))
    held.wait_hits()
    room.patch("PodGroup", name, {"spec": {"queue": "other", "minMember": 7}, "metadata": {"labels": {"mine": "yes"}}})
    proxy.remove(held)

    def both() -> bool:
        group = wait_group(room, owner, ["train-2"])
        spec, labels = group["spec"], group["metadata"]["labels"]
        assert (spec["queue"], spec["minMember"], labels["mine"]) == ("other", 1, "yes"), f"{group}"
        return True

    wait_until(both, "the new size in the new queue")
    assert sorted(status for _, status in writes(own_plane, mark, "update", "podgroups"))[-1] == 409
    room.wait_bound(["train-2"])


def test_what_people_delete_or_erase_comes_back(room: Cluster, operator: StartOperator) -> None:
    """A PodGroup, and the annotation of a pod, while the workload is there."""
    operator()
    owner, pods = create_job(room, 2, 2)
    group = wait_group(room, owner, pods)
    room.delete("PodGroup", group["metadata"]["name"])
    room.patch("Pod", "train-0", {"metadata": {"annotations": {names.POD_GROUP_ANNOTATION: "lost"}}})
    again = wait_until(lambda: groups_of(room), "the group")[0]
    assert again["metadata"]["uid"] != group["metadata"]["uid"]
    assert wait_group(room, owner, pods)["spec"] == group["spec"]


def test_a_group_that_pods_of_an_owner_name_themselves_is_not_theirs(room: Cluster, operator: StartOperator) -> None:
    """Who owns them decides; another's PodGroup is not touched."""
    operator()
    mine = room.create(objects.pod_group("mine", min_member=5))
    owner = room.create(job("train", 2, least=2))
    pods = [pod["metadata"]["name"] for pod in room.create_all(owned(owner, 0, 2, group="mine"))]
    room.wait_bound(pods)

    def moved() -> bool:
        found = {room.pod(pod)["metadata"]["annotations"][names.POD_GROUP_ANNOTATION] for pod in pods}
        assert found == {f"pg-train-{owner['metadata']['uid']}"}
        return True

    wait_until(moved, "the pods being in the group of their owner")
    assert room.get("PodGroup", "mine")["spec"] == mine["spec"]


def test_an_owner_that_may_not_be_read_counts_as_none(room: Cluster, proxy: Proxy, operator: StartOperator) -> None:
    """Its pods run each by itself, and the operator stays ready: it can do without the right."""
    replica = operator(proxy=proxy)
    refused = proxy.add("GET", "/jobs/", status=403)
    create_job(room, 2, 2)
    refused.wait_hits()
    room.patch("Queue", "team", {"spec": {"resources": {"gpu": {"limit": 1}}}})
    wait_until(lambda: room.bound(), "a pod without the other")
    assert groups_of(room) == []
    assert replica.get("/readyz/scheduling")[0] == 200


def test_an_owner_that_is_not_there_is_told(room: Cluster, operator: StartOperator) -> None:
    operator()
    owner = job("gone", 1)
    owner["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    (pod,) = room.create_all(owned(owner, 0, 1))
    event = room.wait_event("gone-0", names.GROUPER_WARNING)
    assert event["type"] == "Warning"
    assert (
        "Job default/gone with the uid '11111111-2222-3333-4444-555555555555' owns it, but there is none"
        in (event["message"])
    )
    room.create(objects.pod("other"))
    room.wait_bound(["other"])
    assert room.bound().keys() == {"other"}
    assert pod["spec"].get("nodeName") is None


@pytest.mark.parametrize(
    ("kind", "roles", "policy"),
    [
        ("PyTorchJob", {"pytorchReplicaSpecs": ("Master", "Worker")}, {}),
        ("PyTorchJob", {"pytorchReplicaSpecs": ("Master", "Worker")}, {"schedulingPolicy": {"minAvailable": 2}}),
        ("TFJob", {"tfReplicaSpecs": ("Chief", "Worker")}, {}),
        ("XGBoostJob", {"xgbReplicaSpecs": ("Master", "Worker")}, {}),
        ("JAXJob", {"jaxReplicaSpecs": ("Worker",)}, {}),
        ("MPIJob", {"mpiReplicaSpecs": ("Launcher", "Worker")}, {}),
    ],
)
def test_kinds_whose_operator_is_not_here_are_grouped_as_in_simulate(
    room: Cluster, operator: StartOperator, kind: str, roles: dict[str, Sequence[str]], policy: Object
) -> None:
    """Their definitions take anything, and the test makes the pods that their controllers would make."""
    plural = f"{kind.lower()}s"
    room.apply(definition(kind, "kubeflow.org", "v1"))
    room.wait_condition("CustomResourceDefinition", f"{plural}.kubeflow.org", "Established", status="True")
    ((field, names_of_roles),) = roles.items()
    parts = {role: {"replicas": 1 if role != "Worker" else 2, "template": template()} for role in names_of_roles}
    manifest = workload("kubeflow.org/v1", kind, "train", {field: parts, "runPolicy": policy})
    owner = room.request("POST", f"/apis/kubeflow.org/v1/namespaces/default/{plural}", manifest)
    pods = [one for one in simulated([manifest]) if one["kind"] == "Pod"]
    for pod in pods:
        pod["metadata"] |= {"annotations": {}, "namespace": "default"}
        pod["metadata"]["labels"].pop(names.SUB_GROUP_LABEL, None)
        pod["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"]
        pod["metadata"].pop("uid", None)
    operator()
    room.create_all(pods)
    room.wait_bound([pod["metadata"]["name"] for pod in pods])

    def as_simulated() -> bool:
        found, expected = live_groups(room), simulated_groups([manifest])
        assert found == expected, f"{found}\n{expected}"
        return True

    wait_until(as_simulated, f"the groups of {kind} being those of simulate")


def test_kinds_that_a_config_map_tells_of_are_gangs(room: Cluster, operator: StartOperator) -> None:
    """And a change of it holds without a restart."""
    room.apply(definition("Solver", "example.com", "v1"))
    room.wait_condition("CustomResourceDefinition", "solvers.example.com", "Established", status="True")
    args = {"defaultPrioritiesConfigMapName": "kinds", "defaultPrioritiesConfigMapNamespace": "default"}
    config = {"apiVersion": names.CONFIG_VERSION, "kind": "Config", "metadata": {"name": names.CONFIG_NAME}}
    room.create({**config, "spec": {"podGrouper": {"args": args}}})
    rules = [{"kind": "Solver", "group": "example.com", "replicas": "spec.roles[*].replicas"}]
    kinds: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": objects.meta("kinds", "default")}
    room.create({**kinds, "data": {"rules": json.dumps(rules)}})
    operator()

    def create(name: str) -> Object:
        spec = {"roles": [{"replicas": 1}, {"replicas": 2}]}
        marks = {names.QUEUE_LABEL: "team"}
        solver = {"apiVersion": "example.com/v1", "kind": "Solver", "metadata": {"name": name, "labels": marks}}
        made = room.request("POST", "/apis/example.com/v1/namespaces/default/solvers", {**solver, "spec": spec})
        room.create_all(owned(made, 0, 3))
        room.wait_bound([f"{name}-{n}" for n in range(3)])
        return made

    def spec_of(made: Object) -> Object:
        name = f"pg-{made['metadata']['name']}-{made['metadata']['uid']}"
        found = wait_until(lambda: room.find("PodGroup", name), name)
        return dict(found["spec"])

    assert spec_of(create("one")) == {"minMember": 3, "queue": "team", "priorityClassName": "train"}
    types = [{"typeName": "Solver", "group": "example.com", "preemptibility": "Non-Preemptible"}]
    rules[0]["minimum"] = "spec.least"
    room.patch("ConfigMap", "kinds", {"data": {"rules": json.dumps(rules), "types": json.dumps(types)}})
    wait_until(
        lambda: spec_of(create(f"n{len(groups_of(room))}"))["preemptibility"] == "non-preemptible",
        "the new defaults",
    )


def definition(kind: str, group: str, version: str) -> Object:
    """The definition of a kind that takes anything."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [served],
        },
    }


def test_bare_pods_get_groups_where_the_config_says_so(
    room: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    """They are bound as before, and their groups go with them."""
    spec = {"podGrouper": {"args": {"groupBarePods": True}}}
    config = {"apiVersion": names.CONFIG_VERSION, "kind": "Config", "metadata": objects.meta("kai-config")}
    room.create({**config, "spec": spec})
    mark = own_plane.audit.mark()
    operator()
    made = room.create(objects.pod("alone"))
    room.wait_bound(["alone"])
    group = wait_group(room, {**made, "apiVersion": "v1", "kind": "Pod"}, ["alone"])
    assert group["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "alone", "uid": made["metadata"]["uid"]}
    ]
    assert group["spec"] == {"minMember": 1, "queue": "team", "priorityClassName": "train"}
    room.create_all([*objects.gang("gang", 2), objects.pod("later")])
    room.wait_bound(["gang-0", "gang-1", "later"])
    wait_until(lambda: len(groups_of(room)) == 3, "the groups of all")
    assert room.pod("gang-0")["metadata"]["annotations"][names.POD_GROUP_ANNOTATION] == "gang"
    assert_bound_once(room, own_plane.audit, mark, ["alone", "gang-0", "gang-1", "later"])
