"""Pods come and go on a real API server while faults are made at random: `make soak ARGS='--minutes 10'`.

The replicas run the command of the Deployment with the account, the rights and the webhooks of manifests/, with GPU
sharing on. First the API server is restarted, and the replica that leads is killed, ended by SIGTERM, and stopped past
its lease, in turns. Then one leads until the end: its memory and its cycles are measured over ``--minutes``, beside a
standby that comes and goes, and faults of soak_faults.py. docs/performance.md says what fails it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from tests.cluster import soak_cluster
from tests.cluster.balancer import Balancer
from tests.cluster.bench import Bench, Figure
from tests.cluster.conftest import ACCOUNT
from tests.cluster.control_plane import ADMIN
from tests.cluster.device_plugin import DevicePlugin
from tests.cluster.operator_process import Operator
from tests.cluster.proxy import Proxy
from tests.cluster.soak_faults import RandomFaults
from tests.cluster.soak_growth import SecondSamples, cycle_figures, cycles_of, is_quiet, memory_figures
from tests.cluster.soak_judge import Judge, bound_twice, counted
from tests.cluster.soak_load import Load
from tests.cluster.soak_replicas import TAKE_OVER_S, ReadyAddress, Replicas

RATE = 20.0  # pods a second, so many that two cores keep up
GRACE_S = 60.0  # of a gang that is torn
PODS_MIN, PODS_MINUTES = 20_000, 30.0  # so many in a run of that length
TURNS_MINUTES = 10.0  # for each of these the leader ends once more in each way
REFUSED_SHOWN = 5
RIGHTS_KNOWN_S = 10.0  # after the API server has started


def stay(faults: RandomFaults, stays: Operator, load: Load, minutes: float, plugin: DevicePlugin) -> list[Figure]:
    """Measure the replica that stays, while faults are made."""
    started, started_s, cpu_s, made = time.time(), time.monotonic(), stays.cpu_s, load.judge.made
    samples = SecondSamples(stays)
    next_s = faults.pause_s()
    while (now_s := time.monotonic() - started_s) < minutes * 60:
        load.check()
        plugin.check()
        assert stays.process.exit_code is None, f"{faults.outage_s:.1f} s without an API server: {stays.process.tail()}"
        if now_s > next_s and not is_quiet(now_s, minutes * 60):
            faults.one()
            next_s = time.monotonic() - started_s + faults.pause_s()
        time.sleep(0.5)
    whole_s = time.monotonic() - started_s
    used_s, made = stays.cpu_s - cpu_s, load.judge.made - made
    limit_mb = faults.replicas.memory_limit_mb
    return [
        Figure("pods made, over the minutes", made / whole_s, "/s"),
        *memory_figures(samples.rss_mb, whole_s),
        Figure("RSS at its peak", stays.rss_peak_mb, "MB", limit_mb),
        *cycle_figures(cycles_of(stays.logs("cycle.done"), started), samples.same_work_ms, whole_s),
        Figure("CPU of the leader", 100 * used_s / whole_s, "% of a core"),
        Figure("CPU of the leader", 1000 * used_s / max(1, made), "ms a pod"),
        *(Figure(name, count, "") for name, count in sorted(faults.made.items())),
        Figure("longest without an API server", faults.outage_s, "s"),
    ]


def audited(path: Path, judge: Judge, outages: Sequence[tuple[float, float]]) -> tuple[list[str], list[Figure]]:
    """What the API server was asked: pods that were bound twice, what was forbidden, how many requests there were.

    An API server that has just started does not know all rights yet.
    """
    uids: list[str] = []
    forbidden: list[str] = []
    asked = watches = 0
    mark = f'"username":"{ACCOUNT}"'.encode()
    with path.open("rb") as file:
        for line in file:
            if mark not in line or not line.endswith(b"\n"):
                continue
            asked += 1
            watches += b'"verb":"watch"' in line
            if b'"subresource":"binding"' in line and b'"code":201' in line:
                uids.append(json.loads(line)["objectRef"]["uid"])
            elif b'"code":403' in line:
                entry = json.loads(line)
                at = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
                if any(from_ <= at <= to + RIGHTS_KNOWN_S for from_, to in outages):
                    continue
                forbidden.append(f"forbidden: {entry['verb']} {entry['requestURI']}")
    requests = asked - watches
    return bound_twice(counted(uids)) + forbidden[:REFUSED_SHOWN], [
        Figure("bindings", len(uids), ""),
        Figure("requests of all replicas", requests, ""),
        Figure("requests", requests / max(1, judge.made), "a pod"),
        Figure("requests that were forbidden", len(forbidden), "", 0),
    ]


def soak(bench: Bench, minutes: float, rate: float, seed: int) -> tuple[list[Figure], list[str]]:
    """The table, and what went wrong."""
    chance = random.Random(seed)
    plane, cluster = bench.plane, bench.cluster
    with ExitStack() as stack:
        balancer, proxy = stack.enter_context(Balancer()), stack.enter_context(Proxy(plane.server, plane.authority))
        nodes = soak_cluster.install(cluster, balancer.port)
        plugin = stack.enter_context(soak_cluster.controlled(plane, cluster))
        sizes = {name: soak_cluster.size_of(name) for name in nodes}
        judge = Judge(sizes, late_s=TAKE_OVER_S, torn_s=GRACE_S)
        load = Load(plane.server, plane.token(ADMIN), plane.authority, judge, rate, seed)
        replicas = Replicas(bench.folder, Path(soak_cluster.login(plane, proxy.url)), chance)
        faults = RandomFaults(cluster, plane, proxy, load, replicas, chance)
        stack.callback(replicas.end_all)
        stack.enter_context(ReadyAddress(balancer, lambda: replicas.started))
        pair = [replicas.start().wait_ready(), replicas.start().wait_ready()]
        soak_cluster.wait_admitted(cluster)
        load.start()
        for kill in (True, False):
            faults.restart_api_server(kill)
            pair = replicas.revive(pair)
        stays = replicas.take_turns(pair, max(1, int(minutes / TURNS_MINUTES)))
        load.judge.lead(load.clock.now_s())
        figures = stay(faults, stays, load, minutes, plugin)
        load.stop_coming()
        faults.mend()
        load.wait_gone(3 * TAKE_OVER_S)
        left = soak_cluster.left_over(cluster)
        series = len(stays.get("/metrics")[1].splitlines())
        log_bytes = stays.process.log.stat().st_size
        replicas.look(stays)
    twice, asked = audited(plane.audit.path, judge, faults.outages)
    figures += _of_pods(judge, load, minutes)
    figures += [
        *(Figure(f"replicas {how}", count, "") for how, count in sorted(replicas.ends.items())),
        *(Figure(f"requests of the load again, {why}", count, "") for why, count in sorted(load.again.items())),
        *asked,
        Figure("lines of /metrics", series, ""),
        Figure("log of the leader", log_bytes / 1e6, "MB"),
        Figure("what went wrong", judge.fault_count + len(twice) + len(replicas.faults) + len(left), "", 0),
    ]
    return figures, [*judge.faults, *twice, *replicas.faults, *left]


def _of_pods(judge: Judge, load: Load, minutes: float) -> list[Figure]:
    waits_ms = sorted(1000 * wait for wait in judge.waits_s)
    return [
        Figure("pods made, over all", judge.made / load.coming_s, "/s"),
        Figure("pods", judge.made, "", PODS_MIN if minutes >= PODS_MINUTES else None, at_least=True),
        Figure("workloads ended by a fault", judge.ended_count, ""),
        Figure("made to seen bound, median", statistics.median(waits_ms), "ms"),
        Figure("made to seen bound, 99 of 100", waits_ms[len(waits_ms) * 99 // 100], "ms"),
        Figure("made to seen bound, slowest", waits_ms[-1], "ms", 1000 * TAKE_OVER_S),
        Figure("longest that a gang was torn", judge.torn_worst_s, "s", GRACE_S),
    ]


def main() -> None:
    """Run it, print the table and what went wrong, and exit with 1 where something did."""
    parser = argparse.ArgumentParser(prog="make soak ARGS=...")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the last leader is measured; default 10")
    parser.add_argument("--rate", type=float, default=RATE, help=f"pods made a second; default {RATE:g}")
    parser.add_argument("--seed", type=int, default=1, help="of what comes, and of the faults; default 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave all logs there")
    arguments = parser.parse_args()
    if arguments.keep and arguments.keep.is_dir() and any(arguments.keep.iterdir()):
        parser.error(f"{arguments.keep} is not empty: an earlier run would go on there; name another folder")
    print(f"soak: {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        with Bench(folder, connections=64) as bench:
            figures, faults = soak(bench, arguments.minutes, arguments.rate, arguments.seed)
    for figure in figures:
        target = "" if figure.target is None else f"{'>=' if figure.at_least else '<='} {figure.target:g}"
        print(f"{figure.name:36}{figure.value:12.1f} {figure.unit:12}{target:>10}  {figure.verdict}")
    for fault in faults:
        print(fault, file=sys.stderr)
    if arguments.json:
        content = [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
        arguments.json.write_text(json.dumps({"seed": arguments.seed, "figures": content, "faults": faults}, indent=2))
    sys.exit(bool(faults) or any(figure.verdict == "MISSED" for figure in figures))


if __name__ == "__main__":
    main()
