"""The answer to "why does it wait, what would start it, and who pays?"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kai_sched.answers.changes import Remove, SetQueue
from kai_sched.answers.explain.constraints import Constraint, blocking, unseen
from kai_sched.answers.explain.node_changes import node_findings
from kai_sched.answers.explain.pool_changes import pool_constraints, pool_findings
from kai_sched.answers.explain.queue_changes import queue_findings
from kai_sched.answers.explain.search import TrialSearch, Tried
from kai_sched.answers.explain.suggestion import ROLES, Finding, NothingHelps, Suggestion
from kai_sched.answers.explain.unknown_queue import unknown_queue
from kai_sched.answers.explain.user_changes import user_findings
from kai_sched.answers.explain.waiting import may_start, waiting_findings
from kai_sched.answers.explain.workload_state import WorkloadState, workload_state
from kai_sched.answers.goal import group_labels, group_pods, group_queue, holding, pod_gpus
from kai_sched.answers.headlines import Costs, victims_of
from kai_sched.answers.trial import Trials
from kai_sched.answers.when import RunTime, When, when_starts
from kai_sched.answers.words import count, gpus, since
from kai_sched.answers.workloads import Workload, Workloads
from kai_sched.model.garbage import collector_paused
from kai_sched.model.objects import Pod, Shape
from kai_sched.model.priorities import PREEMPTIBLE_BELOW, default_priority
from kai_sched.plan.amounts import show_amount
from kai_sched.plan.reasons import Reason
from kai_sched.plan.result import QUEUE_RESOURCES, GroupState

GPU_PLACE = QUEUE_RESOURCES.index("gpu")


@dataclass(frozen=True, slots=True)
class Needs:
    """What the pods that wait ask for: equal pods as one.

    ``together`` pods have to start at once; ``request`` is by resource in scheduler units; ``gpus`` may be parts.
    """

    pods: int
    together: int
    request: tuple[tuple[str, float], ...]
    gpus: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a workload waits, and what would start it.

    Attributes
    ----------
    queue, priority_class, priority, preemptible
        Of its group.
    state
        What it does now. Unless it waits there is nothing that it needs, blocks it or would start it.
    waits_s
        Seconds since its oldest pod that waits was created.
    running
        Pods of it that have nodes.
    needs
        What its pods ask for.
    starts
        Whether it waits and starts without any change; ``after`` says who is evicted for it.
    reason
        What the cycle says; None where no pod waits.
    earlier
        Workloads that come before it in line; ``waiting`` is how many there are in all.
    when
        When it starts without any change; None where it starts now.
    constraints
        What blocks it.
    holders
        (queue, GPUs held, GPUs over its quota) of leaf queues, the largest first.
    suggestions
        The smallest change of each kind that starts it, with what it costs others.
    nothing
        Kinds of changes that do not help, and how far they were tried.
    """

    workload: Workload
    queue: str
    priority_class: str
    priority: int
    preemptible: bool
    state: WorkloadState
    waits_s: float
    running: int
    needs: tuple[Needs, ...]
    starts: bool
    after: Costs
    reason: Reason | None
    earlier: tuple[Workload, ...]
    waiting: int
    when: When | None
    constraints: tuple[Constraint, ...]
    holders: tuple[tuple[str, float, float], ...]
    suggestions: tuple[tuple[Suggestion, Costs], ...]
    nothing: tuple[NothingHelps, ...]

    @property
    def needs_text(self) -> str:
        """ "2 pods together, each 8 GPUs, 160 CPU cores, 960Gi memory = 16 GPUs"."""
        return needs_text(self.needs)


