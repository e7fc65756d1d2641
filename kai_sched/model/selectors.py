"""Whether labels meet a requirement, and a node a node selector: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kai_sched.model.constraints import NodeSelector, Requirement
from kai_sched.model.objects import Node

# The key under which requirements speak of a node's name.
NODE_NAME = "metadata.name"
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.ASCII)


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet the requirement. As in Kubernetes, NotIn also holds if the label is missing."""
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
    number, bound = compared(value or ""), compared(requirement.values[0]) if requirement.values else None
    if number is None or bound is None:
        return False
    return number > bound if requirement.op == "Gt" else number < bound


def compared(text: str) -> int | None:
    """The whole number that Gt and Lt compare; None for a text that is no number of 64 bits."""
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def admits(selector: NodeSelector | None, node: Node) -> bool:
    """Whether the node meets at least one term of the selector; None admits every node."""
    if selector is None:
        return True
    facts = {**node.labels, NODE_NAME: node.name}
    return any(all(holds(requirement, facts) for requirement in term) for term in selector)
