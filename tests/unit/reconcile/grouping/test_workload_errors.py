"""Workloads that cannot be grouped: each fault names the object, the field and the remedy (API 4.4 to 4.10)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.config import Config
from kai_sched.model.objects import Phase
from kai_sched.reconcile.grouping.settings import GroupingSettings
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.kinds import KUBEFLOW, roles
from tests.unit.reconcile.kinds_more import lws
from tests.unit.reconcile.workloads import CLASSES, Thing, World, grouping, line, member, owner, pod

TORCH, RAY, JOBSET = "kubeflow.org/v1 PyTorchJob", "ray.io/v1 RayCluster", "jobset.x-k8s.io/v1alpha2 JobSet"
MINIMUM = "kai.scheduler/batch-min-member"
SEGMENT = "kai.scheduler/segment-size"
LEVEL = {"kai.scheduler/segment-topology-required-placement": "rack"}
WORKER = {f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "0"}
IN_JOB = {"jobset.sigs.k8s.io/replicatedjob-name": "a", "jobset.sigs.k8s.io/job-index": "0"}


def fault(the_pod: Thing, *things: Thing) -> str:
    with pytest.raises(GroupingError) as caught:
        grouping(the_pod, World(things), GroupingSettings(priority_classes=CLASSES))
    return str(caught.value)


def of(kind: str, labels: Thing | None = None, annotations: Thing | None = None, **spec: Any) -> str:
    """What is wrong with a workload named w, as its pod is told."""
    top = owner(kind, "w", spec=spec)
    return fault(pod("p", top, labels=labels or {}, annotations=annotations or {}), top)


def minimum(count: int) -> Thing:
    return {"schedulingPolicy": {"minAvailable": count}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "spec.pytorchReplicaSpecs: missing"),
        ({"pytorchReplicaSpecs": {}}, "spec.pytorchReplicaSpecs: holds no role"),
        ({"pytorchReplicaSpecs": roles(Worker=0)}, "spec.pytorchReplicaSpecs.Worker.replicas: missing or 0"),
        ({"pytorchReplicaSpecs": {"Worker": {}}}, "spec.pytorchReplicaSpecs.Worker.replicas: missing or 0"),
        (
            {"pytorchReplicaSpecs": {"Worker": {"replicas": "2"}}},
            'spec.pytorchReplicaSpecs.Worker.replicas: expected a whole number, got "2"',
        ),
        ({"pytorchReplicaSpecs": roles(Worker=-1)}, "spec.pytorchReplicaSpecs.Worker.replicas: -1 is not a number"),
        ({"pytorchReplicaSpecs": []}, "spec.pytorchReplicaSpecs: expected a mapping, got []"),
        ({"runPolicy": minimum(2)}, "spec.pytorchReplicaSpecs: missing"),
    ],
)
def test_training_jobs(spec: Thing, told: str) -> None:
    assert of(TORCH, WORKER, **spec).startswith(f"PyTorchJob ml/w: {told}")


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("XGBoostJob", {"xgbReplicaSpecs": roles(Worker=1)}, "spec.xgbReplicaSpecs.Master: missing"),
        ("JAXJob", {"jaxReplicaSpecs": roles(Master=1)}, "spec.jaxReplicaSpecs.Worker: missing"),
        ("MPIJob", {"mpiReplicaSpecs": roles(Worker=1)}, "spec.mpiReplicaSpecs.Launcher: missing"),
        ("TFJob", {}, "spec.tfReplicaSpecs: missing"),
    ],
)
def test_roles_that_a_kind_cannot_do_without(kind: str, spec: Thing, told: str) -> None:
    assert of(f"kubeflow.org/v1 {kind}", **spec).startswith(f"{kind} ml/w: {told}")
    top = owner(f"kubeflow.org/v1 {kind}", "w", spec={**spec, "runPolicy": minimum(3)})
    assert " | 3 | " in line(grouping(pod("p", top), World((top,))))


def test_a_launcher_to_come_needs_its_number() -> None:
    spec = {"launcherCreationPolicy": "WaitForWorkersReady", "runPolicy": minimum(3)}
    told = of("kubeflow.org/v2beta1 MPIJob", **spec, mpiReplicaSpecs={"Worker": {"replicas": 2}})
    assert told.startswith("MPIJob ml/w: spec.mpiReplicaSpecs.Launcher.replicas: missing or 0")


@pytest.mark.parametrize(("phase", "least"), [(Phase.PENDING, 5), (Phase.RUNNING, 5), (Phase.FAILED, 4)])
def test_a_launcher_counts_while_it_lives(phase: Phase, least: int) -> None:
    top = owner("kubeflow.org/v2beta1 MPIJob", "w")
    top["spec"] = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": roles(Launcher=1, Worker=4),
    }
    labels = {f"{KUBEFLOW}/job-name": "w", f"{KUBEFLOW}/job-role": "launcher"}
    world = World((top,), there=(member("w-launcher", labels, phase=phase),))
    assert f" | {least} | " in line(grouping(pod("p", top), world))


def segments(labels: Thing, size: str = "2", **annotations: str) -> str:
    template = {"metadata": {"annotations": {SEGMENT: size, **annotations}}}
    return of(TORCH, labels, pytorchReplicaSpecs={"Worker": {"replicas": 4, "template": template}})


def test_segments_of_pytorch_jobs() -> None:
    place = f"spec.pytorchReplicaSpecs.Worker.template.metadata.annotations[{SEGMENT}]"
    assert segments(WORKER, "0").startswith(f"PyTorchJob ml/w: {place}: '0' is not a number of 1 or more")
    assert segments(WORKER, "two").startswith(f"PyTorchJob ml/w: {place}: 'two' is not")
    assert "annotations[kai.scheduler/topology]: missing" in segments(WORKER, **LEVEL)
    index = f"{KUBEFLOW}/replica-index"
    for text in ("-1", "x", "", "4"):
        told = segments({**WORKER, index: text})
        assert told.startswith(f"Pod ml/p: metadata.labels[{index}]: ")
    top = owner(TORCH, "w", spec={"pytorchReplicaSpecs": roles(Worker=4)})
    on_pod = pod("p", top, labels=WORKER, annotations={SEGMENT: "0"})
    assert fault(on_pod, top).startswith(f"Pod ml/p: metadata.annotations[{SEGMENT}]: '0' is not")
    many = owner(TORCH, "w", spec={"pytorchReplicaSpecs": roles(Worker=10_001)})
    told = fault(pod("p", many, labels=WORKER, annotations={SEGMENT: "1"}), many)
    assert "10,001 segments, and 10,000 are the most" in told


def test_a_job_without_workers_is_not_cut() -> None:
    template = {"metadata": {"annotations": {SEGMENT: "2"}}}
    top = owner(TORCH, "w")
    top["spec"] = {
        "runPolicy": minimum(1),
        "pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 0, "template": template}},
    }
    master = pod("p", top, labels={f"{KUBEFLOW}/replica-type": "master"})
    assert line(grouping(master, World((top,)))).endswith("| 1 | default-queue train | master 1, worker 0 | master")


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ({"replicas": 1, "groupName": "GPU_a"}, "spec.workerGroupSpecs[0].groupName: 'GPU_a' cannot name"),
        ({"replicas": 1, "groupName": "headgroup"}, "two parts of it need a sub-group named 'headgroup'"),
        ({"replicas": 1.5}, "spec.workerGroupSpecs[0].replicas: expected a whole number, got 1.5"),
        ({"replicas": True}, "spec.workerGroupSpecs[0].replicas: expected a whole number, got true"),
        ({"replicas": 1, "suspend": "no"}, 'spec.workerGroupSpecs[0].suspend: expected true or false, got "no"'),
        (
            {
                "replicas": 1,
                "template": {"metadata": {"annotations": {"kai.scheduler/topology-required-placement": "rack"}}},
            },
            "spec.workerGroupSpecs[0].template.metadata.annotations[kai.scheduler/topology]: missing",
        ),
    ],
)
def test_ray_clusters(workers: Thing, told: str) -> None:
    assert of(RAY, {"ray.io/group": "headgroup"}, workerGroupSpecs=[workers]).startswith(f"RayCluster ml/w: {told}")


def test_ray_clusters_that_are_still_to_come() -> None:
    for kind, place in (("RayJob", "rayClusterName"), ("RayService", "activeServiceStatus.rayClusterName")):
        told = of(f"ray.io/v1 {kind}")
        assert told.startswith(f"{kind} ml/w: status.{place}: empty: the Ray operator must create the cluster first")
    gone = owner("ray.io/v1 RayJob", "w", status={"rayClusterName": "w-1"})
    assert "there is no RayCluster ml/w-1 that can be read" in fault(pod("p", gone), gone)


def test_a_pod_that_is_not_of_the_ray_cluster_stays_out() -> None:
    """A submitter, for instance: it is in the group, in none of its parts, and somebody is told."""
    top = owner(RAY, "w", spec={"workerGroupSpecs": [{"groupName": "gpu", "replicas": 1}]})
    found = grouping(pod("submitter", top), World((top,)))
    assert (found.name, found.sub_group) == ("pg-w-uid-w", "")
    (note,) = found.notes
    assert (note.subject, note.field) == ("Pod ml/submitter", "metadata.labels[ray.io/group]")
    assert "'' is none of gpu, headgroup" in note.message


def test_topology_of_parts_of_ray_clusters() -> None:
    texts = {"kai.scheduler/topology": "net", "kai.scheduler/topology-preferred-placement": "rack"}
    only = {"kai.scheduler/topology": "net"}
    top = owner(RAY, "w")
    top["spec"] = {
        "headGroupSpec": {"template": {"metadata": {"annotations": only}}},
        "workerGroupSpecs": [{"replicas": 1, "template": {"metadata": {"annotations": texts}}}],
    }
    found = line(grouping(pod("p", top, labels={"ray.io/group": "headgroup"}), World((top,))))
    assert found.endswith("| headgroup 1, worker-group-0 1 in net:rack | headgroup")


@pytest.mark.parametrize(
    ("labels", "spec", "told"),
    [
        (IN_JOB, {}, "JobSet ml/w: spec.replicatedJobs: empty"),
        ({}, {"replicatedJobs": [{"name": "a"}]}, "Pod ml/p: metadata.labels[jobset.sigs.k8s.io/replicatedjob-name]"),
        (
            IN_JOB,
            {"replicatedJobs": [{"name": "b"}]},
            "Pod ml/p: metadata.labels[jobset.sigs.k8s.io/job-index]: JobSet",
        ),
        (IN_JOB, {"replicatedJobs": [{"name": "A_"}]}, "JobSet ml/w: spec.replicatedJobs[0].name: 'A_' cannot name"),
        (
            IN_JOB,
            {"replicatedJobs": [{"name": "a", "replicas": 10**9}]},
            "JobSet ml/w: spec.replicatedJobs[0].replicas: ",
        ),
        (IN_JOB, {"replicatedJobs": ["a"]}, 'JobSet ml/w: spec.replicatedJobs[0]: expected a mapping, got "a"'),
        (
            IN_JOB,
            {"replicatedJobs": [{"name": "a", "template": {"metadata": {"annotations": {MINIMUM: "0"}}}}]},
            f"JobSet ml/w: spec.replicatedJobs[0].template.metadata.annotations[{MINIMUM}]: '0' is not a number of 1",
        ),
    ],
)
def test_job_sets(labels: Thing, spec: Thing, told: str) -> None:
    assert of(JOBSET, labels, **spec).startswith(told)


def test_minimum_of_a_job_set() -> None:
    """Its annotation says how many parts are enough to start, but not more than there are."""
    jobs = [{"name": name, "replicas": count} for name, count in (("a", 1), ("b", 1), ("off", 0))]
    for text, parts in (("2", 2), ("9", 3)):
        top = owner(JOBSET, "w", annotations={MINIMUM: text}, spec={"replicatedJobs": jobs})
        found = line(grouping(pod("p", top, labels=IN_JOB), World((top,))))
        leaves = "a 1 parts, a/a-replica-0 1, b 1 parts, b/b-replica-0 1, off 0"
        assert found.endswith(f"| {parts} parts | default-queue train | {leaves} | a-replica-0")
    top = owner(JOBSET, "w", annotations={MINIMUM: "0"}, spec={"replicatedJobs": jobs})
    told = fault(pod("p", top, labels=IN_JOB), top)
    assert told.startswith(f"JobSet ml/w: metadata.annotations[{MINIMUM}]: '0' is not a number of 1 or more")


PLAIN = ["batch/v1 Job", "apps/v1 StatefulSet", "apps/v1 ReplicaSet", "example.com/v1 Crawl"]


@pytest.mark.parametrize("kind", PLAIN)
def test_minimum_of_workloads_without_a_size(kind: str) -> None:
    for text in ("-1", "many"):
        top = owner(kind, "w", annotations={MINIMUM: text})
        told = fault(pod("p", top), top)
        name = kind.rpartition(" ")[2]
        assert told.startswith(f"{name} ml/w: metadata.annotations[{MINIMUM}]: {text!r} is not a number of 0 or more")
    top = owner(kind, "w", annotations={MINIMUM: "3"})
    assert grouping(pod("p", top), World((top,))).manifest["spec"]["minMember"] == 3
    top = owner(kind, "w")
    assert grouping(pod("p", top), World((top,))).manifest["spec"]["minMember"] == 1


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"startupPolicy": "Later"}, "spec.startupPolicy: 'Later' is not known: use LeaderCreated or LeaderReady"),
        ({"subGroupSize": 1}, "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: 1 is not a size"),
        ({"subGroupSize": 6}, "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: 6 is not a size"),
        ({"subGroupSize": 3, "type": "LeaderExcluded"}, "4 workers without their leader do not fill segments of 3"),
        ({"subGroupSize": 2, "type": "Other"}, "spec.leaderWorkerTemplate.subGroupPolicy.type: 'Other' is not known"),
    ],
)
def test_leader_worker_sets(spec: Thing, told: str) -> None:
    startup = {"startupPolicy": spec.pop("startupPolicy")} if "startupPolicy" in spec else {}
    template = {"size": 5, **({"subGroupPolicy": spec} if spec else {})}
    things, the_pod = lws("w", {"leaderWorkerTemplate": template, **startup}, 1)
    found = fault(the_pod, *things)
    assert found.startswith("LeaderWorkerSet ml/w: ")
    assert told in found


@pytest.mark.parametrize("text", ["x", "-1", ""])
def test_labels_of_leader_worker_sets(text: str) -> None:
    things, the_pod = lws("w", {"leaderWorkerTemplate": {"size": 2}}, 1)
    for label in ("worker-index", "group-index"):
        key = f"leaderworkerset.sigs.k8s.io/{label}"
        broken = {
            **the_pod,
            "metadata": {**the_pod["metadata"], "labels": {**the_pod["metadata"]["labels"], key: text}},
        }
        assert fault(broken, *things).startswith(f"Pod ml/w-1-1: metadata.labels[{key}]: {text!r} is not a number")


def test_a_replica_keeps_the_size_that_it_was_made_with() -> None:
    size = {"leaderworkerset.sigs.k8s.io/size": "3"}
    things, the_pod = lws("w", {"leaderWorkerTemplate": {"size": 5}}, 1, annotations=size)
    assert line(grouping(the_pod, World(things))).endswith("| 3 | team-a train | leader 1, workers 2 | workers")
    things, the_pod = lws("w", {"leaderWorkerTemplate": {"size": 5}}, 1, annotations=dict.fromkeys(size, "x"))
    assert " | 5 | " in line(grouping(the_pod, World(things)))


def test_topology_of_segments_of_leader_worker_sets() -> None:
    annotations = {SEGMENT: "2", **LEVEL, "kai.scheduler/topology": "net"}
    template = {"size": 3, "workerTemplate": {"metadata": {"annotations": annotations}}}
    things, the_pod = lws("w", {"leaderWorkerTemplate": template}, 1)
    assert line(grouping(the_pod, World(things))).endswith(
        "| segment-0 2 parts in net:rack, segment-0/leader 1, segment-0/workers 2 | workers"
    )


def knative(there: Thing | None = None, min_scale: str = "2", gangs: bool = True) -> str:
    revision = owner("serving.knative.dev/v1 Revision", "llm-1")
    revision["metadata"]["annotations"] = {"autoscaling.knative.dev/min-scale": min_scale}
    top = owner("serving.knative.dev/v1 Service", "llm", labels={"priorityClassName": "build"})
    labels = {"serving.knative.dev/revision": "llm-1"}
    pods = [member(name, labels, group=group) for name, group in (there or {}).items()]
    settings = GroupingSettings(Config(gang_schedule_knative=gangs), CLASSES)
    return line(grouping(pod("p", top, labels=labels), World((top, revision), there=pods), settings))


@pytest.mark.parametrize(
    ("there", "is_gang"),
    [
        ({}, True),
        ({"a": "pg-llm-1-uid-llm-1", "b": "pg-llm-1-uid-llm-1"}, True),
        ({"a": "pg-a-uid-a"}, False),
        ({"a": "x", "b": "y"}, False),
    ],
)
def test_revisions_keep_the_groups_that_they_have(there: Thing, is_gang: bool) -> None:
    alone = "pg-p-uid-p of Pod p (uid-p) | 1 | default-queue inference |  | "
    gang = "pg-llm-1-uid-llm-1 of Revision llm-1 (uid-llm-1) | 2 | default-queue build |  | "
    assert knative(there) == (gang if is_gang else alone)
    assert knative(gangs=False) == alone


@pytest.mark.parametrize(("min_scale", "least"), [("0", 0), ("x", 1), ("", 1), ("3", 3)])
def test_minimum_of_a_revision(min_scale: str, least: int) -> None:
    assert f" | {least} | " in knative(min_scale=min_scale)


def grove(change: Thing, labels: Thing | None = None) -> str:
    gang = owner("scheduler.grove.io/v1alpha1 PodGang", "g", **change.pop("meta", {}))
    part = {"name": "a", "minReplicas": 1, "podReferences": [{"namespace": "ml", "name": "p"}]}
    gang["spec"] = {"podgroups": [{**part, **change}]}
    top = owner("grove.io/v1alpha1 PodCliqueSet", "w")
    return fault(pod("p", top, labels={"grove.io/podgang": "g"} if labels is None else labels), top, gang)


def test_grove() -> None:
    pack = {"packConstraint": {"required": "rack"}}
    other = {"podReferences": [{"namespace": "other", "name": "p"}]}
    assert grove({}, {}).startswith("Pod ml/p: metadata.labels[grove.io/podgang]: missing")
    assert "there is no PodGang 'gone'" in grove({}, {"grove.io/podgang": "gone"})
    assert grove({"minReplicas": 0}).startswith("PodGang ml/g: spec.podgroups[0].minReplicas: missing or 0")
    assert grove(other).startswith("PodGang ml/g: spec.podgroups[0].podReferences[0].namespace: 'other' is not")
    assert grove({"topologyConstraint": pack}).startswith("PodGang ml/g: metadata.annotations[grove.io/topology-name]")
    policy = {"meta": {"labels": {"kai.scheduler/preemptibility": "maybe"}}}
    assert grove(policy).startswith("PodGang ml/g: metadata.labels[kai.scheduler/preemptibility]: 'maybe' is neither")


def test_other_kinds() -> None:
    cron = owner("batch/v1 CronJob", "w")
    assert fault(pod("p", cron), cron).startswith("Pod ml/p: metadata.ownerReferences: no Job, although CronJob ml/w")
    told = of("amlarc.azureml.com/v1alpha1 AmlJob", job={"options": {}})
    assert told.startswith("AmlJob ml/w: spec.job.options.envs.AZUREML_NODE_COUNT: missing")
    service = of("serving.knative.dev/v1 Service")
    assert service.startswith("Pod ml/p: metadata.labels[serving.knative.dev/revision]: '' names no Revision")


def test_a_workload_that_may_not_be_read_whole() -> None:
    """Its metadata may come from elsewhere; its size does not."""
    top = owner(RAY, "w", spec={"workerGroupSpecs": []})

    class Metadata(World):
        def fetch(self, reference: Any) -> Any:
            if reference.whole:
                raise PermissionError
            return super().fetch(reference)

    with pytest.raises(GroupingError, match=r"^RayCluster ml/w: may not be read, and its size is needed: grant get"):
        grouping(pod("p", top), Metadata((top,)))