@collector_paused()
def explain(
    trials: Trials, workload: Workload, workloads: Workloads, run_times: Mapping[str, RunTime] = {}
) -> Explanation:
    """Explain why the workload waits, by trials of changes. Deterministic; ``trials`` are left as they were.

    ``run_times`` says how long workloads run, by key of their group.
    """
    cluster = trials.cluster
    trials = trials.of_shard_of(group_labels(cluster, workload.group))
    search = TrialSearch(trials, workload.group)
    pods = group_pods(cluster.pods, cluster.pod_groups, workload.group)
    state = search.base.first.groups.get(workload.group)
    group = cluster.pod_groups.get(workload.group)
    lost = [each for each in search.base.evicted if each.group == workload.group]
    doing = workload_state(pods, group, lost, workloads, trials.now_ns)
    starts = doing.name == "waits" and search.starts(())
    found: list[Finding] = []
    constraints: list[Constraint] = []
    if doing.name == "waits" and not starts:
        found = list(_findings(search, workloads))
        is_seen = state is not None and any(pod.scheduler == trials.config.scheduler_name for pod in pods)
        constraints = blocking(search, _raised_queues(found)) if is_seen else [unseen(search, pods)]
    waiting = search.waiting
    suggested = [(each, costs_of(search, each, workloads)) for each in found if isinstance(each, Suggestion)]
    if found and len(trials.shards) > 1:
        pools = TrialSearch(trials.of_all_shards(), workload.group)
        moves = list(pool_findings(pools))
        if elsewhere := list(pool_constraints(pools, moves, waiting)):
            # It blocks the group alone, and needs no others.
            constraints = [each for each in constraints if each.necessary] + elsewhere
        suggested += [(each, costs_of(pools, each, workloads)) for each in moves if isinstance(each, Suggestion)]
        found = sorted((*found, *moves), key=lambda each: ROLES.index(each.role))
        suggested.sort(key=lambda each: ROLES.index(each[0].role))
    created = min((pod.created_ns for pod in waiting if pod.created_ns), default=0)
    earlier, line = _line(search, workloads)
    priority, preemptible = _standing(search, state, pods)
    return Explanation(
        workload=workload,
        queue=state.queue if state else group_queue(cluster, workload.group),
        priority_class=(group.priority_class if group else pods[0].priority_class if pods else ""),
        priority=priority,
        preemptible=preemptible,
        state=doing,
        waits_s=since(created, trials.now_ns),
        running=holding(pods),
        needs=tuple(_needs(waiting, state)),
        starts=starts,
        after=_costs(search, search.tried(()), workloads, base=False),
        reason=_reason(search, state),
        earlier=earlier,
        waiting=line,
        when=_when(search, found, workloads, run_times) if found else None,
        constraints=tuple(constraints),
        holders=tuple(_holders(search)),
        suggestions=tuple(suggested),
        nothing=tuple(each for each in found if isinstance(each, NothingHelps)),
    )


def _findings(search: TrialSearch, workloads: Workloads) -> Iterator[Finding]:
    yield from user_findings(search)
    yield from queue_findings(search)
    yield from node_findings(search)
    yield from waiting_findings(search, workloads)


def _raised_queues(found: Sequence[Finding]) -> frozenset[str]:
    """The queues whose quota has to be raised."""
    return frozenset(
        change.queue
        for each in found
        if isinstance(each, Suggestion) and each.kind in ("quota", "quota and limit")
        for change in each.changes
        if isinstance(change, SetQueue) and change.field == "quota"
    )


def _when(
    search: TrialSearch, found: Sequence[Finding], workloads: Workloads, run_times: Mapping[str, RunTime]
) -> When:
    ends = [each for each in found if isinstance(each, Suggestion) and each.kind == "end"]
    groups = [change.group for each in ends for change in each.changes if isinstance(change, Remove)]
    enough = tuple(workloads.of(group) for group in groups)
    when = when_starts(search.trials, search.goal, run_times, enough, workloads)
    if not enough and not when.is_known and not may_start(search):
        return replace(when, never=True, unbounded=())
    return when


def _reason(search: TrialSearch, state: GroupState | None) -> Reason | None:
    """Once everything has settled, if it waits then; else that of the first cycle."""
    last = search.base.last.groups.get(search.group)
    if last is not None and last.reason is not None:
        return last.reason
    return state.reason if state else None


def costs_of(search: TrialSearch, suggestion: Suggestion, workloads: Workloads) -> Costs:
    """What the change costs others, beyond what happens without it."""
    return _costs(search, search.tried(suggestion.changes), workloads, base=True)


