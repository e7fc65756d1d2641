"""Would these workloads run: where, after whom, and at whose expense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kai_sched.answers.changes import Remove
from kai_sched.answers.difference import difference
from kai_sched.answers.goal import Goal, goal_of, group_labels, group_pods, group_queue, holding, pod_gpus
from kai_sched.answers.headlines import Costs, victims_of
from kai_sched.answers.overview import room_of
from kai_sched.answers.trial import TrialOutcome, Trials
from kai_sched.answers.waiting import in_brief
from kai_sched.answers.when import RunTime, When, when_starts
from kai_sched.answers.words import count, gpus, nodes_text
from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.plan.effects import Bind
from kai_sched.plan.reasons import Reason

Verdict = Literal["runs", "evicts", "waits"]
RUNS: Verdict = "runs"
EVICTS: Verdict = "evicts"
WAITS: Verdict = "waits"


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a workload would run.

    Attributes
    ----------
    verdict
        RUNS, EVICTS (it runs at the expense of others) or WAITS.
    pods, of_pods
        Pods of it that get nodes, and all of them.
    gpus
        GPUs that these get, or that all ask for where it waits.
    nodes
        Nodes with the number of its pods.
    costs
        What it costs others.
    reason, why
        Why it, or the rest of it, waits: in whole, and in a few words.
    when
        When it starts, where it waits.
    left_free
        GPUs that are free after it and would not be without it: gangs go as a whole.
    at_once
        Whether it is bound in the first cycle; else others have to leave first.
    """

    workload: Workload
    queue: str
    verdict: Verdict
    pods: int
    of_pods: int
    gpus: float
    nodes: tuple[tuple[str, int], ...] = field(repr=False)
    costs: Costs = field(repr=False)
    reason: Reason | None = field(repr=False)
    why: str = ""
    when: When | None = field(default=None, repr=False)
    left_free: float = 0.0
    at_once: bool = False

    @property
    def text(self) -> str:
        """The answer in one line."""
        name = f"{self.workload.namespace}/{self.workload.name} ({self.workload.kind}, queue {self.queue or 'none'})"
        if self.verdict == WAITS:
            starts = f"; it starts {self.when.text}" if self.when is not None and self.when.is_known else ""
            return f"{name} waits: {self.why or 'its pods get no node'}{starts}"
        amount = f", {gpus(self.gpus)}" if self.gpus else ""
        some_pods = count(self.pods, "pod")
        if self.pods < self.of_pods:
            some_pods = f"{self.pods} of its {self.of_pods} pods"
        when = "runs now" if self.at_once else "runs once others have left"
        stays = f"; {gpus(self.left_free)} stay free" if self.left_free else ""
        return f"{name} {when}: {some_pods}{amount} on {nodes_text(self.nodes)}; {self.costs.text}{stays}"


def fit(
    trials: Trials, asked: Sequence[Workload], workloads: Workloads, run_times: Mapping[str, RunTime] = {}
) -> list[Fit]:
    """Whether each of these workloads of the cluster would run, and what all of them together cost the others.

    Those of each shard are looked at together, in their shard. ``run_times`` says how long workloads run, by key of
    their group.
    """
    shards: dict[str, tuple[Trials, list[Workload]]] = {}
    for each in asked:
        own = trials.of_shard_of(group_labels(trials.cluster, each.group))
        shards.setdefault(own.config.node_pool, (own, []))[1].append(each)
    found = {
        each.workload: each for own, some in shards.values() for each in _fit_together(own, some, workloads, run_times)
    }
    return [found[each] for each in asked]


def _fit_together(
    trials: Trials, asked: Sequence[Workload], workloads: Workloads, run_times: Mapping[str, RunTime]
) -> list[Fit]:
    together = trials.base
    without = trials.outcome([Remove(each.group) for each in asked])
    found = [_fit(trials, each, workloads, together, without) for each in asked]
    return [_with_time(each, trials, workloads, run_times) if each.verdict == WAITS else each for each in found]


def _with_time(found: Fit, trials: Trials, workloads: Workloads, run_times: Mapping[str, RunTime]) -> Fit:
    goal = goal_of(trials.cluster, found.workload.group)
    return replace(found, when=when_starts(trials, goal, run_times, (), workloads))


def _fit(trials: Trials, asked: Workload, workloads: Workloads, together: TrialOutcome, without: TrialOutcome) -> Fit:
    cluster, end = trials.cluster, together.end
    pods = group_pods(end.pods, end.pod_groups, asked.group)
    placed = [pod for pod in pods if pod.node]
    runs = Goal(asked.group, 1).met(end)
    spared = {each.pod for each in without.evicted}
    lost = [each for each in together.evicted if each.pod not in spared]
    diff = difference(without, together, workloads, workloads, trials.now_ns)
    late = tuple(each for each in diff.waits if each.group not in {victim.group for victim in lost})
    costs = Costs(tuple(victims_of(lost, cluster, workloads, trials.now_ns)), late)
    state = together.last.groups.get(asked.group) or together.first.groups.get(asked.group)
    bound = {each.pod for each in together.first.effects if isinstance(each, Bind)}
    queues = {each.name: each for each in together.last.queues}
    reason = state.reason if state else None
    missing = sum(pod_gpus(pod) for pod in pods if not pod.node)
    verdict = WAITS if not runs else EVICTS if costs.victims else RUNS
    return Fit(
        workload=asked,
        queue=state.queue if state else group_queue(end, asked.group),
        verdict=verdict,
        pods=holding(pods),
        of_pods=len(pods),
        gpus=sum(pod_gpus(pod) for pod in (placed if runs else pods)),
        nodes=tuple(sorted(Counter(pod.node for pod in placed).items())),
        costs=costs,
        reason=reason,
        left_free=max(0.0, _free(together, trials) - _free(without, trials)),
        at_once=bool(placed) and all(pod.key in bound for pod in placed),
        why=in_brief(state, reason, missing, queues) if state and reason else "",
    )


def _free(outcome: TrialOutcome, trials: Trials) -> float:
    """GPUs that are free once all has settled."""
    return room_of(outcome.end, outcome.last, trials.config, "gpu").free
