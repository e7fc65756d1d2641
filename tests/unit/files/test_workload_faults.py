"""What is wrong with workloads in files, and what is left out: one line each, with the file, the object, the field."""

from __future__ import annotations

import pytest

from kai_sched.files.load import load
from tests.unit.files.inputs import Write, listing, queue, told
from tests.unit.files.workloads import CLASSES, OURS, QUEUE, RAY, RAY_SPEC, Thing, described, new, only, roles
from tests.unit.reconcile.workloads import owner, pod


class TestFaults:
    def of(self, write: Write, *things: Thing) -> str:
        (text,) = told(load([write("in.json", listing(queue("team-a"), *CLASSES, *things))]))
        return text.partition("in.json, document 1, ")[2]

    def test_a_workload_that_cannot_be_grouped(self, write: Write) -> None:
        spec = {"workerGroupSpecs": [{"replicas": 1.5, "template": RAY}]}
        loaded = load([write("in.json", listing(queue("team-a"), new("ray.io/v1 RayCluster", "rc", spec)))])
        assert loaded.fatal
        text = "item 2: RayCluster ml/rc: spec.workerGroupSpecs[0].replicas: expected a whole number, got 1.5"
        assert text in told(loaded)[0]

    def test_pods_of_a_cluster_that_cannot_be_grouped_wait(self, write: Write) -> None:
        """One such workload does not stop the command, and its pods are not scheduled one by one instead."""
        top = owner("ray.io/v1 RayCluster", "rc", spec={"workerGroupSpecs": [{"replicas": 1.5}]})
        loaded = load([write("in.json", listing(queue("team-a"), top, pod("rc-head", top)))])
        assert not loaded.fatal
        first, second = told(loaded)
        assert "RayCluster ml/rc: spec.workerGroupSpecs[0].replicas: expected a whole number, got 1.5" in first
        assert "Pod ml/rc-head: metadata.annotations[pod-group-name]: there is no PodGroup 'ml/pg-rc-uid-rc'" in second

    def test_a_missing_label_is_told_of_what_the_user_wrote(self, write: Write) -> None:
        cluster = new("ray.io/v1 RayCluster", "rc", RAY_SPEC)
        del cluster["metadata"]["labels"]
        text = self.of(write, cluster)
        begins = "item 6: RayCluster ml/rc: metadata.labels[kai.scheduler/queue]: the label is missing, and there is no"
        assert text.startswith(
            f"{begins} queue 'default-queue', so the group stays pending: the queues that accept pods"
        )

    def test_the_mode_that_kuberay_refuses(self, write: Write) -> None:
        job = new("ray.io/v1 RayJob", "rj", {"rayClusterSpec": RAY_SPEC})
        assert self.of(write, job).startswith("item 6: RayJob ml/rj: spec.submissionMode: KubeRay refuses K8sJobMode")
        # without the operator's option, people name the scheduler themselves, and the mode is allowed
        spec = {"headGroupSpec": {"template": OURS}, "workerGroupSpecs": [{"replicas": 1, "template": OURS}]}
        case = only(write, new("ray.io/v1 RayJob", "rj", {"rayClusterSpec": spec}))
        assert described(case) == [
            "ml/pg-rj-rayjob | 2 | team-a train | headgroup 1, worker-group-0 1 | headgroup 1, worker-group-0 1"
        ]

    def test_a_runtime_that_is_not_in_the_input(self, write: Write) -> None:
        job = new("trainer.kubeflow.org/v1alpha1 TrainJob", "t", {"runtimeRef": {"name": "torch"}})
        text = "item 6: TrainJob ml/t: spec.runtimeRef.name: there is no ClusterTrainingRuntime 'torch' in the input"
        assert self.of(write, job).startswith(text)

    def test_pods_of_another_scheduler(self, write: Write) -> None:
        text = self.of(write, new("batch/v1 Job", "w", {"parallelism": 2, "template": RAY}))
        assert text.startswith(
            "item 6: Job ml/w: schedulerName: 2 pods are ignored, as the scheduler 'default-scheduler'"
        )
        assert "set schedulerName: kai-scheduler in the pod template" in text

    def test_a_workload_of_a_cluster_without_its_pods(self, write: Write) -> None:
        job = new("batch/v1 Job", "w", {"template": OURS}, uid="u")
        text = self.of(write, job)
        assert text.startswith("item 6: Job ml/w: metadata.uid: the workload has a uid, so it was read from a cluster")
        idle = new("batch/v1 Job", "w", {"suspend": True, "template": OURS}, uid="u")
        text = self.of(write, idle)
        assert text.startswith("item 6: Job ml/w: spec.suspend: true, so that it has no pods: ")

    def test_a_workload_that_is_there_twice(self, write: Write) -> None:
        job = new("batch/v1 Job", "w", {"template": OURS})
        assert self.of(write, job, job).startswith("item 7: Job ml/w: already defined in ")

    def test_names_that_are_taken(self, write: Write) -> None:
        text = self.of(write, new("batch/v1 Job", "w", {"template": OURS}), pod("w-j0", labels=QUEUE))
        assert "Job ml/w: it would create Pod ml/w-j0, which is in the input already: rename one of them" in text

    def test_workloads_of_one_name_and_different_kinds(self, write: Write) -> None:
        kinds = ("batch/v1 Job", "apps/v1 StatefulSet", "apps/v1 ReplicaSet", "apps/v1 Deployment")
        case = only(write, *(new(kind, "w", {"template": OURS}) for kind in kinds))
        assert len(case.store.cluster().pods) == len(case.store.cluster().pod_groups) == len(kinds)

    @pytest.mark.slow
    def test_more_pods_than_any_cluster_has(self, write: Write) -> None:
        jobs = [{"name": "a", "replicas": 10_000, "template": {"spec": {"parallelism": 10**9, "template": OURS}}}]
        text = self.of(write, new("jobset.x-k8s.io/v1alpha2 JobSet", "w", {"replicatedJobs": jobs}))
        assert "JobSet ml/w: would create more than 100,000 objects: correct its numbers of replicas" in text

    def test_workers_that_wait_for_their_leader(self, write: Write) -> None:
        spec = {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3, "workerTemplate": OURS}}
        loaded = load(
            [write("in.json", listing(queue("team-a"), new("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", "w", spec)))]
        )
        assert "spec.startupPolicy: workers start once their leader is ready" in told(loaded)[0]
        assert described(loaded.cases[0]) == [
            "ml/pg-w-leaderworkerset-group-0 | 1 | team-a train | leader 1 | leader 1"
        ]

    def test_a_launcher_that_waits_for_its_workers(self, write: Write) -> None:
        spec = {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": roles(Launcher=1, Worker=2)}
        loaded = load([write("in.json", listing(queue("team-a"), new("kubeflow.org/v2beta1 MPIJob", "w", spec)))])
        assert "spec.launcherCreationPolicy: the launcher starts once the workers are ready" in told(loaded)[0]
        assert described(loaded.cases[0]) == ["ml/pg-w-mpijob | 2 | team-a train |  | pods 2"]

    def test_a_queue_that_is_not_there_is_told_where_it_is_named(self, write: Write) -> None:
        job = new("batch/v1 Job", "w", {"template": OURS}, labels={"kai.scheduler/queue": "gone"})
        text = self.of(write, job)
        assert text.startswith("item 6: Job ml/w: metadata.labels[kai.scheduler/queue]: there is no queue 'gone'")
        assert text.endswith("the queues that accept pods are team-a")

    @pytest.mark.parametrize(
        ("meta", "field"),
        [
            ({"name": None}, "metadata.name"),
            ({"namespace": "a/b"}, "metadata.namespace"),
            ({"labels": {"a": 1}}, "metadata.labels.a"),
            ({"creationTimestamp": "today"}, "metadata.creationTimestamp"),
        ],
    )
    def test_metadata(self, write: Write, meta: Thing, field: str) -> None:
        job = new("batch/v1 Job", "w", {"template": OURS})
        job["metadata"] |= meta
        loaded = load([write("in.json", listing(queue("team-a"), job))])
        assert loaded.fatal
        assert f": {field}: " in told(loaded)[0]
