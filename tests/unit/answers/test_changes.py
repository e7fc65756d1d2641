"""Changes of queues, nodes and whole workloads: what each does to the objects, what it refuses, and that a trial of it
leaves the cluster exactly as it was.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Cluster, Config, library
from kai_sched.answers.changes import (
    NODES_MAX,
    AddNodes,
    Change,
    Drain,
    Override,
    Remove,
    SetQueue,
    Uncordon,
    changed,
    taint_keys,
)
from kai_sched.answers.trial import Trials
from kai_sched.answers.workload_changes import (
    InClass,
    InQueue,
    Minimum,
    PodCount,
    PodGpus,
    Preemptible,
    Tolerate,
    WithoutDemand,
)
from kai_sched.model.constraints import Taint
from kai_sched.model.field_errors import FieldError
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.objects import UNLIMITED, Phase, Queue, Share
from kai_sched.model.selectors import admits
from kai_sched.model.store import TABLES
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

SCHEDULER = "kai-scheduler"
CLUSTER = cluster_of("""
    node a gpu=8 labels=kubernetes.io/hostname:a,zone:x,only:a taints=gpu:yes:NoSchedule
    node b gpu=8 cordoned taints=node.kubernetes.io/unschedulable::NoSchedule,gpu:yes:NoSchedule bad=NotReady
    queue q gpu=4/8/1 cpu=64
    queue other gpu=4
    priorityclass high value=100
    group runs queue=q min=2
    pod runs-0..1 gpu=2 on=a tolerates=gpu:Exists
    group waits queue=q min=2
    pod waits-0..1 gpu=4 tolerates=gpu:Exists
    pod daemon foreign=default-scheduler on=a
    pod alone queue=q group= gpu=1 on=a tolerates=gpu:Exists
    group alone queue=q
    pod leaves-0 gpu=1 on=a status=Releasing
