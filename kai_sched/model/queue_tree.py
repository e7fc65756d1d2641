"""Which queues hang together with a root: those below a missing parent and in a circle of parents are left out.
``model.checks`` and ``lowering.queues`` share it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.model.objects import Queue


def rooted_queues(queues: Mapping[str, Queue]) -> dict[str, Queue]:
    """The queues whose ancestors all exist, level by level. Queues in a cycle, and below one, are left out.

    A queue without a name is left out, too: it would be its own parent.
    """
    children: dict[str, list[str]] = {}
    for name, queue in queues.items():
        if name:
            children.setdefault(queue.parent, []).append(name)
    found: dict[str, Queue] = {}
    frontier = children.get("", [])
    while frontier:
        found |= {name: queues[name] for name in frontier}
        frontier = [child for name in frontier for child in children.get(name, [])]
    return found


def missing_above(name: str, queues: Mapping[str, Queue]) -> str:
    """The name of the nearest ancestor that does not exist; "" if the parents form a cycle."""
    seen = {name}
    above = queues[name].parent
    while above in queues and above not in seen:
        seen.add(above)
        above = queues[above].parent
    return "" if above in seen else above


def path_to_root(queues: Mapping[str, Queue], name: str) -> list[str]:
    """The queue and those above it, as far as they exist; each once."""
    path: list[str] = []
    while name in queues and name not in path:
        path.append(name)
        name = queues[name].parent
    return path
