"""What the API server takes and what nodes hold, by the rules of Kubernetes and without the scheduler's code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any

import msgspec

from kai_sched import CycleResult
from kai_sched.api import core
from kai_sched.plan.effects import Bind
from tests.properties.hostile_values import encode
from tests.properties.hostile_world import Object, key_of

_QUANTITY = re.compile(r"\+?(\d+\.?\d*|\.\d+)(?:([eE])([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_MOST = Fraction(2**63 - 1)
_anything = msgspec.json.Decoder()
_decoders = {
    "Pod": msgspec.json.Decoder(core.WirePod),
    "affinity": msgspec.json.Decoder(core.Affinity | None),
    "tolerations": msgspec.json.Decoder(list[core.WireToleration] | None),
    "nodeSelector": msgspec.json.Decoder(dict[str, str] | None),
}
PHASES = {"Pending", "Running", "Succeeded", "Failed", "Unknown"}


def amount(quantity: Any) -> Fraction | None:
    """What the API server makes of a quantity of 0 or more; None for what it refuses."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        return None
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None or len(str(quantity)) > 100:
        return None
    number, exponent, suffix = Fraction(found[1].rstrip(".") or "0"), found[3], found[4] or ""
    if exponent:
        scale = Fraction(10) ** max(-40, min(40, int(exponent)))
    elif suffix.endswith("i"):
        scale = Fraction(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    else:
        scale = Fraction(1000) ** (["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].index(suffix) - 3)
    return min(_MOST, number * scale)


def holds(content: Object) -> dict[str, Fraction] | None:
    """What a pod's containers hold on its node; None for a pod that no API server would have taken."""
    try:
        _decoders["Pod"].decode(encode(content))
        spec, meta = content.get("spec") or {}, content["metadata"]
        for part in ("affinity", "tolerations", "nodeSelector"):
            _decoders[part].decode(encode(spec.get(part)))
        if not (_NAME.fullmatch(meta["name"]) and _NAME.fullmatch(meta["namespace"])):
            return None
        if not all(_LABEL_VALUE.fullmatch(value) for value in (meta.get("labels") or {}).values()):
            return None
        for field in ("creationTimestamp", "deletionTimestamp"):
            if meta.get(field) is not None:
                datetime.fromisoformat(meta[field])
        if ((content.get("status") or {}).get("phase") or "Pending") not in PHASES:
            return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    total: dict[str, Fraction] = {"pods": Fraction(1)}
    for container in spec.get("containers") or ():
        resources = container.get("resources")
        parts = [_mapping(resources).get(field) for field in ("limits", "requests")]
        if not all(part is None or isinstance(part, dict) for part in (resources, *parts)):
            return None
        for resource, quantity in {**(parts[0] or {}), **(parts[1] or {})}.items():
            found = amount(quantity)
            if found is None:
                return None
            total[resource] = total.get(resource, Fraction(0)) + found
    return total


def overfull(objects: Iterable[Object], result: CycleResult) -> list[str]:
    """The nodes that got a pod which asks for more than was left, by what the containers hold. Those that were
    overfull before, and get nothing more of that resource, are none."""
    pods = {key_of(each): each for each in objects if each["kind"] == "Pod"}
    nodes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Node" and _is_plain(each)}
    by_name = {_name_of(each): each for each in pods.values()}
    used: dict[str, dict[str, Fraction]] = {}
    for each in pods.values():
        spec, status = _mapping(each.get("spec")), _mapping(each.get("status"))
        if spec.get("nodeName") and status.get("phase") not in ("Succeeded", "Failed"):
            _add(used, spec["nodeName"], holds(each) or {})
    wants: dict[str, dict[str, Fraction]] = {}
    for effect in result.effects:
        if isinstance(effect, Bind):
            _add(wants, effect.node, holds(by_name[effect.pod]) or {})
    found = []
    unread = [
        _mapping(each.get("metadata")).get("name") for each in objects if each["kind"] == "Node" and not _is_read(each)
    ]
    for name, asked in wants.items():
        if name in unread:
            continue  # it counts as it was when it could be read last
        room = nodes[name]["status"]["allocatable"] if name in nodes else {}
        for resource, more in asked.items():
            capacity = amount(room.get(resource, "0"))
            there = used.get(name, {}).get(resource, Fraction(0))
            if more and capacity is not None and there + more > capacity:
                found.append(f"node {name} has {capacity} {resource}, {there} of it held, and gets {more} more")
    return found


def _is_read(content: Object) -> bool:
    """Whether the object can be decoded at all; else its new version is left out, whatever that says."""
    try:
        _anything.decode(encode(content))
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _is_plain(content: Object) -> bool:
    """Whether the node says what it has in a way that the API server takes."""
    room = _mapping(content.get("status")).get("allocatable")
    meta = _mapping(content.get("metadata"))
    return isinstance(meta.get("name"), str) and isinstance(room, dict)


def _add(table: dict[str, dict[str, Fraction]], key: Any, amounts: Mapping[str, Fraction]) -> None:
    if not isinstance(key, str):
        return
    row = table.setdefault(key, {})
    for resource, value in amounts.items():
        row[resource] = row.get(resource, Fraction(0)) + value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _name_of(pod: Object) -> str:
    """What the scheduler calls it."""
    return f"{_text(pod, 'namespace') or 'default'}/{_text(pod, 'name')}"


def _text(content: Object, field: str) -> str:
    value = _mapping(content.get("metadata")).get(field)
    return value if isinstance(value, str) else ""


def carried_out(objects: Iterable[Object], result: CycleResult) -> list[Object]:
    """The objects with each bind done, the pods running."""
    places = {effect.pod: effect.node for effect in result.effects if isinstance(effect, Bind)}
    found = []
    for each in objects:
        place = places.get(_name_of(each)) if each["kind"] == "Pod" else None
        if place is not None:
            each = {**each, "spec": {**_mapping(each.get("spec")), "nodeName": place}, "status": {"phase": "Running"}}
        found.append(each)
    return found
