"""Speed and memory of the operator on a real API server: `make bench-cluster ARGS='--only rate --json FILE'`.

``rate``: bindings a second of 2,000 bare pods that were there before the operator, against plain POSTs of ready-made
bindings over as many connections in the same run, before and after each of five rounds. The CPU of both is divided by
the pods: ours counts from the first to the last binding, and again from ready until all pods run. ``bare-groups``: the
same where each of these pods gets a PodGroup. ``latency``: one pod on an idle cluster. ``scale``: 20,000 pods in 2,000
pod groups.
``shares``: 2,000 pods with parts of GPUs, see ``measure_sharing``.
``grouping``, ``grouped-rate``, ``grouped-memory``: pods of Jobs, see ``measure_grouping``. ``loop``: how long the event
loop is held, see ``measure_loop``. Times are those of the API server's audit log.
Fails where a target is missed. The load of the machine is printed: on two cores other work takes from every figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.bench import (
    GPUS_A_NODE,
    NODES,
    PODS,
    Bench,
    CpuSamples,
    Figure,
    create_pods,
    delete_pods,
    plain_bindings,
    rate_of,
    wait_idle,
    wait_ready,
)
from tests.cluster.control_plane import ADMIN, OPERATOR
from tests.cluster.measure_grouping import grouped_memory, grouped_rate, grouping
from tests.cluster.measure_loop import loop
from tests.cluster.measure_sharing import shares

SINGLE_PODS, PAUSE_S = 50, 0.4
GROUPS, GROUP_SIZE = 2_000, 10
IDLE_S = 30.0
ROUNDS = 5
PARTS = ("rate", "bare-groups", "latency", "scale", "grouping", "grouped-rate", "grouped-memory", "loop", "shares")


def rate(bench: Bench) -> list[Figure]:
    """Bindings a second, ours and plain in turn, so that what else happens on the machine meets both."""
    cluster = bench.cluster
    nodes = cluster.add_nodes(NODES, gpus=GPUS_A_NODE)
    cluster.add_queues("team")
    plain, ours, waits_s = [plain_bindings(bench, nodes, "plain-0")], [], []
    binding_ms, each_ms = [], []
    for round_ in range(1, ROUNDS + 1):
        create_pods(cluster, f"ours-{round_}", objects.SCHEDULER)
        mark = bench.plane.audit.mark()
        bench.plane.collect_garbage()
        operator = bench.start()
        ready_s, before_s = wait_ready(operator)[1], operator.cpu_s
        with CpuSamples(operator) as samples:
            times_s = bench.wait_bindings(mark, OPERATOR, PODS)
        ours.append(rate_of(times_s))
        waits_s.append(times_s[0] - ready_s)
        binding_ms.append(1000 * samples.between(times_s[0], times_s[-1]) / PODS)
        bench.settle()
        each_ms.append(1000 * (operator.cpu_s - before_s) / PODS)
        operator.terminate()
        delete_pods(bench)
        plain.append(plain_bindings(bench, nodes, f"plain-{round_}"))
    rates = [one.rate for one in plain]
    shares = [100 * rate / statistics.mean(rates[n : n + 2]) for n, rate in enumerate(ours)]
    return [
        Figure("plain bindings, median", statistics.median(rates), "/s"),
        Figure("bindings, median", statistics.median(ours), "/s"),
        Figure("share of plain, lowest", min(shares), "%"),
        Figure("share of plain, median", statistics.median(shares), "%", 80, at_least=True),
        Figure("share of plain, highest", max(shares), "%"),
        Figure("first binding after ready", max(waits_s), "s", 1.0),
        Figure("CPU for a plain POST, median", statistics.median(one.each_ms for one in plain), "ms"),
        Figure("CPU for a binding, median", statistics.median(binding_ms), "ms", 0.35),
        Figure("CPU from ready until a pod runs, median", statistics.median(each_ms), "ms"),
    ]


def bare_groups(bench: Bench) -> list[Figure]:
    """As ``rate``, where bare pods get PodGroups (``groupBarePods``)."""
    spec = {"podGrouper": {"args": {"groupBarePods": True}}}
    config = {"apiVersion": names.CONFIG_VERSION, "kind": "Config", "metadata": objects.meta(names.CONFIG_NAME)}
    bench.cluster.create({**config, "spec": spec})
    figures = [replace(figure, name=f"{figure.name}, with groups", target=None) for figure in rate(bench)]
    assert bench.cluster.list("PodGroup"), "pods have got no groups"
    return figures


def latency(bench: Bench) -> list[Figure]:
    """From the request that creates a pod to the answer to its binding."""
    cluster, audit = bench.cluster, bench.plane.audit
    cluster.add_nodes(NODES, gpus=GPUS_A_NODE)
    cluster.add_queues("team")
    operator = bench.start().wait_ready()
    mark = audit.mark()
    singles = [f"single-{n}" for n in range(SINGLE_PODS)]
    for name in singles:
        time.sleep(PAUSE_S)
        cluster.create(objects.pod(name))
    bench.wait_bindings(mark, OPERATOR, SINGLE_PODS, 60.0)
    operator.terminate()
    created = {r.name: r.received_s for r in audit.since(mark, ADMIN, "pods") if r.verb == "create"}
    bound = {r.name: r.answered_s for r in audit.bindings(mark, OPERATOR)}
    waits_ms = sorted(1000 * (bound[name] - created[name]) for name in singles)
    return [
        Figure("created to bound, median", statistics.median(waits_ms), "ms", 150),
        Figure("created to bound, slowest", waits_ms[-1], "ms"),
    ]


def scale(bench: Bench, pending_groups: int) -> list[Figure]:
    """A full cluster: all groups but the last few run, these find no room."""
    cluster = bench.cluster
    fitting = (GROUPS - pending_groups) * GROUP_SIZE
    nodes = cluster.add_nodes(NODES, gpus=-(-fitting // NODES), pods=1000)
    cluster.add_queues("team")
    groups = [objects.gang(f"group-{n:04}", GROUP_SIZE) for n in range(GROUPS)]
    for place, (_, *pods) in enumerate(groups[: GROUPS - pending_groups]):
        for n, pod in enumerate(pods):
            pod["spec"]["nodeName"] = nodes[(place * GROUP_SIZE + n) % NODES]
    cluster.create_all(group[0] for group in groups)
    cluster.create_all(pod for group in groups for pod in group[1:])
    bench.settle()
    operator = bench.start()
    ready_s, _ = wait_ready(operator)
    until_ready_s = operator.cpu_s
    wait_idle(operator)
    rss_mb, peak_mb = operator.rss_mb, operator.rss_peak_mb
    before_s, started = operator.cpu_s, time.monotonic()
    time.sleep(IDLE_S)
    idle = 100 * (operator.cpu_s - before_s) / (time.monotonic() - started)
    operator.terminate()
    return [
        Figure("start to ready, 20,000 pods", ready_s, "s", 15),
        Figure("CPU until ready", until_ready_s, "s"),
        Figure("RSS", rss_mb, "MB", 450),
        Figure("RSS at its peak", peak_mb, "MB"),
        Figure("idle CPU", idle, "% of a core", 3),
    ]


def main() -> None:
    """Measure, print the table, and write it to --json."""
    parser = argparse.ArgumentParser(prog="make bench-cluster ARGS=...")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--pending-groups", type=int, default=0, help="of 2,000 groups, how many find no room")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    subprocess.run([sys.executable, "-m", "kai_sched.cli.main", "warmup"], check=True)
    parts: dict[str, Callable[[Bench], list[Figure]]] = {
        "rate": rate,
        "bare-groups": bare_groups,
        "latency": latency,
        "scale": lambda bench: scale(bench, arguments.pending_groups),
        "grouping": grouping,
        "grouped-rate": grouped_rate,
        "grouped-memory": grouped_memory,
        "loop": loop,
        "shares": shares,
    }
    figures: list[Figure] = []
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {arguments.connections} connections")
    for name in arguments.only or parts:
        print(f"{name}: load average {os.getloadavg()[0]:.1f}")
        with tempfile.TemporaryDirectory() as folder, Bench(Path(folder), arguments.connections) as bench:
            for figure in parts[name](bench):
                figures.append(figure)
                target = "" if figure.target is None else f"{'>=' if figure.at_least else '<='} {figure.target:g}"
                shown = f"{figure.value:10.2f} {figure.unit:12}"
                print(f"{figure.name:30}{shown}{target:>10}  {figure.verdict}", flush=True)
    if arguments.json:
        content = [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
        arguments.json.write_text(json.dumps({"connections": arguments.connections, "figures": content}, indent=2))
    sys.exit(any(figure.verdict == "MISSED" for figure in figures))


if __name__ == "__main__":
    main()
