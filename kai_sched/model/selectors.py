"""Whether labels meet a selector, as Kubernetes has it."""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.model.objects import Node, NodeSelector, Requirement

# The key under which requirements speak of a node's name.
NODE_NAME = "metadata.name"


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet the requirement, as Kubernetes selectors do: NotIn holds without the label."""
    value = labels.get(requirement.key)
    match requirement.op:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    try:
        number, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if requirement.op == "Gt" else number < bound


def admits(selector: NodeSelector | None, node: Node) -> bool:
    """Whether some term of the selector is met by the node; None admits every node."""
    if selector is None:
        return True
    facts = {**node.labels, NODE_NAME: node.name}
    return any(all(holds(requirement, facts) for requirement in term) for term in selector)
