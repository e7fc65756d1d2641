"""Claims for devices once more: all ways to allocate them, and what is wrong with an allocation.

It tries every combination of devices, and imports nothing of the scheduler but the objects. Selectors are those of
``SELECTORS``, as functions.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from kai_sched.model.claims.objects import (
    AllocatedDevice,
    ClaimRequests,
    Device,
    DeviceConstraint,
    DeviceOption,
    DeviceRequest,
    ResourceSlice,
)

DRIVER = "gpu.example.com"
SELECTORS: Mapping[str, Callable[[Device], bool]] = {
    "device.driver == 'gpu.example.com'": lambda _: True,
    "device.attributes['gpu.example.com'].model == 'A'": lambda device: device.attributes.get(f"{DRIVER}/model") == "A",
    "device.attributes['gpu.example.com'].slot > 1": lambda device: _number(device) > 1,
    "device.allowMultipleAllocations": lambda device: device.shared,
}
# A device and the option that it is for.
Pick = tuple[Device, DeviceOption]


def _number(device: Device) -> int:
    found = device.attributes[f"{DRIVER}/slot"]
    assert isinstance(found, int)
    return found


def selects(option: DeviceOption, device: Device) -> bool:
    """Selectors, taints and capacity of one device, for itself."""
    tolerated = {toleration.key for toleration in option.tolerations}
    asked = dict(option.capacity)
    return (
        all(SELECTORS[each](device) for each in option.selectors)
        and all(taint.key in tolerated for taint in device.taints)
        and all(f"{DRIVER}/{name}" in device.capacity for name in asked)
        and all(amount <= device.capacity[f"{DRIVER}/{name}"].value for name, amount in asked.items())
        and (not device.shared or all(amount is not None for amount in consumed(option, device).values()))
    )


def consumed(option: DeviceOption, device: Device) -> dict[str, Fraction | None]:
    """What the option takes of each capacity of a shared device, by its short name."""
    asked = dict(option.capacity)
    return {
        name.removeprefix(f"{DRIVER}/"): each.consumed(asked.get(name.removeprefix(f"{DRIVER}/")))
        for name, each in device.capacity.items()
    }


def keeps(constraint: DeviceConstraint, devices: Sequence[Device]) -> bool:
    """Whether the devices have equal values of the attribute, or different ones."""
    values = [device.attributes.get(constraint.attribute) for device in devices]
    if None in values:
        return False
    return len(set(values)) == len(values) if constraint.distinct else len(set(values)) <= 1


def ways(asks: ClaimRequests, devices: Sequence[Device]) -> Iterator[list[tuple[str, Pick]]]:
    """All ways to give a claim devices of a node, by themselves: the name of the request, device and option."""
    choices = []
    for request in asks.requests:
        found = []
        for option in request.options:
            name = request.name if request.exact else f"{request.name}/{option.name}"
            fitting = [device for device in devices if selects(option, device)]
            count = len(fitting) if option.count is None else option.count
            if count:
                found += [[(name, (each, option)) for each in some] for some in itertools.combinations(fitting, count)]
        choices.append(found)
    for parts in itertools.product(*choices):
        way = [each for part in parts for each in part]
        names = [device.name for _, (device, _) in way]
        if len(set(names)) == len(names) and all(_kept(each, way) for each in asks.constraints):
            yield way


def _kept(constraint: DeviceConstraint, way: list[tuple[str, Pick]]) -> bool:
    listed = [
        device
        for name, (device, _) in way
        if not constraint.requests or name in constraint.requests or name.split("/")[0] in constraint.requests
    ]
    return keeps(constraint, listed)


def is_overused(picks: Sequence[Pick], slices: Sequence[ResourceSlice]) -> bool:
    """Whether claims with these devices of one pool take more than there is."""
    uses = Counter(device.name for device, option in picks if not option.admin)
    devices = {device.name: device for device, _ in picks}
    if any(count > 1 and not devices[name].shared for name, count in uses.items()):
        return True
    amounts: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for device, option in picks:
        for name, amount in consumed(option, device).items() if device.shared and not option.admin else ():
            amounts[device.name, name] += amount or 0
            if amounts[device.name, name] > device.capacity[f"{DRIVER}/{name}"].value:
                return True
    counters: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for name in uses:
        for counter_set, counter, amount in devices[name].counters:
            counters[counter_set, counter] += amount
    there = {(one, other): amount for each in slices for one, other, amount in each.counters}
    return any(amount > there.get(key, 0) for key, amount in counters.items())


def serves(
    asked: Mapping[str, int], offered: Mapping[str, int], devices: Sequence[Device], slices: Sequence[ResourceSlice]
) -> bool:
    """Whether a node can run a pod that asks for so many of extended resources: each is served by a device plugin where
    the node offers it, else by devices of the slices, all of one claim."""
    wanted = [
        DeviceRequest(resource, (DeviceOption("", count=count),))
        for resource, count in asked.items()
        if resource not in offered
    ]
    fits = all(count <= offered.get(resource, count) for resource, count in asked.items())
    return fits and can_allocate([ClaimRequests(tuple(wanted))], devices, slices)


def can_allocate(claims: Sequence[ClaimRequests], devices: Sequence[Device], slices: Sequence[ResourceSlice]) -> bool:
    """Whether all claims of a pod can be allocated together from the devices of a node."""
    for parts in itertools.product(*(list(ways(asks, devices)) for asks in claims)):
        if not is_overused([pick for part in parts for _, pick in part], slices):
            return True
    return False


def way_of(
    asks: ClaimRequests, results: Sequence[AllocatedDevice], devices: Sequence[Device]
) -> list[tuple[str, Pick]] | None:
    """The way that an allocation is; None if it is none."""
    wanted = sorted((each.request, each.device) for each in results)
    for way in ways(asks, devices):
        if sorted((name, device.name) for name, (device, _) in way) == wanted:
            return way
    return None