def _costs(search: TrialSearch, tried: Tried, workloads: Workloads, base: bool) -> Costs:
    """``base``: leave out what happens without a change too; else only what is evicted for the group itself."""
    cluster = search.trials.cluster
    without = search.tried(())
    if base:
        spared = {each.pod for each in without.evicted}
        lost = [each for each in tried.evicted if each.pod not in spared]
    else:
        lost = [each for each in tried.evicted if each.cause == search.group]
        # The background makes room without a cause: it counts where it stays without the group.
        if tried.starts and (nameless := [each for each in tried.evicted if not each.cause]):
            spared = {each.pod for each in search.tried((Remove(search.group),)).evicted}
            lost += [each for each in nameless if each.pod not in spared]
    victims = victims_of(lost, cluster, workloads, search.trials.now_ns, frozenset(tried.bound))
    late = sorted({workloads.pods[key] for key in set(without.bound) - set(tried.bound) if key in workloads.pods})
    late = [group for group in late if group != search.group] if base else []
    return Costs(tuple(victims), tuple(workloads.of(group) for group in late))


def _standing(search: TrialSearch, state: GroupState | None, pods: Sequence[Pod]) -> tuple[int, bool]:
    """The priority and whether it may be evicted; a cycle does not work these out for a queue that does not exist."""
    cluster = search.trials.cluster
    if state is not None and not unknown_queue(cluster, state.queue, search.config):
        return state.priority, state.preemptible
    group = cluster.pod_groups.get(search.group)
    name = group.priority_class if group else pods[0].priority_class if pods else ""
    found = cluster.priority_classes.get(name)
    value = found.value if found else default_priority(cluster.priority_classes)
    asked = group.preemptible if group else None
    return value, value < PREEMPTIBLE_BELOW if asked is None else asked


def _line(search: TrialSearch, workloads: Workloads) -> tuple[tuple[Workload, ...], int]:
    """The workloads that come before the group, in the order in which they are tried, and how many wait in all."""
    order = [key for key in search.base.first.line if key in workloads.by_group]
    place = order.index(search.group) if search.group in order else 0
    return tuple(workloads.of(key) for key in order[:place]), len(order)


def _holders(search: TrialSearch) -> Iterator[tuple[str, float, float]]:
    """The leaf queues that hold GPUs, and what of that is over their quota."""
    queues = search.base.first.queues
    parents = {each.parent for each in queues}
    found = [each for each in queues if each.name not in parents and each.allocated[GPU_PLACE] > 0]
    for each in sorted(found, key=lambda each: (-each.allocated[GPU_PLACE], each.name)):
        held = each.allocated[GPU_PLACE]
        yield each.name, held, max(0.0, held - each.quota[GPU_PLACE])


def _needs(waiting: Sequence[Pod], state: GroupState | None) -> Iterator[Needs]:
    sets: dict[Shape, list[Pod]] = {}
    for pod in waiting:
        sets.setdefault(pod.shape, []).append(pod)
    minimum = state.min_member if state else 1
    for pods in sets.values():
        together = min(len(pods), minimum) if len(sets) == 1 else len(pods)
        yield Needs(len(pods), together, pods[0].shape.request, pod_gpus(pods[0]))


def needs_text(needs: Sequence[Needs]) -> str:
    """What the pods ask for, in words."""
    parts = []
    for each in needs:
        order = sorted((name for name, _ in each.request if name != "pods"), key=lambda name: (name != "gpu", name))
        request = dict(each.request)
        amounts = [show_amount(name, request[name]) for name in order]
        if each.gpus and "gpu" not in request:
            amounts.insert(0, gpus(each.gpus))
        pods = count(each.pods, "pod") + (" together" if each.together == each.pods > 1 else "")
        if 1 < each.together < each.pods:
            pods = f"{count(each.pods, 'pod')}, at least {each.together} together"
        parts.append(f"{pods}, {'each ' if each.pods > 1 else ''}{', '.join(amounts)}" if amounts else pods)
    total = sum(each.gpus * each.pods for each in needs)
    text = "; ".join(parts)
    return f"{text} = {gpus(total)} in all" if total and sum(each.pods for each in needs) > 1 else text
