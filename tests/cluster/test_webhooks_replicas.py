"""The admission webhooks without an operator, and with two that come and go: who waits, and who shows what."""

from __future__ import annotations

import base64
import json
import signal
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from kai_sched.api import names
from kai_sched.operator.http import authority, certificate
from tests.cluster import objects
from tests.cluster.balancer import Balancer
from tests.cluster.client import STRATEGIC, Object, Refused
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import wait_not_ready
from tests.cluster.installed import (
    JSON_PATCH,
    dry_run,
    install_webhooks,
    topology,
    wait_authorities,
    webhook_configurations,
)
from tests.cluster.operator_process import Operator
from tests.cluster.processes import free_port, wait_until
from tests.cluster.test_faults_api import grant

NAME = authority.service_name(certificate.SERVICE, SYSTEM_NAMESPACE)


def test_without_an_operator_only_what_is_ours_has_to_wait(cluster: Cluster, system_namespace: str) -> None:
    install_webhooks(cluster, free_port())
    refused = "failed calling webhook"
    for content in (objects.pod("ours"), objects.queue("team"), objects.pod_group("gang"), topology("racks", a="b")):
        assert refused in dry_run(cluster, content)
    for scheduler in ("default-scheduler", "other"):
        cluster.create(objects.pod(f"of-{scheduler}", scheduler=scheduler))
        cluster.kubectl("label", "pod", f"of-{scheduler}", "seen=yes")
    cluster.create(objects.pod("of-the-system", namespace=system_namespace))
    assert cluster.add_nodes() == ["node-0"]
    assert cluster.add_namespace("plain") == "plain"


def test_without_an_operator_what_runs_can_be_finished_and_only_changes_that_count_wait(cluster: Cluster) -> None:
    held = {"finalizers": ["example.com/held"]}
    mine = [objects.pod(name, annotations={"note": "a"}) for name in ("runs", "ends")]
    # Many annotations: the conditions must not become too expensive for the API server (40,000 are not, either).
    cluster.create(objects.pod("noted", annotations={f"a{n}": "" for n in range(3_000)}))
    objects_of_ours = [objects.queue("team"), objects.pod_group("gang"), topology("racks", a="b")]
    cluster.create_all([*mine, *objects_of_ours])
    for content in (mine[1], *objects_of_ours):
        cluster.patch(content["kind"], content["metadata"]["name"], {"metadata": held})
    install_webhooks(cluster, free_port())

    def asked_about(kind: str, name: str, change: Object) -> bool:
        try:
            cluster.patch(kind, name, change)
        except Refused as refused:
            if "failed calling webhook" not in refused.message:
                raise
            return True
        return False

    image = {"name": "main", "image": "another"}
    assert cluster.pod("runs")["spec"]["containers"][0]["name"] == "main"
    of_no_concern: list[Object] = [
        {"metadata": {"labels": {"ray.io/serve": "true"}, "annotations": {"note": None, "prometheus.io/port": "1"}}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}], **held}},
        {"metadata": {"finalizers": None, "ownerReferences": None}},
        {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
    ]
    assert [change for change in of_no_concern if asked_about("Pod", "runs", change)] == []
    cluster.patch("Pod", "runs", {"spec": {"containers": [image]}}, how=STRATEGIC)
    cluster.patch("Pod", "runs", {"status": {"phase": "Running"}}, subresource="/status")
    assert not asked_about("Pod", "noted", {"metadata": {"labels": {"seen": "yes"}, "annotations": {"a0": None}}})
    of_concern: list[Object] = [
        {"metadata": {"labels": {names.QUEUE_LABEL: "other"}}},
        {"metadata": {"labels": {names.QUEUE_LABEL: None}}},
        {"metadata": {"labels": {names.APP_LABEL: "kai-resource-reservation"}}},
        {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "train"}}},
        {"metadata": {"annotations": {names.POD_GROUP_ANNOTATION: "gang"}}},
        *({"metadata": {"annotations": {key: "1"}}} for key in sorted(judged_annotations())),
    ]
    assert [change for change in of_concern if not asked_about("Pod", "runs", change)] == []
    for content in objects_of_ours:
        kind, name = content["kind"], content["metadata"]["name"]
        assert not asked_about(kind, name, {"metadata": {"labels": {names.QUEUE_LABEL: "x"}}})
        if kind != "Topology":
            cluster.patch(kind, name, {"status": {}}, subresource="/status")
    assert asked_about("Queue", "team", {"spec": {"displayName": "x"}})
    assert asked_about("PodGroup", "gang", {"spec": {"minMember": 2}})
    assert asked_about("Topology", "racks", {"spec": {"levels": [{"nodeLabel": "a", "alias": "c"}]}})
    # What leaves is let go.
    for content in (mine[1], *objects_of_ours):
        kind, name = content["kind"], content["metadata"]["name"]
        cluster.delete(kind, name, grace_s=0)
        assert cluster.get(kind, name)["metadata"]["deletionTimestamp"]
        if kind == "Pod":  # it has its devices until it is gone
            assert asked_about(kind, name, {"metadata": {"labels": {names.GPU_GROUP_LABEL: "other"}}})
        assert not asked_about(kind, name, {"metadata": {"finalizers": None, "labels": {names.QUEUE_LABEL: "y"}}})
        assert cluster.find(kind, name) is None
    cluster.delete("Pod", "runs", grace_s=0)
    assert "failed calling webhook" in dry_run(cluster, objects.pod("runs"))


