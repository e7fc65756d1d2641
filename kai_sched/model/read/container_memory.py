"""Reads how much memory of a GPU one container of a pod requests, and may use at most, by annotations that name the
container in their keys (API 2.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kai_sched.api import names
from kai_sched.model.field_errors import shown
from kai_sched.model.resources import QuantityError, parse_quantity

MIB = 2**20
MEMORY_MAX_MIB = 999_999_999  # as much as gpu-memory takes
REQUEST, LIMIT = "request", "limit"
_KEY = re.compile(rf"{re.escape(names.CONTAINER_PREFIX)}(.+)\.gpu-memory\.({REQUEST}|{LIMIT})", re.DOTALL)
_MEMORY = ".gpu-memory"
_AMOUNT = "an amount of memory such as 4096Mi or 4Gi"


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """What such annotations of a pod request.

    Attributes
    ----------
    keys
        The annotations, in alphabetical order.
    containers
        The containers that they name, in alphabetical order.
    mib
        What is to be scheduled: the request, or the limit where there is no request; 0 where neither can be read.
    limit_mib
        The most that the container may use where that is more; else 0.
    faults
        (annotation, what is wrong with it and the remedy) of each that is wrong.
    """

    keys: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    mib: int = 0
    limit_mib: int = 0
    faults: tuple[tuple[str, str], ...] = ()


NO_MEMORY = ContainerMemory()


def is_container_key(key: str) -> bool:
    """Whether the annotation says what memory of a GPU a container gets."""
    return key.startswith(names.CONTAINER_PREFIX) and _KEY.fullmatch(key) is not None


def read_container_memory(annotations: Mapping[str, str]) -> ContainerMemory:
    """What the annotations of the pod request; whether its containers have these names is not looked at."""
    keys = sorted(key for key in annotations if is_container_key(key))
    if not keys:
        return NO_MEMORY
    faults: list[tuple[str, str]] = []
    amounts: dict[str, int] = {}
    containers: set[str] = set()
    for key in keys:
        match = _KEY.fullmatch(key)
        assert match is not None
        containers.add(match[1])
        try:
            amounts[match[2]] = _mib(annotations[key])
        except ValueError as error:
            faults.append((key, str(error)))
    others = sorted(containers)
    if len(others) > 1:
        text = f"one container of a pod gets a part of a GPU, not {shown(others[0])} and {shown(others[1])}"
        faults.append((keys[-1], f"{text}: remove the annotations of all but one"))
    if faults:
        return ContainerMemory(tuple(keys), tuple(others), faults=tuple(faults))
    limit = amounts.get(LIMIT, 0)
    request = amounts.get(REQUEST, limit)
    if limit and request > limit:
        text = f"{request:,} MiB are above the limit of {limit:,} MiB: lower the request, or raise the limit"
        request_key = next(key for key in keys if key.endswith(REQUEST))
        return ContainerMemory(tuple(keys), tuple(others), faults=((request_key, text),))
    return ContainerMemory(tuple(keys), tuple(others), request, limit if limit > request else 0)


def misspelt_keys(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Annotations that are to be such ones by their keys, but are not: each with what is wrong and the remedy. What the
    others say holds beside them, as for a pod that runs.
    """
    for key in sorted(annotations):
        if key.startswith(names.CONTAINER_PREFIX) and _MEMORY in key and not is_container_key(key):
            name = key.removeprefix(names.CONTAINER_PREFIX).partition(_MEMORY)[0]
            right = f"{names.CONTAINER_PREFIX}{name or '<name>'}{_MEMORY}"
            yield key, f"the key does not say what a container gets: write {right}.{REQUEST} or {right}.{LIMIT}"


def _mib(text: str) -> int:
    """The amount in whole MiB, rounded up. Raises ValueError."""
    try:
        value = parse_quantity(text)
    except QuantityError:
        raise ValueError(f"{shown(text)} is not {_AMOUNT}: correct it") from None
    if value <= 0:
        raise ValueError(f"{shown(text)} is not above 0: give {_AMOUNT}")
    if value < MIB:
        raise ValueError(f"{shown(text)} is less than one MiB, as it counts in bytes: give {_AMOUNT}")
    whole = int(-(-value // MIB))
    if whole > MEMORY_MAX_MIB:
        raise ValueError(f"{shown(text)} is more than {MEMORY_MAX_MIB:,} MiB, which no GPU has: correct it")
    return whole
