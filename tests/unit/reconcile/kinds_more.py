"""As ``kinds``: JobSet, LeaderWorkerSet, PodGroups of Kubernetes itself, and all but Kubernetes, Kubeflow and Ray."""

from __future__ import annotations

from typing import Any

from tests.unit.reconcile.kinds import ROWS, Row, plain
from tests.unit.reconcile.workloads import QUEUE, Thing, owner, pod, reference


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
        *_job_sets_with_dependencies(jobs[1]),
        Row(
            "TrainJob",
            (train, of_train, train_job),
            pod("tj-workers-0-1", train_job, labels=in_job("workers", 0)),
            "pg-tj-uid-tj-set of JobSet tj (uid-tj-set) | 1 parts | team-a build | workers 2 parts, "
            "workers/workers-replica-0 4, workers/workers-replica-1 4 | workers-replica-0",
        ),
        *_leader_worker_sets(),
    ]


def _job_sets_with_dependencies(workers: Thing) -> list[Row]:
    """Steps: a and b start at once, c and d after a, e after c. What starts together is a group."""
    waits = [{"name": "a", "status": "Complete"}]
    steps: list[Thing] = [
        {"name": "a"},
        {"name": "b", "template": {"spec": {"parallelism": 4, "completions": 3}}},
        {**workers, "name": "c", "dependsOn": waits},
        {"name": "d", "dependsOn": waits},
        {"name": "e", "dependsOn": [{"name": "c", "status": "Ready"}]},
    ]
    kind = "jobset.x-k8s.io/v1alpha2 JobSet"
    top = owner(kind, "ds", labels=QUEUE, spec={"replicatedJobs": steps})
    done = owner(kind, "ds", labels=QUEUE, spec={"replicatedJobs": steps})
    done["status"] = {"replicatedJobsStatus": [{"name": "a", "succeeded": 1}, {"name": "c", "succeeded": 1}]}

    def row(title: str, owner_of_job: Thing, step: str, group: str, sets: str) -> Row:
        job = owner("batch/v1 Job", f"ds-{step}-0", owner_of_job)
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": step, "jobset.sigs.k8s.io/job-index": "0"}
        text = f"{group} of JobSet ds (uid-ds) | {sets} | {step}-replica-0"
        return Row(title, (owner_of_job, job), pod(f"ds-{step}-0-0", job, labels=labels), text)

    first = "2 parts | team-a train | a {} parts, a/a-replica-0 1, b 1 parts, b/b-replica-0 3"
    then = "2 parts | team-a train | c 2 parts, c/c-replica-0 4, c/c-replica-1 4, d 1 parts, d/d-replica-0 1"
    return [
        row("JobSet in steps, the first", top, "b", "pg-ds-uid-ds", first.format(1)),
        row("JobSet in steps, the second", top, "c", "pg-ds-uid-ds-c", then),
        row("JobSet in steps, another of the second", top, "d", "pg-ds-uid-ds-c", then),
        row(
            "JobSet in steps, the third",
            top,
            "e",
            "pg-ds-uid-ds-e",
            "1 parts | team-a train | e 1 parts, e/e-replica-0 1",
        ),
        row("JobSet of which some jobs are done", done, "b", "pg-ds-uid-ds", first.format(0)),
        row("JobSet of which half of a job is done", done, "c", "pg-ds-uid-ds-c", then),
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
        *_knative(),
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


def _knative() -> list[Row]:
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
    return [
        Row(
            "Knative Service",
            (service, configuration, revision, deployment, replicas),
            pod("llm-1-x", replicas, labels={"serving.knative.dev/revision": "llm-1"}),
            "pg-llm-1-uid-llm-1 of Revision llm-1 (uid-llm-1) | 2 | team-a inference |  | ",
        ),
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


def _kubernetes_groups() -> list[Row]:
    """PodGroups of Kubernetes itself: one that somebody made, and one of the controller of Jobs."""
    version = "scheduling.k8s.io/v1beta1"
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    mine = owner(f"{version} PodGroup", "mine", labels=QUEUE, spec={**policy, "priorityClassName": "build"})
    job = owner("batch/v1 Job", "sweep", labels=QUEUE, spec={"parallelism": 3})
    workload = owner(f"{version} Workload", "sweep-x", job)
    workload["spec"] = {"podGroupTemplates": [{"name": "sweep-pgt-0", **policy}]}
    group = owner(f"{version} PodGroup", "sweep-x-y", job)
    group["metadata"]["ownerReferences"].append(reference(workload))
    group["spec"] = {**policy, "workloadRef": {"workloadName": "sweep-x", "templateName": "sweep-pgt-0"}}
    worker = pod("sweep-0", group, schedulingGroup={"podGroupName": "sweep-x-y"})
    worker["metadata"]["ownerReferences"].append({**reference(job), "controller": True})
    return [
        Row(
            "PodGroup of Kubernetes",
            (mine,),
            pod("solo", schedulingGroup={"podGroupName": "mine"}),
            "pg-mine-uid-mine of PodGroup mine (uid-mine) | 3 | team-a build |  | ",
        ),
        Row(
            "PodGroup of Kubernetes by the controller of Jobs",
            (job, workload, group),
            worker,
            "pg-sweep-x-y-uid-sweep-x-y of PodGroup sweep-x-y (uid-sweep-x-y) | 3 | team-a train |  | ",
        ),
    ]


ALL: list[Row] = [*ROWS, *_sets(), *_others(), *_kubernetes_groups()]
