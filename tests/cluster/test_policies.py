"""What the admission policies of manifests/ keep from whoever has a token of the scheduler or of a reservation pod."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kai_sched.api import names
from kai_sched.operator.http import authority
from tests.cluster import claims, objects, sharing
from tests.cluster.client import Client, Object, Refused, collection
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SERVICE_ACCOUNT, SYSTEM_NAMESPACE
from tests.cluster.control_plane import ControlPlane
from tests.cluster.installed import MANIFESTS, dry_run, webhook_configurations
from tests.cluster.processes import wait_until

SHARING = MANIFESTS / "components" / "gpu-sharing"
RESERVATIONS = "kai-resource-reservation"
MARKED = {"metadata": {"labels": {names.SHARED_GPU_LABEL: "true"}}}
REPORT = {"metadata": {"annotations": {names.RESERVED_DEVICE_ANNOTATION: "GPU-1"}}}
HOOKS, VALIDATING = "ValidatingWebhookConfiguration", "validating-kai-admission"
DRY = "?dryRun=All"
DEADLINE = {"spec": {"activeDeadlineSeconds": 1}}


def said(client: Client, kind: str, name: str, body: Object, namespace: str = "default", part: str = "") -> str:
    """What the API server says against the patch; empty where it takes it."""
    try:
        client.patch(kind, name, body, namespace, subresource=part, how="application/strategic-merge-patch+json")
    except Refused as refused:
        return refused.message
    return ""


def bundle() -> str:
    """A certificate of an authority, as a caBundle."""
    pair = authority.issue("kai-sched-webhook.kai-scheduler.svc", datetime.now(UTC))
    return base64.b64encode(pair.authorities).decode()


def config_map(name: str, namespace: str = "default", **meta: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": objects.meta(name, namespace, **meta), "data": {}}


@pytest.fixture
def guarded(cluster: Cluster, own_plane: ControlPlane) -> Iterator[Cluster]:
    """A cluster with the rights and policies of manifests/ and of GPU sharing, in force."""
    files = [MANIFESTS / name for name in ("namespace.yaml", "rbac.yaml", "policies.yaml")]
    files += [SHARING / name for name in ("namespace.yaml", "rbac.yaml", "policies.yaml")]
    cluster.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", str(file))))
    cluster.create(objects.pod("p", queue=None))
    one = cluster.create(sharing.reservation("one"))
    cluster.create(config_map("foreign"))
    scheduler, reservation = scheduler_of(cluster, own_plane), reservation_of(cluster, own_plane, one)

    def in_force() -> bool:
        answers = [
            said(scheduler, "Pod", "p", DEADLINE, part=DRY),
            said(scheduler, "Pod", "p", {"status": {"phase": "Succeeded"}}, part=f"/status{DRY}"),
            said(scheduler, "ConfigMap", "foreign", {"data": {"a": "b"}}, part=DRY),
            said(reservation, "Pod", "one", MARKED, RESERVATIONS, part=DRY),
        ]
        assert all("denied request" in answer for answer in answers), answers
        return True

    wait_until(in_force, "the policies being in force")  # the API server compiles them first
    return cluster


def reservation_of(cluster: Cluster, plane: ControlPlane, pod: Object | None) -> Client:
    """Who has the token of the reservation pod; without a pod a token that is of no pod."""
    token = plane.service_account_token(RESERVATIONS, RESERVATIONS, pod)
    return Client(cluster.server, token, plane.authority)


def scheduler_of(cluster: Cluster, plane: ControlPlane) -> Client:
    token = plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
    return Client(cluster.server, token, plane.authority)


def test_the_scheduler_writes_labels_annotations_and_conditions_of_pods(
    guarded: Cluster, own_plane: ControlPlane
) -> None:
    scheduler = scheduler_of(guarded, own_plane)
    marks = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    assert said(scheduler, "Pod", "p", marks) == ""
    assert said(scheduler, "Pod", "p", {"status": {"conditions": [condition]}}, part="/status") == ""
    container = guarded.pod("p")["spec"]["containers"][0]["name"]
    for body in (
        {"spec": {"containers": [{"name": container, "image": "evil"}]}},
        DEADLINE,
        {"metadata": {"finalizers": ["example.com/kept"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}},
    ):
        assert "may change the labels and annotations of pods" in said(scheduler, "Pod", "p", body)
    for status in (
        {"phase": "Succeeded"},
        {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
        {"reason": "Evicted", "message": "m"},
    ):
        assert "may change conditions" in said(scheduler, "Pod", "p", {"status": status}, part="/status")
    # Others are not concerned.
    assert said(guarded, "Pod", "p", {"spec": {"containers": [{"name": container, "image": "new"}]}}) == ""


def test_the_scheduler_writes_only_config_maps_that_tell_pods_their_devices(
    guarded: Cluster, own_plane: ControlPlane
) -> None:
    guarded.add_namespace("kube-system")
    guarded.create(config_map("coredns", "kube-system"))
    scheduler, pod = scheduler_of(guarded, own_plane), guarded.pod("p")["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["uid"]}
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "db", "uid": "u"}
    marks = {names.SHARED_GPU_LABEL: "true"}
    scheduler.create(config_map("own", labels=marks, ownerReferences=[owner]))
    assert said(scheduler, "ConfigMap", "own", {"data": {"a": "b"}}) == ""
    refused = "may write ConfigMaps with the label|belongs to one pod"
    for name, meta in (
        ("unmarked", {"ownerReferences": [owner]}),
        ("ownerless", {"labels": marks}),
        ("of-others", {"labels": marks, "ownerReferences": [other]}),
    ):
        with pytest.raises(Refused, match=refused):
            scheduler.create(config_map(name, **meta))
        guarded.create(config_map(name, **meta))
    for name, namespace in (("coredns", "kube-system"), ("unmarked", "default"), ("of-others", "default")):
        taken = {"metadata": {"labels": marks, "ownerReferences": [owner]}, "data": {"a": "b"}}
        for body in ({"data": {"Corefile": "evil"}}, MARKED, taken):
            assert "may write ConfigMaps with the label" in said(scheduler, "ConfigMap", name, body, namespace), name
    assert said(guarded, "ConfigMap", "coredns", {"data": {"a": "b"}}, "kube-system") == ""
    # One of an earlier attempt, whose pod is gone, is written again.
    assert said(scheduler, "ConfigMap", "ownerless", {"metadata": {"ownerReferences": [owner]}}) == ""


def test_the_scheduler_writes_who_signs_for_its_webhooks(guarded: Cluster, own_plane: ControlPlane) -> None:
    scheduler = scheduler_of(guarded, own_plane)
    for configuration in webhook_configurations(1):
        guarded.create(configuration)
    marks = {"metadata": {"labels": {"a": "b"}}}
    wait_until(lambda: said(scheduler, HOOKS, VALIDATING, marks, part=DRY), "the policy being in force")
    for kind, name in ((HOOKS, VALIDATING), ("MutatingWebhookConfiguration", "mutating-kai-admission")):
        (hook, *_) = guarded.get(kind, name)["webhooks"]
        signed = {"url": hook["clientConfig"]["url"], "caBundle": bundle()}

        def change(**fields: Any) -> Object:
            return {"webhooks": [{"name": hook["name"]} | fields]}  # noqa: B023 -- called in its own turn

        assert said(scheduler, kind, name, change(clientConfig=signed)) == ""
        assert guarded.get(kind, name)["webhooks"][0]["clientConfig"] == signed
        for body in (
            change(clientConfig={"url": "https://evil.example"}),
            change(failurePolicy="Ignore"),
            change(matchConditions=[{"name": "never", "expression": "false"}]),
            change(namespaceSelector={"matchLabels": {"a": "b"}}),
            change(rules=[]),
            {"webhooks": [hook | {"name": "more.example.com"}]},
            {"webhooks": [{"name": hook["name"], "$patch": "delete"}]},
            marks,
        ):
            assert "may change the caBundle" in said(scheduler, kind, name, body), body


def test_a_reservation_pod_writes_one_annotation_of_its_own(guarded: Cluster, own_plane: ControlPlane) -> None:
    guarded.create(sharing.reservation("two"))
    bound = reservation_of(guarded, own_plane, guarded.pod("one", RESERVATIONS))
    unbound = reservation_of(guarded, own_plane, None)
    assert said(bound, "Pod", "one", REPORT, RESERVATIONS) == ""
    assert "may change itself" in said(bound, "Pod", "two", REPORT, RESERVATIONS)
    assert "may change itself" in said(unbound, "Pod", "one", REPORT, RESERVATIONS)
    for body in (
        {"spec": {"containers": [{"name": "resource-reservation", "image": "evil"}]}},
        {"metadata": {"annotations": {"other": "x"}}},
        {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}},
        {"metadata": {"labels": {names.GPU_GROUP_LABEL: "others"}}},
        {"metadata": {"labels": {"app": None}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
    ):
        assert "annotation run.ai/reserve_for_gpu_index" in said(bound, "Pod", "one", body, RESERVATIONS), body


def test_only_restricted_pods_run_beside_the_scheduler_and_reservation_pods(guarded: Cluster) -> None:
    for namespace, account in ((RESERVATIONS, RESERVATIONS), (SYSTEM_NAMESPACE, SERVICE_ACCOUNT)):
        root = objects.pod("root", queue=None, namespace=namespace, serviceAccountName=account)
        with pytest.raises(Refused, match='violates PodSecurity "restricted'):
            guarded.request("POST", collection("Pod", namespace), root)
    assert guarded.find("Pod", "one", RESERVATIONS)


def test_the_scheduler_leaves_the_pods_of_others_alone(guarded: Cluster, own_plane: ControlPlane) -> None:
    scheduler = scheduler_of(guarded, own_plane)
    guarded.create(objects.pod("other", queue=None, schedulerName="default-scheduler"))
    refused = "may change and delete pods that name it as their scheduler"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}

    def in_force() -> bool:
        assert refused in said(scheduler, "Pod", "other", {"metadata": {"labels": {"a": "b"}}}, part=DRY)
        return True

    wait_until(in_force, "the policy being in force")
    assert refused in said(scheduler, "Pod", "other", {"status": {"conditions": [condition]}}, part="/status")
    with pytest.raises(Refused, match=refused):
        scheduler.delete("Pod", "other")
    # Its own, and those that it makes itself.
    scheduler.delete("Pod", "p")
    scheduler.delete("Pod", "one", RESERVATIONS)


def test_the_scheduler_creates_only_what_it_needs(guarded: Cluster, own_plane: ControlPlane) -> None:
    scheduler = scheduler_of(guarded, own_plane)
    pair = {"tls.crt": bundle(), "tls.key": bundle()}

    def secret(name: str, kind: str = "kubernetes.io/tls") -> Object:
        meta = objects.meta(name, SYSTEM_NAMESPACE)
        return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind, "data": pair}

    def refused(content: Object, why: str) -> bool:
        said = dry_run(scheduler, content)
        assert why in said, f"{content['kind']}: {said}"
        return True

    wait_until(lambda: refused(secret("a"), "may write the Secret kai-sched-webhook-tls"), "the policy being in force")
    refused(secret("kai-sched-webhook-tls", "Opaque"), "may write the Secret")
    wait_until(lambda: refused(objects.queue("mine"), "may create the default queues"), "that of queues")
    wait_until(lambda: refused(claims.claim("mine"), "claims for extended resources"), "that of claims")
    scheduler.create(secret("kai-sched-webhook-tls"))
    scheduler.create(objects.queue("default-queue"))
    guarded.create(claims.claim("theirs"))
    with pytest.raises(Refused, match="claims for extended resources"):
        scheduler.delete("ResourceClaim", "theirs")
