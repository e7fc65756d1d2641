"""A loaded cluster as a library: why a workload waits, and what more nodes would change. Run it with
``python examples/what_if.py``.
"""

from __future__ import annotations

from pathlib import Path

import kai_sched

TEAMS = Path(__file__).parent / "teams"


def show(cluster: kai_sched.LoadedCluster) -> None:
    """Print what each queue gets and who waits, and what three more nodes come to."""
    result = cluster.simulate()
    for name, queue in result.queues.items():
        print(f"{name}: {queue.allocated.gpu:g} of {queue.fair_share.gpu:g} GPUs")
    for waiting in result.waiting:
        print(f"{waiting.name} waits: {waiting.why}")
    larger = cluster.with_nodes(3, like="gpu-node-1")
    print(cluster.diff(larger))


if __name__ == "__main__":
    show(kai_sched.load(TEAMS))