""")
BARE = bare_pod_group_key("ns/alone")
EVERY: list[Change] = [
    SetQueue("q", "gpu", "quota", 16.0),
    AddNodes(2, "a"),
    Uncordon("b"),
    Drain("a", SCHEDULER),
    Remove("ns/runs"),
    Remove(BARE),
    Override("file.yaml", (Queue("q", parent="other"), Queue("new"))),
    PodGpus("ns/waits", 2.0),
    PodCount("ns/waits", 1),
    Minimum("ns/waits", 1),
    WithoutDemand("ns/waits", "nodeSelector"),
    Tolerate("ns/waits", "gpu"),
    Preemptible("ns/waits"),
    InClass("ns/waits", "high"),
    InQueue("ns/waits", "other"),
]


def after(*changes: Change, cluster: Cluster = CLUSTER) -> Cluster:
    return changed(cluster, changes).cluster()


def tables(cluster: Cluster) -> dict[str, dict[str, object]]:
    return {name: dict(getattr(cluster, name)) for name in TABLES.values()}


@pytest.mark.parametrize("change", EVERY, ids=lambda change: change.flag)
def test_a_trial_leaves_the_cluster_as_it_was(change: Change) -> None:
    trials = Trials(CLUSTER, Config(), NOW_NS)
    before = trials.outcome()
    tried = trials.outcome([change])
    assert tables(trials.cluster) == tables(CLUSTER)
    again = trials.outcome()
    assert tables(again.start) == tables(CLUSTER)
    assert (again.evicted, again.bound, again.cycles) == (before.evicted, before.bound, before.cycles)
    assert tables(again.end) == tables(before.end)
    alone = Trials(CLUSTER, Config(), NOW_NS).outcome([change])
    assert (tried.evicted, tried.bound, tables(tried.end)) == (alone.evicted, alone.bound, tables(alone.end))


def test_a_change_that_is_refused_leaves_the_cluster_as_it_was() -> None:
    trials = Trials(CLUSTER, Config(), NOW_NS)
    with pytest.raises(FieldError):
        trials.outcome([SetQueue("q", "gpu", "quota", 16.0), Drain("none", SCHEDULER)])
    assert tables(trials.outcome().start) == tables(CLUSTER)


def test_changed_makes_a_store_of_its_own() -> None:
    assert after(SetQueue("q", "gpu", "quota", 16.0)).queues["q"].gpu.quota == 16.0
    assert CLUSTER.queues["q"].gpu.quota == 4.0


def test_one_amount_of_a_queue_is_set_and_no_other() -> None:
    queue = after(SetQueue("q", "gpu", "limit", UNLIMITED)).queues["q"]
    assert queue == replace(CLUSTER.queues["q"], gpu=Share(4.0, UNLIMITED, 1.0))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (SetQueue("qq", "gpu", "quota", 1.0), "there is no queue 'qq': did you mean 'q'?"),
        (AddNodes(1, "aa"), "--add-nodes: there is no node 'aa'"),
        (AddNodes(0, "a"), "--add-nodes: 0 is not a number of nodes: give 1 to 10,000"),
        (AddNodes(NODES_MAX + 1, "a"), "--add-nodes: 10001 is not a number of nodes: give 1 to 10,000"),
        (Drain("aa", SCHEDULER), "--drain: there is no node 'aa'"),
        (Uncordon("bb"), "--uncordon: there is no node 'bb'"),
    ],
)
def test_names_that_do_not_exist_are_refused(change: Change, told: str) -> None:
    with pytest.raises(FieldError) as error:
        after(change)
    assert told in str(error.value)


def test_new_nodes_are_like_the_one_that_is_named_but_for_its_own_name() -> None:
    nodes = after(AddNodes(2, "a")).nodes
    assert set(nodes) == {"a", "b", "a-new-1", "a-new-2"}
    new = nodes["a-new-2"]
    assert new.allocatable == nodes["a"].allocatable
    assert new.labels == {"kubernetes.io/hostname": "a-new-2", "zone": "x", "only": "a-new-2"}
    assert new.taints == nodes["a"].taints


def test_new_nodes_accept_pods_also_if_the_one_that_is_named_does_not() -> None:
    new = after(AddNodes(1, "b")).nodes["b-new-1"]
    assert (new.takes_pods, [taint.key for taint in new.taints]) == (True, ["gpu"])


def test_names_of_new_nodes_are_free() -> None:
    twice = after(AddNodes(1, "a"), AddNodes(1, "a"))
    assert set(twice.nodes) == {"a", "b", "a-new-1", "a-new-2"}


def test_new_nodes_have_devices_of_their_own() -> None:
    cluster = cluster_of("""
        node a
        deviceclass gpu
        slice a devices=gpu-0,gpu-1
        pod g-0..2 own=gpu
    """)
    trials = Trials(cluster, Config(), NOW_NS, library.decide)
    assert trials.outcome().bound == ()
    found = trials.outcome([AddNodes(1, "a")])
    assert len(found.bound) == 3
    new = [each for each in found.start.resource_slices.values() if each.pool == "a-new-1"]
    assert [device.node for each in new for device in each.devices] == ["a-new-1", "a-new-1"]


def test_a_node_that_comes_back_is_schedulable_ready_and_without_the_taints_of_its_state() -> None:
    node = after(Uncordon("b")).nodes["b"]
    assert (node.takes_pods, [taint.key for taint in node.taints]) == (True, ["gpu"])


def test_pods_of_a_node_that_is_drained_wait_again_and_those_of_others_stay() -> None:
    found = after(Drain("a", SCHEDULER))
    assert found.nodes["a"].unschedulable
    assert {key: (pod.node, pod.phase) for key, pod in found.pods.items() if key.startswith("ns/runs")} == {
        "ns/runs-0": ("", Phase.PENDING),
        "ns/runs-1": ("", Phase.PENDING),
    }
    assert found.pods["ns/daemon"].node == "a"
    assert "ns/leaves-0" not in found.pods


def test_what_claims_of_drained_pods_held_is_free() -> None:
    cluster = cluster_of("""
        node a
        node b
        deviceclass gpu
        slice a devices=gpu-0
        slice b devices=gpu-1
        resourceclaim c gets=gpu had=gpu-0 on=a by=g-0
        pod g-0 devices=c on=a
    """)
    found = Trials(cluster, Config(), NOW_NS, library.decide).outcome([Drain("a", SCHEDULER)])
    assert found.end.pods["ns/g-0"].node == "b"


def test_a_workload_that_is_removed_is_gone_with_its_pods() -> None:
    found = after(Remove("ns/runs"))
    assert "ns/runs" not in found.pod_groups
    assert CLUSTER.pods.keys() - found.pods.keys() == {"ns/runs-0", "ns/runs-1"}


def test_a_bare_pod_is_removed_and_the_pod_group_of_its_name_is_not() -> None:
    found = after(Remove(BARE))
    assert CLUSTER.pods.keys() - found.pods.keys() == {"ns/alone"}
    assert "ns/alone" in found.pod_groups


def test_removing_what_is_gone_changes_nothing() -> None:
    assert tables(after(Remove("ns/none"))) == tables(CLUSTER)


def test_objects_of_a_file_replace_those_of_the_same_name_or_are_new() -> None:
    found = after(Override("file.yaml", (Queue("q", parent="other"), Queue("new"))))
    assert found.queues["q"] == Queue("q", parent="other")
    assert set(found.queues) == {"q", "other", "new"}


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (SetQueue("team.a", "gpu", "quota", 56.0), "--set queue/team.a.gpu.quota=56"),
        (SetQueue("q", "gpu", "limit", UNLIMITED), "--set queue/q.gpu.limit=unlimited"),
        (SetQueue("q", "cpu", "quota", 64_000.0), "--set queue/q.cpu.quota=64"),
        (SetQueue("q", "cpu", "quota", 2_500.0), "--set queue/q.cpu.quota=2500m"),
        (SetQueue("q", "memory", "quota", 512 * 2.0**30), "--set queue/q.memory.quota=512Gi"),
        (SetQueue("q", "memory", "quota", 1e9), "--set queue/q.memory.quota=1000000000"),
        (SetQueue("q", "cpu", "weight", 3.0), "--set queue/q.cpu.weight=3"),
        (AddNodes(2, "a"), "--add-nodes 2:like=a"),
        (Uncordon("b"), "--uncordon b"),
        (Drain("a", SCHEDULER), "--drain a"),
        (Remove("ns/runs"), "--remove ns/runs"),
        (Override("f.yaml", ()), "--override f.yaml"),
    ],
)
def test_each_change_has_its_flag(change: Change, flag: str) -> None:
    assert change.flag == flag


def test_taints_that_the_control_plane_sets_are_left_out() -> None:
    taints = [Taint("b", "", "NoSchedule"), Taint("a", "", "NoSchedule"), Taint("node.kubernetes.io/not-ready", "", "")]
    assert taint_keys(taints) == ["a", "b"]


def test_a_new_node_has_the_attach_limits_and_local_storage_of_the_other_one() -> None:
    """A segment of its zone reaches the new node as it is; that of its disk is copied."""
    cluster = cluster_of("""
        node a gpu=8 labels=kubernetes.io/hostname:a,zone:x
        csinode a most=disk:16
        capacity disk class=fast on="kubernetes.io/hostname In a" size=60
        capacity net class=shared on="zone In x" size=90
        queue q gpu=4
    """)
    found, copies = after(AddNodes(2, "a"), cluster=cluster), ("disk-a-new-1", "disk-a-new-2")
    assert {name: dict(each.most) for name, each in found.node_volumes.items()} == {
        name: {"disk": 16} for name in ("a", "a-new-1", "a-new-2")
    }
    assert sorted(found.storage_capacities) == [f"driver/{name}" for name in ("disk", *copies, "net")]
    for name, node in found.nodes.items():
        here = [each.size_bytes for each in found.storage_capacities.values() if admits(each.nodes, node)]
        assert sorted(size or 0.0 for size in here) == [60e9, 90e9], name
