"""What the parts of `make bench-cluster` share: a control plane to measure on, plain requests to compare with."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.cluster import objects
from tests.cluster.client import Object, path_to
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ADMIN, OPERATOR, ControlPlane
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

NODES, GPUS_A_NODE, PODS = 100, 32, 2_000
SAMPLE_S = 0.02
SYSTEM_NAMESPACE = "kai-scheduler"


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


@dataclass(frozen=True, slots=True)
class Plain:
    """What plain requests reached: so many a second, with so much CPU of the client for each."""

    rate: float
    each_ms: float


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
        self.cluster.add_namespace(SYSTEM_NAMESPACE)
        self.replicas += 1
        log = self.folder / f"operator-{self.replicas}.log"
        flags = ("--namespace", SYSTEM_NAMESPACE, "--connections", str(self.connections))
        return Operator(self.plane.kubeconfig(OPERATOR), log, *flags)

    def wait_bindings(self, mark: int, user: str, count: int, timeout_s: float = 300.0) -> list[float]:
        """When the bindings by a user since a mark were answered, in order, once there are so many."""
        audit = self.plane.audit

        def enough() -> list[float]:
            # Only counted until there are enough: to read the lines takes the time of a core that is being measured.
            lines = audit.lines_with(b'"subresource":"binding"', mark)
            assert lines >= count, f"{lines} bindings"
            found = audit.bindings(mark, user)
            assert len(found) >= count, f"{len(found)} bindings"
            return sorted(one.answered_s for one in found)

        return wait_until(enough, f"{count} bindings by {user}", timeout_s, poll_s=0.5)

    def settle(self) -> None:
        """Wait until all bound pods run, so that kwok has nothing left to do."""
        pending = "fieldSelector=status.phase%3DPending,spec.nodeName%21%3D"
        cluster = self.cluster
        wait_until(lambda: not cluster.list("Pod", query=pending + "&limit=1"), "pods to run", 600.0, poll_s=2.0)


class CpuSamples:
    """The CPU seconds of an operator over time, read in a thread while the context lasts."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._samples: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> CpuSamples:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def between(self, start_s: float, end_s: float) -> float:
        """CPU seconds between two times since the epoch, to the nearest samples within."""
        used = [cpu_s for at_s, cpu_s in self._samples if start_s <= at_s <= end_s]
        return used[-1] - used[0]

    def _run(self) -> None:
        while not self._end.wait(SAMPLE_S):
            self._samples.append((time.time(), self._operator.cpu_s))


def rate_of(times_s: list[float]) -> float:
    """So many, over the time from the first to the last, a second."""
    return len(times_s) / (times_s[-1] - times_s[0])


def wait_ready(operator: Operator) -> tuple[float, float]:
    """Seconds from now until it is ready, and when that was, since the epoch."""
    started = time.monotonic()
    while operator.get("/readyz/scheduling")[0] != 200:
        assert operator.process.exit_code is None, operator.process.tail()
        assert time.monotonic() - started < 180, operator.process.tail()
        time.sleep(0.02)
    return time.monotonic() - started, time.time()


def wait_idle(operator: Operator) -> None:
    """Wait until it has done little for five seconds, or for two minutes: then the figure shows that it never rests."""
    for _ in range(24):
        before_s = operator.cpu_s
        time.sleep(5.0)
        if operator.cpu_s - before_s < 0.25:
            return


def create_pods(cluster: Cluster, prefix: str, scheduler: str) -> list[Object]:
    return list(cluster.create_all(objects.pod(f"{prefix}-{n}", scheduler=scheduler) for n in range(PODS)))


def delete_pods(bench: Bench) -> None:
    bench.cluster.request("DELETE", "/api/v1/namespaces/default/pods", {"gracePeriodSeconds": 0})
    wait_until(lambda: not bench.cluster.list("Pod", query="limit=1"), "no pods", 120.0, poll_s=1.0)


def plain_bindings(bench: Bench, nodes: list[str], prefix: str) -> Plain:
    pods = create_pods(bench.cluster, prefix, "nobody")
    requests = []
    for n, pod in enumerate(pods):
        meta = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": nodes[n % len(nodes)]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        requests.append((path_to("Pod", meta["name"], "default") + "/binding", json.dumps(body).encode()))
    mark = bench.plane.audit.mark()
    bench.plane.collect_garbage()
    before_s = time.process_time()
    asyncio.run(send(bench, "POST", requests))
    each_ms = 1000 * (time.process_time() - before_s) / PODS
    times_s = bench.wait_bindings(mark, ADMIN, PODS)
    bench.settle()
    delete_pods(bench)
    return Plain(rate_of(times_s), each_ms)


async def send(bench: Bench, verb: str, requests: Sequence[tuple[str, bytes]], how: str = "application/json") -> None:
    """All requests, each of the connections taking the next."""
    rest = iter(requests)
    tls = ssl.create_default_context(cafile=bench.plane.authority)
    headers = {"Authorization": f"Bearer {bench.cluster.token}", "Content-Type": how}
    connector = aiohttp.TCPConnector(ssl=tls, limit=bench.connections)
    async with aiohttp.ClientSession(bench.cluster.server, connector=connector, headers=headers) as session:

        async def worker() -> None:
            for path, body in rest:
                async with session.request(verb, path, data=body) as answer:
                    assert answer.status in (200, 201), await answer.text()
                    await answer.read()

        await asyncio.gather(*(worker() for _ in range(bench.connections)))
