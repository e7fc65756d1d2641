"""Amounts of resources in the units of users: cores, GPUs, and bytes as Kubernetes writes them."""

from __future__ import annotations

import math

from kai_sched.model.resources import ATTACHABLE, STORAGE_OF, is_whole

KINDS = {"cpu": "CPU", "memory": "memory", "gpu": "GPUs", "pods": "pod slots"}


def is_of_volumes(resource: str) -> bool:
    """Whether the resource is what nodes have for volumes: a sum over nodes says nothing about it."""
    return resource.startswith((ATTACHABLE, STORAGE_OF))


def show_amount(resource: str, amount: float) -> str:
    """The amount (in scheduler units) with its unit, such as "2 GPUs" or "1.5 CPU cores"; at most three decimals."""
    if math.isinf(amount):
        return "unlimited"
    match resource:
        case "cpu":
            return f"{number(amount / 1000)} CPU core{'' if amount == 1000 else 's'}"
        case "memory":
            return f"{show_size(amount)} memory"
        case "gpu":
            return f"{number(amount)} GPU{'' if amount == 1 else 's'}"
        case "pods":
            return f"{number(amount)} pod slot{'' if amount == 1 else 's'}"
        case _ if resource.startswith(STORAGE_OF):
            return f"{show_size(amount)} {resource}"
        case _ if resource.startswith(ATTACHABLE) and amount == 1:
            return f"1 {resource.replace('volumes', 'volume', 1)}"
        case _:
            return f"{number(amount if is_whole(resource) else amount / 1000)} {resource}"


def show_number(resource: str, amount: float) -> str:
    """The amount without what is counted: "2", "1.5", "64Gi"."""
    return show_amount(resource, amount).split(" ", 1)[0]


def show_size(amount: float) -> str:
    """Bytes, in the first of Gi, Mi, G and M that needs at most three decimals; else rounded, in Gi."""
    for size, unit in ((2.0**30, "Gi"), (2.0**20, "Mi"), (1e9, "G"), (1e6, "M")):
        if abs(amount) * 1000 >= size and (amount * 1000 / size).is_integer():
            return f"{number(amount / size)}{unit}"
    return f"{number(amount / 2.0**30)}Gi"


def number(value: float) -> str:
    """The number with at most three decimals, and no zeros at the end."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
