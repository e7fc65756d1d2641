"""A pod on a node that names no group has devices of its own, which nobody else gets; it may return to them (8.2)."""

from __future__ import annotations

import pytest

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model.objects import GpuShare, Node, Object, Phase, Pod, PodGroup, Queue, Shape, Share
from kai_sched.plan.effects import Bind
from tests.properties.test_shares import check_devices

OPEN = Share(-1.0, -1.0, 1.0)


def pod(name: str, group: str, node: str = "", devices: int = 1, groups: tuple[str, ...] = ()) -> Pod:
    return Pod(
        "ml",
        name,
        Shape((("cpu", 1000.0), ("pods", 1.0)), share=GpuShare(devices, 0.5)),
        uid=name,
        group=group,
        scheduler="kai-scheduler",
        node=node,
        phase=Phase.RUNNING if node else Phase.PENDING,
        gpu_groups=groups,
    )


def node(name: str, gpus: float) -> Node:
    capacity = {"cpu": 64_000.0, "memory": 2.0**36, "pods": 110.0, "gpu": gpus}
    return Node(name, name, {"nvidia.com/gpu.memory": "24576"}, capacity)


@pytest.mark.parametrize("victims", ["minimal", "original"])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_it_returns_to_no_device_that_was_promised_meanwhile(devices: int, victims: str) -> None:
    """A search takes the pod away, promises all devices of the node, and finds that the pod has to stay."""
    found: list[Object] = [
        Queue("q", uid="q", cpu=OPEN, memory=OPEN, gpu=Share(0.0, -1.0, 1.0)),
        *(node("n1", 4.0), node("n3", 1.0), node("n6", 1.0)),
        *(
            PodGroup("ml", "gang", uid="gang", queue="q", min_member=5),
            PodGroup("ml", "wide", uid="wide", queue="q", min_member=1),
        ),
        *(pod(f"gang-{k}", "gang", "n3", groups=("a",)) for k in range(2)),
        *(pod(f"gang-{k}", "gang", "n6", groups=("b",)) for k in (2, 4)),
        pod("gang-3", "gang", "n1"),
        pod("wide-0", "wide", devices=devices),
    ]
    cluster = Cluster.of(found)
    result = run_cycle(cluster, Config(victims=victims), 1_800_000_000 * 10**9)
    check_devices(cluster, result)
    assert bool([effect for effect in result.effects if isinstance(effect, Bind)]) == (devices < 4)
