"""Whether a node can take a pod right now: it exists, is not cordoned, and is in no bad condition; for the bind and the
eviction tracker.
"""

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
