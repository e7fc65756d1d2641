"""Changes as people write them: each flag that a change prints reads back as that change, and what is wrong is told."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Config
from kai_sched.answers.changes import NODES_MAX, SHARE_FIELDS, SHARES, AddNodes, Change, SetQueue
from kai_sched.answers.what_if import read_new_nodes, read_setting
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
)
from kai_sched.answers.workloads import workloads_of
from kai_sched.model.field_errors import FieldError
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.objects import UNLIMITED, Topology, TopologyConstraint
from kai_sched.model.store import Store
from tests.scenarios.table import cluster_of

CLUSTER = cluster_of("""
    node ip-10-0-0-1.eu.internal gpu=8
    queue dep
    queue team.a parent=dep
    queue team-b parent=dep
    priorityclass high value=100
    group pg-tune-1 owner=RayCluster/tune queue=team.a tree="head*1 gpu.work*2"
    pod tune-head group=pg-tune-1 sub=head
    pod tune-work group=pg-tune-1 sub=gpu.work
    group tune queue=team.a
    pod twin queue=team.a group=
    group twin queue=team.a
    group part queue=team.a
    pod part-0 group=part part=0.5
""")
WORKLOADS = workloads_of(CLUSTER)
GROUPS = ["ns/pg-tune-1", "ns/tune", "ns/twin", bare_pod_group_key("ns/twin")]

queues = st.sampled_from(sorted(CLUSTER.queues))
groups = st.sampled_from(GROUPS)
# What can be written exactly: GPUs and weights are any number, CPU is in whole millicores, memory in whole bytes.
whole = st.integers(0, 10**15).map(float)
amounts = st.one_of(
    st.builds(SetQueue, queues, st.just("gpu"), st.sampled_from(SHARE_FIELDS), st.floats(0, 1e6)),
    st.builds(SetQueue, queues, st.sampled_from(("cpu", "memory")), st.sampled_from(("quota", "limit")), whole),
    st.builds(SetQueue, queues, st.sampled_from(SHARES), st.just("weight"), st.floats(0, 1e6)),
    st.builds(SetQueue, queues, st.sampled_from(SHARES), st.sampled_from(("quota", "limit")), st.just(UNLIMITED)),
)
of_workloads = st.one_of(
    st.builds(PodGpus, groups, st.integers(1, 10**4).map(float)),
    st.builds(PodGpus, st.just("ns/part"), st.floats(1e-3, 1.0)),
    st.builds(PodCount, groups, st.integers(1, 10**6)),
    st.builds(Minimum, groups, st.integers(1, 10**6)),
    st.builds(Minimum, st.just("ns/pg-tune-1"), st.integers(1, 99), st.sampled_from(("head", "gpu.work"))),
    st.builds(WithoutDemand, groups, st.sampled_from(DEMANDS)),
    st.builds(Tolerate, groups, st.sampled_from(("nvidia.com/gpu", "a.b", "key"))),
    st.builds(Preemptible, groups),
    st.builds(InClass, groups, st.just("high")),
    st.builds(InQueue, groups, st.sampled_from(("team.a", "team-b"))),
)


def read(text: str) -> Change:
    return read_setting(text, CLUSTER, Config(), WORKLOADS)


@given(st.one_of(amounts, of_workloads))
def test_the_flag_of_a_change_reads_back_as_the_change(change: Change) -> None:
    flag, _, value = change.flag.partition(" ")
    assert flag == "--set"
    assert read(value) == change


@given(st.builds(AddNodes, st.integers(1, NODES_MAX), st.just("ip-10-0-0-1.eu.internal")))
def test_the_flag_of_new_nodes_reads_back_as_the_change(change: AddNodes) -> None:
    flag, _, value = change.flag.partition(" ")
    assert flag == "--add-nodes"
    assert read_new_nodes(value, CLUSTER) == change


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("queue/team.a.gpu.quota=8", SetQueue("team.a", "gpu", "quota", 8.0)),
        ("queue/team.a.gpu.quota=-1", SetQueue("team.a", "gpu", "quota", UNLIMITED)),
        ("queue/dep.cpu.limit=64", SetQueue("dep", "cpu", "limit", 64_000.0)),
        ("queue/dep.cpu.limit=500m", SetQueue("dep", "cpu", "limit", 500.0)),
        ("queue/dep.memory.quota=2Pi", SetQueue("dep", "memory", "quota", 2 * 2.0**50)),
        ("queue/dep.memory.quota=1G", SetQueue("dep", "memory", "quota", 1e9)),
        ("workload/raycluster/tune.gpus=4", PodGpus("ns/pg-tune-1", 4.0)),
        ("workload/tune-work.pods=4", PodCount("ns/pg-tune-1", 4)),
        ("workload/raycluster/tune.head.minMember=2", Minimum("ns/pg-tune-1", 2, "head")),
    ],
)
def test_people_write_it_in_units_of_kubernetes(text: str, change: Change) -> None:
    assert read(text) == change


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("queue/dep.gpu.quota", "'queue/dep.gpu.quota' is no setting: write it as queue/NAME.gpu.quota=8, "),
        ("dep.gpu.quota=8", "is no setting: write it as queue/NAME.gpu.quota=8, workload/NAME.gpus=4"),
        ("node/a.gpu=8", "is no setting: write it as"),
        ("queue/dep.gpus.quota=8", "write queue/NAME.(gpu|cpu|memory).(quota|limit|weight)=VALUE"),
        ("queue/dep=8", "write queue/NAME.(gpu|cpu|memory).(quota|limit|weight)=VALUE"),
        ("queue/depp.gpu.quota=8", "there is no queue 'depp': did you mean 'dep'?"),
        ("queue/dep.gpu.quota=many", "'many' is not a number from 0 on, or unlimited"),
        ("queue/dep.gpu.quota=-2", "'-2' is not a number from 0 on, or unlimited"),
        ("queue/dep.gpu.quota=nan", "'nan' is not a number"),
        ("queue/dep.gpu.quota=inf", "'inf' is not a number"),
        ("queue/dep.gpu.weight=unlimited", "'unlimited' is not a number from 0 on"),
        ("queue/dep.cpu.quota=8Q", "'8Q' is not a quantity such as 64 or 512Gi from 0 on, or unlimited"),
        ("queue/dep.memory.quota=-1Gi", "'-1Gi' is not a quantity"),
        ("workload/raycluster/tune.gpu=4", "is no setting of a workload: the fields are gpus, pods, minMember, "),
        ("workload/gpus=4", "is no setting of a workload"),
        ("workload/nothing.gpus=4", "there is no workload 'nothing'"),
        ("workload/raycluster/tune.gpus=0", "'0' is not a number of GPUs above 0"),
        ("workload/raycluster/tune.gpus=x", "'x' is not a number of GPUs above 0"),
        ("workload/raycluster/tune.gpus=1.5", "tune.gpus=1.5': a part of a GPU is below 1: write a whole number"),
        ("workload/raycluster/tune.gpus=0.5", "tune.gpus=0.5': its pods ask for whole GPUs: write a whole number"),
        ("workload/raycluster/tune.pods=0", "'0' is not a whole number from 1 on"),
        ("workload/raycluster/tune.pods=1.5", "'1.5' is not a whole number from 1 on"),
        ("workload/raycluster/tune.queue=dep", "there is no leaf queue 'dep'"),
        ("workload/raycluster/tune.queue=team-c", "there is no leaf queue 'team-c': did you mean 'team-b'?"),
        ("workload/raycluster/tune.priorityClassName=hig", "there is no priority class 'hig': did you mean 'high'?"),
        ("workload/raycluster/tune.preemptibility=no", "write preemptible"),
        ("workload/raycluster/tune.nodeSelector=a", "only nodeSelector=none can be written, which leaves it out"),
        ("workload/raycluster/tune.tolerations=", "write the key of a taint"),
        ("workload/raycluster/tune.haed.minMember=1", "there is no sub-group 'haed': did you mean 'head'?"),
    ],
)
def test_what_is_wrong_is_told_with_the_flag_and_the_remedy(text: str, told: str) -> None:
    with pytest.raises(FieldError) as error:
        read(text)
    assert error.value.field == "--set"
    assert told in error.value.message


@pytest.mark.parametrize("text", ["2", "2:a", "x:like=a", "-1:like=a", "2:like=", "0:like=ip-10-0-0-1.eu.internal"])
def test_new_nodes_are_a_number_and_a_node(text: str) -> None:
    with pytest.raises(FieldError) as error:
        read_new_nodes(text, CLUSTER)
    assert error.value.field == "--add-nodes"


class TestTopology:
    CONSTRAINED = Store.of(CLUSTER)
    CONSTRAINED.put(Topology("t", levels=("zone", "rack"), aliases=("z", "")))
    CONSTRAINED.put(replace(CLUSTER.pod_groups["ns/tune"], topology=TopologyConstraint("t", "rack")))

    def read(self, text: str) -> Change:
        cluster = self.CONSTRAINED.cluster()
        return read_setting(text, cluster, Config(), workloads_of(cluster))

    @pytest.mark.parametrize(("value", "level"), [("zone", "zone"), ("z", "z"), ("none", "")])
    def test_a_level_or_none_is_required(self, value: str, level: str) -> None:
        change = self.read(f"workload/ns/tune.requiredTopologyLevel={value}")
        assert change == RequiredLevel("ns/tune", level)
        assert self.read(change.flag.partition(" ")[2]) == RequiredLevel("ns/tune", level)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("workload/ns/tune.requiredTopologyLevel=", "write a level of the topology, or none"),
            ("workload/ns/tune.requiredTopologyLevel=row", "level of Topology t 'row'"),
            ("workload/ns/part.requiredTopologyLevel=zone", "the workload requires no level of a topology"),
        ],
    )
    def test_what_cannot_be_required_is_told(self, text: str, told: str) -> None:
        with pytest.raises(FieldError, match=re.escape(told)):
            self.read(text)
