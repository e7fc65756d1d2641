"""What is said and made of another scheduler's objects on a real API server, with the real definitions of Kueue."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_until
from tests.cluster.test_grouping import owned
from tests.cluster.workload_operators import install_crds
from tests.tree import ROOT
from tests.unit.test_workload_kinds import install_example

TOOLS = ("kueue",)
EXAMPLE = ROOT / "examples/from-elsewhere/kueue.yaml"
ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:default"


def kai_sched(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kai_sched.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


def notes(text: str) -> list[str]:
    """The lines without where they are from."""
    return sorted(line.partition(": ")[2].partition(": ")[2] for line in text.splitlines())


def test_queues_of_kueue_become_queues(
    cluster: Cluster, own_plane: ControlPlane, system_namespace: str, tmp_path: Path
) -> None:
    install_crds(cluster, "kueue")
    cluster.kubectl("create", "namespace", "vision")
    cluster.kubectl("apply", "-f", str(EXAMPLE))
    at = ("--cluster", "--kubeconfig", str(cluster.kubeconfig))

    from_cluster, from_file = kai_sched("convert-kueue", *at), kai_sched("convert-kueue", str(EXAMPLE))
    assert from_cluster.returncode == from_file.returncode == 0
    assert from_cluster.stdout == from_file.stdout
    assert notes(from_cluster.stderr) == notes(from_file.stderr), "what the API server fills in is not told"

    queues = tmp_path / "queues.yaml"
    queues.write_text(from_cluster.stdout)
    cluster.kubectl("apply", "-f", str(queues))
    stored = yaml.safe_load(cluster.kubectl("get", "queues.scheduling.run.ai", "-o", "yaml"))["items"]
    converted = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(from_cluster.stdout)}
    assert {each["metadata"]["name"]: each["spec"] for each in stored} == converted

    said = kai_sched("doctor", *at).stdout
    assert (
        "3 ClusterQueues, 1 Cohort, 1 LocalQueue, 3 ResourceFlavors, 1 WorkloadPriorityClass (v1beta1, v1beta2)" in said
    )
    assert "ok: KAI Scheduler: queues: 4 queues: read as they are" in said

    mark = own_plane.audit.mark()
    token = own_plane.service_account_token(system_namespace, "default")
    nobody = ("--cluster", "--kubeconfig", str(own_plane.kubeconfig("nobody", token=token)))
    refused = kai_sched("convert-kueue", *nobody)
    assert refused.returncode == 2
    assert "error: cluster: clusterqueues.kueue.x-k8s.io: listing is forbidden: add the rule" in refused.stderr
    said = kai_sched("doctor", *nobody).stdout
    assert "warning: other schedulers: clusterqueues.kueue.x-k8s.io cannot be read: listing is forbidden" in said
    asked = {(one.verb, one.subject) for one in own_plane.audit.since(mark, ACCOUNT)}
    assert ("list", "clusterqueues") in asked
    assert {verb for verb, subject in asked if subject != "selfsubjectaccessreviews"} <= {"get", "list"}


def mini_clusters() -> objects.Object:
    """The definition of MiniClusters, as far as grouping goes."""
    names = {"plural": "miniclusters", "kind": "MiniCluster"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": schema}
    spec = {"group": "flux-framework.org", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "miniclusters.flux-framework.org"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


def test_run_uses_the_kind_of_a_package(cluster: Cluster, operator: StartOperator, tmp_path: Path) -> None:
    """Three of four pods wait for the fourth; without the package each would be bound at once."""
    cluster.add_nodes(1)
    cluster.add_queues("team-a")
    cluster.create(mini_clusters())
    cluster.wait_condition("CustomResourceDefinition", "miniclusters.flux-framework.org", "Established", status="True")
    manifest = yaml.safe_load((ROOT / "examples/workload-kind/minicluster.yaml").read_text())
    manifest["metadata"]["namespace"] = "default"
    top = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(manifest)))
    install_example(tmp_path)
    replica = operator("--no-default-queues", packages=[tmp_path])
    assert replica.logs("plugin.kinds")[0]["kinds"] == ["MiniCluster (flux-framework.org/v1alpha2)"]

    cluster.create_all(owned(top, 0, 3, gpus=2))
    name = f"pg-lammps-{top['metadata']['uid']}"
    wait_until(lambda: cluster.find("PodGroup", name), "the group")
    assert cluster.get("PodGroup", name)["spec"]["minMember"] == 4
    assert cluster.bound() == {}
    cluster.create_all(owned(top, 3, 1, gpus=2))
    cluster.wait_bound([f"lammps-{n}" for n in range(4)])
