"""Workloads in files: the pods that are made of them, and that their groups are those of the live rules."""

from __future__ import annotations

import random

import msgspec
import pytest

from kai_sched.files.controllers.kinds import WORKLOADS
from kai_sched.files.controllers.registry import CONTROLLERS
from kai_sched.files.load import load
from kai_sched.model.config import Config
from kai_sched.model.objects import PodGroup
from kai_sched.model.read.kinds import POD_GROUP, Reader
from tests.unit.files.inputs import Write, listing, queue, thing, told
from tests.unit.files.workloads import CLASSES, OURS, QUEUE, RAY_SPEC, Thing, described, new, only, roles
from tests.unit.reconcile.kinds import Row
from tests.unit.reconcile.kinds_more import ALL
from tests.unit.reconcile.workloads import World, grouping, owner, pod


@pytest.mark.parametrize("row", ALL, ids=[row.title for row in ALL])
def test_pods_of_a_dump_get_the_groups_that_they_get_live(row: Row, write: Write) -> None:
    """The same objects and the same pod, from a file."""
    loaded = load([write("in.json", listing(queue("team-a"), queue("other"), *CLASSES, *row.things, row.pod))])
    assert not loaded.fatal
    cluster = loaded.cases[0].store.cluster()
    live = grouping(row.pod, World(row.things))
    the_pod = cluster.pods[f"ml/{row.pod['metadata']['name']}"]
    if row.title == "Pod":  # alone, it is a group by itself without a PodGroup
        assert (the_pod.group, list(cluster.pod_groups)) == ("", [])
        return
    assert (the_pod.group, the_pod.sub_group) == (live.name, live.sub_group)
    wanted = Reader(Config()).read(POD_GROUP, msgspec.json.encode(live.manifest), lambda *_: None)
    assert isinstance(wanted, PodGroup)
    assert cluster.pod_groups[f"ml/{live.name}"] == wanted
    # nothing was made beside what is there
    pods = [thing for thing in (*row.things, row.pod) if thing["kind"] == "Pod"]
    assert len(cluster.pods) == len(pods)


