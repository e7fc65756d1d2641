"""JobSets that start in steps, finish pod by pod and are resized: what their controllers and the kubelet do with them.

The controllers are those of Jobs and JobSets, as their documentation has them. What the scheduler has to hold is in
``test_lifecycles``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kai_sched import Cluster, Config, run_cycle
from kai_sched.api import names
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.model import objects as o
from kai_sched.plan.effects import Bind
from tests.properties.clusters import NOW_NS
from tests.unit.model.reading import read
from tests.unit.reconcile.workloads import Thing, World, grouping, owner, pod

STEP_NS = 10 * 10**9
NODES, CORES, GPUS = 2, 16, 4
QUEUE = {names.QUEUE_LABEL: "team"}
GPU = "nvidia.com/gpu"


@dataclass
class Step:
    """A replicated job. ``waits`` has the state that others must have reached: Ready or Complete."""

    name: str
    replicas: int
    parallelism: int
    completions: int
    waits: dict[str, str] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)  # by job: how many of its pods have succeeded
    is_started: bool = False

    @property
    def width(self) -> int:
        return min(self.parallelism, self.completions)

    @property
    def is_complete(self) -> bool:
        return all(done >= self.completions for done in self.done)


@dataclass
class Run:
    """A pod of a step. ``given``: the cores that the kubelet has given it."""

    thing: Thing
    step: Step
    job: int
    node: str = ""
    has_succeeded: bool = False
    cores: int = 1
    given: int = 1
    is_refused: bool = False

    @property
    def held(self) -> int:
        """The cores that it holds on its node."""
        return self.given if self.is_refused else max(self.cores, self.given)


@dataclass
class JobSet:
    name: str
    steps: list[Step]
    in_order: bool

    def thing(self) -> Thing:
        jobs = [
            {
                "name": step.name,
                "replicas": step.replicas,
                "template": {"spec": {"parallelism": step.parallelism, "completions": step.completions}},
                "dependsOn": [{"name": name, "status": status} for name, status in step.waits.items()],
            }
            for step in self.steps
        ]
        policy = {"startupPolicy": {"startupPolicyOrder": "InOrder"}} if self.in_order else {}
        finished = [
            {"name": step.name, "succeeded": sum(done >= step.completions for done in step.done)} for step in self.steps
        ]
        return owner(
            "jobset.x-k8s.io/v1alpha2 JobSet",
            self.name,
            labels=QUEUE,
            spec={"replicatedJobs": jobs, **policy},
            status={"replicatedJobsStatus": finished},
        )


def job_sets(rng: random.Random) -> list[JobSet]:
    """Each starts at most as many pods at once as the empty cluster has GPUs."""
    found = []
    for number in range(rng.randint(1, 3)):
        in_order, steps, width = rng.random() < 0.3, [], 0
        for k in range(rng.randint(1, 4)):
            step = Step(f"s{k}", rng.randint(1, 2), rng.randint(1, 4), rng.randint(1, 5))
            step.done = [0] * step.replicas
            width += step.replicas * step.width
            if width > NODES * GPUS:
                break
            if steps and not in_order and rng.random() < 0.6:
                step.waits = {rng.choice(steps).name: rng.choice(("Ready", "Complete"))}
            steps.append(step)
        found.append(JobSet(f"w{number}", steps, in_order))
    return found


class Life:
    """A cluster in which time passes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sets = job_sets(self.rng)
        self.runs: dict[str, Run] = {}
        self.now_ns = NOW_NS
        self.made = 0
        self.tracker = HintTracker()
        node: Thing = {"metadata": {"labels": {}}, "status": {"allocatable": {"cpu": CORES, GPU: GPUS, "pods": 99}}}
        self.fixed: list[o.Object] = [o.PriorityClass("train", 50)]
        self.fixed += [read("Node", {**node, "metadata": {"name": f"n{i}"}})[0] for i in range(NODES)]
        free = o.Share(-1.0, -1.0, 1.0)
        self.fixed.append(o.Queue("team", cpu=free, memory=free, gpu=free))

    def create(self) -> None:
        """What the controllers create: the pods that are missing in the jobs that may start."""
        for job_set in self.sets:
            for place, step in enumerate(job_set.steps):
                step.is_started = step.is_started or all(self._reached(job_set, step, place))
                if not step.is_started:
                    continue
                for job, done in enumerate(step.done):
                    live = [r for r in self.of(step) if r.job == job and not r.has_succeeded]
                    for _ in range(min(step.parallelism, step.completions - done) - len(live)):
                        self._add(job_set, step, job)

    def _reached(self, job_set: JobSet, step: Step, place: int) -> Iterator[bool]:
        waits = {each.name: "Ready" for each in job_set.steps[:place]} if job_set.in_order else step.waits
        for other in (each for each in job_set.steps if each.name in waits):
            ready = all(
                step_done + sum(bool(r.node) and not r.has_succeeded for r in self.of(other) if r.job == job)
                >= other.width
                for job, step_done in enumerate(other.done)
            )
            yield other.is_complete or (other.is_started and ready and waits[other.name] == "Ready")

    def of(self, step: Step) -> list[Run]:
        return [run for run in self.runs.values() if run.step is step]

    def _add(self, job_set: JobSet, step: Step, job: int) -> None:
        self.made += 1
        name = f"{job_set.name}-{step.name}-{job}"
        labels = {names.REPLICATED_JOB_LABEL: step.name, names.JOB_INDEX_LABEL: str(job)}
        thing = pod(f"{name}-{self.made}", owner("batch/v1 Job", name, job_set.thing()), labels=labels)
        self.runs[f"ml/{name}-{self.made}"] = Run(thing, step, job)

    def objects(self) -> list[o.Object]:
        """The cluster as the scheduler sees it, its groups as the grouping rules want them."""
        found, groups = list(self.fixed), {}
        sets = {step.name + job_set.name: job_set.thing() for job_set in self.sets for step in job_set.steps}
        for run in self.runs.values():
            name = run.thing["metadata"]["ownerReferences"][0]["name"]
            top = sets[run.step.name + name.split("-")[0]]
            job = owner("batch/v1 Job", name, top)
            decided = grouping(run.thing, World((top, job)))
            groups[decided.name] = decided.manifest
            found.append(self._pod(run, decided.name, decided.sub_group))
        return found + [read("PodGroup", manifest)[0] for _, manifest in sorted(groups.items())]

    def _pod(self, run: Run, group: str, sub_group: str) -> o.Pod:
        meta = dict(run.thing["metadata"])
        meta["annotations"] = {names.POD_GROUP_ANNOTATION: group}
        meta["labels"] = {**meta["labels"], names.SUB_GROUP_LABEL: sub_group}
        resources = {"requests": {"cpu": str(run.cores)}, "limits": {GPU: "1"}}
        spec: dict[str, Any] = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "resources": resources}]}
        status: dict[str, Any] = {"phase": "Succeeded" if run.has_succeeded else "Running" if run.node else "Pending"}
        if run.node:
            spec["nodeName"] = run.node
            status["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": str(run.given)}}]
        if run.is_refused:
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
        item = read("Pod", {"metadata": meta, "spec": spec, "status": status})[0]
        assert isinstance(item, o.Pod)
        return replace(item, created_ns=NOW_NS)

    def schedule(self) -> list[str]:
        """Run a cycle and carry it out; the nodes that got pods."""
        cluster = Cluster.of(self.objects())
        result = run_cycle(cluster, Config(), self.now_ns, hints=self.tracker.next_hints())
        self.tracker.record(cluster, result, Config())
        binds = [effect for effect in result.effects if isinstance(effect, Bind)]
        for bind in binds:
            self.runs[bind.pod].node = bind.node
        for key in result.evicted:
            del self.runs[key]  # its controller replaces it
        self.now_ns += STEP_NS
        return [bind.node for bind in binds]

    def disturb(self) -> None:
        """Some pods that run succeed, some are lost, some are resized; pods of jobs that are complete may be gone."""
        for key, run in list(self.runs.items()):
            if run.has_succeeded:
                if run.step.is_complete and self.rng.random() < 0.3:
                    del self.runs[key]
            elif run.node:
                dice = self.rng.random()
                if dice < 0.25:
                    self.succeed(run)
                elif dice < 0.35:
                    del self.runs[key]
                elif dice < 0.6:
                    self._resize(run)

    def _resize(self, run: Run) -> None:
        """Somebody asks for other cores, or the kubelet gives what was asked for if there is room."""
        if run.cores == run.given and not run.is_refused:
            run.cores = self.rng.choice((1, 2, 3, 100))
            run.is_refused = run.cores == 100
            return
        others = sum(each.given for each in self.runs.values() if each.node == run.node and not each.has_succeeded)
        if run.is_refused:
            run.cores, run.is_refused = run.given, False
        elif others - run.given + run.cores <= CORES:
            run.given = run.cores

    def succeed(self, run: Run) -> None:
        run.has_succeeded = True
        run.step.done[run.job] += 1
