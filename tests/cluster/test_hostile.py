"""What the API server takes and nobody should have written: all others are served meanwhile, and nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import urllib3

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object, Refused, parallel
from tests.cluster.cluster import Cluster
from tests.cluster.hostile_objects import EVIL, GPU, NO_NAMES, ONLY_ARENA, drawn, others, pod, pods
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

SEED = 15
DRAWN = 80
LEAST_DRAWN = 20  # that the API server takes of them
# What the API server refuses whatever the schemas of our kinds say.
BAD_LOGS = {"cycle.failed", "operator.part_ended", "fault.unexpected", "operator.kopf_ended"}


def taken(cluster: Cluster, contents: list[Object]) -> list[Object]:
    """Those that the API server has created."""

    def create(content: Object) -> Object | None:
        try:
            return cluster.create(content)
        except (Refused, urllib3.exceptions.HTTPError):
            return None

    return [found for found in parallel(create, contents) if found is not None]


def refusals(cluster: Cluster, contents: list[Object]) -> list[str]:
    """Why those that are not there are not."""
    found = []
    for content in contents:
        try:
            cluster.create(content)
        except Refused as refused:
            if refused.reason != "AlreadyExists":
                found.append(f"{content['metadata']['name'][:60]}: {refused}"[:400])
    return found


def held(cluster: Cluster) -> Counter[str]:
    """The GPUs that the containers of pods hold, by node."""
    found: Counter[str] = Counter()
    for each in cluster.list("Pod"):
        node = each["spec"].get("nodeName")
        if node and each["status"]["phase"] not in ("Succeeded", "Failed"):
            for container in each["spec"]["containers"]:
                found[node] += int(container.get("resources", {}).get("requests", {}).get(GPU, "0"))
    return found


def forged() -> list[Object]:
    """Pods of another scheduler that hold all of the arena, and say that they do not."""
    claims: list[Object] = [
        {"annotations": {names.GPU_FRACTION_ANNOTATION: "0.1"}},
        {"labels": {names.APP_LABEL: "kai-resource-reservation"}},
    ]
    return [pod(f"forged-{i}", 4, scheduler="default-scheduler", **claim) for i, claim in enumerate(claims)]


def told_of(operator: Operator) -> str:
    """All that the log says of problems."""
    return " ".join(str(line) for line in operator.logs() if "problem" in line)


def test_others_are_served_whatever_is_there(live: Cluster, shared_operator: Operator) -> None:
    live.add_nodes(2)
    live.add_nodes(1, prefix="arena-of", labels=ONLY_ARENA)
    arena = "arena-of-0"
    live.add_queues("team", EVIL)
    live.add_namespace(EVIL)
    chosen = [*pods(), *others()]
    there = taken(live, chosen)
    assert len(there) == len(chosen), refusals(live, chosen)
    random = taken(live, list(drawn(DRAWN, SEED)))
    assert len(random) >= LEAST_DRAWN
    for each in live.create_all(forged()):
        live.bind(each, arena)
    live.create(pod("asks-what-is-held", 8))
    live.create_all(objects.gang("sane", 4, "team", 2))
    live.wait_bound([f"sane-{n}" for n in range(4)], timeout_s=20.0)
    condition = live.wait_condition("Pod", "asks-what-is-held", names.POD_SCHEDULED, EVIL, status="False")
    assert condition["reason"] == names.UNSCHEDULABLE
    assert all(gpus <= 8 for gpus in held(live).values()), held(live)
    # Who wrote what cannot be is told, by the name of the object.
    wait_until(lambda: all(f"owner-{what}" in told_of(shared_operator) for what in NO_NAMES), "the owners being told")
    assert shared_operator.get("/healthz")[0] == 200
    assert shared_operator.get("/readyz")[0] == 200
    wait_until(lambda: clear(live), "nothing hostile being left")
    live.create_all(objects.gang("after", 8, "team", 1))
    live.wait_bound([f"after-{n}" for n in range(8)], timeout_s=20.0)
    assert all(gpus <= 8 for gpus in held(live).values()), held(live)
    assert settled(live)
    assert [line for line in shared_operator.logs() if line.get("event") in BAD_LOGS] == []
    assert shared_operator.process.exit_code is None


def clear(cluster: Cluster) -> bool:
    """Delete what is hostile; whether all of it is gone."""
    left = [
        (kind, each)
        for kind in ("Pod", "PodGroup", "PersistentVolumeClaim", "BindRequest")
        for each in _in(cluster, kind)
    ]
    parallel(lambda one: cluster.delete(one[0], one[1]["metadata"]["name"], EVIL, grace_s=0), left)
    for kind, name in (("Queue", "most"), ("Queue", "lost"), ("PriorityClass", "lowest"), ("Node", "odd")):
        cluster.delete(kind, name)
    return not left


def _in(cluster: Cluster, kind: str) -> list[Object]:
    return list(cluster.list(kind, EVIL))


def settled(cluster: Cluster) -> bool:
    """Whether the queues show in the end what runs, and no more."""
    wanted: Callable[[], bool] = lambda: (  # noqa: E731 - what is waited for
        _allocated(cluster, EVIL) == "0" and _allocated(cluster, "team") == "16"
    )
    return wait_until(wanted, "the queues' statuses")


def _allocated(cluster: Cluster, queue: str) -> str:
    status = cluster.get("Queue", queue).get("status") or {}
    return str((status.get("allocated") or {}).get(GPU, "0"))