RAY_PARTS = "headgroup 1, a 2, b 2 parts, b-replica-0 2, b-replica-1 2, c 1 parts, c-replica-0 2, c-replica-1 2"
RAY_PODS = "a 4, b-replica-0 2, b-replica-1 2, c-replica-0 2, c-replica-1 2, headgroup 1"
RAY_GROUP = f"9 | team-a train | {RAY_PARTS} | {RAY_PODS}"
JOBS = [
    {"name": "driver", "template": {"spec": {"template": OURS}}},
    {"name": "work", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 3, "template": OURS}}},
]
MADE: list[tuple[str, Thing, list[str]]] = [
    (
        "apps/v1 Deployment",
        {"replicas": 2, "template": OURS},
        [f"ml/pg-w-1-r{i}-pod | 1 | team-a inference |  | pods 1" for i in (0, 1)],
    ),
    ("apps/v1 ReplicaSet", {"replicas": 3, "template": OURS}, ["ml/pg-w-replicaset | 1 | team-a train |  | pods 3"]),
    ("apps/v1 StatefulSet", {"template": OURS}, ["ml/pg-w-statefulset | 1 | team-a train |  | pods 1"]),
    ("batch/v1 Job", {"parallelism": 4, "template": OURS}, ["ml/pg-w-job | 1 | team-a train |  | pods 4"]),
    (
        "batch/v1 Job",
        {"parallelism": 4, "completions": 2, "completionMode": "Indexed", "template": OURS},
        ["ml/pg-w-job | 1 | team-a train |  | pods 2"],
    ),
    ("batch/v1 Job", {"suspend": True, "template": OURS}, []),
    (
        "batch/v1 CronJob",
        {"jobTemplate": {"spec": {"parallelism": 2, "template": OURS}}},
        ["ml/pg-w-1-job | 1 | team-a train |  | pods 2"],
    ),
    ("batch/v1 CronJob", {"suspend": True, "jobTemplate": {"spec": {"template": OURS}}}, []),
    ("ray.io/v1 RayCluster", RAY_SPEC, [f"ml/pg-w-raycluster | {RAY_GROUP}"]),
    ("ray.io/v1alpha1 RayCluster", RAY_SPEC, [f"ml/pg-w-raycluster | {RAY_GROUP}"]),
    ("ray.io/v1 RayCluster", {**RAY_SPEC, "suspend": True}, []),
    (
        "ray.io/v1 RayJob",
        {"submissionMode": "HTTPMode", "rayClusterSpec": RAY_SPEC},
        [f"ml/pg-w-rayjob | {RAY_GROUP}"],
    ),
    (
        "ray.io/v1alpha1 RayJob",
        {"submissionMode": "InteractiveMode", "rayClusterSpec": RAY_SPEC},
        [f"ml/pg-w-rayjob | {RAY_GROUP}"],
    ),
    ("ray.io/v1 RayJob", {"suspend": True, "rayClusterSpec": RAY_SPEC}, []),
    ("ray.io/v1 RayJob", {"clusterSelector": {"ray.io/cluster": "x"}}, []),
    ("ray.io/v1 RayService", {"rayClusterConfig": RAY_SPEC}, [f"ml/pg-w-raycluster-raycluster | {RAY_GROUP}"]),
    ("ray.io/v1alpha1 RayService", {"rayClusterConfig": RAY_SPEC}, [f"ml/pg-w-raycluster-raycluster | {RAY_GROUP}"]),
    (
        "kubeflow.org/v1 PyTorchJob",
        {"pytorchReplicaSpecs": roles(Master=1, Worker=3)},
        ["ml/pg-w-pytorchjob | 4 | team-a train | master 1, worker 3 | master 1, worker 3"],
    ),
    (
        "kubeflow.org/v1 PyTorchJob",
        {"elasticPolicy": {"minReplicas": 2}, "pytorchReplicaSpecs": roles(Worker=5)},
        ["ml/pg-w-pytorchjob | 2 | team-a train | worker 2 | worker 5"],
    ),
    ("kubeflow.org/v1 PyTorchJob", {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": roles(Worker=5)}, []),
    (
        "kubeflow.org/v1 TFJob",
        {"tfReplicaSpecs": roles(Chief=1, PS=2)},
        ["ml/pg-w-tfjob | 3 | team-a train |  | pods 3"],
    ),
    (
        "kubeflow.org/v1 XGBoostJob",
        {"xgbReplicaSpecs": roles(Master=1, Worker=1)},
        ["ml/pg-w-xgboostjob | 2 | team-a train |  | pods 2"],
    ),
    ("kubeflow.org/v1 JAXJob", {"jaxReplicaSpecs": roles(Worker=2)}, ["ml/pg-w-jaxjob | 2 | team-a train |  | pods 2"]),
    (
        "kubeflow.org/v1 MPIJob",
        {"mpiReplicaSpecs": roles(Launcher=1, Worker=2)},
        ["ml/pg-w-mpijob | 3 | team-a train |  | pods 3"],
    ),
    (
        "kubeflow.org/v2beta1 MPIJob",
        {"mpiReplicaSpecs": roles(Launcher=1, Worker=2)},
        ["ml/pg-w-mpijob | 3 | team-a train |  | pods 3"],
    ),
    (
        "jobset.x-k8s.io/v1alpha2 JobSet",
        {"replicatedJobs": JOBS},
        [
            "ml/pg-w-jobset | 2 parts | team-a train | driver 1 parts, driver-replica-0 1, "
            "work 2 parts, work-replica-0 3, work-replica-1 3 | driver-replica-0 1, work-replica-0 3, work-replica-1 3"
        ],
    ),
    ("jobset.x-k8s.io/v1alpha2 JobSet", {"suspend": True, "replicatedJobs": JOBS}, []),
    ("trainer.kubeflow.org/v1alpha1 TrainJob", {"suspend": True}, []),
    (
        "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": OURS}},
        [
            f"ml/pg-w-leaderworkerset-group-{i} | 3 | team-a train | leader 1, workers 2 | leader 1, workers 2"
            for i in (0, 1)
        ],
    ),
]


@pytest.mark.parametrize(("kind", "spec", "groups"), MADE, ids=[f"{kind} {n}" for n, (kind, _, _) in enumerate(MADE)])
def test_pods_that_controllers_would_make(kind: str, spec: Thing, groups: list[str], write: Write) -> None:
    loaded = load([write("in.json", listing(queue("team-a"), new(kind, "w", spec)))])
    assert [line for line in told(loaded) if "uspend: true, so that it has no pods" not in line] == []
    assert described(loaded.cases[0]) == groups


def test_every_controller_has_a_case() -> None:
    assert CONTROLLERS.keys() - {tuple(kind.split(" ")) for kind, _, _ in MADE} == set()


