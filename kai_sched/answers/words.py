"""Words for amounts, durations, times and lists of names, for all answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kai_sched.model.times import format_time

SECOND_NS = 1_000_000_000
# In 2001. Nothing in a cluster is older, but pods that are made of a workload in a file without any time are.
_OLDEST_NS = 1_000_000_000 * SECOND_NS
_STEPS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_NUMBER = re.compile(r"\d+")
_NAMES_MAX = 3


def count(number: int, noun: str) -> str:
    """The number with its noun: "1 pod", "12 pods"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def gpus(amount: float) -> str:
    """GPUs as people write them: "8 GPUs", "0.5 GPUs", "1 GPU"."""
    return f"{number(amount)} GPU{'' if amount == 1 else 's'}"


def number(value: float) -> str:
    """At most two decimals, without zeros at the end; "unlimited" for infinity."""
    if value == float("inf"):
        return "unlimited"
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


def exact(value: float) -> str:
    """The number in as few digits as say it exactly: "8", "0.1", "1234567"."""
    return str(int(value)) if value.is_integer() else repr(value)


def duration(seconds: float) -> str:
    """The two largest units: "2d 2h", "55m", "40s"."""
    left = int(max(0.0, seconds))
    parts: list[str] = []
    for unit, size in _STEPS:
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
        if len(parts) == 2:
            break
    # Seconds say nothing beside minutes, and minutes nothing beside days.
    return " ".join(parts) if len(parts) < 2 or parts[0][-1] != "m" else parts[0]


def since(begin_ns: int, now_ns: int) -> float:
    """Seconds from a time to now, both in nanoseconds since the epoch; 0 where the time is not known."""
    return max(0.0, (now_ns - begin_ns) / SECOND_NS) if begin_ns >= _OLDEST_NS else 0.0


def minute(time_ns: int) -> str:
    """The time to the minute: "2026-11-22 12:00 UTC"."""
    return format_time(time_ns)[:16].replace("T", " ") + " UTC"


def pattern(name: str) -> tuple[str, ...]:
    """What names have in common that differ in one number only: the text around its last number."""
    found = list(_NUMBER.finditer(name))
    return (name[: found[-1].start()], name[found[-1].end() :]) if found else (name,)


def alike(names: Sequence[str]) -> str:
    """Names that differ in their last number as one: "trial-{004..007}", or the first ones and how many more.

    A name that stands several times is told once.
    """
    names = list(dict.fromkeys(names))
    if len(names) == 1:
        return names[0]
    if len({pattern(name) for name in names}) == 1 and len(pattern(names[0])) == 2:
        begin, end = pattern(names[0])
        numbers = sorted(
            (name[len(begin) : len(name) - len(end)] for name in names), key=lambda text: (int(text), text)
        )
        whole = int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1
        inside = f"{numbers[0]}..{numbers[-1]}" if whole else ",".join(numbers)
        if whole or len(inside) <= 40:
            return f"{begin}{{{inside}}}{end}"
    return some(names)


def nodes_text(nodes: Sequence[tuple[str, int]]) -> str:
    """The names of nodes that come with numbers of pods, in a few words."""
    names = [name for name, _ in nodes]
    if len(names) > 3 and len({pattern(name) for name in names}) > 1:
        return f"{names[0]}, {names[1]} and {len(names) - 2} more nodes"
    return alike(names)


def some(names: Sequence[str], most: int = _NAMES_MAX) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
