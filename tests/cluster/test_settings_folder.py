"""`run --settings-folder` on a real API server: what is written, what is left alone, and what is said of a failure."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SERVICE_ACCOUNT, SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.installed import MANIFESTS
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

CONFIG = "{apiVersion: kai.scheduler/v1, kind: Config, metadata: {name: kai-config}, spec: {global: %s}}"
SHARD = "{apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: default}, spec: %s}"
QUEUE = "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: %s}, spec: {resources: {}%s}}"


def write(folder: Path, *documents: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "all.yaml").write_text("\n---\n".join(documents))
    return f"--settings-folder={folder}"


def test_the_cluster_gets_what_the_folder_sets_and_keeps_the_rest(
    cluster: Cluster, operator: StartOperator, tmp_path: Path
) -> None:
    cluster.kubectl("apply", "-f", "-", input=CONFIG % "{gpuSharing: false, jsonLog: true}")
    queues = [QUEUE % ("mine", ""), QUEUE % ("mine-child", ", parentQueue: mine")]
    config, shard = CONFIG % "{gpuSharing: true, nodePoolLabelKey: pool}", SHARD % "{placementStrategy: {gpu: spread}}"
    first = operator(write(tmp_path / "s", config, shard, *queues))
    assert cluster.get("Config", "kai-config")["spec"]["global"] == {
        "gpuSharing": True,
        "jsonLog": True,
        "nodePoolLabelKey": "pool",
    }
    assert cluster.get("SchedulingShard", "default")["spec"] == {"placementStrategy": {"gpu": "spread"}}
    wait_until(lambda: cluster.find("Queue", "mine-child"), "the default queues of the folder")
    assert {queue["metadata"]["name"] for queue in cluster.list("Queue")} == {"mine", "mine-child"}
    assert first.terminate() == 0
    # What the folder does not set any more goes, and what others have set stays.
    operator(write(tmp_path / "s", CONFIG % "{gpuSharing: true}"))
    assert cluster.get("Config", "kai-config")["spec"]["global"] == {"gpuSharing": True, "jsonLog": True}


def test_a_missing_right_is_what_scheduling_waits_for(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator, system_namespace: str, tmp_path: Path
) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "rbac.yaml"))
    token = own_plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
    kubeconfig = own_plane.kubeconfig(SERVICE_ACCOUNT, token=token)
    replica: Operator = operator(write(tmp_path / "s", CONFIG % "{}"), kubeconfig=kubeconfig, ready=False)

    def told() -> bool:
        status, text = replica.get("/readyz/scheduling")
        assert status == 503, f"{status} {text}"
        waits = json.dumps(json.loads(text))
        assert "Config kai-config of the settings folder" in waits, waits
        assert "cannot patch resource" in waits, waits
        return True

    wait_until(told, "the missing right being told", 60.0)
    assert system_namespace == SYSTEM_NAMESPACE
