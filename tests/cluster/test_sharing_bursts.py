"""Bursts of pods that share GPUs on a real API server: at no moment of the history a device has more than one GPU's
worth, and all are served."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from kai_sched.api import names
from tests.cluster import sharing
from tests.cluster.client import parallel
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.device_plugin import DevicePlugin
from tests.cluster.processes import wait_until

SEEDS = 100
LIFE_S = 3.0


@pytest.fixture(autouse=True)
def plugin(cluster: Cluster) -> Iterator[DevicePlugin]:
    with DevicePlugin(cluster) as plugin:
        yield plugin


def wait_empty(cluster: Cluster) -> None:
    wait_until(lambda: not cluster.list("Pod", query="limit=1"), "no pods and no reservations", 60.0, poll_s=0.1)


@pytest.mark.long
def test_sixteen_halves_fill_eight_gpus_a_hundred_times(cluster: Cluster, operator: StartOperator) -> None:
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=8)
    sharing.turn_on(cluster)
    operator()
    for seed in range(SEEDS):
        since = sharing.version(cluster)
        pods = [sharing.pod(f"half-{seed}-{n}") for n in range(16)]
        random.Random(seed).shuffle(pods)
        wanted = [pod["metadata"]["name"] for pod in pods]
        cluster.create_all(pods)
        cluster.wait_bound(wanted)
        assert len(sharing.reservations(cluster)) == 8
        parallel(lambda name: cluster.delete("Pod", name), wanted)
        wait_empty(cluster)
        sharing.check_history(cluster, since)


@pytest.mark.long
def test_parts_of_all_sizes_take_turns_on_twenty_gpus(cluster: Cluster, operator: StartOperator) -> None:
    """500 pods; each runs for a while once it is bound, and then makes room."""
    cluster.add_queues("team")
    cluster.add_nodes(5, gpus=4)
    sharing.turn_on(cluster)
    since = sharing.version(cluster)
    operator()
    stays = {names.PREEMPTIBILITY_LABEL: "non-preemptible"}  # nobody is moved, as bare pods would not come back
    cluster.create_all(
        sharing.pod(f"part-{n}", f"0.{n % 9 + 1}", 2 if n % 10 == 0 else 1, labels=stays) for n in range(500)
    )
    seen_s: dict[str, float] = {}

    def served() -> bool:
        now_s = time.monotonic()
        bound = cluster.bound()
        due = [name for name in bound if now_s - seen_s.setdefault(name, now_s) > LIFE_S]
        parallel(lambda name: cluster.delete("Pod", name), due)
        left = cluster.list("Pod", "default")
        assert not left, f"{len(left)} are left"
        return True

    wait_until(served, "all pods having run", 540.0, poll_s=0.5)
    missing = sorted({f"part-{n}" for n in range(500)} - seen_s.keys())
    assert missing == [], [cluster.events(name) for name in missing]
    wait_empty(cluster)
    assert sharing.check_history(cluster, since) > 2_000
