"""Devices that nothing tells apart: pods with claims for them are decided as pods that ask for as many whole GPUs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given

from kai_sched import Cluster, Config
from kai_sched.model import objects as o
from kai_sched.model.claims.objects import (
    AllocatedDevice,
    Allocation,
    ClaimRequests,
    Device,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
)
from kai_sched.model.constraints import Requirement
from kai_sched.model.selectors import NODE_NAME
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import by_scheduler

DRIVER = "gpu.example.com"
SELECTOR = f'device.driver == "{DRIVER}"'
CROWDS = crowds(Crowd(sub_groups=True, picky=True, limits=True), (1, 4), (1, 5), (1, 10))


def with_claims(objects: list[o.Object]) -> list[o.Object]:
    """The cluster with GPUs as devices of slices: each pod has a claim of its own for as many as it asks for."""
    used: Counter[str] = Counter()
    found: list[o.Object] = [DeviceClass(DRIVER, (SELECTOR,))]
    for each in objects:
        if isinstance(each, o.Node):
            gpus = int(each.allocatable.get("gpu", 0.0))
            devices = tuple(Device(f"d{number:02}", node=each.name) for number in range(gpus))
            found.append(ResourceSlice(each.name, DRIVER, each.name, devices=devices))
            found.append(replace(each, allocatable={**each.allocatable, "gpu": 0.0}))
        elif isinstance(each, o.Pod) and (count := int(dict(each.shape.request).get("gpu", 0.0))):
            found += _with_claim(each, count, used)
        else:
            found.append(each)
    return found


def _with_claim(pod: o.Pod, count: int, used: Counter[str]) -> list[o.Object]:
    allocation = None
    if pod.node:
        names = [f"d{used[pod.node] + number:02}" for number in range(count)]
        used[pod.node] += count
        there = ((Requirement(NODE_NAME, "In", (pod.node,)),),)
        allocation = Allocation(tuple(AllocatedDevice("r", DRIVER, pod.node, name) for name in names), there)
    asks = ClaimRequests((DeviceRequest("r", (DeviceOption(DRIVER, selectors=(SELECTOR,), count=count),)),))
    consumers = ((pod.name, pod.uid),) if pod.node else ()
    claim = ResourceClaim("ns", f"{pod.name}-c", asks=asks, allocation=allocation, consumers=consumers, owner=pod.uid)
    request = tuple((name, amount) for name, amount in pod.shape.request if name != "gpu")
    shape = replace(pod.shape, request=request, n_claims=1)
    return [claim, replace(pod, shape=shape, claims=(PodClaim("c", claim.name),))]


@given(CROWDS)
def test_claims_for_whole_gpus_are_placed_as_whole_gpus(objects: list[o.Object]) -> None:
    config = Config(actions=("allocate",))
    expected = by_scheduler(Cluster.of(objects), config, NOW_NS)
    assert by_scheduler(Cluster.of(with_claims(objects)), config, NOW_NS) == expected


@given(CROWDS)
def test_nobody_leaves_because_of_which_device_another_pod_was_given(objects: list[o.Object]) -> None:
    expected = by_scheduler(Cluster.of(objects), Config(), NOW_NS)
    found = by_scheduler(Cluster.of(with_claims(objects)), Config(), NOW_NS)
    assert len(found.evictions) <= len(expected.evictions)
