"""NUMA zones of nodes and what pods ask of them, in lines of scenarios (README.md)."""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.model.numa import Alignment, ContainerRequest, NodeZone, NodeZones, NumaRequest, Placement, ZoneAmounts

Words = Mapping[str, str]
UNITS = {"cpu": 1000.0, "mem": 1e9}
NAMES = {"mem": "memory"}
POLICIES = {"none": 0, "best-effort": 1, "restricted": 2, "single": 3}


def amounts(text: str) -> tuple[tuple[str, float], ...]:
    """ "gpu:2,cpu:4": by resource, in cores, GB and counts."""
    parts = (part.split(":") for part in text.split(",") if part)
    return tuple(sorted((NAMES.get(name, name), float(value) * UNITS.get(name, 1.0)) for name, value in parts))


def zones(words: Words, _place: int) -> NodeZones:
    """The zones of the node of this name: ``each`` is what each of ``count`` has; ``0``, ``1`` what one has instead."""
    found = []
    for z in range(int(words.get("count", 2))):
        has = dict(amounts(words.get(str(z), words.get("each", ""))))
        found.append(NodeZone(f"node-{z}", has, dict(amounts(words["available"])) if "available" in words else has))
    policy = Alignment(POLICIES[words.get("policy", "single")])
    return NodeZones(words["name"], words["name"], policy, "pod" in words, tuple(found))


def request(words: Words) -> NumaRequest | None:
    """``aligned="gpu:1,cpu:2 | gpu:1"``: of each container; "init gpu:1" is of one that ends before the others start.

    A pod is guaranteed unless it is ``burstable``.
    """
    if "aligned" not in words:
        return None
    containers = []
    for text in words["aligned"].split("|"):
        first = text.strip().startswith("init ")
        containers.append(ContainerRequest(first, amounts(text.strip().removeprefix("init "))))
    containers.sort(key=lambda each: not each.first)
    total: dict[str, float] = {}
    for container in containers:
        for name, amount in container.amounts:
            total[name] = total.get(name, 0.0) + (0.0 if container.first else amount)
    for container in containers:
        for name, amount in container.amounts:
            total[name] = max(total[name], amount)
    return NumaRequest("burstable" not in words, tuple(sorted(total.items())), tuple(containers))


def placement(text: str) -> Placement:
    """ "0=gpu:1,cpu:2 1=gpu:1": by the number of the zone."""
    parts = (part.split("=") for part in text.split())
    return tuple(ZoneAmounts(f"node-{zone}", amounts(has)) for zone, has in parts)


def in_words(found: Placement) -> list[str]:
    """A placement as ``placement`` reads it."""
    return [f"{each.zone.removeprefix('node-')}={','.join(map(_amount, each.amounts))}" for each in found] or ["none"]


def _amount(each: tuple[str, float]) -> str:
    name = {full: short for short, full in NAMES.items()}.get(each[0], each[0])
    return f"{name}:{each[1] / UNITS.get(name, 1.0):g}"
