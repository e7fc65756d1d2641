"""What manifests/ installs, as the tests need it: with webhooks that are called on loopback."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from kai_sched.api import names
from kai_sched.operator.http import certificate
from tests.cluster import objects
from tests.cluster.client import KINDS, STRATEGIC, Client, Object, Refused, collection
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE
from tests.cluster.processes import wait_until
from tests.tree import ROOT

MANIFESTS = ROOT / "manifests"
JSON_PATCH = "application/json-patch+json"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

BARE_QUEUE: Object = {"apiVersion": names.QUEUE_VERSION, "kind": "Queue", "metadata": {"name": "bare"}, "spec": {}}


def webhook_configurations(port: int, authorities: str | None = None) -> list[Object]:
    """Those of the manifests, but with a URL on loopback for the service; ``authorities`` is a caBundle."""
    found: list[Object] = list(yaml.safe_load_all((MANIFESTS / "webhooks.yaml").read_text()))
    for configuration in found:
        for hook in configuration["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}"}
            if authorities is not None:
                hook["clientConfig"]["caBundle"] = authorities
    return found


def call_on_loopback(cluster: Cluster, port: int) -> None:
    """Have the installed webhooks called at this port; who signs for them is the operator's business."""
    for configuration in webhook_configurations(port):
        hooks = [
            {"name": hook["name"], "clientConfig": {"service": None, "url": hook["clientConfig"]["url"]}}
            for hook in configuration["webhooks"]
        ]
        name = configuration["metadata"]["name"]
        cluster.patch(configuration["kind"], name, {"webhooks": hooks}, how=STRATEGIC)


def wait_authorities(cluster: Cluster) -> str:
    """Wait for the certificate in its Secret, and return who signed it, as a caBundle."""

    def read() -> Any:
        secret = cluster.find("Secret", certificate.SECRET, SYSTEM_NAMESPACE)
        return secret and secret["data"]["ca.crt"]

    bundle = str(wait_until(read, "the certificate's Secret"))
    assert b"BEGIN CERTIFICATE" in base64.b64decode(bundle)
    return bundle


def dry_run(client: Client, content: Object) -> str:
    """What the API server says against creating it; empty where nothing. Nothing is created."""
    meta = content["metadata"]
    try:
        client.request("POST", collection(content["kind"], meta.get("namespace", "default")) + "?dryRun=All", content)
    except Refused as refused:
        return refused.message
    return ""


def install_webhooks(cluster: Cluster, port: int, authorities: str | None = None) -> None:
    """Install the webhook configurations and wait until the API server goes by them."""
    asked = [
        (BARE_QUEUE, "queue-validation.kai.scheduler"),
        (objects.pod_group("probe", min_member=0, subGroups=[{"name": "a"}]), "podgroup-validation.kai.scheduler"),
        (objects.pod("probe", annotations={names.GPU_FRACTION_ANNOTATION: "0.5"}, gpus=0), "admission.kai-scheduler"),
    ]
    cluster.create_all(webhook_configurations(port, authorities))

    def goes_by_them() -> bool:
        for content, hook in asked:
            said = dry_run(cluster, content)
            assert hook in said, f"{hook}: {said}"
        return True

    wait_until(goes_by_them, "the webhooks being asked")


def topology(name: str, **aliases: str) -> Object:
    """A topology with these node labels and their aliases."""
    levels = [{"nodeLabel": label, "alias": alias} for label, alias in aliases.items()]
    return {
        "apiVersion": names.TOPOLOGY_VERSION,
        "kind": "Topology",
        "metadata": objects.meta(name),
        "spec": {"levels": levels},
    }


@contextmanager
def lenient(cluster: Cluster, *refused: Object) -> Iterator[None]:
    """For a while the API server takes every specification of the kinds of these objects, which it refuses else."""
    names_of = [f"{KINDS[content['kind']][1]}.{content['apiVersion'].partition('/')[0]}" for content in refused]
    before = {name: cluster.get("CustomResourceDefinition", name)["spec"] for name in names_of}
    path = "/spec/versions/0/schema/openAPIV3Schema"
    for name, spec in before.items():
        change: list[Object] = [{"op": "replace", "path": f"{path}/properties/spec", "value": ANYTHING}]
        if "x-kubernetes-validations" in spec["versions"][0]["schema"]["openAPIV3Schema"]:
            change.append({"op": "remove", "path": f"{path}/x-kubernetes-validations"})
        cluster.patch("CustomResourceDefinition", name, change, how=JSON_PATCH)
    wait_until(lambda: not any(dry_run(cluster, content) for content in refused), "the API server taking anything")
    yield
    for name, spec in before.items():
        change = [{"op": "replace", "path": "/spec", "value": spec}]
        cluster.patch("CustomResourceDefinition", name, change, how=JSON_PATCH)
    wait_until(lambda: all(dry_run(cluster, content) for content in refused), "the API server being strict again")
