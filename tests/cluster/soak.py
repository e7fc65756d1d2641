"""Pods come and go on a real API server while replicas are killed: `make soak ARGS='--minutes 10'`.

First two replicas take turns: the one that leads is killed, without a word and by SIGTERM, and started again. Then a
third one comes, both others are killed, and it leads until the end: its memory and CPU are measured over ``--minutes``,
while the standby beside it is killed at random from ``--seed``. Fails where a pod is lost or late, a node overfull, a
pod bound twice, a gang torn for longer than its grace, a cycle failed, or the memory grows by more than a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tests.cluster.bench import Bench, Figure
from tests.cluster.control_plane import ADMIN, OPERATOR
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until
from tests.cluster.soak_judge import Judge, bound_twice, counted
from tests.cluster.soak_load import NODE_GPUS, NODE_MILLI_CPU, QUEUES, Load

NODES = 200
GRACE_S = 60.0  # of a gang that is torn
TAKE_OVER_S, END_S = 60.0, 30.0
BETWEEN_KILLS_S = (10.0, 25.0)
BOUND_BEFORE_KILL_S = (4.0, 8.0)
GROWTH_MAX = 10.0  # percent
LONG_MINUTES = 5.0  # from there on minute 3 is compared with the last one
WRONG = ("cycle.failed", "operator.part_ended", "operator.kopf_ended")
HOW = (signal.SIGKILL, signal.SIGTERM)


class Replicas:
    """The processes of `kai-sched run`, and how they are killed."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self._bench = bench
        self._chance = chance
        self.started: list[Operator] = []
        self.kills: Counter[str] = Counter()
        self.faults: list[str] = []

    def start(self) -> Operator:
        """One more."""
        self.started.append(self._bench.start())
        return self.started[-1]

    def kill(self, replica: Operator, how: signal.Signals) -> None:
        """End it; one that is told to has to end in an orderly way."""
        self.kills[how.name] += 1
        if how == signal.SIGKILL:
            replica.kill()
            return
        try:
            code = replica.terminate(END_S)
        except AssertionError as late:
            self.faults.append(str(late))
            replica.kill()
            return
        if code != 0:
            self.faults.append(f"{replica.process.name} ended with {code} after SIGTERM:\n{replica.process.tail(5)}")

    def leader(self, among: list[Operator]) -> Operator:
        """Who of these holds the lease. Raises AssertionError where none takes it in time."""

        def found() -> Operator | None:
            return next((one for one in among if one.process.exit_code is None and one.logs("lease.held")), None)

        return wait_until(found, "a replica that leads", TAKE_OVER_S, poll_s=0.5)

    def take_turns(self) -> Operator:
        """Two replicas, the leading one killed in each way; returns a third, which leads from now on."""
        pair = [self.start().wait_ready(), self.start().wait_ready()]
        for how in self._chance.sample(HOW, len(HOW)):
            leading = self.leader(pair)
            time.sleep(self._chance.uniform(*BOUND_BEFORE_KILL_S))
            self.kill(leading, how)
            pair = [one for one in pair if one is not leading]
            pair.append(self.start().wait_ready())
        self.leader(pair)
        stays = self.start().wait_ready()
        for one in pair:
            self.kill(one, signal.SIGKILL)
        return self.leader([stays])

    def look(self, stays: Operator) -> None:
        """See what they said, at the end."""
        if stays.process.exit_code is not None:
            self.faults.append(f"the replica that was not killed has ended:\n{stays.process.tail()}")
        for replica in self.started:
            wrong = Counter(line["event"] for line in replica.logs() if line.get("event") in WRONG)
            text = replica.process.log.read_text(errors="replace")
            if wrong or "Traceback" in text:
                self.faults.append(f"{replica.process.name} logged {dict(wrong) or 'a traceback'}")


class Memory:
    """Resident memory each second, in millions of bytes, as (seconds from the start, memory)."""

    def __init__(self, samples: Sequence[tuple[float, float]] = ()) -> None:
        self._samples = list(samples)

    def follow(self, replica: Operator) -> None:
        """Take samples of the replica from now on, until it ends."""
        threading.Thread(target=self._follow, args=(replica,), daemon=True).start()

    def _follow(self, replica: Operator) -> None:
        started_s = time.monotonic()
        with suppress(OSError):  # it has ended
            while replica.process.exit_code is None:
                self._samples.append((time.monotonic() - started_s, replica.rss_mb))
                time.sleep(1.0)

    def mean(self, from_s: float, to_s: float) -> float:
        """The mean of what was noted in that time. Raises StatisticsError where nothing was."""
        return statistics.mean(mb for at_s, mb in self._samples if from_s <= at_s <= to_s)

    def figures(self, whole_s: float) -> list[Figure]:
        """Minute 3 and the last minute; of a short run, what follows its first third, and its last fifth."""
        if whole_s >= LONG_MINUTES * 60:
            early, late, said = (120.0, 180.0), (whole_s - 60.0, whole_s), ("minute 3", "last minute")
        else:
            early, late = (whole_s / 3, whole_s / 3 + whole_s / 10), (whole_s * 0.8, whole_s)
            said = ("after a third", "last fifth")
        first, last = self.mean(*early), self.mean(*late)
        return [
            Figure(f"RSS, {said[0]}", first, "MB"),
            Figure(f"RSS, {said[1]}", last, "MB"),
            Figure("RSS, growth between", 100 * (last - first) / first, "%", GROWTH_MAX),
        ]