def judged_annotations() -> set[str]:
    """The annotations that decide what is said about a pod."""
    return {
        names.GPU_FRACTION_ANNOTATION,
        names.GPU_MEMORY_ANNOTATION,
        names.GPU_DEVICES_ANNOTATION,
        names.GPU_CONTAINER_ANNOTATION,
        names.MPS_ANNOTATION,
        names.SHARED_GPU_CONFIG_MAP_ANNOTATION,
        f"{names.CONTAINER_PREFIX}main.gpu-memory.request",
    }


@pytest.mark.alone
def test_configurations_that_are_new_are_trusted_within_seconds(cluster: Cluster, operator: StartOperator) -> None:
    one = operator(webhooks=True, shutdown_delay_s=20.0)
    assert one.webhook_port
    trusted = base64.b64decode(wait_authorities(cluster))
    for _ in range(2):  # the second time they are replaced faster than anybody polls
        for configuration in webhook_configurations(one.webhook_port):
            cluster.delete(configuration["kind"], configuration["metadata"]["name"])
            cluster.create(configuration)
        began = time.monotonic()
        wait_until(lambda: bundles(cluster) == {trusted}, "the webhooks being trusted", 3.0)
        assert time.monotonic() - began <= 3.0
    assert dry_run(cluster, objects.queue("team")) == ""
    cluster.patch("MutatingWebhookConfiguration", certificate.MUTATING[0], other_scheduler(), how=JSON_PATCH)
    wait_until(lambda: one.logs("webhooks.other_scheduler"), "the log telling of another scheduler's name")
    end_twice(one)


def end_twice(replica: Operator) -> None:
    """Tell it to end, and once more while it still serves webhooks, for which it has 20 s."""
    replica.process.signal(signal.SIGTERM)
    wait_until(lambda: replica.logs("webhooks.leaving"), "the webhooks being served on")
    assert replica.get("/readyz")[0] == 503
    replica.process.signal(signal.SIGTERM)
    assert replica.process.wait(10.0) == 0


def other_scheduler() -> list[Object]:
    """A patch by which pods of another scheduler are asked about."""
    expression = "object.spec.schedulerName == 'another'"
    return [{"op": "replace", "path": "/webhooks/0/matchConditions/0/expression", "value": expression}]


def waits_for(replica: Operator) -> set[str]:
    """The checks of /readyz that fail."""
    return {name for name, text in json.loads(replica.get("/readyz")[1])["checks"].items() if text}


def test_webhooks_are_served_while_scheduling_waits(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    """A right or a definition that is missing must not make the cluster refuse pods, unless it is the one on the
    settings, by which they are reviewed; and it may come later.
    """
    missing = ("queues.scheduling.run.ai", "podgroups.scheduling.run.ai")
    for name in missing:
        cluster.delete("CustomResourceDefinition", name)
    left = lambda: {crd["metadata"]["name"] for crd in cluster.list("CustomResourceDefinition")}  # noqa: E731
    wait_until(lambda: not left() & {*missing}, "the definitions being gone")
    grant(cluster, "configs", "list")
    login = own_plane.kubeconfig("scheduler", token=own_plane.service_account_token(SYSTEM_NAMESPACE, "scheduler"))
    how = {"kubeconfig": login, "entry": ("tests.cluster.altered", "hasty", "3")}
    one, two = [operator(webhooks=True, shutdown_delay_s=20.0, ready=False, **how) for _ in range(2)]
    for replica in (one, two):
        wait_not_ready(replica, "settings", "403", "configs")
        wait_until(lambda replica=replica: waits_for(replica) == {"settings"}, "/readyz: the settings alone", 20.0)
    end_twice(two)
    grant(cluster)
    wait_not_ready(one, "queues", "404", "install the custom resource definitions")
    wait_until(lambda: one.get("/readyz")[0] == 200, "/readyz: 200", 20.0)
    status, text = one.get("/readyz/scheduling")
    assert (status, json.loads(text)["ready"]) == (503, False)
    assert one.webhook_port
    cluster.create_all(webhook_configurations(one.webhook_port, wait_authorities(cluster)))
    fraction = objects.pod("part", annotations={names.GPU_FRACTION_ANNOTATION: "0.5"}, gpus=0)
    wait_until(lambda: "sharing" in dry_run(cluster, fraction), "the webhook's answer")
    cluster.create(objects.pod("good"))
    cluster.add_crds()
    cluster.add_nodes()
    cluster.add_queues("team")
    cluster.wait_bound(["good"])
    one.wait_ready(30.0)
    end_twice(one)


RATE = 200  # pods a second
CALLERS = 8
LAG_S = 1.0  # for which requests still go to a replica that was told to end


class Load:
    """Creates pods of ours at a steady rate, without keeping them, and takes down what is refused."""

    def __init__(self, cluster: Cluster) -> None:
        self.refused: list[str] = []
        self.created = 0
        self._cluster = cluster
        self._stop = threading.Event()
        self._callers = [threading.Thread(target=self._call, args=(n,)) for n in range(CALLERS)]

    def __enter__(self) -> Load:
        self.began = time.monotonic()
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for caller in self._callers:
            caller.join(30.0)
        self.seconds = time.monotonic() - self.began

    def _call(self, caller: int) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + CALLERS / RATE, time.monotonic() - 1.0)
            if said := dry_run(self._cluster, objects.pod(f"pod-{caller}")):
                self.refused.append(said)
            else:
                self.created += 1


