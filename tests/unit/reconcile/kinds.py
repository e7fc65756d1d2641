"""A workload of every kind of the API contract's table (4.4), and the group that its pod is in, worked out by hand.

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
    ],
}
# 1 head, 2 of gpu, 2 * 4 of hosts, 3 of the third
RAY_GROUPS = "headgroup 1, gpu 2, hosts 8, worker-group-2 3"


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
    waits = owner("kubeflow.org/v2beta1 MPIJob", "waits", labels=QUEUE)
    waits["spec"] = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": roles(Launcher=1, Worker=4),
    }
    worker = {f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "5"}
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
        plain("kubeflow.org/v1beta1 Notebook", terms="team-a build"),
        plain("kubeflow.org/v1alpha1 ScheduledWorkflow"),
    ]


def _ray(version: str) -> list[Row]:
    cluster = owner(f"{version} RayCluster", "rc", labels=QUEUE, spec=RAY_SPEC)
    job = owner(f"{version} RayJob", "rj", labels=QUEUE, status={"rayClusterName": "rj-1"})
    of_job = owner(f"{version} RayCluster", "rj-1", job, labels={"kai.scheduler/queue": "other"}, spec=RAY_SPEC)
    status = {"activeServiceStatus": {"rayClusterName": "rs-1"}, "pendingServiceStatus": {"rayClusterName": "rs-2"}}
    service = owner(f"{version} RayService", "rs", labels=QUEUE, status=status)
    service["metadata"]["labels"] = {**QUEUE, "ray.io/priority-class-name": "urgent"}
    active = owner(f"{version} RayCluster", "rs-1", service, spec=RAY_SPEC)
    pending = owner(f"{version} RayCluster", "rs-2", service, spec={"workerGroupSpecs": []})
    return [
        Row(
            f"RayCluster {version}",
            (cluster,),
            pod("rc-w", cluster, labels={**RAY, "kai.scheduler/queue": "other"}),
            f"pg-rc-uid-rc of RayCluster rc (uid-rc) | 14 | team-a train | {RAY_GROUPS} | gpu",
        ),
        Row(
            f"RayJob {version}",
            (job, of_job),
            pod("rj-1-head", of_job, labels={"ray.io/group": "headgroup", "kai.scheduler/queue": "other"}),
            f"pg-rj-uid-rj of RayJob rj (uid-rj) | 14 | team-a train | {RAY_GROUPS} | headgroup",
        ),
        Row(
            f"RayService {version}, a pod of the cluster to come",
            (service, active, pending),
            pod("rs-2-w", pending, labels=RAY),
            f"pg-rs-uid-rs of RayService rs (uid-rs) | 14 | team-a urgent | {RAY_GROUPS} | gpu",
        ),
    ]


def _sets() -> list[Row]:
    jobs = [
        {"name": "driver", "template": {"spec": {}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4}}},
    ]
    js = owner("jobset.x-k8s.io/v1alpha2 JobSet", "js", labels=QUEUE, spec={"replicatedJobs": jobs})
    ordered = owner("jobset.x-k8s.io/v1alpha2 JobSet", "os", labels=QUEUE)
    ordered["spec"] = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    job = owner("batch/v1 Job", "js-workers-1", js)
    first = owner("batch/v1 Job", "os-driver-0", ordered)
    leaves = (
        "driver 1 parts, driver/driver-replica-0 1, "
        "workers 2 parts, workers/workers-replica-0 4, workers/workers-replica-1 4"
    )
    label = "jobset.sigs.k8s.io"

    def in_job(name: str, index: int) -> dict[str, str]:
        return {f"{label}/replicatedjob-name": name, f"{label}/job-index": str(index)}

    train = owner("trainer.kubeflow.org/v1alpha1 TrainJob", "tj", labels={**QUEUE, "priorityClassName": "build"})
    of_train = owner("jobset.x-k8s.io/v1alpha2 JobSet", "tj", train, spec={"replicatedJobs": jobs[1:]})
    of_train["metadata"]["uid"] = "uid-tj-set"
    train_job = owner("batch/v1 Job", "tj-workers-0", of_train)
    return [
        Row(
            "JobSet",
            (js, job),
            pod("js-workers-1-0", job, labels=in_job("workers", 1)),
            f"pg-js-uid-js of JobSet js (uid-js) | 2 parts | team-a train | {leaves} | workers-replica-1",
        ),
        Row(
            "JobSet in order",
            (ordered, first),
            pod("os-driver-0-0", first, labels=in_job("driver", 0)),
            f"pg-os-uid-os of JobSet os (uid-os) | 1 parts | team-a train | {leaves} | driver-replica-0",
        ),
        Row(
            "TrainJob",
            (train, of_train, train_job),
            pod("tj-workers-0-1", train_job, labels=in_job("workers", 0)),
            "pg-tj-uid-tj-set of JobSet tj (uid-tj-set) | 1 parts | team-a build | workers 2 parts, "
            "workers/workers-replica-0 4, workers/workers-replica-1 4 | workers-replica-0",
        ),
        *_leader_worker_sets(),
    ]


def lws(name: str, spec: Thing, index: int, **parts: Any) -> tuple[tuple[Thing, ...], Thing]:
    """A LeaderWorkerSet with its chain of owners, and a pod of its replica 1."""
    label = "leaderworkerset.sigs.k8s.io"
    top = owner("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", name, labels=QUEUE, spec=spec)
    leaders = owner("apps/v1 StatefulSet", name, top)
    leaders["metadata"]["uid"] = "uid-leaders"

    def labels(number: int) -> dict[str, str]:
        return {f"{label}/group-index": "1", f"{label}/worker-index": str(number)}

    leader = pod(f"{name}-1", leaders, labels=labels(0), **(parts if index == 0 else {}))
    if index == 0:
        return (top, leaders), leader
    workers = owner("apps/v1 StatefulSet", f"{name}-1", leader)
    workers["metadata"]["uid"] = "uid-workers"
    return (top, leaders, leader, workers), pod(f"{name}-1-{index}", workers, labels=labels(index), **parts)


def _leader_worker_sets() -> list[Row]:
    def row(title: str, name: str, spec: Thing, index: int, group: str, **parts: Any) -> Row:
        things, the_pod = lws(name, spec, index, **parts)
        head = f"pg-{name}-uid-{name}-group-1 of LeaderWorkerSet {name} (uid-{name})"
        return Row(title, things, the_pod, f"{head} | {group}")

    def sized(size: int, segment: int = 0, policy: str = "", **spec: Any) -> Thing:
        template: Thing = {"size": size}
        if segment:
            template["subGroupPolicy"] = {"subGroupSize": segment, **({"type": policy} if policy else {})}
        return {"leaderWorkerTemplate": template, **spec}

    ready = {"startupPolicy": "LeaderReady"}
    return [
        row("LeaderWorkerSet", "a", sized(4), 2, "4 | team-a train | leader 1, workers 3 | workers"),
        row("LeaderWorkerSet, a leader alone", "b", sized(1), 0, "1 | team-a train | leader 1 | leader"),
        row("LeaderReady, its leader waits", "c", sized(4, **ready), 0, "1 | team-a train | leader 1 | leader"),
        row(
            "LeaderReady, its leader has a node",
            "d",
            sized(4, **ready),
            0,
            "4 | team-a train | leader 1, workers 3 | leader",
            nodeName="node-1",
        ),
        # 8 workers fill two segments of 4; the leader is on top of the first. Worker 5 is the first of the second.
        row(
            "segments that the workers fill",
            "e",
            sized(9, 4),
            5,
            "9 | team-a train | segment-0 2 parts, segment-0/leader 1, segment-0/workers 4, segment-1 4 | segment-1",
        ),
        # 9 workers and the leader: 4 and 4 and 2, the leader among the first four. Worker 3 is the last of these.
        row(
            "segments with the leader among them",
            "f",
            sized(10, 4),
            3,
            "10 | team-a train | segment-0 2 parts, segment-0/leader 1, segment-0/workers 3, segment-1 4, segment-2 2 "
            "| workers",
        ),
        row(
            "segments without the leader",
            "g",
            sized(5, 2, "LeaderExcluded"),
            2,
            "5 | team-a train | leader 1, segment-0 2, segment-1 2 | segment-0",
        ),
    ]


def _others() -> list[Row]:
    service = owner("serving.knative.dev/v1 Service", "llm", labels=QUEUE)
    configuration = owner("serving.knative.dev/v1 Configuration", "llm", service)
    revision = owner(
        "serving.knative.dev/v1 Revision",
        "llm-1",
        configuration,
        annotations={"autoscaling.knative.dev/min-scale": "2"},
    )
    deployment = owner("apps/v1 Deployment", "llm-1-deployment", revision)
    replicas = owner("apps/v1 ReplicaSet", "llm-1-deployment-6f", deployment)
    run = owner("run.ai/v1 RunaiJob", "old", labels=QUEUE, spec={"parallelism": 2})
    workflow = owner(
        "argoproj.io/v1alpha1 Workflow", "flow", labels=QUEUE, annotations={"kai.scheduler/topology": "net"}
    )
    task = owner("tekton.dev/v1 TaskRun", "run-build", owner("tekton.dev/v1 PipelineRun", "run", labels=QUEUE))
    pipeline = owner("tekton.dev/v1 PipelineRun", "run", labels=QUEUE)
    train = owner("run.ai/v2 TrainingWorkload", "work", labels=QUEUE)
    under = owner("run.ai/v1 RunaiJob", "work", train)
    under["metadata"]["uid"] = "uid-under"
    dynamo = owner("nvidia.com/v1beta1 DynamoGraphDeployment", "graph", labels=QUEUE)
    return [
        Row(
            "Knative Service",
            (service, configuration, revision, deployment, replicas),
            pod("llm-1-x", replicas, labels={"serving.knative.dev/revision": "llm-1"}),
            "pg-llm-1-uid-llm-1 of Revision llm-1 (uid-llm-1) | 2 | team-a inference |  | ",
        ),
        Row(
            "RunaiJob",
            (run,),
            pod("old-0-3", run),
            "pg-old-0-uid-old of RunaiJob old (uid-old) | 1 | team-a train |  | ",
        ),
        plain("amlarc.azureml.com/v1alpha1 AmlJob", "3", job={"options": {"envs": {"AZUREML_NODE_COUNT": 3}}}),
        plain("egx.nvidia.io/v1 SPOTRequest", terms="team-a inference"),
        plain("machinelearning.seldon.io/v1 SeldonDeployment"),
        plain("machinelearning.seldon.io/v1alpha2 SeldonDeployment"),
        plain("kubevirt.io/v1 VirtualMachineInstance"),
        plain("workspace.devfile.io/v1alpha2 DevWorkspace"),
        plain("tekton.dev/v1 PipelineRun"),
        plain("tekton.dev/v1 TaskRun"),
        Row(
            "TaskRun of a PipelineRun",
            (pipeline, task),
            pod("run-build-pod", task),
            "pg-run-uid-run of PipelineRun run (uid-run) | 1 | team-a train |  | ",
        ),
        Row(
            "Argo Workflow",
            (workflow,),
            pod("flow-1", workflow),
            "pg-flow-1-uid-flow-1 of Pod flow-1 (uid-flow-1) | 1 | team-a train in net: |  | ",
        ),
        Row(
            "run.ai TrainingWorkload",
            (train, under),
            pod("work-0-0", under),
            "pg-work-0-uid-under of RunaiJob work (uid-under) | 1 | team-a train |  | ",
        ),
        *_grove(dynamo),
        plain("example.com/v1 Solver", replicas=3),
    ]


def _grove(dynamo: Thing) -> list[Row]:
    gang = owner("scheduler.grove.io/v1alpha1 PodGang", "gang-0", annotations={"grove.io/topology-name": "net"})
    rack = {"packConstraint": {"required": "rack"}}
    gang["spec"] = {
        "priorityClassName": "inference",
        "topologyConstraint": {"packConstraint": {"preferred": "block"}},
        "topologyConstraintGroupConfigs": [
            {"name": "decode", "podGroupNames": ["leaders", "followers"], "topologyConstraint": rack},
            {"name": "empty", "podGroupNames": []},
        ],
        "podgroups": [
            {"name": "router", "minReplicas": 1, "podReferences": [{"namespace": "ml", "name": "router-0"}]},
            {"name": "leaders", "minReplicas": 2, "podReferences": [{"namespace": "ml", "name": "leader-0"}]},
            {"name": "followers", "minReplicas": 3, "podReferences": []},
        ],
    }
    found = []
    for kind, by in (("PodCliqueSet", dynamo), ("PodGangSet", None)):
        top = owner(f"grove.io/v1alpha1 {kind}", "set", by, **({} if by else {"labels": QUEUE}))
        things = (top, gang, by) if by else (top, gang)
        found.append(
            Row(
                kind,
                things,
                pod("leader-0", top, labels={"grove.io/podgang": "gang-0"}),
                "pg-gang-0-uid-gang-0 of PodGang gang-0 (uid-gang-0) | 6 | team-a inference in net:block | "
                "decode 2 parts in net:rack, router 1, decode/leaders 2, decode/followers 3 | leaders",
            )
        )
    return found


ROWS: list[Row] = [*_kubernetes(), *_kubeflow(), *_ray("ray.io/v1"), *_ray("ray.io/v1alpha1"), *_sets(), *_others()]
