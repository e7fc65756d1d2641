"""Parts of GPUs in the amounts of statuses (API 6.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched.model.config import Config
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, PodGroup, Shape
from kai_sched.model.store import Cluster
from kai_sched.reconcile.status.group_status import resources_status
from kai_sched.reconcile.status.usage import QueueUsage

GROUP = PodGroup("ml", "g", queue="q", min_member=1, preemptible=True)
KNOWN = Node("known", labels={"nvidia.com/gpu.memory": "16000"})
LARGE = Node("large", labels={"nvidia.com/gpu.memory": "40000"})


def pod(name: str, share: GpuShare, node: str = "") -> Pod:
    shape = Shape((("cpu", 100.0), ("pods", 1.0)), share=share)
    return Pod("ml", name, shape, group="g", node=node, phase=Phase.RUNNING if node else Phase.PENDING)


def amounts(*objects: object, config: Config | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """What the group holds and requests, without the CPU."""
    usage = QueueUsage(Cluster.of([GROUP, KNOWN, LARGE, *objects]), config or Config())  # type: ignore[list-item]
    return shown(usage)


def shown(usage: QueueUsage) -> tuple[dict[str, str], dict[str, str]]:
    status = resources_status(usage.groups["ml/g"], usage)
    held, asked = (
        {name: text for name, text in status.get(field, {}).items() if name != "cpu"}
        for field in ("allocated", "requested")
    )
    return held, asked


@pytest.mark.parametrize(
    ("share", "held", "asked"),
    [
        (GpuShare(1, 0.5), {"nvidia.com/gpu": "500m"}, {"nvidia.com/gpu": "500m"}),
        (GpuShare(3, 0.25), {"nvidia.com/gpu": "750m"}, {"nvidia.com/gpu": "750m"}),
        (GpuShare(1, 0.0, 4000), {"nvidia.com/gpu": "250m"}, {"run.ai/gpu.memory": "4000"}),
        (GpuShare(2, 0.0, 4001), {"nvidia.com/gpu": "520m"}, {"run.ai/gpu.memory": "8002"}),
    ],
)
def test_parts_count_on_each_device(share: GpuShare, held: dict[str, str], asked: dict[str, str]) -> None:
    assert amounts(pod("a", share, "known")) == (held, asked)
    assert amounts(pod("a", share)) == ({}, asked)


def test_memory_is_held_as_the_part_of_the_node_that_has_it() -> None:
    share = GpuShare(1, 0.0, 4000)
    held, asked = amounts(pod("a", share, "known"), pod("b", share, "large"), pod("c", share))
    assert (held, asked) == ({"nvidia.com/gpu": "350m"}, {"run.ai/gpu.memory": "12000"})
    reserve = Config(gpu_memory_reserve_min_mib=8000)
    assert amounts(pod("a", share, "known"), config=reserve)[0] == {"nvidia.com/gpu": "500m"}


def test_a_label_that_changes_counts_at_once() -> None:
    share = GpuShare(1, 0.0, 4000)
    before = Cluster.of([GROUP, KNOWN, LARGE, pod("a", share, "known")])
    usage = QueueUsage(before, Config())
    half = replace(KNOWN, labels={"nvidia.com/gpu.memory": "8000"})
    after = Cluster.of([GROUP, half, LARGE, pod("a", share, "known")])
    assert usage.update(after, [(Node, "known")]) is None
    assert shown(usage)[0] == {"nvidia.com/gpu": "500m"}
    gone = Cluster.of([GROUP, half, LARGE])
    usage.update(gone, [(Pod, "ml/a")])
    assert shown(usage) == ({}, {})
