"""How long the event loop is held at a time, with many pods that wait: a part of `make bench-cluster`."""

from __future__ import annotations

import time

from tests.cluster import objects
from tests.cluster.bench import NODES, Bench, Figure, wait_ready
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

GROUPS, GROUP_SIZE = 2_000, 10
LONGEST = "kai_event_loop_callback_cpu_seconds_max"
TOLD_S = 900.0


def loop(bench: Bench) -> list[Figure]:
    """20,000 pods in 2,000 groups that find no room, until all of them show why; then changes, and room for half."""
    cluster = bench.cluster
    cluster.add_nodes(NODES, gpus=1)
    cluster.add_queues("team")
    groups = [objects.gang(f"group-{n:04}", GROUP_SIZE, gpus=2) for n in range(GROUPS)]
    cluster.create_all(group[0] for group in groups)
    cluster.create_all(pod for group in groups for pod in group[1:])
    operator = bench.start()
    wait_ready(operator)
    ready = _longest_ms(operator)
    _wait_written(operator)
    told = _longest_ms(operator)
    mark = bench.plane.audit.mark()
    for n in range(20):
        time.sleep(0.5)
        cluster.create(objects.pod(f"more-{n}", gpus=2))
    _wait_written(operator)
    changed = _longest_ms(operator)
    cluster.add_nodes(NODES, gpus=GROUPS * GROUP_SIZE // NODES, pods=1000, prefix="room")
    bench.wait_bindings(mark, "operator", GROUPS * GROUP_SIZE // 2, TOLD_S)
    _wait_written(operator)
    bound = _longest_ms(operator)
    slow = operator.logs("loop.slow_callback")
    for line in slow:
        print(f"  {line['cpu_ms']} ms: {line['what']}")
    operator.terminate()
    return [
        Figure("longest callback until ready", ready, "ms CPU", 50),
        Figure("until all pods were told", told, "ms CPU", 50),
        Figure("with pods that come", changed, "ms CPU", 50),
        Figure("with 10,000 bindings", bound, "ms CPU", 50),
    ]


def _longest_ms(operator: Operator) -> float:
    return 1000 * operator.metrics()[LONGEST, ()]


def _wait_written(operator: Operator) -> None:
    """Wait until nothing but events waits to be written, for three seconds."""

    def quiet() -> bool:
        for _ in range(6):
            assert operator.metrics()["kai_waiting", (("what", "writes"),)] == 0
            time.sleep(0.5)
        return True

    wait_until(quiet, "all being written", TOLD_S, poll_s=2.0)