def stay(replicas: Replicas, stays: Operator, load: Load, minutes: float, chance: random.Random) -> list[Figure]:
    """Measure the replica that stays, while the standby is killed again and again."""
    memory, started_s, cpu_s, made = Memory(), time.monotonic(), stays.cpu_s, load.judge.made
    memory.follow(stays)
    standby = replicas.start()
    next_kill_s = chance.uniform(*BETWEEN_KILLS_S)
    while (now_s := time.monotonic() - started_s) < minutes * 60:
        assert load.is_alive, load.failure
        assert stays.process.exit_code is None, stays.process.tail()
        if now_s > next_kill_s:
            replicas.kill(standby, chance.choice(HOW))
            standby = replicas.start()
            next_kill_s = time.monotonic() - started_s + chance.uniform(*BETWEEN_KILLS_S)
        time.sleep(1.0)
    whole_s = time.monotonic() - started_s
    used_s, made = stays.cpu_s - cpu_s, load.judge.made - made
    return [
        Figure("pods made, over the minutes", made / whole_s, "/s"),
        *memory.figures(whole_s),
        Figure("RSS at its peak", stays.rss_peak_mb, "MB"),
        Figure("CPU of the leader", 100 * used_s / whole_s, "% of a core"),
        Figure("CPU of the leader", 1000 * used_s / max(1, made), "ms a pod"),
    ]


def audited(bench: Bench, judge: Judge) -> tuple[list[str], list[Figure]]:
    """What the API server was asked: pods that were bound twice, and how many requests there were."""
    uids, asked, watches = [], 0, 0
    mark = f'"username":"{OPERATOR}"'.encode()
    with bench.plane.audit.path.open("rb") as file:
        for line in file:
            if mark not in line:
                continue
            asked += 1
            watches += b'"verb":"watch"' in line
            if b'"subresource":"binding"' in line:
                entry = json.loads(line)
                if entry.get("responseStatus", {}).get("code") == 201:
                    uids.append(entry["objectRef"]["uid"])
    requests = asked - watches
    return bound_twice(counted(uids)), [
        Figure("bindings", len(uids), ""),
        Figure("requests of all replicas", requests, ""),
        Figure("requests", requests / max(1, judge.made), "a pod"),
    ]


def soak(bench: Bench, minutes: float, rate: float, seed: int) -> tuple[list[Figure], list[str]]:
    """The table, and what went wrong."""
    chance = random.Random(seed)
    nodes = bench.cluster.add_nodes(NODES, gpus=NODE_GPUS, cpu=f"{NODE_MILLI_CPU}m")
    bench.cluster.add_queues(*(f"team-{n}" for n in range(QUEUES)))
    size = (NODE_MILLI_CPU, NODE_GPUS)
    judge = Judge(dict.fromkeys(nodes, size), late_s=TAKE_OVER_S, torn_s=GRACE_S)
    plane = bench.plane
    load = Load(plane.server, plane.token(ADMIN), plane.authority, judge, rate, seed)
    replicas = Replicas(bench, chance)
    try:
        load.start()
        stays = replicas.take_turns()
        figures = stay(replicas, stays, load, minutes, chance)
        load.stop_coming()
        load.wait_gone(3 * TAKE_OVER_S)
        series = len(stays.get("/metrics")[1].splitlines())
        log_bytes = stays.process.log.stat().st_size
        replicas.look(stays)
    finally:
        for replica in replicas.started:
            replica.end()
    waits_ms = sorted(1000 * wait for wait in judge.waits_s)
    twice, asked = audited(bench, judge)
    figures += [
        Figure("pods made, over all", judge.made / load.coming_s, "/s"),
        Figure("pods", judge.made, ""),
        *(Figure(f"replicas ended by {how}", count, "") for how, count in sorted(replicas.kills.items())),
        Figure("made to seen bound, median", statistics.median(waits_ms), "ms"),
        Figure("made to seen bound, 99 of 100", waits_ms[len(waits_ms) * 99 // 100], "ms"),
        Figure("made to seen bound, slowest", waits_ms[-1], "ms", 1000 * TAKE_OVER_S),
        Figure("longest that a gang was torn", judge.torn_worst_s, "s", GRACE_S),
        *asked,
        Figure("lines of /metrics", series, ""),
        Figure("log of the leader", log_bytes / 1e6, "MB"),
        Figure("faults", judge.fault_count + len(twice) + len(replicas.faults), "", 0),
    ]
    return figures, [*judge.faults, *twice, *replicas.faults]


def main() -> None:
    """Run it, print the table and what went wrong, and exit with 1 where something did."""
    parser = argparse.ArgumentParser(prog="make soak ARGS=...")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the last leader is measured; default 10")
    parser.add_argument("--rate", type=float, default=100.0, help="pods made a second; default 100")
    parser.add_argument("--seed", type=int, default=1, help="of what comes, and of who is killed when; default 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave all logs there")
    arguments = parser.parse_args()
    print(f"soak: {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        with Bench(folder, connections=64) as bench:
            figures, faults = soak(bench, arguments.minutes, arguments.rate, arguments.seed)
    for figure in figures:
        target = "" if figure.target is None else f"<= {figure.target:g}"
        print(f"{figure.name:32}{figure.value:12.1f} {figure.unit:12}{target:>10}  {figure.verdict}")
    for fault in faults:
        print(fault, file=sys.stderr)
    if arguments.json:
        content = [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
        arguments.json.write_text(json.dumps({"seed": arguments.seed, "figures": content, "faults": faults}, indent=2))
    sys.exit(bool(faults) or any(figure.verdict == "MISSED" for figure in figures))


if __name__ == "__main__":
    main()
