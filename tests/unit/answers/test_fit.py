"""Whether a workload would run: where, after whom, and at whose expense."""

from __future__ import annotations

import pytest

from kai_sched import Config
from kai_sched.answers.fit import EVICTS, RUNS, WAITS, Fit, fit
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import workloads_of
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

BASE = """
    node a gpu=8
    node b gpu=8
    queue rich gpu=8
    queue poor gpu=8
    group over owner=PyTorchJob/llama queue=rich min=1 started=7200
    pod over-0..2 gpu=4 on=a
    group asked owner=RayCluster/serve queue=poor min=2
"""


def asked(pods: str, base: str = BASE, *more: str) -> Fit:
    cluster = cluster_of(f"{base}\n{pods}")
    workloads = workloads_of(cluster)
    names = ["ns/asked", *more]
    return fit(Trials(cluster, Config(), NOW_NS), [workloads.of(name) for name in names], workloads)[0]


FREE = BASE.replace("over-0..2 gpu=4 on=a", "over-0 gpu=4 on=a")
LATE = "group late owner=Job/late queue=poor min=3\npod late-0..2 gpu=4"


def test_it_runs_where_there_is_room() -> None:
    found = asked("pod asked-0..1 gpu=4", FREE)
    assert (found.verdict, found.pods, found.of_pods, found.gpus, found.queue) == (RUNS, 2, 2, 8.0, "poor")
    assert found.text == ("ns/serve (RayCluster, queue poor) runs now: 2 pods, 8 GPUs on a, b; evicts nobody")


def test_it_evicts_those_over_their_share() -> None:
    found = asked(
        "pod asked-0..1 gpu=4",
        BASE.replace("over-0..2 gpu=4 on=a", "over-0..1 gpu=4 on=a\n    pod over-2..3 gpu=4 on=b"),
    )
    assert found.verdict == EVICTS
    assert found.text == (
        "ns/serve (RayCluster, queue poor) runs once others have left: 2 pods, 8 GPUs on b; "
        "evicts llama (rich): 2 of its 4 pods, 8 GPUs, up 2h"
    )


def test_it_waits_with_the_reason() -> None:
    found = asked("pod asked-0..1 gpu=16", FREE)
    assert (found.verdict, found.pods, found.gpus, found.nodes) == (WAITS, 0, 32.0, ())
    assert found.text == ("ns/serve (RayCluster, queue poor) waits: no node has 16 GPUs")


def test_of_an_elastic_workload_the_pods_that_get_nodes_are_told() -> None:
    found = asked("pod asked-0..3 gpu=4", FREE)
    assert (found.verdict, found.pods, found.of_pods, found.gpus) == (RUNS, 3, 4, 12.0)
    assert "3 of its 4 pods, 12 GPUs on a, b" in found.text
    assert found.reason is not None


def test_who_would_have_started_and_now_waits_is_told() -> None:
    """The other one is younger, and would have had the room."""
    found = asked(f"pod asked-0..1 gpu=4\n{LATE}", FREE)
    assert (found.verdict, [each.name for each in found.costs.late]) == (RUNS, ["late"])
    assert found.text.endswith("evicts nobody; late then waits; 4 GPUs stay free")


def test_several_workloads_are_tried_together() -> None:
    cluster = cluster_of(
        f"{FREE}\npod asked-0..1 gpu=4\ngroup late owner=Job/late queue=poor min=3\npod late-0..2 gpu=4"
    )
    workloads = workloads_of(cluster)
    pair = [workloads.of(name) for name in ("ns/asked", "ns/late")]
    found = fit(Trials(cluster, Config(), NOW_NS), pair, workloads)
    assert [(each.workload.name, each.verdict) for each in found] == [("serve", RUNS), ("late", WAITS)]
    assert found[0].costs.late == ()


def test_a_workload_without_a_queue_of_its_cluster_waits() -> None:
    found = asked("pod asked-0..1 gpu=4", FREE.replace("queue=poor", "queue=none"))
    assert found.verdict == WAITS
    assert "there is no queue 'none'" in found.text


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (["n-1", "n-2", "n-3", "n-4"], "on n-{1..4};"),
        (["n", "m", "o", "p"], "on m, n and 2 more nodes;"),
        (["n", "m", "o"], "on m, n, o;"),
    ],
)
def test_many_nodes_are_told_as_few(nodes: list[str], told: str) -> None:
    cluster = "\n".join(f"node {name} gpu=4" for name in nodes)
    pods = f"group asked owner=Job/a\npod asked-0..{len(nodes) - 1} gpu=4"
    assert told in asked(pods, cluster).text


def test_each_workload_is_looked_at_in_its_shard() -> None:
    """Also where another shard was opened; one that no shard has names its queue all the same."""
    pool, label = Config().node_pool_label, "labels=kai.scheduler/node-pool:"
    shards = [Config(), Config(node_pool="b")]
    cluster = cluster_of(f"""
        node a gpu=8
        node b gpu=8 {label}b
        queue q gpu=8
        queue qb gpu=8 {label}b
        group one owner=Job/one queue=q
        pod one-0 gpu=8
        group two owner=Job/two queue=qb {label}b
        pod two-0 gpu=4
        group lost owner=Job/lost queue=q {label}c
        pod lost-0 gpu=1
    """)
    assert cluster.pod_groups["ns/two"].labels == {pool: "b"}
    workloads = workloads_of(cluster)
    groups = [workloads.of(f"ns/{name}") for name in ("two", "lost", "one")]
    found = fit(Trials(cluster, shards[0], NOW_NS, shards=shards), groups, workloads)
    assert [(each.workload.name, each.verdict, each.queue) for each in found] == [
        ("two", RUNS, "qb"),
        ("lost", WAITS, "q"),
        ("one", RUNS, "q"),
    ]
