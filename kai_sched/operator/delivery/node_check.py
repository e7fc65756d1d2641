"""Whether a node can take a pod right now, for binds and evictions that are about to be sent."""

from __future__ import annotations

from kai_sched.model.objects import Node
from kai_sched.model.store import Store


def node_problem(store: Store, name: str) -> str:
    """Return why the node can take no pod, or an empty string."""
    node = store.get(Node, name)
    if node is None:
        return f"node {name} is gone"
    if node.unschedulable:
        return f"node {name} was cordoned"
    return f"node {name} is {', '.join(node.bad_conditions)}" if node.bad_conditions else ""