def test_the_kinds_are_those_that_have_a_controller() -> None:
    assert set(CONTROLLERS) == WORKLOADS


STEPS: list[tuple[Thing, list[str], dict[str, str]]] = [
    (
        {"replicatedJobs": [JOBS[0], {**JOBS[1], "dependsOn": [{"name": "driver", "status": "Complete"}]}]},
        ["ml/pg-w-jobset | 1 parts | team-a train | driver 1 parts, driver-replica-0 1 | driver-replica-0 1"],
        {"spec.replicatedJobs[1]": "work starts once driver is Complete"},
    ),
    (
        {"replicatedJobs": JOBS, "startupPolicy": {"startupPolicyOrder": "InOrder"}},
        [
            "ml/pg-w-jobset | 1 parts | team-a train | driver 1 parts, driver-replica-0 1, "
            "work 2 parts, work-replica-0 3, work-replica-1 3 | driver-replica-0 1"
        ],
        {"spec.replicatedJobs[1]": "work starts once driver is Ready"},
    ),
    (
        {
            "replicatedJobs": [
                {**JOBS[0], "replicas": 0},
                {**JOBS[1], "replicas": 1, "dependsOn": [{"name": "driver", "status": "Ready"}]},
                {**JOBS[0], "name": "last", "dependsOn": [{"name": "work", "status": "Ready"}]},
            ]
        },
        ["ml/pg-w-jobset-work | 1 parts | team-a train | work 1 parts, work-replica-0 3 | work-replica-0 3"],
        {"spec.replicatedJobs[2]": "last starts once work is Ready"},
    ),
]


@pytest.mark.parametrize(("spec", "groups", "waits"), STEPS, ids=["dependsOn", "in order", "after no jobs"])
def test_a_job_set_in_steps(spec: Thing, groups: list[str], waits: dict[str, str], write: Write) -> None:
    """Only what starts at once is there, and what waits for what is told."""
    loaded = load([write("in.json", listing(queue("team-a"), new("jobset.x-k8s.io/v1alpha2 JobSet", "w", spec)))])
    assert described(loaded.cases[0]) == groups
    for text, (field, words) in zip(told(loaded), waits.items(), strict=True):
        assert f"JobSet ml/w: {field}: {words}, so its pods are left out" in text


