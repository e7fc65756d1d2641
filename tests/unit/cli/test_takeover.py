"""What `kai-sched doctor` says of other schedulers: from files, and from what an API server serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from kai_sched.cli.migration.found import ALL_KINDS, FoundObjects, GroupKind
from kai_sched.cli.migration.kai import kai_findings
from kai_sched.cli.migration.products import products
from kai_sched.cli.migration.reading import read_foreign
from kai_sched.cli.migration.takeover import takeover_findings, takeover_of_files
from kai_sched.cli.migration.yunikorn import yunikorn_findings
from kai_sched.cluster.client import Api, ApiFailure
from tests.tree import ROOT
from tests.unit.cli.command import run
from tests.unit.cli.test_doctor import FakeApi

EXAMPLES = ROOT / "examples/from-elsewhere"
FORBIDDEN = 'deployments.apps is forbidden: User "u" cannot list resource "deployments" in API group "apps"'


def told(name: str) -> list[str]:
    """The findings about an example, as they are printed."""
    return [str(each) for each in takeover_of_files([str(EXAMPLES / f"{name}.yaml")])]


def deployment(name: str, image: str, **more: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"image": image, **more}]}}
    return {"metadata": {"name": name, "namespace": "n"}, "spec": {"template": pod}}


def found_of(group: str, kind: str, *objects: dict[str, Any]) -> FoundObjects:
    return FoundObjects(objects={GroupKind(group, kind): list(objects)})


class TestFiles:
    def test_kai_scheduler(self) -> None:
        lines = told("kai")
        assert lines[0].startswith(
            "warning: KAI Scheduler: installed: v0.16.2 in 2 Deployments: "
            "kai-scheduler/kai-operator, kai-scheduler/binder: before kai-sched starts, scale them to 0 replicas, "
            "kai-scheduler/kai-operator first"
        )
        told_of = "warning: KAI Scheduler: SchedulingShard a100: spec.usageDBConfig.connectionString: missing"
        assert any(line.startswith(told_of) for line in lines)
        assert any("--shard a100 --partition-label-value a100" in line for line in lines)
        assert "ok: KAI Scheduler: queues: 1 queue: read as they are" in lines
        assert any("BindRequests: 1 Pending" in line for line in lines)

    def test_kueue(self) -> None:
        (line,) = told("kueue")
        assert line.startswith("warning: Kueue: queues: 3 ClusterQueues, 1 Cohort, 1 LocalQueue, 3 ResourceFlavors,")
        assert line.endswith("(v1beta2): `kai-sched convert-kueue FILE...` makes Queues of them")

    def test_volcano(self) -> None:
        lines = told("volcano")
        assert any("Queue vision: spec.reclaimable: false" in line for line in lines)
        assert any("jobs: 1 Job of batch.volcano.sh" in line for line in lines)
        assert any("pods: 1 pod with schedulerName volcano" in line for line in lines)

    def test_yunikorn(self) -> None:
        lines = told("yunikorn")
        assert any("partition default: 3 queues (root.vision, root.speech)" in line for line in lines)
        assert any("placementrules" in line for line in lines)
        assert any("submitacl of root: has no meaning" in line for line in lines)
        assert any("gangs: 1 pod" in line for line in lines)

    def test_nothing_and_a_file_that_is_missing(self, tmp_path: Path) -> None:
        file = tmp_path / "a.yaml"
        file.write_text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}")
        (line,) = map(str, takeover_of_files([str(file)]))
        assert line == "ok: other schedulers: nothing of KAI Scheduler, Kueue, Volcano or YuniKorn"
        lines = list(map(str, takeover_of_files([str(tmp_path / "b.yaml")])))
        assert lines[0].startswith("error: files: ")
        assert len(lines) == 1, "of what could not be read it is not said that it has nothing"

    def test_a_dump_lacks_the_others(self) -> None:
        lines = list(map(str, takeover_of_files([str(ROOT / "examples/company/cluster.json.gz")])))
        assert lines[0].startswith("warning: other schedulers: a dump has what kai-sched reads")


class TestFindings:
    @pytest.mark.parametrize(
        ("name", "image", "product", "version"),
        [
            ("binder", "ghcr.io/nvidia/kai-scheduler/binder:v0.9.1", "KAI Scheduler", "0.9.1"),
            ("podgroup-controller", "mirror.example/podgroupcontroller@sha256:0", "KAI Scheduler", ""),
            ("kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.15.0", "Kueue", "0.15.0"),
            ("volcano-scheduler", "mirror.example:5000/vc-scheduler:v1.12.1", "Volcano", "1.12.1"),
            ("yunikorn-scheduler", "apache/yunikorn:scheduler-1.7.0", "YuniKorn", "1.7.0"),
        ],
    )
    def test_versions(self, name: str, image: str, product: str, version: str) -> None:
        (found,) = products(found_of("apps", "Deployment", deployment(name, image)))
        assert (found.name, found.version) == (product, version)

    def test_neither_our_own_nor_others(self) -> None:
        ours = deployment(
            "kai-scheduler-default", "r.example/kai-scheduler/kai-sched:0.2.0", args=["run", "--log-json"]
        )
        assert products(found_of("apps", "Deployment", ours, deployment("web", "nginx:1.27.0"), {})) == []

    def test_a_version_that_is_too_old(self) -> None:
        old = deployment("binder", "ghcr.io/nvidia/kai-scheduler/binder:v0.9.1")
        lines = list(map(str, kai_findings(found_of("apps", "Deployment", old))))
        assert any("v0.9.1 is outside of v0.12 to v0.18" in line for line in lines)

    def test_objects_with_mistakes(self) -> None:
        queue = {"metadata": {"name": "a"}, "spec": {"resources": {"gpu": {"quota": "8"}}}}
        lines = list(map(str, kai_findings(found_of("scheduling.run.ai", "Queue", queue))))
        assert any(line.startswith("error: KAI Scheduler: Queue a: spec.resources.gpu.quota") for line in lines)
        text = "partitions: [{name: a, queues: [1, {name: root, queues: {}}]}, 2"
        config = {"metadata": {"name": "yunikorn-configs"}, "data": {"queues.yaml": text}}
        (line,) = map(str, yunikorn_findings(found_of("", "ConfigMap", config)))
        assert "queues.yaml cannot be read" in line
        config["data"] = {"queues.yaml": text + "]"}
        (line,) = map(str, yunikorn_findings(found_of("", "ConfigMap", config)))
        assert "1 queue (root)" in line

    def test_a_queue_of_volcano_that_is_closed(self) -> None:
        queue = {"metadata": {"name": "a"}, "spec": {"affinity": {"x": 1}}, "status": {"state": "Closed"}}
        lines = [str(each) for each in takeover_findings(found_of("scheduling.volcano.sh", "Queue", queue))]
        assert any("status.state: Closed" in line for line in lines)
        assert any("spec.affinity: has no meaning" in line for line in lines)

    @pytest.mark.parametrize("group", ["scheduling.run.ai", "scheduling.volcano.sh", "kueue.x-k8s.io"])
    def test_nonsense_is_survived(self, group: str) -> None:
        nonsense: list[dict[str, Any]] = [{}, {"metadata": 5, "spec": [1]}, {"spec": {"subGroups": [1, {}]}}]
        found = FoundObjects()
        for each in ALL_KINDS:
            found.objects[each.kind] = [dict(one) for one in nonsense if each.kind.group == group]
        assert takeover_findings(found)


class TestCluster:
    async def test_what_is_served_is_listed_and_what_is_forbidden_is_told(self) -> None:
        api = FakeApi()
        api.serve({"kueue.x-k8s.io": {"v1beta1": ["clusterqueues"]}, "apps": {"v1": ["deployments"]}})
        api.lists |= {
            "/apis/kueue.x-k8s.io/v1beta1/clusterqueues": [{"metadata": {"name": "a"}}],
            "/apis/apps/v1/deployments": ApiFailure("GET", "deployments", 403, "Forbidden", FORBIDDEN),
            "/api/v1/configmaps": [],
            "/api/v1/pods": [],
        }
        found = await read_foreign(cast(Api, api), ALL_KINDS)
        assert found.versions[GroupKind("kueue.x-k8s.io", "ClusterQueue")] == {"v1beta1"}
        lines = [str(each) for each in takeover_findings(found)]
        assert lines[0].endswith("1 ClusterQueue (v1beta1): `kai-sched convert-kueue --cluster` makes Queues of them")
        assert lines[1].startswith(
            "warning: other schedulers: deployments.apps cannot be read: listing is forbidden: add"
        )
        assert len(lines) == 2


@pytest.mark.slow
def test_the_command_checks_files_and_asks_no_cluster(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump({"clusters": []}))
    done = run("doctor", "-o", "json", str(EXAMPLES / "kueue.yaml"), KUBECONFIG=str(config))
    found = json.loads(done.stdout)["findings"]
    assert [each["what"] for each in found] == ["versions", "kernels", "Kueue: queues"]
    assert done.returncode == 0
    done = run("doctor", "--cluster", KUBECONFIG=str(config))
    assert done.returncode == 1, "the cluster was asked for"
