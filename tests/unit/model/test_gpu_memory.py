"""The limit on GPU memory for HAMi-core (API 7.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.lowering.devices import device_memory, size_of
from kai_sched.model.config import Config
from kai_sched.model.gpu_memory import memory_limit
from kai_sched.model.objects import GpuShare, Node


def node(memory: str) -> Node:
    return Node("n", labels={"nvidia.com/gpu.memory": memory})


@pytest.mark.parametrize(
    ("share", "memory", "text"),
    [
        (GpuShare(1, 0.5), "81920", "40960m"),
        (GpuShare(2, 0.333), "16001", "5328m"),
        (GpuShare(1, 0.1), "10", "1m"),
        (GpuShare(1, 0.01), "10", "1m"),
        (GpuShare(1, 0.0, 4000), "81920", "4000m"),
        (GpuShare(1, 0.0, 4000), "", "4000m"),
        (GpuShare(1, 0.5), "much", ""),
    ],
)
def test_the_part_of_each_device(share: GpuShare, memory: str, text: str) -> None:
    assert memory_limit(share, node(memory), Config()) == text


@given(
    st.floats(0.001, 1.0) | st.sampled_from([0.1, 0.29, 0.3, 0.57, 0.7]),
    st.integers(1, 200_000),
    st.sampled_from([0.0, 3.0]),
)
def test_it_is_what_the_ledger_books(portion: float, memory: int, percent: float) -> None:
    config, share = Config(gpu_memory_reserve_percent=percent), GpuShare(1, portion)
    booked = size_of(share, device_memory(node(str(memory)), config))
    assert memory_limit(share, node(str(memory)), config) == f"{booked}m"
