"""Which shards a process with ``--all-shards`` decides for, and with which settings: of their own, of the process, and
those that shares of the whole cluster need to be the same (API 1.7, semantics 2.8); node pools that no shard has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kai_sched.api import names
from kai_sched.model.config import CLUSTER, Config, in_pool
from kai_sched.model.numa import PLUGIN as NUMA
from kai_sched.model.store import Cluster

# Objects are read, and reservation pods found, with these.
OF_PROCESS = ("scheduler_name", "queue_label", "node_pool_label", "reservation")
# Two shards that disagreed about one of these would compute different shares, and could take the same room from each
# other's queues in turn.
OF_SHARES = ("full_hierarchy_fairness", "restrict_node_scheduling", "cpu_worker_label", "gpu_worker_label", "usage")
PROPORTION = "proportion"
# That no shard has and that are told by name: whoever may create pods can make up any number of label values.
NAMED_POOLS_MAX = 10


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a process.

    Attributes
    ----------
    configs
        The settings of each shard by its name, in the order of names.
    whole
        The settings of the process, for all node pools at once (``Config.node_pools``).
    problems
        By shard: which of its settings do not count, or why it is not served at all.
    """

    configs: Mapping[str, Config]
    whole: Config
    problems: Mapping[str, str]


def shards_of(base: Config, given: Mapping[str, Config]) -> Shards:
    """The shards of a process with the settings ``base``, which flags and kai-config make.

    ``given`` has the settings of each SchedulingShard by name. Without one named ``default``, the objects without a
    node pool are served with the settings ``base``, unless another shard has them.
    """
    main = given.get(names.DEFAULT_SHARD, base)
    if not main.node_pool_label:
        return _only_main(main, given)
    problems: dict[str, str] = {}
    configs: dict[str, Config] = {}
    served: dict[str, str] = {}  # by node pool
    plugins = dict(main.plugins)
    for name in sorted(given):
        if NUMA in given[name].plugins:
            plugins.setdefault(NUMA, given[name].plugins[NUMA])
    whole = replace(main, node_pool="", plugins=plugins)
    for name in sorted(given):
        other = served.setdefault(given[name].node_pool, name)
        if other != name:
            pool = _pool_text(given[name].node_pool)
            text = f"spec.partitionLabelValue: shard {other} has {pool} already, so this one is not served"
            problems[name] = f"{text}: give it another node pool, or remove one of them"
            continue
        configs[name], ignored = _own(given[name], whole)
        if ignored:
            text = f"{', '.join(ignored)}: with --all-shards those of the process and of shard {names.DEFAULT_SHARD}"
            problems[name] = f"{text} count: set them there"
    if names.DEFAULT_SHARD not in given and base.node_pool not in served:
        configs[names.DEFAULT_SHARD] = base
    configs = dict(sorted(configs.items()))
    pools = tuple(sorted(config.node_pool for config in configs.values()))
    return Shards(configs, replace(whole, node_pools=pools), problems)


def _only_main(main: Config, given: Mapping[str, Config]) -> Shards:
    """Without a label that says which pool an object is in, each shard would have the whole cluster: one gets it."""
    text = "the process has no label for node pools, so that one shard has the whole cluster and this one is not served"
    others = sorted(set(given) - {names.DEFAULT_SHARD})
    problems = dict.fromkeys(others, f"{text}: set --nodepool-label-key")
    return Shards({names.DEFAULT_SHARD: main}, replace(main, node_pool="", node_pools=("",)), problems)


def _own(config: Config, whole: Config) -> tuple[Config, list[str]]:
    """The settings of a shard in the process whose settings are ``whole``, and what of its own does not count."""
    fields = OF_PROCESS + (OF_SHARES if whole.fair_share == CLUSTER else ())
    ignored = [field for field in fields if getattr(config, field) != getattr(whole, field)]
    config = replace(config, **{field: getattr(whole, field) for field in ignored})
    shared = [PROPORTION] if whole.fair_share == CLUSTER else []
    shared += [NUMA] if NUMA in config.plugins else []  # What nodes report is read with its arguments.
    for name in shared:
        if config.plugins.get(name) != whole.plugins.get(name):
            ignored.append(f"plugins.{name}")
            config = replace(config, plugins={**config.plugins, name: whole.plugins.get(name, {})})
    return config, ignored


def _pool_text(pool: str) -> str:
    return f"node pool {pool}" if pool else "the objects without a node pool"


@dataclass(frozen=True, slots=True)
class UnservedPool:
    """How many nodes and workloads are in a node pool that no shard has."""

    nodes: int
    workloads: int

    def text(self, pool: str) -> str:
        """What is wrong, and what helps."""
        here = f"{_count(self.nodes, 'node')} and {_count(self.workloads, 'workload')}"
        text = f"{_pool_text(pool)}: no SchedulingShard has it, so {here}"
        return f"{text} are left alone: create a SchedulingShard with spec.partitionLabelValue {pool!r}, or correct it"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def unserved_pools(cluster: Cluster, whole: Config) -> dict[str, UnservedPool]:
    """By label value, in its order: the node pools of nodes, and of workloads of this scheduler that have not ended,
    that no shard has.
    """
    label = whole.node_pool_label
    lost = {key: group for key, group in cluster.pod_groups.items() if not in_pool(group.labels, whole)}
    waiting: set[str] = set()  # of these; a PodGroup does not say itself whose it is, so one without pods is nobody's
    nodes, workloads = Counter[str](), Counter[str]()
    for node in cluster.nodes.values():
        if not in_pool(node.labels, whole):
            nodes[node.labels.get(label, "")] += 1
    for pod in cluster.pods.values():
        if pod.scheduler != whole.scheduler_name or pod.has_ended:
            continue
        if pod.group:
            if lost and pod.group_key in lost:
                waiting.add(pod.group_key)
        elif not in_pool(pod.labels, whole):
            workloads[pod.labels.get(label, "")] += 1
    for key in waiting:
        workloads[lost[key].labels.get(label, "")] += 1
    return {pool: UnservedPool(nodes[pool], workloads[pool]) for pool in sorted({*nodes, *workloads})}


def pool_texts(found: Mapping[str, UnservedPool]) -> tuple[dict[str, str], str]:
    """What is wrong with the first node pools that no shard has, by label value, and one sentence about all the others,
    "" without any.
    """
    more = len(found) - NAMED_POOLS_MAX
    rest = f"{more} more node pools have no SchedulingShard either: correct their labels, or create one for each"
    named = {pool: found[pool].text(pool) for pool in sorted(found)[:NAMED_POOLS_MAX]}
    return named, rest if more > 0 else ""
