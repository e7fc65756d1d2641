"""What the API server takes and nobody should have written: all others are served meanwhile, and nothing is left."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import urllib3

from kai_sched.api import names
from kai_sched.cluster.nesting import RECURSION_MAX
from tests.cluster import objects
from tests.cluster.client import Object, Refused, parallel
from tests.cluster.cluster import Cluster
from tests.cluster.hostile_objects import ARENA, EVIL, GPU, NO_NAMES, drawn, others, pod, pods
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

SEED = 15
DRAWN = 90
LEAST_DRAWN = 25  # that the API server takes of them
MOST_REFUSED = 8  # by the schemas of our kinds, of what is no pod
BAD_LOGS = {"cycle.failed", "operator.part_ended", "fault.unexpected", "operator.kopf_ended"}


def offered(cluster: Cluster, contents: list[Object]) -> list[str]:
    """Create what the API server takes; returns why it did not take the others."""

    def create(content: Object) -> str:
        try:
            cluster.create(content)
        except (Refused, urllib3.exceptions.HTTPError) as refused:
            return f"{content['kind']} {content['metadata']['name'][:60]!r}: {refused}"[:300]
        return ""

    return [why for why in parallel(create, contents) if why]


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


def told(cluster: Cluster) -> set[str]:
    """The objects that people are told of, in the namespace."""
    return {event["involvedObject"]["name"] for event in cluster.list("Event", EVIL) if event["type"] == "Warning"}


def test_others_are_served_whatever_is_there(live: Cluster, shared_operator: Operator) -> None:
    sys.setrecursionlimit(RECURSION_MAX)  # as what we send is nested deeply
    live.add_nodes(2)
    live.add_nodes(1, prefix="arena")
    live.add_queues("team", EVIL)
    live.add_namespace(EVIL)
    for each in live.create_all(forged()):
        live.bind(each, ARENA)
    assert offered(live, list(pods())) == []
    schemas, chance = offered(live, list(others())), offered(live, list(drawn(DRAWN, SEED)))
    assert len(schemas) <= MOST_REFUSED, schemas
    assert not [why for why in schemas if why.startswith("ResourceClaim")], "it has to be read"
    assert len(chance) <= DRAWN - LEAST_DRAWN, chance
    live.create(pod("asks-what-is-held", 8))
    live.create_all(objects.gang("sane", 4, "team", 2))
    live.wait_bound([f"sane-{n}" for n in range(4)], timeout_s=20.0)
    condition = live.wait_condition("Pod", "asks-what-is-held", names.POD_SCHEDULED, EVIL, status="False")
    assert condition["reason"] == names.UNSCHEDULABLE
    assert all(gpus <= 8 for gpus in held(live).values()), held(live)
    # Who wrote what cannot be is told, by the name of the object.
    owners = {f"owner-{what}" for what in NO_NAMES}
    wait_until(lambda: owners <= told(live), "the pods whose owners cannot be being told so")
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
    """Delete what is hostile, as far as nobody would have to let go of it first; whether all of that is gone."""
    left = [(kind, each) for kind in ("Pod", "PodGroup", "BindRequest") for each in cluster.list(kind, EVIL)]
    parallel(lambda one: cluster.delete(one[0], one[1]["metadata"]["name"], EVIL, grace_s=0), left)
    for kind, name in (("Queue", "most"), ("Queue", "lost"), ("PriorityClass", "lowest"), ("Node", "odd")):
        cluster.delete(kind, name)
    assert not left, sorted(f"{kind} {each['metadata']['name'][:60]}" for kind, each in left)[:20]
    return True


def settled(cluster: Cluster) -> bool:
    """Whether the queues show in the end what runs, and no more."""
    wanted: Callable[[], bool] = lambda: (  # noqa: E731 - what is waited for
        _allocated(cluster, EVIL) == "0" and _allocated(cluster, "team") == "16"
    )
    return wait_until(wanted, "the queues' statuses")


def _allocated(cluster: Cluster, queue: str) -> str:
    status = cluster.get("Queue", queue).get("status") or {}
    return str((status.get("allocated") or {}).get(GPU, "0"))
