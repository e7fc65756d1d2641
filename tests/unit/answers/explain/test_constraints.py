"""What blocks a group, by kind, with its numbers; each named alone if it is enough to take it away, else together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Config
from kai_sched.answers.explain.constraints import node_word
from kai_sched.model.objects import Pod
from tests.scenarios.table import cluster_of
from tests.unit.answers.explain.explained import constraints, explanation, flags, suggested


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("node n gpu=8\nqueue q\ngroup g queue=none\npod g-0", "queue", "there is no queue 'none'"),
        (
            "node n gpu=8\nqueue q gpu=2/2\npod g-0 gpu=4",
            "limit",
            "limit: queue q may hold 2 GPUs; it holds 0, and this asks for 4 GPUs",
        ),
        (
            "node n gpu=8\nqueue q gpu=2\ngroup g preemptible=no\npod g-0 gpu=4",
            "quota",
            "quota: it is not preemptible, so it has to stay within the quota of its queue and of those above it; "
            "q has 2 GPUs, of which 0 are held, and this asks for 4",
        ),
        ("node n gpu=8 labels=zone:x\npod g-0 selector=zone:y", "demand", "node selector: zone=y"),
        (
            'node n gpu=8 labels=zone:x\npod g-0 affinity="zone In y"',
            "demand",
            "node affinity: it is required, and leaves too few nodes",
        ),
        ("node n gpu=8 taints=gpu:yes:NoSchedule\npod g-0 gpu=1", "demand", "taint: gpu is not tolerated"),
        (
            "node n gpu=8\nnode c gpu=8 cordoned\nnode d gpu=8 bad=NotReady\nnode cpu\n"
            "group r preemptible=no\npod r-0 gpu=8 on=n\npod g-0 gpu=8",
            "room",
            "room: 1 GPU node cordoned (c), 1 full, 1 not ready (d); 1 without GPUs",
        ),
        (
            "node n gpu=16\nqueue rich gpu=8\nqueue poor gpu=4/-1/0\ngroup over queue=rich min=1\n"
            "pod over-0..3 gpu=4 on=n\ngroup g queue=poor\npod g-0 gpu=6",
            "claim",
            "claim: poor may claim 4 GPUs (quota 4), and needs 6, so nobody is evicted for it",
        ),
    ],
)
def test_each_kind_with_its_numbers(text: str, kind: str, told: str) -> None:
    found = explanation(text)
    assert [(each.text, each.necessary) for each in found.constraints if each.kind == kind] == [(told, True)]


def test_room_that_no_numa_zone_has_is_told_as_that() -> None:
    text = 'node a gpu=4\nzones a each=gpu:2\npod r-0 gpu=1 on=a in="0=gpu:1" aligned=gpu:1\n'
    text += (
        'pod s-0 gpu=1 on=a in="1=gpu:1" aligned=gpu:1\nnode b gpu=4\npod t-0 gpu=4 on=b\npod g-0 gpu=2 aligned=gpu:2'
    )
    found = explanation(text, config=replace(Config(), plugins={**Config().plugins, "numa": {}}))
    texts = {each.kind: each.text for each in found.constraints}
    assert texts["room"] == "room: 1 GPU node full, 1 with room for a pod, but not in its NUMA zones"
    assert texts["numa"] == "NUMA: 1 node refuses pods that do not fit its zones"
    assert suggested(found)["numaAlignment"] == ["topologyManagerPolicy best-effort on nodes"]
    assert flags(found, "numaAlignment") == ["--set workload/ns/g.numaAlignment=none"]


def test_what_blocks_it_only_together_is_told_as_that() -> None:
    found = explanation("node a gpu=8 labels=zone:x taints=gpu:yes:NoSchedule\npod g-0 gpu=1 selector=zone:y")
    assert constraints(found) == [("demand", False), ("demand", False)]


def test_what_is_not_needed_is_not_told() -> None:
    """It asks for a zone that every node is in, and tolerates the only taint."""
    found = explanation("""
        node a gpu=8 labels=zone:x taints=gpu:yes:NoSchedule
        queue q gpu=2/2
        pod g-0 gpu=4 selector=zone:x tolerates=gpu:Exists
    """)
    assert constraints(found) == [("limit", True)]


def test_what_nothing_takes_away_has_no_constraint() -> None:
    found = explanation("node n gpu=8\npod g-0 gpu=1 configmaps=none")
    assert found.constraints == ()
    assert found.reason is not None
    assert "ConfigMap ns/none does not exist" in found.reason.message


@pytest.mark.parametrize(
    ("node", "pod", "word"),
    [
        ("gpu=8 bad=NotReady", "gpu=1", "not ready"),
        ("gpu=8 cordoned", "gpu=1", "cordoned"),
        ("gpu=8 taints=gpu:yes:NoSchedule", "gpu=1", "with a taint that is not tolerated"),
        ("gpu=8 labels=zone:x", "gpu=1 selector=zone:y", "not matched by its node selector"),
        ("gpu=8 labels=zone:x", 'gpu=1 affinity="zone In y"', "not matched by its node affinity"),
        ("gpu=8", "gpu=16", "full"),
        ("gpu=8", "gpu=8", "with room for a pod"),
    ],
)
def test_why_a_node_does_not_take_a_pod(node: str, pod: str, word: str) -> None:
    cluster = cluster_of(f"node n {node}\npod g-0 {pod}")
    asked: Pod = cluster.pods["ns/g-0"]
    assert node_word(cluster.nodes["n"], asked, dict(cluster.nodes["n"].allocatable)) == word


def test_room_that_cannot_attach_the_volumes_of_the_pod_is_told_as_that() -> None:
    """A node of the same kind, which can attach one, too, would help."""
    text = "node a gpu=8\ncsinode a most=disk:1\npv one claim=c1 driver=disk\npv two claim=c2 driver=disk\n"
    text += "pvc c1 volume=one\npvc c2 volume=two\npod r-0 gpu=1 claims=c1 on=a\npod g-0 gpu=1 claims=c2"
    found = explanation(text)
    assert [each.text for each in found.constraints] == [
        "room: 1 GPU node with room for a pod, but not for its volumes"
    ]
    assert "1 more node like a" in [text for texts in suggested(found).values() for text in texts]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("group g queue=none", "there is no queue 'none'"),
        ("group g queue=", "it names no queue"),
        ("queue x parent=gone\ngroup g queue=x", "queue 'x' is ignored, as there is no queue 'gone'"),
        ("queue x parent=y\nqueue y parent=x\ngroup g queue=x", "queue 'x' is ignored, as its parents form a cycle"),
        ("queue x labels=kai.scheduler/node-pool:a\ngroup g queue=x", "queue 'x' is in node pool a"),
    ],
)
def test_a_queue_that_the_scheduler_does_not_know(text: str, told: str) -> None:
    found = explanation(f"node a gpu=8\nqueue q\n{text} prio=60\npod g-0 gpu=1")
    assert [(each.text, each.necessary) for each in found.constraints] == [(told, True)]
    assert (found.priority, found.preemptible) == (60, True)
    assert suggested(found)["queue"][0].startswith("queue q instead of ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "pod g gpu=1 group= queue=q foreign=other",
            "its pods name the scheduler 'other', and this is 'kai-scheduler'",
        ),
        ("group g labels=kai.scheduler/node-pool:b\npod g-0 gpu=1", "no SchedulingShard has node pool 'b', so"),
    ],
)
def test_what_no_cycle_sees_is_told_as_that(text: str, told: str) -> None:
    found = explanation(f"node a gpu=8\nqueue q\n{text}")
    (only,) = found.constraints
    assert (only.kind, only.text.startswith(told), only.without) == ("unseen", True, ())
    assert found.queue == "q"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node a gpu=4 cpu=8\npod r-0 cpu=8 on=a\npod g-0 gpu=1 cpu=1", "room: 1 GPU node with too little CPU"),
        (
            "node a gpu=4\npod r-0 gpu=1 on=a ports=80\npod g-0 gpu=1 ports=80",
            "room: 1 GPU node with room for a pod, but host port taken",
        ),
    ],
)
def test_what_is_short_where_gpus_are_free(text: str, told: str) -> None:
    assert [each.text for each in explanation(f"queue q\n{text}").constraints if each.kind == "room"] == [told]


def test_a_topology_that_is_missing_is_named() -> None:
    found = explanation("node a gpu=4\nqueue q\ngroup g queue=q topology=racks required=rack\npod g-0 gpu=1")
    assert [each.text for each in found.constraints] == ["Topology 'racks' does not exist: there is none"]
