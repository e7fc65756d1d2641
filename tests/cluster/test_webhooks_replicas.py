"""The admission webhooks without an operator, and with two: who waits, and who shows which certificate."""

from __future__ import annotations

import base64
import socket
import ssl
from datetime import UTC, datetime, timedelta

from kai_sched.operator import authority, certificate
from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.installed import dry_run, install_webhooks, topology, webhook_configurations
from tests.cluster.processes import free_port, wait_until

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
