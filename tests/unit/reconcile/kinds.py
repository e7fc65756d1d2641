"""A workload of every kind of the table of API 4.4, and the group that its pod is in, worked out by hand.

The rest of the kinds are in ``kinds_more``.

The group is written as "name of owner (uid) | minimum | queue, priority class and the rest | sub-groups | the pod's".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.unit.reconcile.workloads import QUEUE, Thing, owner, pod

RAY = {"ray.io/node-type": "worker", "ray.io/group": "gpu"}
KUBEFLOW = "training.kubeflow.org"
RAY_SPEC: dict[str, Any] = {
    "headGroupSpec": {"template": {}},
    "workerGroupSpecs": [
        {"groupName": "gpu", "replicas": 4, "minReplicas": 2, "maxReplicas": 6},
        {"groupName": "hosts", "replicas": 2, "numOfHosts": 4},
        {"replicas": 3},
        {"groupName": "asleep", "replicas": 5, "suspend": True},
        {"groupName": "none", "replicas": 0, "minReplicas": 0},
        {"groupName": "unsaid", "minReplicas": 2},
        {"groupName": "fewer", "replicas": 0, "minReplicas": 1},
        {"groupName": "more", "replicas": 9, "maxReplicas": 5},
    ],
}
# 1 head, 2 of gpu, 2 replicas of 4 hosts, 3 of the third, 2 and 1 as KubeRay makes at the least, 5 as the most
RAY_HOSTS = "hosts 2 parts, hosts/hosts-replica-0 4, hosts/hosts-replica-1 4"
RAY_GROUPS = f"headgroup 1, gpu 2, {RAY_HOSTS}, worker-group-2 3, unsaid 2, fewer 1, more 5"


class Row(NamedTuple):
    title: str
    things: tuple[Thing, ...]  # the owners, and what else the rule looks at
    pod: Thing
    group: str


def plain(kind: str, minimum: str = "1", terms: str = "team-a train", **spec: Any) -> Row:
    """A kind with one group for all pods of the top owner, with no sub-groups."""
    top = owner(kind, "top", labels=QUEUE, spec=spec)
    return Row(
        kind, (top,), pod("p", top), f"pg-top-uid-top of {top['kind']} top (uid-top) | {minimum} | {terms} |  | "
    )


def roles(**replicas: int) -> Thing:
    return {role: {"replicas": count, "template": {}} for role, count in replicas.items()}


def _kubernetes() -> list[Row]:
    web = owner("apps/v1 Deployment", "web", labels=QUEUE)
    web_set = owner("apps/v1 ReplicaSet", "web-6f", web)
    cron = owner("batch/v1 CronJob", "nightly", labels=QUEUE)
    run = owner("batch/v1 Job", "nightly-1", cron)
    gang = owner("batch/v1 Job", "sweep", labels=QUEUE, annotations={"kai.scheduler/batch-min-member": "3"})
    driver = pod("driver", labels={"spark-app-name": "etl", "spark-app-selector": "spark-7", **QUEUE})
    executor = pod("executor", driver, labels={"spark-app-name": "etl", "spark-app-selector": "spark-7"})
    return [
        Row(
            "Pod",
            (),
            pod("alone", labels=QUEUE),
            "pg-alone-uid-alone of Pod alone (uid-alone) | 1 | team-a train |  | ",
        ),
        Row("Spark driver", (), driver, "spark-7 of Pod driver (uid-driver) | 1 | team-a train |  | "),
        Row("Spark executor", (driver,), executor, "spark-7 of Pod driver (uid-driver) | 1 | team-a train |  | "),
        Row(
            "Deployment",
            (web, web_set),
            pod("web-6f-x", web_set),
            "pg-web-6f-x-uid-web-6f-x of Pod web-6f-x (uid-web-6f-x) | 1 | team-a inference |  | ",
        ),
        plain("apps/v1 ReplicaSet"),
        plain("apps/v1 StatefulSet"),
        plain("batch/v1 Job", parallelism=8),
        Row(
            "Job with a minimum",
            (gang,),
            pod("sweep-x", gang),
            "pg-sweep-uid-sweep of Job sweep (uid-sweep) | 3 | team-a train |  | ",
        ),
        Row(
            "CronJob",
            (cron, run),
            pod("nightly-1-x", run),
            "pg-nightly-1-uid-nightly-1 of Job nightly-1 (uid-nightly-1) | 1 | team-a train |  | ",
        ),
    ]


def _kubeflow() -> list[Row]:
    waits = owner("kubeflow.org/v2beta1 MPIJob", "waits", labels=QUEUE)
    waits["spec"] = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": roles(Launcher=1, Worker=4),
    }
    return [
        plain("kubeflow.org/v1 TFJob", "5", tfReplicaSpecs=roles(Chief=1, PS=2, Worker=2)),
        plain("kubeflow.org/v1 XGBoostJob", "3", xgbReplicaSpecs=roles(Master=1, Worker=2)),
        plain("kubeflow.org/v1 JAXJob", "4", jaxReplicaSpecs=roles(Worker=4)),
        plain("kubeflow.org/v1 MPIJob", "5", mpiReplicaSpecs=roles(Launcher=1, Worker=4)),
        plain("kubeflow.org/v2beta1 MPIJob", "5", mpiReplicaSpecs=roles(Launcher=1, Worker=4)),
        plain(
            "kubeflow.org/v1 TFJob",
            "2",
            runPolicy={"schedulingPolicy": {"minAvailable": 2}},
            tfReplicaSpecs=roles(Worker=4),
        )._replace(title="TFJob with a minimum"),
        Row(
            "MPIJob whose launcher is still to come",
            (waits,),
            pod("waits-worker-0", waits, labels={f"{KUBEFLOW}/job-name": "waits", f"{KUBEFLOW}/job-role": "worker"}),
            "pg-waits-uid-waits of MPIJob waits (uid-waits) | 4 | team-a train |  | ",
        ),
        plain("kubeflow.org/v1beta1 Notebook", terms="team-a build"),
        plain("kubeflow.org/v1alpha1 ScheduledWorkflow"),
    ]


def _pytorch() -> list[Row]:
    torch = owner("kubeflow.org/v1 PyTorchJob", "bert", labels=QUEUE)
    torch["spec"] = {"pytorchReplicaSpecs": roles(Master=1, Worker=3)}
    elastic = owner("kubeflow.org/v1 PyTorchJob", "grow", labels=QUEUE)
    elastic["spec"] = {"elasticPolicy": {"minReplicas": 2}, "pytorchReplicaSpecs": roles(Worker=6)}
    cut = owner("kubeflow.org/v1 PyTorchJob", "cut", labels=QUEUE, annotations={"kai.scheduler/topology": "net"})
    template = {
        "metadata": {
            "annotations": {
                "kai.scheduler/segment-size": "2",
                "kai.scheduler/segment-topology-required-placement": "rack",
            }
        }
    }
    cut["spec"] = {
        "runPolicy": {"schedulingPolicy": {"minAvailable": 4}},
        "pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 7, "template": template}},
    }
    worker = {f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "5"}
    return [
        Row(
            "PyTorchJob",
            (torch,),
            pod("bert-master-0", torch, labels={f"{KUBEFLOW}/replica-type": "master"}),
            "pg-bert-uid-bert of PyTorchJob bert (uid-bert) | 4 | team-a train | master 1, worker 3 | master",
        ),
        Row(
            "PyTorchJob, elastic",
            (elastic,),
            pod("grow-worker-5", elastic, labels=worker),
            "pg-grow-uid-grow of PyTorchJob grow (uid-grow) | 2 | team-a train | worker 2 | worker",
        ),
        # Segments begin with the workers 0, 2, 4 and 6; three of the seven are needed.
        Row(
            "PyTorchJob in segments",
            (cut,),
            pod("cut-worker-5", cut, labels=worker),
            "pg-cut-uid-cut of PyTorchJob cut (uid-cut) | 4 | team-a train in net: | master 1, worker 4 parts, "
            "worker/worker-0 2 in net:rack, worker/worker-1 2 in net:rack, worker/worker-2 0 in net:rack, "
            "worker/worker-3 0 in net:rack | worker-2",
        ),
    ]


def _ray(version: str) -> list[Row]:
    cluster = owner(f"{version} RayCluster", "rc", labels=QUEUE, spec=RAY_SPEC)
    job = owner(f"{version} RayJob", "rj", labels=QUEUE, status={"rayClusterName": "rj-1"})
    of_job = owner(f"{version} RayCluster", "rj-1", job, labels={"kai.scheduler/queue": "other"}, spec=RAY_SPEC)
    status = {"activeServiceStatus": {"rayClusterName": "rs-1"}, "pendingServiceStatus": {"rayClusterName": "rs-2"}}
    service = owner(f"{version} RayService", "rs", labels=QUEUE, status=status)
    service["metadata"]["labels"] = {**QUEUE, "ray.io/priority-class-name": "urgent"}
    active = owner(f"{version} RayCluster", "rs-1", service, spec=RAY_SPEC)
    pending = owner(f"{version} RayCluster", "rs-2", service, spec={"workerGroupSpecs": [{"replicas": 2}]})
    return [
        Row(
            f"RayCluster {version}",
            (cluster,),
            pod("rc-w", cluster, labels={**RAY, "kai.scheduler/queue": "other"}),
            f"pg-rc-uid-rc of RayCluster rc (uid-rc) | 22 | team-a train | {RAY_GROUPS} | gpu",
        ),
        Row(
            f"RayJob {version}",
            (job, of_job),
            pod("rj-1-head", of_job, labels={"ray.io/group": "headgroup", "kai.scheduler/queue": "other"}),
            f"pg-rj-uid-rj of RayJob rj (uid-rj) | 22 | team-a train | {RAY_GROUPS} | headgroup",
        ),
        Row(
            f"RayService {version}, a pod of the cluster to come",
            (service, active, pending),
            pod("rs-2-head", pending, labels={"ray.io/group": "headgroup"}),
            "pg-rs-2-uid-rs-2 of RayCluster rs-2 (uid-rs-2) | 3 | team-a urgent | "
            "headgroup 1, worker-group-0 2 | headgroup",
        ),
    ]


ROWS: list[Row] = [*_kubernetes(), *_kubeflow(), *_pytorch(), *_ray("ray.io/v1"), *_ray("ray.io/v1alpha1")]
