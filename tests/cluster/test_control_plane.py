"""The pieces that the cluster tests stand on do what they say."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import aiohttp
import pytest
import urllib3

from tests.cluster import objects
from tests.cluster.client import Client, Refused
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Plane
from tests.cluster.control_plane import ADMIN, ControlPlane
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy
from tests.tree import ROOT


@pytest.fixture
def through(proxy: Proxy, cluster: Cluster) -> Client:
    """The administrator behind the proxy."""
    return Client(proxy.url, cluster.token, None)


def running(cluster: Cluster, name: str) -> bool:
    return bool(cluster.pod(name)["status"].get("phase") == "Running")


def test_a_pod_that_is_bound_runs(cluster: Cluster) -> None:
    assert cluster.add_nodes(2, gpus=4) == ["node-0", "node-1"]
    assert cluster.get("Node", "node-0")["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert "taints" not in cluster.get("Node", "node-0")["spec"]
    pod = cluster.create(objects.pod("first"))
    cluster.bind(pod, "node-1")
    wait_until(lambda: running(cluster, "first"), "the pod running")
    assert cluster.wait_bound(["first"]) == {"first": "node-1"}


def test_every_test_begins_with_an_empty_cluster(cluster: Cluster) -> None:
    assert [cluster.list(kind) for kind in ("Pod", "Node", "Queue", "PodGroup")] == [[], [], [], []]


def test_the_clean_up_leaves_nothing_even_if_held(cluster: Cluster) -> None:
    keep = cluster.everything()
    cluster.add_namespace("other")
    cluster.add_queues("team")
    held = objects.pod("held", namespace="other")
    held["metadata"]["finalizers"] = ["example.com/held"]
    gang = objects.gang("gang", 120, namespace="other")
    cluster.create_all([held, *gang])
    cluster.delete("Pod", "held", "other")
    cluster.delete("CustomResourceDefinition", "topologies.kai.scheduler")
    assert ("Pod", "other", "held") in cluster.everything()
    cluster.clear(keep)
    assert cluster.everything() - keep == set()
    assert [item["metadata"]["name"] for item in cluster.list("Namespace") if item["metadata"]["name"] == "other"] == []


def test_crds_are_established(cluster: Cluster) -> None:
    crds = {crd["metadata"]["name"]: crd for crd in cluster.list("CustomResourceDefinition")}
    assert crds.keys() == {path.stem for path in (ROOT / "crds").glob("*.*.yaml")}
    assert cluster.wait_condition("CustomResourceDefinition", "queues.scheduling.run.ai", "Established", status="True")


def test_kubectl_applies_and_prints(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", input='{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "seen"}}')
    assert "seen" in cluster.kubectl("get", "namespaces")
    assert "not found" in cluster.kubectl("get", "namespace", "absent", check=False)
    with pytest.raises(AssertionError, match="not found"):
        cluster.kubectl("get", "namespace", "absent")


def test_the_audit_log_tells_who_bound_what_when(cluster: Cluster, own_plane: ControlPlane) -> None:
    cluster.add_nodes(1)
    pod = cluster.create(objects.pod("seen"))
    mark, before_s = own_plane.audit.mark(), time.time()
    cluster.bind(pod, "node-0")
    with pytest.raises(Refused, match="409"):
        cluster.bind(pod, "node-0")
    tried = own_plane.audit.since(mark, ADMIN, "pods/binding")
    assert [(r.verb, r.name, r.namespace, r.status) for r in tried] == [
        ("create", "seen", "default", 201),
        ("create", "seen", "default", 409),
    ]
    assert own_plane.audit.bindings(mark) == tried[:1]
    assert before_s - 1 < tried[0].received_s <= tried[0].answered_s < time.time() + 1


def test_the_api_server_restarts_with_its_data(cluster: Cluster, own_plane: ControlPlane) -> None:
    cluster.add_nodes(1)
    before = cluster.create(objects.pod("kept"))["metadata"]["uid"]
    own_plane.restart_apiserver()
    pod = cluster.pod("kept")
    assert pod["metadata"]["uid"] == before
    cluster.bind(pod, "node-0")  # kwok is back on its watch as well
    wait_until(lambda: running(cluster, "kept"), "the pod running", 60)


def test_what_was_compacted_is_gone_after_a_restart(cluster: Cluster, own_plane: ControlPlane) -> None:
    version = cluster.create(objects.pod("old"))["metadata"]["resourceVersion"]
    cluster.patch("Pod", "old", {"metadata": {"labels": {"touched": "yes"}}})
    assert own_plane.compact() >= int(version)
    own_plane.restart_apiserver(kill=True)
    watch = cluster.request("GET", f"/api/v1/pods?watch=1&timeoutSeconds=5&resourceVersion={version}")
    assert watch["object"]["code"] == 410


def test_a_new_token_counts_from_the_restart(own_plane: ControlPlane) -> None:
    own_plane.write_tokens({"visitor": ["system:masters"]})
    first = Client(own_plane.server, own_plane.token("visitor"), own_plane.authority)
    with pytest.raises(Refused, match="401"):
        first.list("Node")
    own_plane.restart_apiserver()
    assert first.list("Node") == []
    own_plane.write_tokens({"visitor": []})
    own_plane.restart_apiserver()
    with pytest.raises(Refused, match="401"):
        first.list("Node")


def test_the_controller_manager_makes_service_accounts(cluster: Cluster, controller_manager: ControlPlane) -> None:
    assert "kube-controller-manager" in controller_manager.processes
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "served"}})
    account: Any = wait_until(lambda: cluster.find("ServiceAccount", "default", "served"), "a ServiceAccount")
    assert account["metadata"]["namespace"] == "served"


def test_a_service_account_s_token_has_its_rights_only(cluster: Cluster, plane: Plane) -> None:
    token = plane.service_account_token("default", "default")
    kubeconfig = plane.kubeconfig("guest", token=token)
    assert oct(os.stat(kubeconfig).st_mode & 0o777) == "0o600"
    guest = Cluster(plane.server, token, plane.authority, kubeconfig)
    assert guest.kubectl("auth", "can-i", "list", "pods", check=False).startswith("no")
    assert cluster.kubectl("auth", "can-i", "list", "pods").startswith("yes")


def test_the_proxy_passes_on(through: Client, cluster: Cluster) -> None:
    assert through.create(objects.pod("passed"))["metadata"]["name"] == "passed"
    assert cluster.pod("passed") == through.get("Pod", "passed")
    with pytest.raises(Refused, match="404"):
        through.get("Pod", "absent")


def test_the_proxy_answers_by_itself(proxy: Proxy, through: Client) -> None:
    with proxy.rule("GET", "/nodes", status=429, retry_after_s=7, let_pass=1, times=1) as rule:
        assert through.list("Node") == []
        answer = urllib3.request("GET", proxy.url + "/api/v1/nodes", retries=False)
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert answer.json()["reason"] == "TooManyRequests"
        assert through.list("Node") == []
        assert through.list("Pod") == []
        assert (rule.seen, rule.hits) == (3, 1)
    proxy.add("PATCH|PUT", status=403, every=2)
    assert through.apply(objects.queue("one"))["metadata"]["name"] == "one"
    with pytest.raises(Refused, match="403"):
        through.apply(objects.queue("two"))


def test_the_proxy_cuts_before_and_after(proxy: Proxy, through: Client, cluster: Cluster) -> None:
    for after, name in ((False, "never"), (True, "made")):
        with proxy.rule("POST", "/pods", cut=True, after=after), pytest.raises(urllib3.exceptions.HTTPError):
            through.create(objects.pod(name))
    assert cluster.find("Pod", "never") is None
    assert cluster.find("Pod", "made") is not None


def test_the_proxy_delays_and_holds(proxy: Proxy, through: Client, cluster: Cluster) -> None:
    with proxy.rule("GET", "/nodes", delay_s=0.5):
        started = time.monotonic()
        through.list("Node")
        assert time.monotonic() - started >= 0.5
    rule = proxy.add("POST", "/pods", hold=True)
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("POST", proxy.url + "/api/v1/namespaces/default/pods", body="{}", timeout=0.3, retries=False)
    rule.wait_hits(1)
    proxy.remove(rule)
    assert through.create(objects.pod("released"))["metadata"]["name"] == "released"
    assert len(cluster.list("Pod")) == 1


async def test_the_proxy_streams_stalls_and_cuts_watches(proxy: Proxy, through: Client, cluster: Cluster) -> None:
    path = f"{proxy.url}/api/v1/pods?watch=1&timeoutSeconds=60"
    headers = {"Authorization": f"Bearer {through.token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.get(path) as watch:
            cluster.create(objects.pod("seen"))
            assert b'"ADDED"' in await asyncio.wait_for(watch.content.readline(), 30)
            with proxy.rule("GET", "/pods.*watch=1", stall=True) as stall:
                cluster.create(objects.pod("hidden"))
                stall.wait_hits(1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(watch.content.readline(), 0.5)
        async with session.get(path) as watch:
            assert b'"ADDED"' in await asyncio.wait_for(watch.content.readline(), 30)
            assert proxy.cut_streams("/pods") >= 1
            with pytest.raises(aiohttp.ClientError):
                await asyncio.wait_for(watch.content.read(), 30)
