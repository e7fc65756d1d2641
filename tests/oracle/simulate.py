"""The oracle as a program, for the check that comes with the conformance data: files in, one JSON line a file out.

    python -m tests.oracle.simulate FILE...

The world between two cycles does what the README of the data says, written here anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kai_sched import Cluster
from kai_sched.files.load import Case, load
from kai_sched.model.objects import Object, Phase, Pod, PodGroup
from tests.oracle.actions import Decided, decide

MINUTE_NS = 60 * 10**9


def main(paths: list[str]) -> None:
    for case in load(paths).cases:
        print(json.dumps({"file": case.path, "name": case.name, "cycles": list(cycles(case))}), flush=True)


def cycles(case: Case) -> Iterable[dict[str, Any]]:
    named = {key: pod.node for key, pod in case.store.cluster().pods.items()}
    cluster, now_ns = Cluster.of(map(unbound, objects_of(case.store.cluster()))), case.now_ns or 0
    for _ in range(case.cycles):
        cluster = Cluster.of(started(cluster, now_ns))
        found = decide(cluster, case.config, now_ns)
        decided = {key: {"status": status, "node": node or named[key]} for key, (status, node) in found.pods.items()}
        gone = case.keeps_terminating
        cluster = Cluster.of(moved_on(cluster, found, gone, now_ns))
        settled = {key: {"status": settled_status(pod, found.pods[key][0]), "node": pod.node or named[key]} for key, pod in cluster.pods.items() if key in found.pods}
        evicted = [each.pod for each in found.evictions if not each.moves]
        yield {"decided": decided, "settled": settled, "evicted": evicted, "nodes": rooms(found), "podGroups": {}}
        now_ns += round(case.seconds_between_cycles * 1e9)


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


def objects_of(cluster: Cluster) -> list[Object]:
    tables = (cluster.queues, cluster.nodes, cluster.pod_groups, cluster.pods, cluster.priority_classes)
    return [item for table in tables for item in table.values()]


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


def moved_on(cluster: Cluster, found: Decided, keeps_terminating: Iterable[str], now_ns: int) -> list[Object]:
    """What is bound runs, what was evicted comes back pending, or goes on terminating."""
    evicted = {each.pod for each in found.evictions}
    moved: list[Object] = []
    for item in objects_of(cluster):
        if isinstance(item, Pod) and item.key in found.pods:
            status, node = found.pods[item.key]
            if status == "Binding":
                item = replace(item, node=node, phase=Phase.RUNNING)
            elif status == "Releasing" or item.key in evicted:
                if item.group in keeps_terminating:
                    item = replace(item, deleted_ns=item.deleted_ns or now_ns)
                else:
                    item = replace(item, node="", phase=Phase.PENDING, deleted_ns=0)
        moved.append(item)
    return moved


def settled_status(pod: Pod, decided: str) -> str:
    if pod.deleted_ns:
        return "StuckInReleasing" if decided == "StuckInReleasing" else "Releasing"
    if pod.phase == Phase.PENDING:
        return "Bound" if pod.node else "Gated" if pod.gates else "Pending"
    return {Phase.RUNNING: "Running", Phase.SUCCEEDED: "Succeeded"}.get(pod.phase, "Unknown")


if __name__ == "__main__":
    main(sys.argv[1:])
