"""Changes of one workload by its user: only its pods that wait change, and of these only what is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Cluster
from kai_sched.answers.changes import Change, changed
from kai_sched.answers.goal import group_pods
from kai_sched.answers.workload_changes import (
    DEMANDS,
    InClass,
    InQueue,
    Minimum,
    PodCount,
    PodGpus,
    Preemptible,
    RequiredLevel,
    Tolerate,
    WithoutDemand,
    waits,
)
from kai_sched.api.names import PREEMPTIBILITY_LABEL
from kai_sched.model.constraints import Toleration
from kai_sched.model.objects import Pod, TopologyConstraint
from kai_sched.model.store import Store
from tests.scenarios.table import cluster_of

GANG = cluster_of("""
    node a gpu=8
    queue q
    queue r
    group g queue=q min=3
    pod g-0 gpu=2 on=a
    pod g-1..2 gpu=4 selector=zone:x affinity="disk In ssd" near="app In a @ zone" apart="app In b @ zone" aligned=gpu:4
    pod g-3 part=0.5
    pod lone queue=q group= gpu=4
""")
_store = Store.of(GANG)
_store.put(replace(GANG.pod_groups["ns/g"], topology=TopologyConstraint("t", "rack")))
GANG = _store.cluster()
TREE = cluster_of("""
    group t tree="head*1 work*3"
    pod t-0 sub=head cpu=1
    pod t-1..4 sub=work gpu=1