@pytest.mark.alone
def test_no_pod_is_refused_while_replicas_are_replaced(cluster: Cluster, operator: StartOperator) -> None:
    every = [operator(webhooks=True, shutdown_delay_s=2.5, ready=False) for _ in range(4)]
    for replica in every:
        replica.wait_ready()
    old, new = every[:2], every[2:]
    with Balancer() as service:
        service.use(replica.webhook_port for replica in old)
        install_webhooks(cluster, service.port, wait_authorities(cluster))
        replicas = list(old)
        with Load(cluster) as load:
            for ends, comes in zip(old, new, strict=True):
                assert comes.get("/readyz")[0] == 200
                replicas.append(comes)
                service.use(replica.webhook_port for replica in replicas)
                ends.process.signal(signal.SIGTERM)
                wait_until(lambda replica=ends: replica.get("/readyz")[0] == 503, "/readyz: 503", 1.0, poll_s=0.02)
                time.sleep(LAG_S)
                replicas.remove(ends)
                service.use(replica.webhook_port for replica in replicas)
                assert ends.process.wait(20.0) == 0
        assert load.refused == []
        print(f"{load.created / load.seconds:.0f} pods a second for {load.seconds:.1f} s")
        assert load.created >= 20 * load.seconds
        for replica in replicas:
            replica.kill()


def shown(port: int, authorities: bytes) -> bytes | None:
    """The certificate that a replica shows to one who trusts these authorities and asks for the webhooks' service."""
    context = ssl.create_default_context(cadata=authorities.decode())
    plain = socket.create_connection(("127.0.0.1", port), 10.0)
    with context.wrap_socket(plain, server_hostname=NAME) as secured:
        return secured.getpeercert(binary_form=True)


def bundles(cluster: Cluster) -> set[bytes]:
    """The different caBundles of all webhooks."""
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    hooks = [hook for kind in kinds for configuration in cluster.list(kind) for hook in configuration["webhooks"]]
    assert len(hooks) == 5
    return {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}


def test_two_replicas_renew_one_certificate_and_both_show_it(
    cluster: Cluster, operator: StartOperator, system_namespace: str
) -> None:
    def secret() -> dict[str, bytes]:
        data = cluster.get("Secret", certificate.SECRET, system_namespace)["data"]
        return {field: base64.b64decode(value) for field, value in data.items()}

    due = authority.issue(NAME, datetime.now(UTC) - authority.RENEW_AFTER - timedelta(days=1))
    fields = {"tls.crt": due.certificate, "tls.key": due.key, "ca.crt": due.authorities}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": objects.meta(certificate.SECRET, system_namespace),
            "type": "kubernetes.io/tls",
            "data": {field: base64.b64encode(value).decode() for field, value in fields.items()},
        }
    )
    first = operator(webhooks=True, ready=False)
    second = operator(webhooks=True, ready=False)
    assert first.webhook_port
    assert second.webhook_port
    cluster.create_all(webhook_configurations(first.webhook_port))
    first.wait_ready()
    second.wait_ready()
    renewed = secret()
    assert renewed["tls.crt"] != due.certificate
    # Who still shows the old one is trusted on.
    assert due.authorities in renewed["ca.crt"]
    assert renewed["ca.crt"] != due.authorities
    wait_until(lambda: bundles(cluster) == {renewed["ca.crt"]}, "the webhooks being trusted", 100.0)
    new = ssl.PEM_cert_to_DER_cert(renewed["tls.crt"].decode())
    ports = (first.webhook_port, second.webhook_port)
    wait_until(lambda: {shown(port, renewed["ca.crt"]) for port in ports} == {new}, "both showing the new certificate")
    # The API server agrees, whichever of them it reaches.
    cluster.create(objects.queue("team"))
    assert first.terminate() == 0
    for configuration in webhook_configurations(second.webhook_port):
        hooks = [{"name": hook["name"], "clientConfig": hook["clientConfig"]} for hook in configuration["webhooks"]]
        cluster.patch(
            configuration["kind"],
            configuration["metadata"]["name"],
            {"webhooks": hooks},
            how="application/strategic-merge-patch+json",
        )
    wait_until(lambda: not dry_run(cluster, objects.queue("other")), "the other replica being asked")
