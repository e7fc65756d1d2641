"""What a pod with parts of GPUs is told that its nodes lack, where a sum of GPUs would not say it (semantics 8.3)."""

from __future__ import annotations

import numpy as np

from kai_sched.api.names import GPU_MEMORY_LABEL
from kai_sched.lowering.lower import Lowered
from kai_sched.model.resources import gpu_memory_mib
from kai_sched.snapshot.gpu_kinds import UNKNOWN_MEMORY
from kai_sched.snapshot.tables import GPU


def wanted_share(c: int, lowered: Lowered) -> str:
    """The parts of GPUs that a pod of class ``c`` asks for."""
    classes = lowered.snapshot.classes
    devices, memory = int(classes.shares[c]), int(classes.memory[c])
    size = f"{memory:,} MiB" if memory else f"{float(classes.portion[c]):g}"
    return f"a GPU with {size} free" if devices == 1 else f"{devices} GPUs with {size} free of each"


def share_text(c: int, lowered: Lowered) -> tuple[str, str]:
    """What pods of class ``c`` ask for and some nodes lack, and the most that there is of it.

    The second text is empty where the free part of one GPU is the answer; both are where the sum of GPUs is.
    """
    classes, nodes = lowered.snapshot.classes, lowered.snapshot.nodes
    devices, memory = int(classes.shares[c]), int(classes.memory[c])
    wanted = wanted_share(c, lowered)
    known = np.flatnonzero((nodes.allocatable[:, GPU] > 0) & (nodes.device_memory != UNKNOWN_MEMORY))
    if memory and known.size:
        n = known[np.argmax(nodes.device_memory[known])]
        largest = int(nodes.device_memory[n])
        if memory > largest:
            is_all = gpu_memory_mib(lowered.nodes[n].labels.get(GPU_MEMORY_LABEL, "")) <= largest
            return wanted, f"the largest has {largest:,} MiB" + ("" if is_all else ", without gpuMemoryReserve")
    return (wanted, "") if devices > 1 else ("", "")