class TestPods:
    def test_of_ray(self, write: Write) -> None:
        """The queue of the cluster wins over that of the template, the head has its autoscaler beside it."""
        template = {
            "metadata": {"labels": {"kai.scheduler/queue": "other", "app": "x"}},
            "spec": {"containers": [{"name": "ray", "resources": {"requests": {"cpu": "1"}}}]},
        }
        spec = {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": template}}
        found = only(write, new("ray.io/v1 RayCluster", "rc", spec)).store.cluster().pods["ml/rc-head"]
        assert (found.queue, found.labels["app"], found.scheduler) == ("team-a", "x", "kai-scheduler")
        assert (found.labels["ray.io/node-type"], found.labels["ray.io/group"]) == ("head", "headgroup")
        assert dict(found.shape.request) == {"cpu": 1500, "memory": 512 * 2**20, "pods": 1}

    def test_of_a_ray_job_with_a_sidecar(self, write: Write) -> None:
        head = {"spec": {"containers": [{"name": "ray", "resources": {"requests": {"cpu": "1"}}}]}}
        spec: Thing = {"submissionMode": "SidecarMode", "rayClusterSpec": {"headGroupSpec": {"template": head}}}
        pods = only(write, new("ray.io/v1 RayJob", "rj", spec)).store.cluster().pods
        assert dict(pods["ml/rj-raycluster-head"].shape.request)["cpu"] == 1500
        spec["submitterPodTemplate"] = {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}}
        pods = only(write, new("ray.io/v1 RayJob", "rj", spec)).store.cluster().pods
        assert dict(pods["ml/rj-raycluster-head"].shape.request)["cpu"] == 3000

    def test_of_a_stateful_set_with_claims(self, write: Write) -> None:
        """Each pod has a claim of its own; one that is there is kept."""
        claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}
        spec = {"replicas": 2, "ordinals": {"start": 1}, "template": OURS, "volumeClaimTemplates": [claim]}
        there = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-db-2", "namespace": "ml"},
            "spec": {"storageClassName": "own"},
        }
        cluster = only(write, there, new("apps/v1 StatefulSet", "db", spec)).store.cluster()
        assert {pod.key: pod.shape.claims for pod in cluster.pods.values()} == {
            "ml/db-1": ("ml/data-db-1",),
            "ml/db-2": ("ml/data-db-2",),
        }
        classes = {key: each.storage_class for key, each in cluster.volume_claims.items()}
        assert classes == {"ml/data-db-1": "fast", "ml/data-db-2": "own"}

    def test_of_kubeflow_know_their_role(self, write: Write) -> None:
        spec = {"pytorchReplicaSpecs": roles(Master=1, Worker=1)}
        pods = only(write, new("kubeflow.org/v1 PyTorchJob", "t", spec)).store.cluster().pods
        key = "training.kubeflow.org/job-role"
        assert {name: pod.labels.get(key) for name, pod in pods.items()} == {
            "ml/t-master-0": "master",
            "ml/t-worker-0": None,
        }

    def test_of_a_train_job_follow_its_runtime(self, write: Write) -> None:
        """Size and resources of the trainer are those of the TrainJob; other steps stay as the runtime has them."""
        node = {"schedulerName": "kai-scheduler", "containers": [{"name": "node"}, {"name": "log"}]}
        step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
        jobs = [
            {"name": "node", "template": {"metadata": step, "spec": {"template": {"spec": node}}}},
            {"name": "init", "template": {"spec": {"template": OURS}}},
        ]
        runtime = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "torch"},
            "spec": {"mlPolicy": {"numNodes": 3}, "template": {"spec": {"replicatedJobs": jobs}}},
        }
        trainer: Thing = {"numNodes": 2, "resourcesPerNode": {"limits": {"cpu": "4", "nvidia.com/gpu": "1"}}}
        kind = "trainer.kubeflow.org/v1alpha1 TrainJob"
        case = only(write, runtime, new(kind, "t", {"runtimeRef": {"name": "torch"}, "trainer": trainer}))
        parts = (
            "node 1 parts, node-replica-0 {0}, init 1 parts, init-replica-0 1 | init-replica-0 1, node-replica-0 {0}"
        )
        assert described(case) == [f"ml/pg-t-jobset | 2 parts | team-a train | {parts.format(2)}"]
        pods = case.store.cluster().pods
        assert dict(pods["ml/t-node-0-j1"].shape.request) == {"cpu": 4000, "gpu": 1, "pods": 1}
        assert dict(pods["ml/t-init-0-j0"].shape.request) == {"pods": 1}
        case = only(write, runtime, new(kind, "t", {"runtimeRef": {"name": "torch"}}))
        assert described(case) == [f"ml/pg-t-jobset | 2 parts | team-a train | {parts.format(3)}"]

    def test_are_younger_than_all_that_is_there(self, write: Write) -> None:
        """They are judged as if they were created now. A time of its own is kept."""
        old = {**queue("x"), "metadata": {"name": "x", "creationTimestamp": "2026-01-01T12:00:00Z"}}
        job = {"parallelism": 1, "template": OURS}
        dated = new("batch/v1 Job", "dated", job, creationTimestamp="2026-01-01T10:00:00Z")
        cluster = only(write, old, new("batch/v1 Job", "now", job), dated).store.cluster()
        noon = 1_767_268_800 * 10**9
        created = {key: pod.created_ns - noon for key, pod in cluster.pods.items()}
        assert created == {"ml/now-j0": 10**9, "ml/dated-j0": -7200 * 10**9}
        assert {key: group.created_ns - noon for key, group in cluster.pod_groups.items()} == {
            "ml/pg-now-job": 10**9,
            "ml/pg-dated-job": -7200 * 10**9,
        }


