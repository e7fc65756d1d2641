"""How much memory a GPU device of a node has for pods, by the label of GPU feature discovery (semantics 0.3)."""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.objects import Node
from kai_sched.model.resources import gpu_memory_mib


def device_memory(node: Node, config: Config) -> int:
    """The memory of one GPU device of the node in MiB, less what is kept for the driver.

    0 where the label is missing or no number above 0.
    """
    value = gpu_memory_mib(node.labels.get(names.GPU_MEMORY_LABEL, ""))
    if not value:
        return 0
    reserve = max(int(value * config.gpu_memory_reserve_percent / 100), config.gpu_memory_reserve_min_mib)
    return max(1, value - reserve)
