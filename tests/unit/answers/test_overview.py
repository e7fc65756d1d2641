"""The state of a cluster in one cycle: what there is of GPUs adds up, and every pod is counted where it belongs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, CycleResult, run_cycle
from kai_sched.answers.overview import Overview, main_resource, overview, room_text
from kai_sched.answers.workloads import workloads_of
from kai_sched.model.objects import Object
from kai_sched.plan.effects import Bind, Evict, Pipeline
from tests.properties.clusters import NOW_NS as PROPERTY_NOW_NS
from tests.properties.clusters import clusters
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

CLUSTER = cluster_of("""
    node a gpu=8
    node b gpu=8
    node c gpu=8 cordoned
    node d cordoned
    queue team
    queue full gpu=4/4
    group runs owner=Job/runs queue=team min=2
    pod runs-0..1 gpu=2 on=a
    group old queue=team
    pod old-0 gpu=8 on=c
    group done queue=team
    pod done-0 on=a status=Succeeded
    group starts owner=RayCluster/starts queue=team min=2
    pod starts-0 gpu=8
    pod starts-1 gpu=2
    group waits queue=full
    pod waits-0 gpu=5
    pod lone queue=team group= gpu=1
    pod theirs-0 foreign=default-scheduler gpu=8
    pod theirs-1 foreign=other
    pod theirs-2 foreign=other on=a
""")


def of(cluster: Cluster, config: Config) -> tuple[Overview, CycleResult]:
    result = run_cycle(cluster, config, NOW_NS)
    return overview(cluster, result, config, NOW_NS), result


def test_every_workload_stands_where_it_belongs() -> None:
    found, _ = of(CLUSTER, Config())
    assert [(str(each.workload), each.queue, each.pods, each.gpus, each.nodes) for each in found.placed] == [
        ("Pod ns/lone", "team", 1, 1.0, (("a", 1),)),
        ("RayCluster ns/starts", "team", 2, 10.0, (("a", 1), ("b", 1))),
    ]
    assert all(each.starts and not each.after for each in found.placed)
    assert [(each.name, each.pods) for each in found.waiting] == [("waits", 1)]
    assert [(each.workload.name, each.pods, each.gpus, each.nodes) for each in found.running] == [
        ("old", 1, 8.0, (("c", 1),)),
        ("runs", 2, 4.0, (("a", 2),)),
    ]
    assert (found.finished, found.others) == (1, (("default-scheduler", 1), ("other", 1)))
    assert (found.waiting_pods, found.waiting_workloads) == (1, 1)


def test_what_is_used_free_and_on_nodes_that_take_no_pods_is_the_total() -> None:
    found, _ = of(CLUSTER, Config())
    room = found.room
    assert (room.nodes, room.total, room.used, room.free, room.apart, room.nodes_apart) == (4, 24, 15, 1, 8, 1)
    assert room_text(room) == "4 nodes, 24 GPUs: 15 used, 1 free, 8 on 1 unusable node"


def test_who_waits_for_others_to_leave_is_told_apart() -> None:
    cluster = cluster_of("""
        node n gpu=4
        group leaves
        pod leaves-0 gpu=4 on=n status=Releasing
        group next
        pod next-0 gpu=4
    """)
    (placed,) = of(cluster, Config())[0].placed
    assert (placed.workload.name, placed.starts, placed.after) == (
        "next",
        False,
        "waits for node n (ns/leaves-0 is leaving)",
    )


def test_who_is_evicted_is_in_a_headline_and_runs_no_more() -> None:
    cluster = cluster_of("""
        node n gpu=8
        queue rich gpu=0
        queue poor gpu=8
        group pays queue=rich
        pod pays-0 gpu=8 on=n
        group gets queue=poor
        pod gets-0 gpu=8
    """)
    found, _ = of(cluster, Config())
    (headline,) = found.headlines
    assert headline.text == "To place 8 GPUs for gets this evicts pays (rich): 1 pod, 8 GPUs, up 16h 36m"
    assert (found.running, [each.workload.name for each in found.placed]) == ((), ["gets"])


def test_only_nodes_of_the_pool_count() -> None:
    cluster = cluster_of("node a gpu=8 labels=kai.scheduler/node-pool:blue\nnode b gpu=4")
    found, _ = of(cluster, Config(node_pool="blue"))
    assert (found.room.nodes, found.room.total) == (1, 8)


@pytest.mark.parametrize(
    ("text", "resource"), [("node a gpu=1", "gpu"), ("node a", "cpu"), ("node a\npod g-0 gpu=1", "gpu"), ("", "cpu")]
)
def test_gpus_matter_most_where_there_are_any(text: str, resource: str) -> None:
    assert main_resource(run_cycle(cluster_of(text), Config(), NOW_NS)) == resource


def test_one_is_one() -> None:
    assert room_text(of(cluster_of("node a gpu=1"), Config())[0].room) == "1 node, 1 GPU: 0 used, 1 free"
    assert room_text(of(cluster_of("node a cpu=1"), Config())[0].room) == "1 node, 1 CPU core: 0 used, 1 free"


def test_without_gpus_cores_are_told() -> None:
    cluster = cluster_of("node a cpu=8\nnode b cpu=8 cordoned\npod g-0 cpu=2.5")
    assert room_text(of(cluster, Config())[0].room) == (
        "2 nodes, 16 CPU cores: 2.5 used, 5.5 free, 8 on 1 unusable node"
    )


@pytest.mark.slow
@given(clusters())
def test_all_numbers_add_up(objects: list[Object]) -> None:
    """Room: the parts are the whole. Pods: each that is placed, waits or runs is counted once."""
    cluster, config = Cluster.of(objects), Config()
    result = run_cycle(cluster, config, PROPERTY_NOW_NS)
    found = overview(cluster, result, config, PROPERTY_NOW_NS)
    room = found.room
    assert room.used + room.free + room.apart == pytest.approx(room.total)
    assert min(room.free, room.apart) >= 0.0
    placed = Counter(type(each) for each in result.effects)
    assert sum(each.pods for each in found.placed if each.starts) == placed[Bind]
    assert sum(each.pods for each in found.placed if not each.starts) == placed[Pipeline]
    groups = [each.workload.group for each in found.running]
    groups += [workload.group for each in found.waiting for workload in each.workloads]
    assert len(groups) == len(set(groups)) <= len(result.groups)
    pending = {key for key, group in result.groups.items() if group.reason is not None}
    assert {workload.group for each in found.waiting for workload in each.workloads} == pending
    # Pods of a sub-group that does not exist wait, too, and are in no count of their group.
    statuses = {key: state.status for key, state in result.pods.items()}
    waits = [key for key, group in workloads_of(cluster).pods.items() if group in pending]
    assert found.waiting_pods == sum(statuses.get(key) in ("Pending", "Gated") for key in waits)
    counts = [group.counts.get(status, 0) for group in result.groups.values() for status in ("Pending", "Gated")]
    assert found.waiting_pods >= sum(counts)
    assert sum(each.pods for each in found.headlines) == placed[Evict]


@given(st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(random: object) -> None:
    objects = [item for name in ("nodes", "queues", "pod_groups", "pods") for item in getattr(CLUSTER, name).values()]
    random.shuffle(objects)  # type: ignore[attr-defined]
    assert of(Cluster.of(objects), Config())[0] == of(CLUSTER, Config())[0]
