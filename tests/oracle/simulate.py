"""The oracle as a program, for the check that comes with the conformance data: files in, one JSON line a file out.

    python -m tests.oracle.simulate FILE...

The world between two cycles does what the README of the data says, written here anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kai_sched import Cluster, Config
from kai_sched.files.load import Case, load
from kai_sched.model.objects import Object, Phase, Pod, PodGroup
from tests.oracle.actions import Decided, decide
from tests.oracle.between import moved_on, objects_of

MINUTE_NS = 60 * 10**9


def main(paths: list[str]) -> None:
    for case in load(paths).cases:
        print(json.dumps({"file": case.path, "name": case.name, "cycles": list(cycles(case))}), flush=True)


def cycles(case: Case) -> Iterator[dict[str, Any]]:
    named = {key: pod.node for key, pod in case.store.cluster().pods.items()}
    cluster, now_ns = Cluster.of(map(unbound, objects_of(case.store.cluster()))), case.now_ns or 0
    failed = {
        key: {"status": "Failed", "node": pod.node} for key, pod in cluster.pods.items() if pod.phase == Phase.FAILED
    }
    for _ in range(case.cycles):
        cluster = Cluster.of(started(cluster, now_ns))
        found = decide(cluster, with_grace(case.config), now_ns)
        states = found.pods.items()
        decided = failed | {key: {"status": status, "node": node or named[key]} for key, (status, node) in states}
        victims = {each.pod for each in found.evictions}
        cluster = Cluster.of(moved_on(cluster, found.pods, victims, now_ns, case.keeps_terminating))
        settled = failed | {
            key: {"status": settled_status(cluster.pods[key], status), "node": cluster.pods[key].node or named[key]}
            for key, (status, _) in states
        }
        evicted = [each.pod for each in found.evictions if not each.moves]
        yield {"decided": decided, "settled": settled, "evicted": evicted, "nodes": rooms(found), "podGroups": {}}
        now_ns += round(case.seconds_between_cycles * 1e9)


def with_grace(config: Config) -> Config:
    """The tables of stale gang eviction alone were decided with the flag's default, whatever the README says."""
    alone = config.actions == ("stalegangeviction",)
    return replace(config, staleness_grace_s=60.0) if alone else config


def unbound(item: Object) -> Object:
    """Tables name a node for some pods that only wait for one; as objects they would be bound there."""
    if isinstance(item, Pod) and item.phase == Phase.PENDING and not item.deleted_ns:
        return replace(item, node="")
    return item


def rooms(found: Decided) -> dict[str, dict[str, float]]:
    return {
        name: {"idleGPUs": machine.idle.get("gpu", 0.0), "releasingGPUs": machine.releasing.get("gpu", 0.0)}
        for name, machine in found.world.machines.items()
    }


def started(cluster: Cluster, now_ns: int) -> list[Object]:
    """Every group with running pods counts as started a minute ago, and none was ever evicted."""
    running = {
        f"{pod.namespace}/{pod.group}"
        for pod in cluster.pods.values()
        if pod.phase == Phase.RUNNING and not pod.deleted_ns
    }
    return [
        replace(item, last_start_ns=now_ns - MINUTE_NS if item.key in running else 0, last_eviction_ns=0)
        if isinstance(item, PodGroup)
        else item
        for item in objects_of(cluster)
    ]


def settled_status(pod: Pod, decided: str) -> str:
    if pod.deleted_ns:
        return "StuckInReleasing" if decided == "StuckInReleasing" else "Releasing"
    if pod.phase == Phase.PENDING:
        return "Bound" if pod.node else "Gated" if pod.gates else "Pending"
    return {Phase.RUNNING: "Running", Phase.SUCCEEDED: "Succeeded"}.get(pod.phase, "Unknown")


if __name__ == "__main__":
    main(sys.argv[1:])
