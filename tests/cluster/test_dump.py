"""A real cluster that is read by those who may only read it: dumps, ``--cluster``, and recordings of its cycles."""

from __future__ import annotations

import gzip
import json
import re
import stat
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGUSR2
from typing import Any

import pytest
import urllib3
import yaml

from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_until
from tests.tree import ROOT
from tests.unit.cli.command import run

READER = ROOT / "manifests" / "samples" / "reader.yaml"
ROLE = "kai-sched-reader"
USER = "system:serviceaccount:default:reader"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": objects.meta("work", "default")}


@pytest.fixture
def reader(own_plane: ControlPlane, cluster: Cluster) -> Path:
    """The kubeconfig of a ServiceAccount with the role of the samples, and no other right."""
    cluster.kubectl("apply", "-f", str(READER))
    cluster.kubectl("create", "serviceaccount", "reader")
    cluster.kubectl("create", "clusterrolebinding", ROLE, f"--clusterrole={ROLE}", "--serviceaccount=default:reader")
    return own_plane.kubeconfig("reader", token=own_plane.service_account_token("default", "reader"))


def allow_all_but(cluster: Cluster, *resources: str) -> None:
    """Take the rights for these resources away."""
    role = yaml.safe_load(READER.read_text())
    for rule in role["rules"]:
        rule["resources"] = [name for name in rule["resources"] if name not in resources]
    role["rules"] = [rule for rule in role["rules"] if rule["resources"]]
    cluster.kubectl("apply", "-f", "-", input=json.dumps(role))


def fill(cluster: Cluster) -> None:
    """Two nodes, a queue, a gang that waits, and a pod with a secret in its environment."""
    cluster.add_nodes(2, gpus=4)
    cluster.add_queues("team")
    cluster.create_all(objects.gang("gang", 2, gpus=2))
    secret = objects.pod("secretive")
    secret["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hunter2"}]
    cluster.create(secret)


def items(path: Path) -> list[Object]:
    found: list[Object] = json.loads(gzip.decompress(path.read_bytes()))["items"]
    return found


def names(path: Path, kind: str) -> set[str]:
    return {item["metadata"]["name"] for item in items(path) if item["kind"] == kind}


def until_asked(result: Callable[[], subprocess.CompletedProcess[str]], text: str) -> subprocess.CompletedProcess[str]:
    """Ask again until the answer has the text: rights that are given or taken away take effect a moment later."""

    def there() -> subprocess.CompletedProcess[str]:
        found = result()
        assert text in found.stdout + found.stderr, found.stdout + found.stderr
        return found

    return wait_until(there, f"the answer {text!r}", 60.0)


def test_a_reader_gets_the_cluster_with_gets_and_lists_alone(
    cluster: Cluster, own_plane: ControlPlane, reader: Path, tmp_path: Path
) -> None:
    fill(cluster)
    mark = own_plane.audit.mark()
    live = until_asked(lambda: run("simulate", "--cluster", "--kubeconfig", str(reader), "-o", "json"), "podGroups")
    assert (live.returncode, live.stderr.count("\n")) == (0, 1), live.stderr
    groups = json.loads(live.stdout)["cycles"][0]["groups"]
    assert groups["default/gang"]["counts"] == {"Binding": 2}

    path = tmp_path / "cluster.json.gz"
    written = run("dump", "--kubeconfig", str(reader), "-o", str(path))
    assert written.returncode == 0, written.stderr
    assert "2 nodes, 2 queues, 1 pod group, 3 pods" in written.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"hunter2" not in gzip.decompress(path.read_bytes())
    assert b"managedFields" not in gzip.decompress(path.read_bytes())
    offline = run("simulate", str(path), "-o", "json")
    assert json.loads(offline.stdout)["cycles"][0]["groups"] == groups

    asked = own_plane.audit.since(mark, USER)
    assert {one.verb for one in asked} <= {"get", "list"}
    assert {one.status for one in asked} <= {200, 404}
    assert asked


def test_a_dump_is_written_whole_or_not_at_all(cluster: Cluster, reader: Path, tmp_path: Path) -> None:
    fill(cluster)
    path = tmp_path / "cluster.json.gz"
    path.write_text("mine")
    kept = run("dump", "--kubeconfig", str(reader), "-o", str(path))
    assert (kept.returncode, path.read_text()) == (2, "mine")
    assert "--force" in kept.stderr
    assert run("dump", "--kubeconfig", str(reader), "-o", str(path), "--force").returncode == 0
    assert names(path, "Pod") == {"gang-0", "gang-1", "secretive"}
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    nowhere = run("dump", "--kubeconfig", str(reader), "-o", str(tmp_path / "no" / "file"))
    assert (nowhere.returncode, nowhere.stderr.count("there is no folder")) == (2, 1)


def test_a_dump_of_one_namespace_has_its_objects_and_those_of_the_cluster(
    cluster: Cluster, reader: Path, tmp_path: Path
) -> None:
    fill(cluster)
    cluster.add_namespace("ml")
    cluster.create(objects.pod("elsewhere", namespace="ml"))
    path = tmp_path / "ml.json.gz"
    written = run("dump", "--kubeconfig", str(reader), "-n", "ml", "-o", str(path))
    assert "answers about shares of queues need all namespaces" in written.stderr
    assert (names(path, "Pod"), names(path, "PodGroup")) == ({"elsewhere"}, set())
    assert names(path, "Node") == {"node-0", "node-1"}
    assert names(path, "Queue") == {"org", "team"}


