"""Clusters of the benchmark whose pods ask for devices: parts of GPUs, and claims for devices of slices."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from kai_sched.model.claims.objects import (
    Capacity,
    ClaimRequests,
    Device,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
)
from kai_sched.model.objects import GpuShare, Object, Pod, Shape
from tests.perf.builder import GPUS_PER_NODE, Builder

PLAIN = (("cpu", 1000.0), ("memory", 1e9), ("pods", 1.0))
DRIVER = "gpu.example.com"
GI = 2**30
MODELS = 5
THRESHOLDS = 8


def fractions(prefix: str, n_nodes: int, n_jobs: int) -> list[Object]:
    """Single pods of one queue, each with a part of a GPU: tenths in a cycle of nine."""
    build = Builder(prefix)
    build.nodes(n_nodes)
    (queue,) = build.tree(1, 1, float(n_nodes * GPUS_PER_NODE))
    shapes = [Shape(PLAIN, share=GpuShare(1, (7 * i % 9 + 1) / 10)) for i in range(9)]
    for j in range(n_jobs):
        build.job(j, queue, shape=shapes[j % 9])
    return build.objects


def claims(prefix: str, n_nodes: int, n_pods: int) -> list[Object]:
    """Single pods of one queue, each with a claim for 1 to 4 devices of one of 40 kinds (a model, and a least memory).

    The devices of a node are of one model, and the first half of them has half of the memory.
    """
    build = Builder(prefix)
    build.nodes(n_nodes)
    (queue,) = build.tree(1, 1, float(n_nodes * GPUS_PER_NODE))
    build.objects.append(DeviceClass(DRIVER, (f"device.driver == '{DRIVER}'",)))
    build.objects += [_slice(build.node(n), n % MODELS) for n in range(n_nodes)]
    for j in range(n_pods):
        model, threshold = j % MODELS, j // MODELS % THRESHOLDS
        selector = (
            f"device.attributes['{DRIVER}'].model == 'model-{model}' && "
            f"device.capacity['{DRIVER}'].memory.compareTo(quantity('{10 * (threshold + 1)}Gi')) >= 0"
        )
        asks = ClaimRequests((DeviceRequest("gpus", (DeviceOption(DRIVER, "", (selector,), count=j % 4 + 1),)),))
        build.job(j, queue, shape=Shape(PLAIN, n_claims=1))
        pod = build.objects[-1]
        assert isinstance(pod, Pod)
        build.objects[-1] = replace(pod, claims=(PodClaim("gpus", pod.name, named=True),))
        build.objects.append(ResourceClaim(pod.namespace, pod.name, f"{pod.name}-claim-uid", asks, queue=queue))
    return build.objects


def _slice(node: str, model: int) -> ResourceSlice:
    devices = tuple(
        Device(
            f"gpu-{slot}",
            {f"{DRIVER}/model": f"model-{model}", f"{DRIVER}/slot": slot},
            {f"{DRIVER}/memory": Capacity(Fraction((40 if slot < GPUS_PER_NODE // 2 else 80) * GI))},
            node=node,
        )
        for slot in range(GPUS_PER_NODE)
    )
    return ResourceSlice(f"{node}-slice", DRIVER, node, devices=devices)
