"""What a workload does before anything is decided: it waits, runs, has finished, or has no pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kai_sched.answers.goal import holds, pod_gpus, started_ns
from kai_sched.answers.words import count, duration, gpus, nodes_text, since
from kai_sched.answers.workload_changes import waits
from kai_sched.answers.workloads import Workloads
from kai_sched.model.objects import Phase, Pod, PodGroup
from kai_sched.plan.effects import Evict

State = Literal["waits", "runs", "leaves", "finished", "empty"]


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """What the workload does.

    Attributes
    ----------
    name
        "waits" where a pod waits for a node, whatever the others do. Else "runs" where one has a node, "leaves" where
        those that are left are being deleted, "finished" where all have ended, "empty" where there is none.
    pods, failed
        Pods of it, and those that have failed.
    nodes
        Nodes with the number of its pods.
    gpus
        GPUs that these hold.
    up_s
        Seconds since it started; 0 where that is not known.
    evicted
        (Whom for, its pods that are evicted or moved): "" for nobody.
    """

    name: State
    pods: int
    failed: int
    nodes: tuple[tuple[str, int], ...]
    gpus: float
    up_s: float
    evicted: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The state in a line; "" for one that waits, as an explanation says more of that."""
        match self.name:
            case "waits":
                return ""
            case "runs":
                return self._runs()
            case "leaves":
                return "It is being deleted."
            case "finished":
                failed = f", of which {self.failed} failed" if self.failed else ""
                return f"It has finished: {count(self.pods, 'pod')}{failed}."
            case "empty":
                return "It has no pods: what makes them has not made any, or they are gone."

    def _runs(self) -> str:
        held = f", {gpus(self.gpus)}," if self.gpus else ""
        text = f"It runs: {count(sum(many for _, many in self.nodes), 'pod')}{held} on {nodes_text(self.nodes)}"
        text += f", up {duration(self.up_s)}" if self.up_s else ""
        paid = [f"{count(pods, 'pod')} of it" + (f" for {name}" if name else "") for name, pods in self.evicted]
        return f"{text}. The next cycles evict {', '.join(paid)}." if paid else f"{text}."


def workload_state(
    pods: Sequence[Pod], group: PodGroup | None, evicted: Sequence[Evict], workloads: Workloads, now_ns: int
) -> WorkloadState:
    """What the workload with these pods does. ``evicted`` are the evictions of its pods without any change."""
    running = [pod for pod in pods if holds(pod)]
    causes: Mapping[str, str] = {each.pod: each.cause for each in evicted}
    lost = Counter(workloads.of(cause).name if cause else "" for cause in causes.values())
    return WorkloadState(
        name=_name(pods),
        pods=len(pods),
        failed=sum(pod.phase == Phase.FAILED for pod in pods),
        nodes=tuple(sorted(Counter(pod.node for pod in running).items())),
        gpus=sum(map(pod_gpus, running)),
        up_s=since(started_ns(group, running), now_ns) if running else 0.0,
        evicted=tuple(sorted(lost.items())),
    )


def _name(pods: Sequence[Pod]) -> State:
    if any(map(waits, pods)):
        return "waits"
    if any(map(holds, pods)):
        return "runs"
    if any(not pod.has_ended for pod in pods):
        return "leaves"
    return "finished" if pods else "empty"
