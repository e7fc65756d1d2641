"""What a cluster refuses, `simulate` refuses: unknown fields, values that admission rejects, and all of it at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_sched.files.load import load
from kai_sched.files.workloads import SuspendedWorkload
from tests.unit.files.inputs import Write, queue, thing, told

TEMPLATE = {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "i"}]}}


def ray(name: str = "train", **groups: Any) -> dict[str, Any]:
    spec = {"headGroupSpec": {"template": TEMPLATE, "rayStartParams": {}}, **groups}
    labels = {"kai.scheduler/queue": "team"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": "ml", "labels": labels},
        "spec": spec,
    }


def lines(write: Write, *objects: dict[str, Any]) -> list[str]:
    """What is said of these objects and a sane queue, without the name of the file."""
    path = write("in.json", queue("team"), *objects)
    return [line.replace(f"{path}, ", "") for line in told(load([path]))]


def pod(spec: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    meta = {"labels": {"kai.scheduler/queue": "team"}, **meta}
    inner = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", **(container or {})}], **(spec or {})}
    found = thing("Pod", "p", inner, "ml")
    found["metadata"] |= meta
    return found


class TestUnknownFields:
    @pytest.mark.parametrize(
        ("kind", "change", "field", "right"),
        [
            ("RayCluster", {"workerGroupSpec": []}, "spec.workerGroupSpec", "workerGroupSpecs"),
            ("RayCluster", {"workergroupspecs": []}, "spec.workergroupspecs", "workerGroupSpecs"),
            ("RayCluster", {"worker_group_specs": []}, "spec.worker_group_specs", "workerGroupSpecs"),
            ("RayCluster", {"workerGroupSpecs": [{"replica": 2}]}, "spec.workerGroupSpecs[0].replica", "replicas"),
            ("Deployment", {"replica": 2}, "spec.replica", "replicas"),
            ("StatefulSet", {"templates": {}}, "spec.templates", "template"),
            ("Job", {"paralelism": 2}, "spec.paralelism", "parallelism"),
            ("CronJob", {"jobTemplates": {}}, "spec.jobTemplates", "jobTemplate"),
            ("JobSet", {"replicatedJob": []}, "spec.replicatedJob", "replicatedJobs"),
            ("LeaderWorkerSet", {"leaderWorkerTemplates": {}}, "spec.leaderWorkerTemplates", "leaderWorkerTemplate"),
            ("PyTorchJob", {"pytorchReplicaSpec": {}}, "spec.pytorchReplicaSpec", "pytorchReplicaSpecs"),
            (
                "PyTorchJob",
                {"pytorchReplicaSpecs": {"Worker": {"replica": 1}}},
                "spec.pytorchReplicaSpecs.Worker.replica",
                "replicas",
            ),
            ("Pod", {"container": []}, "spec.container", "containers"),
            ("Pod", {"nodeselector": {}}, "spec.nodeselector", "nodeSelector"),
            ("Pod", {"containers": [{"name": "m", "resource": {}}]}, "spec.containers[0].resource", "resources"),
            (
                "Pod",
                {"containers": [{"name": "m", "resources": {"limit": {}}}]},
                "spec.containers[0].resources.limit",
                "limits",
            ),
            ("Pod", {"tolerations": [{"operater": "Exists"}]}, "spec.tolerations[0].operater", "operator"),
        ],
    )
    def test_a_name_that_is_almost_right_is_refused(
        self, write: Write, kind: str, change: dict[str, Any], field: str, right: str
    ) -> None:
        versions = {
            "RayCluster": "ray.io/v1",
            "JobSet": "jobset.x-k8s.io/v1alpha2",
            "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
            "PyTorchJob": "kubeflow.org/v1",
            "Pod": "v1",
            "Job": "batch/v1",
            "CronJob": "batch/v1",
        }
        meta = {"name": "x", "namespace": "ml", "labels": {"kai.scheduler/queue": "team"}}
        content = {"apiVersion": versions.get(kind, "apps/v1"), "kind": kind, "metadata": meta, "spec": change}
        errors = [line for line in lines(write, content) if line.startswith("error: ")]
        wanted = f"error: document 2: {kind} ml/x: {field}: there is no such field, so a cluster refuses it: "
        assert f"{wanted}did you mean {right}?" in errors

    def test_all_of_them_are_told_at_once(self, write: Write) -> None:
        found = lines(write, ray(workerGroupSpec=[], rayVersions="2"), pod({"containrs": []}))
        assert [line.split(": ")[3] for line in found] == ["spec.rayVersions", "spec.workerGroupSpec", "spec.containrs"]

    def test_other_names_may_be_those_of_a_newer_version(self, write: Write) -> None:
        (line,) = lines(write, ray(networkPolicy={}))
        assert line.startswith("warning: document 2: RayCluster ml/train: spec.networkPolicy: unknown field, ignored: ")

    def test_what_was_read_from_a_cluster_has_no_unknown_fields(self, write: Write) -> None:
        running = pod({"nodeName": "n", "nodeNames": 1, "containers": [{"name": "m", "imageNew": "i"}]}, uid="u")
        assert lines(write, running, thing("Node", "n")) == []

    def test_a_field_of_any_name_and_content(self, write: Write) -> None:
        assert lines(write, pod({"x" * 5000: 1, "": {}, "containers": 5})) != []


class TestNames:
    @pytest.mark.parametrize(
        ("meta", "words"),
        [
            ({"labels": {"kai.scheduler/queues": "team"}}, "did you mean the label kai.scheduler/queue?"),
            ({"labels": {"gpu-fraction": "0.5"}}, "gpu-fraction is one of the annotations: move it to "),
            (
                {"labels": {}, "annotations": {"kai.scheduler/queue": "team"}},
                "kai.scheduler/queue is one of the labels: move it to",
            ),
            ({"annotations": {"gpu-fractions": "0.5"}}, "did you mean the annotation gpu-fraction?"),
            ({"annotations": {"gpu_memory": "100"}}, "did you mean the annotation gpu-memory?"),
            ({"labels": {"kai.scheduler/preemptability": "preemptible"}}, "label kai.scheduler/preemptibility?"),
        ],
    )
    def test_labels_and_annotations(self, write: Write, meta: dict[str, Any], words: str) -> None:
        inner = {"metadata": meta, **TEMPLATE}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": inner}}
        for content, path in ((pod(**meta), "metadata"), (job, "spec.template.metadata")):
            (line,) = [line for line in lines(write, content) if f": {path}." in line and "ignored" in line]
            assert line.startswith("warning: document 2: ")
            assert words in line

    def test_names_of_others_are_left_alone(self, write: Write) -> None:
        labels = {"kai.scheduler/queue": "team", "app": "web", "queue-name": "x", "kueue.x-k8s.io/queue-name": "y"}
        assert lines(write, pod(labels=labels, annotations={"gpu-vendor": "x", "prometheus.io/scrape": "true"})) == []

    @pytest.mark.parametrize(
        ("resource", "line"),
        [
            ("nvidia.com/gpus", "warning: no node of the input has such a resource: did you mean nvidia.com/gpu?"),
            ("nvidia.com/GPU", "warning: no node of the input has such a resource: did you mean nvidia.com/gpu?"),
            ("gpu", "error: no resource of Kubernetes has this name, so a cluster refuses it: did you mean nvidia.com"),
            ("cpus", "error: no resource of Kubernetes has this name, so a cluster refuses it: did you mean cpu?"),
        ],
    )
    def test_resources(self, write: Write, resource: str, line: str) -> None:
        found = lines(write, pod(container={"resources": {"limits": {resource: 1}}}))
        level, text = line.split(": ", 1)
        path = f"document 2: Pod ml/p: spec.containers[0].resources.limits.{resource}"
        assert any(each.startswith(f"{level}: {path}: {text}") for each in found)

    def test_a_resource_that_a_node_has(self, write: Write) -> None:
        node = thing("Node", "n", status={"allocatable": {"nvidia.com/gpus": "4", "pods": "9"}})
        assert lines(write, node, pod(container={"resources": {"limits": {"nvidia.com/gpus": 1}}})) == []


class TestAdmission:
    @pytest.mark.parametrize(
        ("annotations", "words"),
        [
            ({"gpu-fraction": "1.5"}, "annotation gpu-fraction must be a number that is positive and below 1.0"),
            ({"gpu-memory": "4096Mi"}, "annotation gpu-memory must be a positive integer (MiB)"),
            ({"mps": "true"}, "annotation mps: MPS is for parts of GPUs only"),
            ({"gpu-fraction": "0.5", "gpu-memory": "100"}, "cannot request both GPU and GPU memory"),
        ],
    )
    def test_pods_and_pods_of_workloads_are_refused_with_the_text_of_the_webhook(
        self, write: Write, annotations: dict[str, str], words: str
    ) -> None:
        shared = thing("Config", "kai-config", {"global": {"gpuSharing": True}})
        (line,) = lines(write, pod(annotations=annotations), shared)
        assert line.startswith("error: document 2: Pod ml/p: annotation ")
        assert words in line
        template = {"metadata": {"annotations": annotations}, **TEMPLATE}
        groups = [{"groupName": "w", "replicas": 3, "template": template}]
        found = lines(write, ray(workerGroupSpecs=groups), shared)
        (line,) = [each for each in found if each.startswith("error: ")]
        assert line.startswith("error: document 2: Pod ml/train-w-worker-")
        assert words in line

    @pytest.mark.parametrize("config", [[], [thing("Config", "kai-config")]])
    def test_parts_of_gpus_are_refused_while_sharing_is_off(self, write: Write, config: list[dict[str, Any]]) -> None:
        (line,) = lines(write, pod(annotations={"gpu-fraction": "0.5"}), *config)
        off = "GPU sharing is off unless the Config kai-config turns it on (spec.global.gpuSharing)"
        assert line.startswith(f"error: document 2: Pod ml/p: {off}: ")
        assert lines(write, pod(annotations={"gpu-fraction": "0.5"}, uid="u"), *config) == []

    def test_a_pod_from_a_cluster_is_there_already(self, write: Write) -> None:
        found = lines(write, pod(annotations={"gpu-fraction": "1.5"}, uid="u"))
        assert [line.split(": ")[0] for line in found] == ["warning"]

    def test_a_pod_that_runs_may_have_the_labels_of_its_devices(self, write: Write) -> None:
        labels = {"kai.scheduler/queue": "team", "runai-gpu-group": "g"}
        running = pod({"nodeName": "n"}, annotations={"gpu-fraction": "0.5"}, labels=labels)
        assert lines(write, running, thing("Node", "n")) == []

    def test_a_group_and_a_queue(self, write: Write) -> None:
        group = thing("PodGroup", "g", {"queue": "team", "subGroups": [{"name": "a"}]}, "ml")
        first, second = lines(write, group, thing("Queue", "other"))
        assert "PodGroup ml/g: spec.subGroups[0].minMember: missing in sub-group 'a'" in first
        assert "Queue other: spec.resources: resources have to be specified" in second
        assert first.startswith("error: ")
        assert second.startswith("error: ")


class TestSettings:
    @pytest.mark.parametrize(
        ("spec", "on"),
        [
            (None, False),
            ({}, False),
            ({"global": {"gpuSharing": True}}, True),
            ({"global": {"gpuSharing": False}}, False),
        ],
    )
    def test_pods_share_gpus_as_the_config_of_the_input_says(
        self, write: Write, spec: dict[str, Any] | None, on: bool
    ) -> None:
        """As live: somebody has to turn it on."""
        config = [] if spec is None else [thing("Config", "kai-config", spec)]
        (case,) = load([write("in.json", queue("team"), *config)]).cases
        assert case.config.gpu_sharing == on

    @pytest.mark.parametrize(
        ("spec", "field"),
        [({"suspend": True}, "spec.suspend"), ({"runPolicy": {"suspend": True}}, "spec.runPolicy.suspend")],
    )
    def test_a_suspended_workload_is_mentioned(self, write: Write, spec: dict[str, Any], field: str) -> None:
        labels = {"kai.scheduler/queue": "team", "kueue.x-k8s.io/queue-name": "q"}
        version, kind = ("batch/v1", "Job") if "suspend" in spec else ("kubeflow.org/v1", "PyTorchJob")
        job = {"apiVersion": version, "kind": kind, "metadata": {"name": "j", "labels": labels, "uid": "u"}}
        (line,) = lines(write, {**job, "spec": {"template": TEMPLATE, **spec}})
        assert line.startswith(f"warning: document 2: {kind} default/j: {field}: true, so that it has no pods: ")
        assert "Kueue does so once it admits the workload" in line

    def test_suspended_workloads_are_counted(self, write: Write) -> None:
        """By name; Kueue suspends those that wait in one of its queues. Others only speak of it."""
        jobs = []
        for name, suspend, labels in [
            ("waits", True, {"kueue.x-k8s.io/queue-name": "q"}),
            ("paused", True, {"note": "kueue.x-k8s.io/queue-name"}),
            ("runs", False, {"kueue.x-k8s.io/queue-name": "q"}),
        ]:
            meta = {"name": name, "namespace": "ml", "labels": {"kai.scheduler/queue": "team", **labels}}
            spec = {"suspend": suspend, "template": TEMPLATE}
            jobs.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
        (case,) = load([write("in.json", queue("team"), *jobs)]).cases
        assert case.suspended == (
            SuspendedWorkload("Job", "ml", "paused", False),
            SuspendedWorkload("Job", "ml", "waits", True),
        )


def shares(**amounts: dict[str, float]) -> dict[str, Any]:
    open_share = {"quota": -1, "limit": -1}
    return {"resources": {name: amounts.get(name, open_share) for name in ("cpu", "memory", "gpu")}}


class TestQueues:
    @pytest.mark.parametrize(
        ("change", "field", "words"),
        [
            ({"gpu": {"quota": 8, "limit": 4}}, "gpu.limit", "below the quota, which is 8"),
            ({"gpu": {"quota": -1, "limit": 4}}, "gpu.limit", "below the quota, which is unlimited"),
            (
                {"cpu": {"quota": 64, "limit": -1}},
                "cpu.quota",
                "64 millicores are 0.064 cores: write 64000 for 64 cores",
            ),
            ({"memory": {"quota": 0, "limit": 512}}, "memory.limit", "counts in MB (10^6 bytes): write 512000"),
            ({"memory": {"quota": 2**36, "limit": -1}}, "memory.quota", "write 68719.5 for 6.87195e+10 bytes"),
            ({"gpu": {"quota": 8}}, "gpu.limit", "missing, which is 0"),
        ],
    )
    @pytest.mark.parametrize("meta", [{}, {"uid": "u"}])
    def test_shares_that_may_be_meant_otherwise(
        self, write: Write, change: dict[str, Any], field: str, words: str, meta: dict[str, str]
    ) -> None:
        content = thing("Queue", "q", shares(**change))
        content["metadata"] |= meta
        (line,) = lines(write, content)
        assert line.startswith(f"warning: document 2: Queue q: spec.resources.{field}: ")
        assert words in line

    def test_children_above_their_parent(self, write: Write) -> None:
        parent = thing("Queue", "dept", shares(gpu={"quota": 8, "limit": -1}))
        a, b = (
            thing(
                "Queue", name, {"parentQueue": "dept", **shares(gpu={"quota": 5, "limit": -1}, cpu=none, memory=none)}
            )
            for name, none in (("a", {"quota": 0, "limit": -1}), ("b", {"quota": 0, "limit": -1}))
        )
        (line,) = lines(write, parent, a, b)
        words = "the queues below it have quotas of 10 in all (a 5, b 5), and it has 8"
        assert line.startswith(f"warning: document 2: Queue dept: spec.resources.gpu.quota: {words}")

    def test_all_that_is_wrong_is_told_at_once_and_nothing_that_follows_from_it(self, write: Write) -> None:
        bad = thing(
            "Queue",
            "bad",
            {"priority": "high", "resources": {"gpu": {"quota": "8Gi", "overQuotaWeight": -2}, "cpu": 5}},
        )
        user = pod(labels={"kai.scheduler/queue": "bad"})
        found = [line.removeprefix("error: document 2: Queue bad: spec.") for line in lines(write, bad, user)]
        assert sorted(line.split(": ")[0] for line in found) == [
            "priority",
            "resources.cpu",
            "resources.gpu.overQuotaWeight",
            "resources.gpu.quota",
        ]
        assert any(line.endswith("-2 is below 0: give 0 or more") for line in found)

    @pytest.mark.parametrize(
        ("content", "fields"),
        [
            (
                thing("Node", "n", status={"allocatable": {"cpu": "x", "nvidia.com/gpu": "y"}}),
                ["cpu", "nvidia.com/gpu"],
            ),
            (thing("Node", "n", {"taints": 5}, status={"allocatable": {"cpu": []}}), ["taints", "cpu"]),
            (pod({"nodeName": 5, "priorityClassName": 6}, creationTimestamp="x"), ["nodeName", "priorityClassName"]),
            (thing("PodGroup", "g", {"minMember": "x", "queue": 5}, "ml"), ["minMember", "queue"]),
        ],
    )
    def test_the_same_holds_for_all_kinds(self, write: Write, content: dict[str, Any], fields: list[str]) -> None:
        found = [line for line in lines(write, json.loads(json.dumps(content))) if line.startswith("error: ")]
        for field in fields:
            assert sum(f".{field}: " in line for line in found) == 1