def test_what_may_not_be_read_is_told_with_the_rule_to_add(cluster: Cluster, reader: Path, tmp_path: Path) -> None:
    fill(cluster)
    path = tmp_path / "cluster.json.gz"
    allow_all_but(cluster, "persistentvolumeclaims", "bindrequests")
    dump = lambda: run("dump", "--kubeconfig", str(reader), "-o", str(path), "--force")  # noqa: E731
    found = until_asked(dump, "bindrequests")
    assert found.returncode == 0, found.stderr
    rule = '{apiGroups: [""], resources: [persistentvolumeclaims], verbs: [list]}'
    assert f"add the rule {rule} to the ClusterRole of this account" in found.stderr
    assert '{apiGroups: ["scheduling.run.ai"], resources: [bindrequests], verbs: [list]}' in found.stderr
    unreadable = json.loads(gzip.decompress(path.read_bytes()))["metadata"]["unreadable"]
    assert unreadable == ["bindrequests.scheduling.run.ai (forbidden)", "persistentvolumeclaims (forbidden)"]

    allow_all_but(cluster, "nodes")
    live = until_asked(lambda: run("simulate", "--cluster", "--kubeconfig", str(reader)), "listing nodes is forbidden")
    assert (live.returncode, live.stdout) == (2, "")
    assert '{apiGroups: [""], resources: [nodes], verbs: [list]}' in live.stderr


def test_owners_are_read_where_a_pod_has_no_group(cluster: Cluster, reader: Path, tmp_path: Path) -> None:
    fill(cluster)
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    made = cluster.create({**JOB, "spec": {"template": template, "suspend": True}})
    cluster.create(
        {**JOB, "metadata": objects.meta("idle", "default"), "spec": {"template": template, "suspend": True}}
    )
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "work",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    pod = objects.pod("owned")
    pod["metadata"]["ownerReferences"] = [owner]
    cluster.create(pod)
    path = tmp_path / "cluster.json.gz"
    assert run("dump", "--kubeconfig", str(reader), "-o", str(path)).returncode == 0
    assert names(path, "Job") == {"work"}


def test_the_snapshot_of_a_scheduler_is_that_of_its_cluster(
    cluster: Cluster, operator: StartOperator, tmp_path: Path
) -> None:
    fill(cluster)
    replica = operator("--no-default-queues")
    cluster.wait_bound(["gang-0", "gang-1"])
    answer = urllib3.request("GET", f"http://127.0.0.1:{replica.plugin_port}/get-snapshot")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/zip")
    assert answer.headers["Content-Disposition"] == "attachment; filename=snapshot.zip"
    assert urllib3.request("GET", f"http://127.0.0.1:{replica.plugin_port}/other").status == 404
    path = tmp_path / "snapshot.zip"
    path.write_bytes(answer.data)
    with zipfile.ZipFile(path) as archive:
        snapshot = json.loads(archive.read("snapshot.json"))
    assert {each["metadata"]["name"] for each in snapshot["rawObjects"]["pods"]} == {"gang-0", "gang-1", "secretive"}
    assert {"major", "minor"} <= snapshot["discovery"]["serverVersion"].keys()
    assert "v1" in {each["groupVersion"] for each in snapshot["discovery"]["resources"]}
    assert "hunter2" not in json.dumps(snapshot)
    offline = run("simulate", str(path), "-o", "json")
    groups = json.loads(offline.stdout)["cycles"][0]["groups"]
    assert groups["default/gang"]["counts"].keys() <= {"Bound", "Running"}


@contextmanager
def coming_and_going(cluster: Cluster) -> Iterator[None]:
    """A gang is bound, and then others come and go until the end."""
    cluster.create_all(objects.gang("stays", 2, gpus=1))
    cluster.wait_bound(["stays-0", "stays-1"])
    ended = threading.Event()

    def churn() -> None:
        number = 0
        while not ended.is_set():
            cluster.create_all(objects.gang(f"g{number}", 3, gpus=1))
            if number >= 3:
                for k in range(3):
                    cluster.delete("Pod", f"g{number - 3}-{k}", "default")
            number += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_dump_taken_while_pods_come_and_go_gives_the_same_plan_each_time(
    cluster: Cluster, reader: Path, operator: StartOperator, tmp_path: Path
) -> None:
    cluster.add_nodes(4, gpus=4)
    cluster.add_queues("team")
    operator("--no-default-queues")
    with coming_and_going(cluster):
        for number in range(3):
            path = tmp_path / f"{number}.json.gz"
            written = run("dump", "--kubeconfig", str(reader), "-o", str(path))
            assert written.returncode == 0, written.stderr
            first, second = (run("simulate", str(path), "-o", "json") for _ in range(2))
            assert first.returncode == 0, first.stderr
            assert first.stdout == second.stdout


def test_a_signal_writes_cycles_whose_plans_are_those_that_were_logged(
    cluster: Cluster, operator: StartOperator, tmp_path: Path
) -> None:
    cluster.add_nodes(4, gpus=4)
    cluster.add_queues("team")
    folder = tmp_path / "recordings"
    replica = operator("--no-default-queues", "--recordings", str(folder))
    with coming_and_going(cluster):
        seen = len(replica.logs("cycle.done"))
        wait_until(lambda: len(replica.logs("cycle.done")) > seen + 8, "cycles while pods come and go")
        replica.process.signal(SIGUSR2)
        (line,) = wait_until(lambda: replica.logs("recordings.written"), "the recording")
    found = run("replay", line["file"])
    assert found.returncode == 0, found.stdout + found.stderr
    plans = re.findall(r"the same plan (\w+) ", found.stdout)
    assert len(plans) == line["cycles"] > 1
    logged: list[Any] = [each["plan"] for each in replica.logs("cycle.done")]
    assert set(plans) <= set(logged)