class TestPriorities:
    def test_the_classes_that_are_shipped_are_there(self, write: Write) -> None:
        """Where the input has none of its own."""
        job = new("batch/v1 Job", "w", {"template": OURS}, labels={"priorityClassName": "inference"})
        case = only(write, job)
        assert {key: each.value for key, each in case.store.cluster().priority_classes.items()} == {
            "train": 50,
            "build-preemptible": 75,
            "build": 100,
            "inference": 125,
        }
        assert described(case) == ["ml/pg-w-job | 1 | team-a inference |  | pods 1"]

    def test_kinds_of_a_config_map(self, write: Write) -> None:
        """kai-config names it; it gives kinds their priority, and sizes to kinds without a rule."""
        arguments = {"defaultPrioritiesConfigMapName": "kinds", "defaultPrioritiesConfigMapNamespace": "kai"}
        config = {
            "apiVersion": "kai.scheduler/v1",
            "kind": "Config",
            "metadata": {"name": "kai-config"},
            "spec": {"podGrouper": {"args": arguments}},
        }
        data = {
            "types": '[{"typeName": "Job", "group": "batch", "priorityName": "build"}]',
            "rules": '[{"kind": "Solver", "group": "example.com", "minimum": "spec.least"}]',
        }
        kinds = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kinds", "namespace": "kai"},
            "data": data,
        }
        solver = owner("example.com/v1 Solver", "s", labels=QUEUE, spec={"least": 2})
        members = [pod(f"s-{i}", solver) for i in range(3)]
        job = new("batch/v1 Job", "w", {"template": OURS})
        assert described(only(write, *CLASSES, config, kinds, solver, *members, job)) == [
            "ml/pg-s-uid-s | 2 | team-a train |  | pods 3",
            "ml/pg-w-job | 1 | team-a build |  | pods 1",
        ]


class TestGroupsThatAreThere:
    def test_are_brought_up_to_date(self, write: Write) -> None:
        """As in a cluster: the queue that somebody gave it stays, its size is that of the workload."""
        top = owner("ray.io/v1 RayCluster", "rc", labels=QUEUE, spec={"headGroupSpec": {}})
        head = pod("rc-head", top, labels={"ray.io/group": "headgroup"})
        spec = {"queue": "moved", "minMember": 9, "subGroups": [{"name": "headgroup", "minMember": 9}]}
        old = owner("scheduling.run.ai/v2alpha2 PodGroup", "pg-rc-uid-rc", spec=spec)
        case = only(write, queue("moved"), top, head, old)
        assert described(case) == ["ml/pg-rc-uid-rc | 1 | moved train | headgroup 1 | headgroup 1"]
        assert case.store.cluster().pod_groups["ml/pg-rc-uid-rc"].uid == "uid-pg-rc-uid-rc"

    def test_and_that_their_pods_name_are_left_alone(self, write: Write) -> None:
        top = owner("batch/v1 Job", "w", labels=QUEUE)
        member = pod("w-0", top, annotations={"pod-group-name": "mine"})
        old = owner("scheduling.run.ai/v2alpha2 PodGroup", "mine", spec={"queue": "team-a", "minMember": 1})
        assert described(only(write, top, member, old)) == ["ml/mine | 1 | team-a  |  | pods 1"]


def test_any_order_gives_the_same_cluster(write: Write) -> None:
    things = [new(kind, f"w{n}", spec) for n, (kind, spec, _) in enumerate(MADE)]
    top = owner("batch/v1 Job", "dump", labels=QUEUE)
    things += [
        top,
        *(pod(f"dump-{i}", top, labels={"priorityClassName": name}) for i, name in enumerate(("build", "x"))),
    ]
    seen = None
    for seed in range(3):
        random.Random(seed).shuffle(things)
        loaded = load([write("in.json", listing(queue("team-a"), *CLASSES, *things))])
        cluster = loaded.cases[0].store.cluster()
        found = (cluster.pods, cluster.pod_groups, sorted(str(each).partition(": ")[2] for each in loaded.problems))
        seen = seen or found
        assert found == seen


def test_bare_pods_get_groups_where_the_config_among_the_files_says_so(write: Write) -> None:
    """As in a cluster; one that names a group, or asks for none, is left alone."""
    config = thing("Config", "kai-config", {"podGrouper": {"args": {"groupBarePods": True}}})
    mine = new("v1 Pod", "mine", OURS["spec"], annotations={"pod-group-name": "of-a-person"})
    skips = new("v1 Pod", "skips", OURS["spec"], annotations={"kai.scheduler/skip-podgrouper": "true"})
    pods = [new("v1 Pod", "p", OURS["spec"]), mine, skips]
    named = thing("PodGroup", "of-a-person", {"minMember": 1, "queue": "team-a"}, "ml")
    case = only(write, *CLASSES, named, *pods, config)
    assert {pod.name: pod.group for pod in case.store.cluster().pods.values()} == {
        "p": "pg-p-pod",
        "mine": "of-a-person",
        "skips": "",
    }
    assert described(case)[1:] == ["ml/pg-p-pod | 1 | team-a train |  | pods 1"]
    case = only(write, *CLASSES, named, *pods)
    assert [pod.group for pod in case.store.cluster().pods.values() if pod.name == "p"] == [""]
