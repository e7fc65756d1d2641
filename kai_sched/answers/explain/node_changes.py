"""What administrators can do for a group: add nodes like one that exists, or bring nodes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from kai_sched.answers.changes import HOSTNAME, NODES_MAX, AddNodes, Uncordon
from kai_sched.answers.explain.search import Changes, TrialSearch
from kai_sched.answers.explain.suggestion import ADMINISTRATOR, Finding, NothingHelps, Suggestion, smallest_set
from kai_sched.answers.goal import group_pods
from kai_sched.answers.words import count as count_of
from kai_sched.answers.workload_changes import WithoutDemand
from kai_sched.model.config import in_pool
from kai_sched.model.numa import Alignment, NodeZones
from kai_sched.model.objects import Node, Pod

KINDS_MAX = 4
LEAST_NODES_MAX = 16
MOST_SHOWN = 3


def node_findings(search: TrialSearch) -> Iterator[Finding]:
    """What an administrator can do."""
    yield from _more_nodes(search)
    yield from _nodes_back(search)
    yield from _looser_alignment(search)


def node_kinds(search: TrialSearch) -> list[Node]:
    """A node of each kind that can hold a pod of the group: kinds differ in capacity, labels or taints."""
    cluster, config = search.trials.cluster, search.config
    nodes = [node for _, node in sorted(cluster.nodes.items()) if in_pool(node.labels, config)]
    own = _own_labels(nodes)
    least = _least_request(search)
    kinds: dict[object, list[Node]] = {}
    for node in nodes:
        if all(node.allocatable.get(name, 0.0) >= amount for name, amount in least):
            labels = tuple(sorted((key, value) for key, value in node.labels.items() if key not in own))
            taints = tuple(each for each in node.taints if not each.key.startswith("node.kubernetes.io/"))
            kinds.setdefault((labels, taints, tuple(sorted(node.allocatable.items()))), []).append(node)
    # The kinds that the cluster has most of, and a node that works now as the pattern.
    found = sorted(kinds.values(), key=lambda alike: (-len(alike), alike[0].name))
    return [next((node for node in alike if node.takes_pods), alike[0]) for alike in found[:KINDS_MAX]]


def most_nodes(search: TrialSearch) -> int:
    """How many new nodes are looked at: twice as many as the group has pods, LEAST_NODES_MAX to NODES_MAX."""
    cluster = search.trials.cluster
    pods = group_pods(cluster.pods, cluster.pod_groups, search.group)
    return min(NODES_MAX, max(LEAST_NODES_MAX, 2 * len(pods)))


def _own_labels(nodes: Sequence[Node]) -> set[str]:
    """Labels that tell nodes apart and not kinds of nodes: each value is that of one node."""
    values: dict[str, Counter[str]] = {}
    for node in nodes:
        for key, value in node.labels.items():
            values.setdefault(key, Counter())[value] += 1
    return {HOSTNAME} | {key for key, found in values.items() if len(found) > 1 and max(found.values()) == 1}


def _least_request(search: TrialSearch) -> list[tuple[str, float]]:
    """What the smallest pod of the group that waits asks for, resource by resource."""
    requests = [dict(pod.shape.request) for pod in search.waiting]
    names = sorted({name for request in requests for name in request})
    return [(name, min(request.get(name, 0.0) for request in requests)) for name in names]


def _more_nodes(search: TrialSearch) -> Iterator[Finding]:
    kinds, most = node_kinds(search), most_nodes(search)
    if not kinds:
        return
    best: tuple[int, Node, bool] | None = None
    for node in kinds:
        upto = most if best is None else best[0] - 1
        if upto < 1:
            break
        found = search.first(range(1, upto + 1), partial(_added, node.name))
        if found.place is not None:
            best = found.place + 1, node, found.exact
    if best is None:
        yield NothingHelps("nodes", ADMINISTRATOR, f"more nodes (up to {most}, {count_of(len(kinds), 'kind')} tried)")
        return
    count, node, exact = best
    text = f"{count} more node{'' if count == 1 else 's'} like {node.name}"
    yield Suggestion("nodes", ADMINISTRATOR, text, "node", (AddNodes(count, node.name),), exact)


def _added(like: str, count: int) -> Changes:
    return (AddNodes(count, like),)


def nodes_that_may_come_back(search: TrialSearch) -> list[Node]:
    """Nodes that are cordoned or not ready, those with most GPUs first."""
    cluster, config = search.trials.cluster, search.config
    nodes = [node for node in cluster.nodes.values() if not node.takes_pods and in_pool(node.labels, config)]
    return sorted(nodes, key=lambda node: (-node.allocatable.get("gpu", 0.0), node.name))


def may_refuse(zones: NodeZones | None, pod: Pod) -> bool:
    """Whether the kubelet of a node with such zones refuses the pod where they cannot hold it."""
    return zones is not None and zones.policy >= Alignment.RESTRICTED and pod.shape.numa is not None


def refusing_nodes(search: TrialSearch) -> list[str]:
    """The nodes of the pool whose kubelets refuse a pod that waits where their NUMA zones cannot hold it."""
    cluster, config = search.trials.cluster, search.config
    nodes = [name for name, node in sorted(cluster.nodes.items()) if in_pool(node.labels, config)]
    return [name for name in nodes if any(may_refuse(cluster.node_zones.get(name), pod) for pod in search.waiting)]


def _looser_alignment(search: TrialSearch) -> Iterator[Finding]:
    """Kubelets that take pods which they cannot align: for these, as if they asked for no alignment."""
    if not refusing_nodes(search):
        return
    text = "topologyManagerPolicy best-effort on nodes"
    changes = (WithoutDemand(search.group, "numaAlignment"),)
    if search.starts(changes):
        yield Suggestion("numaAlignment", ADMINISTRATOR, text, "", changes)
    else:
        yield NothingHelps("numaAlignment", ADMINISTRATOR, text)


def _nodes_back(search: TrialSearch) -> Iterator[Finding]:
    """Each node that is enough alone; where none is, all of them, as far as they are needed."""
    nodes = nodes_that_may_come_back(search)
    if not nodes:
        return
    looked = nodes[: search.affordable(len(nodes))]
    alone = [node for node in looked if search.starts((Uncordon(node.name),))]
    for node in alone[:MOST_SHOWN]:
        yield Suggestion("nodeBack", ADMINISTRATOR, _back([node]), "node", (Uncordon(node.name),))
    if alone:
        return
    every: list[Changes] = [(Uncordon(node.name),) for node in looked]
    if len(looked) > 1 and search.starts(tuple(Uncordon(node.name) for node in looked)):
        kept = [looked[place] for place in smallest_set(search, every)]
        changes = tuple(Uncordon(node.name) for node in kept)
        yield Suggestion("nodeBack", ADMINISTRATOR, _back(kept), "node", changes)
        return
    yield NothingHelps("nodeBack", ADMINISTRATOR, f"{count_of(len(looked), 'node')} that may come back (all together)")


def _back(nodes: Sequence[Node]) -> str:
    parts = [f"{node.name} {'uncordoned' if not node.bad_conditions else 'back'}" for node in nodes]
    return " and ".join(parts)
