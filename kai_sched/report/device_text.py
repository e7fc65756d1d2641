"""Who shares which GPU, and which devices claims hold, as tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kai_sched.answers.words import number, some
from kai_sched.model.keys import split_key
from kai_sched.model.store import Cluster
from kai_sched.plan.allocations import quantity
from kai_sched.plan.amounts import show_number
from kai_sched.plan.result import CycleResult
from kai_sched.report.claims import ClaimedDevice, claimed_devices
from kai_sched.report.columns import Cell, Line, lay_out
from kai_sched.report.devices import Sharer, shared_devices
from kai_sched.report.text import plain

MOST_PODS = 8
# Statuses in words, where a pod does not simply run.
_WORDS = {
    "Binding": "starts",
    "Pipelined": "waits for its place",
    "Releasing": "leaves",
    "StuckInReleasing": "stuck while it leaves",
    "Unknown": "unknown",
}


def devices(
    cluster: Cluster, result: CycleResult, width: int | None, named: bool
) -> tuple[Iterator[Line], Iterator[Line]]:
    """The two tables; empty where nothing is shared or claimed. ``width`` in columns, None for no limit.

    ``named``: shared GPUs are shown with the names of their groups of pods, which new ones get by the clock.
    """
    return _shared(cluster, result, width, named), _claimed(cluster, result, width)


def _shared(cluster: Cluster, result: CycleResult, width: int | None, named: bool) -> Iterator[Line]:
    """The GPUs that are shared, numbered on each node, and by whom."""
    found = shared_devices(cluster, result)
    if not found:
        return
    yield [("SHARED GPUS", "bold")]
    rows = [_titles("NODE", "DEVICE", "HELD", "PODS")]
    place, before = 0, ""
    for device in found:
        place = place + 1 if device.node == before else 1
        before = device.node
        pods = some([_sharer(each) for each in device.sharers], MOST_PODS)
        name = f"{place} {plain(device.group)}".rstrip() if named else str(place)
        rows.append(
            [
                Cell(plain(device.node), elastic=True),
                Cell(name, elastic=True),
                Cell(number(device.held)),
                Cell(pods, last=True),
            ]
        )
    yield from lay_out(rows, width, indent=2)


def _sharer(sharer: Sharer) -> str:
    share = sharer.share
    part = f"{share.memory_mib:,} MiB" if share.memory_mib else f"{share.portion:g}"
    status = f", {_WORDS[sharer.status]}" if sharer.status in _WORDS else ""
    return f"{plain(sharer.pod)} ({part}{status})"


def _claimed(cluster: Cluster, result: CycleResult, width: int | None) -> Iterator[Line]:
    """The devices that claims hold; a pool that is called like the node is left out."""
    found = claimed_devices(cluster, result)
    if not found:
        return
    yield [("DEVICES OF CLAIMS", "bold")]
    rows = [_titles("NODE", "DEVICE", "TAKES", "CLAIM", "PODS")]
    for each in found:
        device = "/".join((each.driver, *([each.pool] if each.pool != each.node else []), each.device))
        pods = some([_user(key, status) for key, status in each.pods.items()], MOST_PODS)
        texts = (plain(each.node) or "-", plain(device), _taken(each), plain(each.claim), pods or "none")
        rows.append([Cell(text, elastic=place in (0, 1, 3), last=place == 4) for place, text in enumerate(texts)])
    yield from lay_out(rows, width, indent=2)


def _user(key: str, status: str) -> str:
    """The name of a pod, which is in the namespace of its claim."""
    name = plain(split_key(key)[1])
    return f"{name} ({_WORDS[status]})" if status in _WORDS else name


def _titles(*titles: str) -> list[Cell]:
    return [Cell(title, "dim") for title in titles]


def _taken(device: ClaimedDevice) -> str:
    """What the claim takes of the device: capacities, or the whole; amounts from a mebibyte on are sizes."""
    if device.admin:
        return "admin access"
    if device.consumed:
        sizes = [
            (name, show_number("memory", float(amount)) if amount >= 2**20 else _exact(amount))
            for name, amount in device.consumed
        ]
        return ", ".join(f"{size} {plain(name)}" for name, size in sizes)
    return f"{device.gpus} GPU" if device.gpus else "1 device"


def _exact(amount: Fraction) -> str:
    return f"{float(amount):g}" if (amount * 1000).denominator == 1 else quantity(amount)
