"""Whose end is enough for a group to start."""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.answers.changes import Remove
from kai_sched.answers.explain.search import TrialSearch
from kai_sched.answers.explain.suggestion import WAITING, Finding, NothingHelps, Suggestion
from kai_sched.answers.goal import group_pods, pod_gpus
from kai_sched.answers.workloads import Workloads
from kai_sched.plan.result import GroupState

RUNS = frozenset({"Running", "Bound", "Releasing", "Binding"})
MOST_SHOWN = 3


def running_groups(search: TrialSearch) -> list[GroupState]:
    """The groups that hold nodes before the first cycle, those with most GPUs first."""
    cluster = search.trials.cluster
    held: dict[str, float] = {}
    for pod in cluster.pods.values():
        if pod.node and not pod.has_ended:
            held[pod.group_key] = held.get(pod.group_key, 0.0) + pod_gpus(pod)
    groups = search.base.first.groups
    found = [groups[key] for key in held if key in groups and key != search.group]
    return sorted(found, key=lambda group: (-held[group.key], group.key))


def waiting_findings(search: TrialSearch, workloads: Workloads) -> Iterator[Finding]:
    """Running groups of which the end of each alone is enough."""
    groups = running_groups(search)
    if not groups:
        return
    looked = groups[: search.affordable(len(groups))]
    enough = [group for group in looked if search.starts((Remove(group.key),))]
    more = max(0, len(enough) - MOST_SHOWN)
    for group in enough[:MOST_SHOWN]:
        text = f"the end of {workloads.of(group.key).name} ({group.queue})"
        yield Suggestion("end", WAITING, text, "", (Remove(group.key),), more=more)
    if not enough:
        what = f"the {len(looked)} largest of {len(groups)}" if len(looked) < len(groups) else f"{len(groups)}"
        yield NothingHelps("end", WAITING, f"the end of one running workload ({what} tried)")


def may_start(search: TrialSearch) -> bool:
    """Whether some ends may start the group: it starts where no other pod is.

    One that asks for pods beside it may need some of them to stay, and the devices of claims are not given back with
    their pods, which is not tried.
    """
    cluster = search.trials.cluster
    pods = group_pods(cluster.pods, cluster.pod_groups, search.group)
    if any(pod.shape.affinity or pod.claims for pod in pods):
        return True
    return search.goal.met(search.trials.alone(search.group).base.end)
