"""Speed and memory of the PodGrouper: parts of `make bench-cluster`. The pods have Jobs, but no controller made them.

``grouping``: 2,000 pods of 200 Jobs that came while nobody led, from the first look of a replica that begins to lead
until the last pod names its group, against 2,000 plain PATCH requests that write the same into other pods, once before
and once after.
``grouped_rate``: bindings a second of such pods, against plain ones. ``grouped_memory``: what 20,000 pods of 2,000 Jobs
add to the resident memory.
"""

from __future__ import annotations

import asyncio
import json
import statistics

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.bench import (
    GPUS_A_NODE,
    NODES,
    PODS,
    SYSTEM_NAMESPACE,
    Bench,
    Figure,
    create_pods,
    delete_pods,
    plain_bindings,
    rate_of,
    send,
    wait_idle,
    wait_ready,
)
from tests.cluster.client import MERGE, Object, path_to
from tests.cluster.control_plane import ADMIN, OPERATOR
from tests.cluster.processes import wait_until
from tests.cluster.workload_objects import job

JOBS, MANY_JOBS, PODS_A_JOB = 200, 2_000, 10
LOOKED_AT = frozenset({("list", "jobs"), ("get", "jobs"), ("create", "podgroups"), ("patch", "pods")})


def grouping(bench: Bench) -> list[Figure]:
    """How long it takes, ours and plain. Nothing can be bound, as there is no node."""
    bench.cluster.add_queues("team")
    plain_s = [_plain_patches(bench, "before")]
    bench.cluster.add_namespace(SYSTEM_NAMESPACE)
    bench.cluster.create(_foreign_lease())
    operator = bench.start()
    wait_ready(operator)
    _create_jobs(bench, JOBS)
    wait_idle(operator)
    mark = bench.plane.audit.mark()
    bench.cluster.patch("Lease", objects.SCHEDULER, {"spec": {"holderIdentity": ""}}, namespace=SYSTEM_NAMESPACE)
    ours_s = _patched_s(bench, mark, OPERATOR, PODS)
    operator.terminate()
    delete_pods(bench)
    plain_s.append(_plain_patches(bench, "after"))
    base_s = statistics.mean(plain_s)
    return [
        Figure("2,000 plain patches before", plain_s[0], "s"),
        Figure("2,000 plain patches after", plain_s[1], "s"),
        Figure("2,000 pods of 200 Jobs grouped", ours_s, "s"),
        Figure("grouped, in plain patches", ours_s / base_s, "times", 1.5),
    ]


def grouped_rate(bench: Bench) -> list[Figure]:
    """Bindings a second, ours with groups and plain."""
    cluster = bench.cluster
    nodes = cluster.add_nodes(NODES, gpus=GPUS_A_NODE)
    cluster.add_queues("team")
    plain = [plain_bindings(bench, nodes, "before").rate]
    _create_jobs(bench, JOBS)
    mark = bench.plane.audit.mark()
    operator = bench.start()
    wait_ready(operator)
    times_s = bench.wait_bindings(mark, OPERATOR, PODS)
    _patched_s(bench, mark, OPERATOR, PODS)
    bench.settle()
    operator.terminate()
    delete_pods(bench)
    plain.append(plain_bindings(bench, nodes, "after").rate)
    return [
        Figure("bindings of pods with groups", rate_of(times_s), "/s"),
        Figure("the same, share of plain", 100 * rate_of(times_s) / statistics.mean(plain), "%", 80, at_least=True),
    ]


def grouped_memory(bench: Bench) -> list[Figure]:
    """What a pod of a workload costs that runs already and gets its group."""
    cluster = bench.cluster
    nodes = cluster.add_nodes(NODES, gpus=MANY_JOBS * PODS_A_JOB // NODES, pods=1000)
    cluster.add_queues("team")
    operator = bench.start()
    wait_ready(operator)
    wait_idle(operator)
    before_mb, mark = operator.rss_mb, bench.plane.audit.mark()
    _create_jobs(bench, MANY_JOBS, nodes)
    _patched_s(bench, mark, OPERATOR, MANY_JOBS * PODS_A_JOB)
    bench.settle()
    wait_idle(operator)
    growth_kb = 1000 * (operator.rss_mb - before_mb) / (MANY_JOBS * PODS_A_JOB)
    operator.terminate()
    return [
        Figure("RSS without pods", before_mb, "MB"),
        Figure("RSS a pod of 20,000 with groups", growth_kb, "KB", 10),
    ]


def _create_jobs(bench: Bench, count: int, nodes: list[str] | None = None) -> None:
    """So many Jobs and their pods, each pod on a node where there are any."""
    jobs = bench.cluster.create_all(job(f"job-{n:04}", PODS_A_JOB, least=PODS_A_JOB) for n in range(count))
    pods = [_pod(owner, n) for owner in jobs for n in range(PODS_A_JOB)]
    for place, pod in enumerate(pods):
        if nodes:
            pod["spec"]["nodeName"] = nodes[place % len(nodes)]
    bench.cluster.create_all(pods)


def _pod(owner: Object, number: int) -> Object:
    meta = owner["metadata"]
    pod = objects.pod(f"{meta['name']}-{number}", None)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    pod["metadata"]["ownerReferences"] = [reference]
    return pod


def _foreign_lease() -> Object:
    """Of a leader that is never heard of again, and yet not replaced before the lease is let go in its name."""
    spec = {"holderIdentity": "nobody", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"}
    meta = {"name": objects.SCHEDULER, "namespace": SYSTEM_NAMESPACE}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def _plain_patches(bench: Bench, prefix: str) -> float:
    """Seconds that it takes to write a group's name into 2,000 pods that nobody looks at."""
    pods = create_pods(bench.cluster, prefix, "nobody")
    body = {
        "metadata": {"annotations": {names.POD_GROUP_ANNOTATION: "pg-some-job-12345678-1234-1234-1234-123456789012"}}
    }
    requests = [(path_to("Pod", pod["metadata"]["name"], "default"), json.dumps(body).encode()) for pod in pods]
    mark = bench.plane.audit.mark()
    asyncio.run(send(bench, "PATCH", requests, MERGE))
    seconds = _patched_s(bench, mark, ADMIN, PODS)
    delete_pods(bench)
    return seconds


def _patched_s(bench: Bench, mark: int, user: str, count: int) -> float:
    """Seconds from the first request about groups until so many pods have been patched."""

    def enough() -> float:
        found = [one for one in bench.plane.audit.since(mark, user) if (one.verb, one.subject) in LOOKED_AT]
        patched = {one.name: one.answered_s for one in found if one.subject == "pods" and one.status == 200}
        assert len(patched) >= count, f"{len(patched)} pods"
        return max(patched.values()) - min(one.received_s for one in found)

    return wait_until(enough, f"{count} patched pods", 300.0, poll_s=2.0)