""")


def after(change: Change, cluster: Cluster = GANG) -> Cluster:
    return changed(cluster, [change]).cluster()


def pods(cluster: Cluster, group: str = "ns/g") -> dict[str, Pod]:
    return {pod.name: pod for pod in group_pods(cluster.pods, cluster.pod_groups, group)}


def gpus(cluster: Cluster, group: str = "ns/g") -> dict[str, float]:
    return {name: dict(pod.shape.request).get("gpu", 0.0) for name, pod in pods(cluster, group).items()}


@pytest.mark.parametrize(
    "change",
    [
        PodGpus("ns/g", 1.0),
        PodCount("ns/g", 2),
        Minimum("ns/g", 1),
        Tolerate("ns/g", "gpu"),
        Preemptible("ns/g"),
        InClass("ns/g", "high"),
        InQueue("ns/g", "r"),
        RequiredLevel("ns/g", "zone"),
        *(WithoutDemand("ns/g", demand) for demand in DEMANDS),
    ],
    ids=lambda change: change.flag,
)
def test_what_runs_and_what_others_have_stays_as_it_is(change: Change) -> None:
    found = after(change)
    assert found.pods["ns/g-0"] == GANG.pods["ns/g-0"]
    assert found.pods["ns/lone"] == GANG.pods["ns/lone"]
    assert (dict(found.nodes), dict(found.queues)) == (dict(GANG.nodes), dict(GANG.queues))
    assert tuple(found.pods) or tuple(found.pod_groups)
    assert dict(found.pods) != dict(GANG.pods) or dict(found.pod_groups) != dict(GANG.pod_groups)


def test_each_pod_asks_for_at_most_so_many_gpus() -> None:
    assert gpus(after(PodGpus("ns/g", 3.0))) == {"g-0": 2.0, "g-1": 3.0, "g-2": 3.0, "g-3": 0.0}
    assert gpus(after(PodGpus("ns/lone", 1.0)), "ns/lone") == {"lone": 1.0}


def test_a_part_of_a_gpu_becomes_a_smaller_part() -> None:
    share = pods(after(PodGpus("ns/g", 0.2)))["g-3"].shape.share
    assert share is not None
    assert share.portion == 0.2
    assert pods(after(PodGpus("ns/g", 0.9)))["g-3"].shape == GANG.pods["ns/g-3"].shape


def test_a_part_of_a_gpu_leaves_whole_ones_whole() -> None:
    mixed = cluster_of("""
        group g queue=q min=2
        pod g-0 gpu=1
        pod g-1 part=0.5
    """)
    found = pods(after(PodGpus("ns/g", 0.2), mixed))
    assert found["g-0"] == mixed.pods["ns/g-0"]
    assert found["g-1"].shape.share is not None
    assert found["g-1"].shape.share.portion == 0.2


def test_equal_shapes_stay_one_object() -> None:
    found = pods(after(PodGpus("ns/g", 3.0)))
    cluster = changed(GANG, [PodGpus("ns/g", 3.0)]).cluster()
    assert found["g-1"].shape == found["g-2"].shape
    assert pods(GANG)["g-1"].shape is not pods(GANG)["g-2"].shape or (
        pods(cluster)["g-1"].shape is pods(cluster)["g-2"].shape
    )


def test_pods_with_most_gpus_are_left_out_first_and_of_equal_ones_the_last() -> None:
    found = after(PodCount("ns/g", 3))
    assert set(pods(found)) == {"g-0", "g-1", "g-3"}
    assert found.pod_groups["ns/g"].min_member == 3
    assert set(pods(after(PodCount("ns/g", 2)))) == {"g-0", "g-3"}


def test_a_group_needs_no_more_pods_than_it_has_left() -> None:
    assert after(PodCount("ns/g", 2)).pod_groups["ns/g"].min_member == 2
    assert set(pods(after(PodCount("ns/g", 1)))) == {"g-0"}
    assert after(PodCount("ns/g", 1)).pod_groups["ns/g"].min_member == 1


def test_pods_that_run_are_not_left_out() -> None:
    running = cluster_of("node a gpu=8\ngroup g min=2\npod g-0..1 gpu=1 on=a\npod g-2 gpu=1")
    assert set(pods(after(PodCount("ns/g", 1), running))) == {"g-0", "g-1"}


def test_sub_groups_lose_workers_and_lower_their_minimum() -> None:
    found = after(PodCount("ns/t", 3), TREE)
    assert set(pods(found, "ns/t")) == {"t-0", "t-1", "t-2"}
    assert [(each.name, each.min_member) for each in found.pod_groups["ns/t"].sub_groups] == [("head", 1), ("work", 2)]


def test_the_minimum_of_a_group_or_of_one_sub_group() -> None:
    assert after(Minimum("ns/g", 1)).pod_groups["ns/g"].min_member == 1
    found = after(Minimum("ns/t", 1, "work"), TREE).pod_groups["ns/t"]
    assert [(each.name, each.min_member) for each in found.sub_groups] == [("head", 1), ("work", 1)]
    assert dict(after(Minimum("ns/lone", 1)).pods) == dict(GANG.pods)


@pytest.mark.parametrize(
    ("demand", "field", "empty"),
    [
        ("nodeSelector", "node_selector", ()),
        ("nodeAffinity", "node_affinity", None),
        ("podAffinity", "affinity", ()),
        ("podAntiAffinity", "anti_affinity", ()),
        ("numaAlignment", "numa", None),
    ],
)
def test_a_demand_is_left_out_and_no_other(demand: str, field: str, empty: object) -> None:
    before, found = pods(GANG)["g-1"], pods(after(WithoutDemand("ns/g", demand)))["g-1"]
    assert getattr(before.shape, field) != empty
    assert found == replace(before, shape=replace(before.shape, **{field: empty}))


def test_every_demand_has_a_case_above() -> None:
    nodes, others = ("nodeSelector", "nodeAffinity"), ("podAffinity", "podAntiAffinity")
    assert set(DEMANDS) == {*nodes, *others, "topologyConstraint", "numaAlignment"}


class TestTopology:
    RACK = TopologyConstraint("t", "rack", "")
    BOTH = TopologyConstraint("t", "rack", "host")
    PREFERS = TopologyConstraint("t", "", "rack")

    def constrained(self, *constraints: TopologyConstraint | None) -> Cluster:
        """TREE with the first constraint on the group and the others on its sub-groups."""
        group = TREE.pod_groups["ns/t"]
        subs = tuple(replace(sub, topology=each) for sub, each in zip(group.sub_groups, constraints[1:], strict=True))
        store = Store.of(TREE)
        store.put(replace(group, topology=constraints[0], sub_groups=subs))
        return store.cluster()

    def left(self, change: Change, *constraints: TopologyConstraint | None) -> list[TopologyConstraint | None]:
        group = after(change, self.constrained(*constraints)).pod_groups["ns/t"]
        return [group.topology, *(sub.topology for sub in group.sub_groups)]

    def test_all_constraints_go(self) -> None:
        assert self.left(WithoutDemand("ns/t", "topologyConstraint"), self.RACK, None, self.BOTH) == [None] * 3

    def test_a_wider_level_is_required_where_one_was(self) -> None:
        found = self.left(RequiredLevel("ns/t", "zone"), self.RACK, self.PREFERS, self.BOTH)
        zone = replace(self.RACK, required_level="zone")
        assert found == [zone, self.PREFERS, replace(self.BOTH, required_level="zone")]

    def test_a_required_level_is_preferred_unless_a_narrower_one_is(self) -> None:
        found = self.left(RequiredLevel("ns/t", ""), self.RACK, None, self.BOTH)
        assert found == [TopologyConstraint("t", "", "rack"), None, TopologyConstraint("t", "", "host")]

    def test_pods_without_a_group_have_none(self) -> None:
        assert dict(after(RequiredLevel("ns/lone", "zone")).pods) == dict(GANG.pods)


def test_a_taint_is_tolerated_by_its_key() -> None:
    assert pods(after(Tolerate("ns/g", "gpu")))["g-1"].shape.tolerations == (Toleration("gpu", "Exists"),)


def test_of_a_group_its_pod_group_has_class_queue_and_preemptibility() -> None:
    assert after(Preemptible("ns/g")).pod_groups["ns/g"].preemptible is True
    assert after(InClass("ns/g", "high")).pod_groups["ns/g"].priority_class == "high"
    assert after(InQueue("ns/g", "r")).pod_groups["ns/g"].queue == "r"


def test_of_a_bare_pod_the_pod_has_them() -> None:
    assert pods(after(Preemptible("ns/lone")), "ns/lone")["lone"].labels == {PREEMPTIBILITY_LABEL: "preemptible"}
    assert pods(after(InClass("ns/lone", "high")), "ns/lone")["lone"].priority_class == "high"
    assert pods(after(InQueue("ns/lone", "r")), "ns/lone")["lone"].queue == "r"


def test_a_pod_waits_until_it_has_a_node_or_leaves() -> None:
    cluster = cluster_of("""
        pod g-0
        pod g-1 on=a
        pod g-2 on=a status=Bound
        pod g-3 status=Succeeded
        pod g-4 status=Leaving
        pod g-5 status=Gated
    """)
    assert [waits(pod) for _, pod in sorted(cluster.pods.items())] == [True, False, False, False, False, True]
