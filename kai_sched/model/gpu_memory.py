"""The memory of GPU devices: how a node's label gives it, what of it is kept for the driver, how many GPUs a
request for memory counts as, and which limit a container is told (semantics 8.1).
"""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.objects import GpuShare, Node
from kai_sched.model.resources import gpu_memory_mib

_ROUNDING = 1e-6  # MiB; a part times the memory of a device is off by less


def usable_memory_mib(node: Node, config: Config) -> int:
    """The memory of one GPU device of the node in MiB, less what is kept for the driver; 0: not known."""
    value = gpu_memory_mib(node.labels.get(names.GPU_MEMORY_LABEL, ""))
    if not value:
        return 0
    reserve = max(int(value * config.gpu_memory_reserve_percent / 100), config.gpu_memory_reserve_min_mib)
    return max(1, value - reserve)


def memory_price(share: GpuShare, memory_mib: int) -> float:
    """The GPUs that a request for memory counts as on devices with so much, each rounded up to a hundredth."""
    return -(-100 * share.memory_mib // memory_mib) * share.devices / 100 if memory_mib else 0.0


def memory_limit(share: GpuShare, node: Node, config: Config) -> str:
    """The value of CUDA_DEVICE_MEMORY_LIMIT (API 7.5): what the share takes of each device in MiB, such as "20480m".

    As the ledger books it, so that the limits of a device never add up to more than it has, unless pods set higher
    limits themselves. Empty for a fraction of devices whose memory is not known.
    """
    if share.memory_mib:
        return f"{share.limit_mib or share.memory_mib}m"
    memory = usable_memory_mib(node, config)
    return f"{max(1, int(share.portion * memory + _ROUNDING))}m" if memory else ""
