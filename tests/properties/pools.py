"""Crowds of two node pools with the same queues."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from kai_sched.model import objects as o
from tests.properties.crowds import Bounds, Crowd, crowds

LABEL = "kai.scheduler/node-pool"
POOLS = ("a", "b")


def pools(
    crowd: Crowd, n_nodes: Bounds = (1, 4), n_queues: Bounds = (1, 5), n_groups: Bounds = (1, 10)
) -> st.SearchStrategy[list[o.Object]]:
    """Lists of objects: the nodes and groups of two crowds, each crowd in a pool of its own, and the queues of one."""
    one = crowds(crowd, n_nodes, n_queues, n_groups)
    return st.tuples(one, crowds(crowd, n_nodes, n_queues, n_groups)).map(lambda both: _joined(*both))


def _joined(one: list[o.Object], two: list[o.Object]) -> list[o.Object]:
    queues = [item for item in one if isinstance(item, o.Queue)]
    leaves = sorted({queue.name for queue in queues} - {queue.parent for queue in queues})
    found = [_in_pool(item, "a") for item in one]
    return found + [
        _in_pool(_renamed(item, leaves), "b") for item in two if isinstance(item, o.Node | o.PodGroup | o.Pod)
    ]


def _in_pool(item: o.Object, pool: str) -> o.Object:
    if isinstance(item, o.Node | o.PodGroup | o.Pod):
        return replace(item, labels={**item.labels, LABEL: pool})
    return item


def _renamed(item: o.Node | o.PodGroup | o.Pod, leaves: list[str]) -> o.Object:
    """The object under names that no object of the first crowd has; a group in one of these queues."""
    if isinstance(item, o.Node):
        name = f"b{item.name}"
        labels = {key: name if value == item.name else value for key, value in item.labels.items()}
        return replace(item, name=name, uid=f"b{item.uid}", labels=labels)
    if isinstance(item, o.PodGroup):
        queue = random.Random(item.uid).choice(leaves)
        return replace(item, name=f"b{item.name}", uid=f"b{item.uid}", queue=queue)
    group, node = (f"b{name}" if name else "" for name in (item.group, item.node))
    return replace(item, name=f"b{item.name}", uid=f"b{item.uid}", group=group, node=node)
