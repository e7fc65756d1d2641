"""Kubernetes quantities: how they are parsed and written, the unit of each resource, and which resources are GPUs
(semantics 0.2).

Units by resource (semantics 0.2): CPU millicores; memory, ephemeral-storage and storage bytes; GPUs, pods and MIG
profiles whole; hugepages, attachable volumes, extended and other prefixed resources thousandths. As in Kubernetes,
what is smaller than a unit is rounded up to it.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from kai_sched.model.field_errors import shown

CPU = "cpu"
MEMORY = "memory"
GPU = "gpu"
PODS = "pods"

# The same resource under two vendors' names. Any other resource that merely ends in "gpu" is a resource of its own.
GPU_NAMES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
MIG_PREFIX = "nvidia.com/mig-"
# What nodes have for volumes: how many of a driver can be attached, and bytes that can be made of a storage class.
ATTACHABLE, STORAGE_OF = "attachable volumes of ", "storage of class "

MEMORY_IN_BYTES_FROM = 1 << 20
_WHOLE = frozenset({MEMORY, PODS, GPU, "ephemeral-storage", "storage"}) | GPU_NAMES
_MIG_PROFILE = re.compile(r"nvidia\.com/mig-(\d{1,2})g\.", re.ASCII)
_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_SUFFIXES = {
    **{
        suffix: Fraction(10) ** (3 * power)
        for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_NANO = Fraction(1, 10**9)
_MAX = Fraction(2**63 - 1)
# Powers of ten beyond these only ever meet the bounds above, so nothing larger needs to be worked out.
_EXPONENT_MAX = 40
_DIGITS_MAX = 100


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message quotes it."""


def gpu_memory_mib(label: str) -> int:
    """The memory of each GPU of a node in MiB, as its label says; 0 where that is no whole number above 0.

    A number of 2^20 or more is in bytes (semantics 8.1).
    """
    value = int(label) if label.isascii() and label.isdigit() and len(label) < 20 else 0
    return value // MEMORY_IN_BYTES_FROM if value >= MEMORY_IN_BYTES_FROM else value


def parse_quantity(text: str | float) -> Fraction:
    """The exact value of a quantity such as "250m", "1.5Gi", "2e3", 4 or 0.5.

    As in the API server, what is finer than one nano is rounded away from zero, and what is beyond 2^63 - 1 becomes
    that.
    Raises QuantityError.
    """
    if isinstance(text, str):
        return _parse(text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise QuantityError(
            f"{shown(text)} is not a quantity; write a number with an optional suffix, such as 500m, 2 or 16Gi"
        )
    return _parse(repr(text))


def is_quantity(text: str | float) -> bool:
    """Whether ``parse_quantity`` reads it."""
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


@lru_cache(maxsize=8192)
def _parse(text: str) -> Fraction:
    # Its length first: matching takes the square of it.
    found = _NUMBER.fullmatch(text) if len(text) <= _DIGITS_MAX else None
    if found is None:
        raise QuantityError(
            f"{shown(text)} is not a quantity; write a number with an optional suffix, such as 500m, 2 or 16Gi"
        )
    sign, digits, suffix = found.groups()
    value = Fraction(digits.rstrip(".")) * _scale(suffix or "")
    if value:
        value = min(Fraction(math.ceil(value / _NANO)) * _NANO, _MAX)
    return -value if sign == "-" else value


def _scale(suffix: str) -> Fraction:
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    exponent = int(suffix[1:])
    # The digits in front span at most _DIGITS_MAX places, so a clamp this far out changes no value within the bounds.
    bound = _EXPONENT_MAX + _DIGITS_MAX
    return Fraction(10) ** max(-bound, min(bound, exponent))


def canonical(resource: str) -> str:
    """The name under which the scheduler counts a resource: every GPU name is "gpu"."""
    return GPU if resource in GPU_NAMES else resource


@lru_cache(maxsize=1024)
def mig_gpus(resource: str) -> float:
    """The GPUs that one MIG device of this resource counts as: 3 for "nvidia.com/mig-3g.20gb"; 0 for other names."""
    found = _MIG_PROFILE.match(resource)
    return float(found.group(1)) if found else 0.0


@lru_cache(maxsize=8192)
def _amount(resource: str, text: str) -> float:
    value = _parse(text)
    return float(math.ceil(value if is_whole(resource) else value * 1000))


def is_whole(resource: str) -> bool:
    """Whether the scheduler counts the resource in its own unit, and not in thousandths of it."""
    return resource in _WHOLE or resource.startswith((MIG_PREFIX, ATTACHABLE, STORAGE_OF))


def amount(resource: str, quantity: str | float) -> float:
    """The quantity in the scheduler's unit of this resource, rounded up to a whole unit. Raises QuantityError."""
    if isinstance(quantity, str):
        return _amount(resource, quantity)
    return _amount(resource, str(parse_quantity(quantity)) if isinstance(quantity, bool) else repr(quantity))


@lru_cache(maxsize=8192)
def quantity_text(resource: str, value: float) -> str:
    """The amount in the scheduler's unit as Kubernetes writes it: "4", "500m", bytes plain; unlimited is "-1".

    What is finer than a thousandth is rounded to it.
    """
    if math.isinf(value):
        return "-1"
    thousandths = round(value * 1000 if is_whole(resource) else value)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
