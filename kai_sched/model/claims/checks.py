"""Warnings about ResourceSlices whose devices nobody can get (semantics 8.6). Each slice by itself is valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from kai_sched.model.claims.objects import Device, ResourceSlice
from kai_sched.model.claims.pools import newest_slices, pool_fault
from kai_sched.model.problems import Problem
from kai_sched.model.store import Cluster

Counters = dict[tuple[str, str], Fraction]


def slice_problems(cluster: Cluster) -> Iterator[Problem]:
    """Pools that are not whole, devices that no node may use, and counters that are not there."""
    for slices in newest_slices(cluster.resource_slices.values()).values():
        fault = pool_fault(slices)
        if fault:
            at = slices[0]
            if fault[0] == "spec.devices.name":
                at = _with_second_name(slices)
            yield Problem("", f"ResourceSlice {at.name}", *fault)
            continue
        counters: Counters = {}
        for each in slices:
            yield from _counter_sets(each, counters)
        for each in slices:
            yield from _places(each, cluster)
            for device in each.devices:
                yield from _uses(each, device, counters)


def _with_second_name(slices: list[ResourceSlice]) -> ResourceSlice:
    """The slice in which a name of a device occurs once more."""
    seen: set[str] = set()
    for each in slices:
        for device in each.devices:
            if device.name in seen:
                return each
            seen.add(device.name)
    raise AssertionError("some name occurs twice")


def _counter_sets(each: ResourceSlice, counters: Counters) -> Iterator[Problem]:
    """Adds the counters of the slice to ``counters``."""
    for (counter_set, name), count in Counter((entry[0], entry[1]) for entry in each.counters).items():
        if count > 1 or (counter_set, name) in counters:
            message = f"counter {name} of set {counter_set!r} is given twice, and the last one counts: remove one"
            yield Problem("", f"ResourceSlice {each.name}", "spec.sharedCounters", message)
    counters.update({(entry[0], entry[1]): entry[2] for entry in each.counters})


def _places(each: ResourceSlice, cluster: Cluster) -> Iterator[Problem]:
    """What is wrong with the nodes that may use the devices; once for all devices of the slice."""
    found: dict[str, str] = {}
    for device in each.devices:
        given = [
            name
            for name, value in (
                ("nodeName", device.node),
                ("nodeSelector", device.selector),
                ("allNodes", device.everywhere),
            )
            if value
        ]
        if not given:
            found["none"] = (
                "missing, as are nodeSelector and allNodes, so no pod gets its devices: give the slice one of the three"
            )
        elif len(given) > 1:
            found["several"] = f"given are {' and '.join(given)}, and {given[0]} counts: remove the other"
        if device.node and device.node not in cluster.nodes:
            found[device.node] = (
                f"there is no node {device.node!r} in the input, so no pod gets its devices: add the node, or correct "
                "the name"
            )
    for message in found.values():
        yield Problem("", f"ResourceSlice {each.name}", "spec.nodeName", message)


def _uses(each: ResourceSlice, device: Device, counters: Counters) -> Iterator[Problem]:
    for counter_set, name, amount in device.counters:
        total = counters.get((counter_set, name))
        if total is None:
            fault = f"takes of counter {name} of set {counter_set!r}, which its pool does not have"
            remedy = "add the counter to spec.sharedCounters of a slice of the pool, or correct the names"
        elif amount > total:
            fault = f"takes more of counter {name} of set {counter_set!r} than there is of it"
            remedy = "correct one of the amounts"
        else:
            continue
        message = f"device {device.name!r} {fault}, so nobody gets it: {remedy}"
        yield Problem("", f"ResourceSlice {each.name}", "spec.devices.consumesCounters", message)
        return
