"""Speed and memory of the operator on a real API server: `make bench-cluster ARGS='--only rate --json FILE'`.

``rate``: bindings a second of 2,000 bare pods that were there before the operator, against plain POSTs of ready-made
bindings over as many connections in the same run, once before and once after. ``latency``: one pod on an idle cluster.
``scale``: 20,000 pods in 2,000 pod groups. Times are those of the API server's audit log.
Fails where a target is missed. The load of the machine is printed: on two cores other work takes from every figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp

from tests.cluster import objects
from tests.cluster.client import Object, path_to
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ADMIN, OPERATOR, ControlPlane
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

NODES, GPUS_A_NODE, PODS = 100, 32, 2_000
SINGLE_PODS, PAUSE_S = 50, 0.4
GROUPS, GROUP_SIZE = 2_000, 10
IDLE_S = 30.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. ``target`` is met at or below it, at or above it where ``at_least``."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """What the table says about it."""
        if self.target is None:
            return ""
        met = self.value >= self.target if self.at_least else self.value <= self.target
        return "ok" if met else "MISSED"


class Bench:
    """A control plane for measuring, and one operator at a time."""

    def __init__(self, folder: Path, connections: int) -> None:
        self.folder = folder
        self.connections = connections
        self.plane = ControlPlane(folder / "plane")
        self.replicas = 0

    def __enter__(self) -> Bench:
        self.plane.start()
        plane = self.plane
        self.cluster = Cluster(plane.server, plane.token(ADMIN), plane.authority, plane.admin_kubeconfig)
        self.cluster.add_crds()
        self.cluster.add_namespace("default")
        self.keep = self.cluster.everything()
        return self

    def __exit__(self, *_: object) -> None:
        self.plane.stop()

    def start(self) -> Operator:
        """One more replica, started but perhaps not ready."""
        self.cluster.add_namespace("kai-scheduler")
        self.replicas += 1
        log = self.folder / f"operator-{self.replicas}.log"
        flags = ("--namespace", "kai-scheduler", "--connections", str(self.connections))
        return Operator(self.plane.kubeconfig(OPERATOR), log, *flags)

    def wait_bindings(self, mark: int, user: str, count: int, timeout_s: float = 300.0) -> list[float]:
        """When the bindings by a user since a mark were answered, in order, once there are so many."""

        def enough() -> list[float]:
            found = self.plane.audit.bindings(mark, user)
            assert len(found) >= count, f"{len(found)} bindings"
            return sorted(one.answered_s for one in found)

        # Seldom, as reading the log costs the time of a core that is being measured.
        return wait_until(enough, f"{count} bindings by {user}", timeout_s, poll_s=2.0)

    def settle(self) -> None:
        """Wait until all bound pods run, so that kwok has nothing left to do."""
        pending = "fieldSelector=status.phase%3DPending,spec.nodeName%21%3D"
        cluster = self.cluster
        wait_until(lambda: not cluster.list("Pod", query=pending + "&limit=1"), "pods to run", 600.0, poll_s=2.0)


def rate_of(times_s: list[float]) -> float:
    """So many, over the time from the first to the last, a second."""
    return len(times_s) / (times_s[-1] - times_s[0])


def rate(bench: Bench) -> list[Figure]:
    """Bindings a second, ours and plain."""
    cluster = bench.cluster
    nodes = cluster.add_nodes(NODES, gpus=GPUS_A_NODE)
    cluster.add_queues("team")
    plain = [_plain(bench, nodes, "before")]
    _create_pods(cluster, "ours", objects.SCHEDULER)
    mark = bench.plane.audit.mark()
    operator = bench.start()
    ready_s = _ready(operator)[1]
    times_s = bench.wait_bindings(mark, OPERATOR, PODS)
    bench.settle()
    operator.terminate()
    _delete_pods(bench)
    plain.append(_plain(bench, nodes, "after"))
    ours, base = rate_of(times_s), statistics.mean(plain)
    return [
        Figure("plain bindings before", plain[0], "/s"),
        Figure("plain bindings after", plain[1], "/s"),
        Figure("bindings", ours, "/s"),
        Figure("bindings, share of plain", 100 * ours / base, "%", 80, at_least=True),
        Figure("first binding after ready", times_s[0] - ready_s, "s", 1.0),
    ]


def latency(bench: Bench) -> list[Figure]:
    """From the request that creates a pod to the answer to its binding."""
    cluster, audit = bench.cluster, bench.plane.audit
    cluster.add_nodes(NODES, gpus=GPUS_A_NODE)
    cluster.add_queues("team")
    operator = bench.start().wait_ready()
    mark = audit.mark()
    names = [f"single-{n}" for n in range(SINGLE_PODS)]
    for name in names:
        time.sleep(PAUSE_S)
        cluster.create(objects.pod(name))
    bench.wait_bindings(mark, OPERATOR, SINGLE_PODS, 60.0)
    operator.terminate()
    created = {r.name: r.received_s for r in audit.since(mark, ADMIN, "pods") if r.verb == "create"}
    bound = {r.name: r.answered_s for r in audit.bindings(mark, OPERATOR)}
    waits_ms = sorted(1000 * (bound[name] - created[name]) for name in names)
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
    ready_s, _ = _ready(operator)
    until_ready_s = operator.cpu_s
    _wait_idle(operator)
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


def _ready(operator: Operator) -> tuple[float, float]:
    """Seconds from now until it is ready, and when that was, since the epoch."""
    started = time.monotonic()
    while operator.get("/readyz")[0] != 200:
        assert operator.process.exit_code is None, operator.process.tail()
        assert time.monotonic() - started < 180, operator.process.tail()
        time.sleep(0.02)
    return time.monotonic() - started, time.time()


def _wait_idle(operator: Operator) -> None:
    """Wait until it has done little for five seconds, or for two minutes: then the figure shows that it never rests."""
    for _ in range(24):
        before_s = operator.cpu_s
        time.sleep(5.0)
        if operator.cpu_s - before_s < 0.25:
            return


def _create_pods(cluster: Cluster, prefix: str, scheduler: str) -> list[Object]:
    return list(cluster.create_all(objects.pod(f"{prefix}-{n}", scheduler=scheduler) for n in range(PODS)))


def _delete_pods(bench: Bench) -> None:
    bench.cluster.request("DELETE", "/api/v1/namespaces/default/pods", {"gracePeriodSeconds": 0})
    wait_until(lambda: not bench.cluster.list("Pod", query="limit=1"), "no pods", 120.0, poll_s=1.0)


def _plain(bench: Bench, nodes: list[str], prefix: str) -> float:
    pods = _create_pods(bench.cluster, prefix, "nobody")
    requests = []
    for n, pod in enumerate(pods):
        meta = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": nodes[n % len(nodes)]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        requests.append((path_to("Pod", meta["name"], "default") + "/binding", json.dumps(body).encode()))
    mark = bench.plane.audit.mark()
    asyncio.run(_post(bench, requests))
    times_s = bench.wait_bindings(mark, ADMIN, PODS)
    bench.settle()
    _delete_pods(bench)
    return rate_of(times_s)


async def _post(bench: Bench, requests: list[tuple[str, bytes]]) -> None:
    """All requests, each of the connections taking the next."""
    rest = iter(requests)
    tls = ssl.create_default_context(cafile=bench.plane.authority)
    headers = {"Authorization": f"Bearer {bench.cluster.token}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=tls, limit=bench.connections)
    async with aiohttp.ClientSession(bench.cluster.server, connector=connector, headers=headers) as session:

        async def worker() -> None:
            for path, body in rest:
                async with session.post(path, data=body) as answer:
                    assert answer.status == 201, await answer.text()
                    await answer.read()

        await asyncio.gather(*(worker() for _ in range(bench.connections)))


def main() -> None:
    """Measure, print the table, and write it to --json."""
    parser = argparse.ArgumentParser(prog="make bench-cluster ARGS=...")
    parser.add_argument("--only", action="append", choices=("rate", "latency", "scale"))
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--pending-groups", type=int, default=0, help="of 2,000 groups, how many find no room")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    subprocess.run([sys.executable, "-m", "kai_sched.cli.main", "warmup"], check=True)
    parts: dict[str, Callable[[Bench], list[Figure]]] = {
        "rate": rate,
        "latency": latency,
        "scale": lambda bench: scale(bench, arguments.pending_groups),
    }
    figures: list[Figure] = []
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {arguments.connections} connections")
    for name in arguments.only or parts:
        print(f"{name}: load average {os.getloadavg()[0]:.1f}")
        with tempfile.TemporaryDirectory() as folder, Bench(Path(folder), arguments.connections) as bench:
            for figure in parts[name](bench):
                figures.append(figure)
                target = "" if figure.target is None else f"{'>=' if figure.at_least else '<='} {figure.target:g}"
                shown = f"{figure.value:10.1f} {figure.unit:12}"
                print(f"{figure.name:30}{shown}{target:>10}  {figure.verdict}", flush=True)
    if arguments.json:
        content = [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
        arguments.json.write_text(json.dumps({"connections": arguments.connections, "figures": content}, indent=2))
    sys.exit(any(figure.verdict == "MISSED" for figure in figures))


if __name__ == "__main__":
    main()
