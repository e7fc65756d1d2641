"""The page of a running operator: who gets it by the rights of a real API server, and that it follows the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import free_port, wait_until
from tests.tree import ROOT

RBAC = ROOT / "manifests" / "components" / "page" / "rbac.yaml"
VIEWER = "kai-scheduler-page-viewer"


@pytest.fixture
def rights(own_plane: ControlPlane, cluster: Cluster, system_namespace: str) -> Path:
    """The operator's login, with the roles of the manifests and the component, and no other right."""
    assert system_namespace == SYSTEM_NAMESPACE
    cluster.kubectl("apply", "-f", str(ROOT / "manifests" / "rbac.yaml"))
    cluster.kubectl("apply", "-f", str(RBAC))
    token = own_plane.service_account_token(SYSTEM_NAMESPACE, "scheduler")
    return own_plane.kubeconfig("page", token=token)


def get(port: int, path: str = "/page", token: str = "", **options: Any) -> urllib3.BaseHTTPResponse:
    """The answer of the page."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return urllib3.request("GET", f"http://127.0.0.1:{port}{path}", headers=headers, retries=False, **options)


def account(cluster: Cluster, plane: ControlPlane, name: str) -> str:
    """The token of a new ServiceAccount without rights."""
    cluster.kubectl("create", "serviceaccount", name)
    return plane.service_account_token("default", name)


def page_with(port: int, token: str, *texts: str) -> str:
    """The page, once it has all these texts."""

    def there() -> str:
        answer = get(port, token=token)
        assert answer.status == 200, answer.data.decode()
        assert [text for text in texts if text not in answer.data.decode()] == []
        return answer.data.decode()

    return wait_until(there, f"a page with {texts}", 60.0)


def test_the_page_is_for_those_with_the_right(
    cluster: Cluster, own_plane: ControlPlane, rights: Path, operator: StartOperator
) -> None:
    cluster.add_nodes(1)
    cluster.add_queues("team")
    port = free_port()
    operator("--page-address", f"127.0.0.1:{port}", kubeconfig=rights)
    viewer, nobody = account(cluster, own_plane, "viewer"), account(cluster, own_plane, "nobody")
    binding = ("create", "clusterrolebinding", VIEWER, f"--clusterrole={VIEWER}", "--serviceaccount=default:viewer")
    cluster.kubectl(*binding)
    page = page_with(port, viewer, "1 node, 8 GPUs")
    assert "team" in page
    refused = get(port, token=nobody)
    assert refused.status == 403
    assert "system:serviceaccount:default:nobody may not read the page" in refused.data.decode()
    assert get(port).status == 401
    assert get(port, token="nonsense").status == 401
    assert get(port, "/page/events", token=nobody).status == 403


def test_without_its_rights_the_operator_says_so_and_schedules(
    cluster: Cluster, own_plane: ControlPlane, rights: Path, operator: StartOperator
) -> None:
    cluster.add_nodes(1)
    cluster.add_queues("team")
    cluster.kubectl("delete", "clusterrolebinding", "kai-scheduler-page")
    port = free_port()
    operator("--page-address", f"127.0.0.1:{port}", kubeconfig=rights)
    token = account(cluster, own_plane, "viewer")
    answer = get(port, token=token)
    assert answer.status == 503
    assert "tokenreviews" in answer.data.decode()
    cluster.create(objects.pod("single", gpus=1))
    cluster.wait_bound(["single"])


def test_an_event_tells_of_a_pod_that_came(cluster: Cluster, own_plane: ControlPlane, operator: StartOperator) -> None:
    cluster.add_nodes(1)
    cluster.add_queues("team")
    port = free_port()
    operator("--page-address", f"127.0.0.1:{port}")
    token = own_plane.token("admin")
    page = page_with(port, token, "1 node, 8 GPUs: 0 used")
    number = page.partition('data-number="')[2].partition('"')[0]
    stream = get(port, f"/page/events?after={number}", token, preload_content=False, timeout=60.0)
    assert stream.status == 200
    cluster.create(objects.pod("newcomer", gpus=2))
    seen = b""
    while b"event: cycle" not in seen:
        seen += stream.read1()
    stream.close()
    page_with(port, token, "1 node, 8 GPUs: 2 used", 'default/</span><span class="name">newcomer')
