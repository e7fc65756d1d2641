"""What is wrong with a cluster as a whole."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from kai_sched.model.checks import ALIKE_MAX, leaf_queues, limited, problems_of
from kai_sched.model.config import Config
from kai_sched.model.objects import (
    ConfigMap,
    Node,
    Object,
    Phase,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    Shape,
    SubGroup,
)
from kai_sched.model.problems import Problem
from kai_sched.model.store import Cluster

OURS = "kai-scheduler"


def queues(*pairs: str) -> list[Queue]:
    """From "child<parent" or "root"."""
    return [Queue(name, parent=parent) for name, _, parent in (pair.partition("<") for pair in pairs)]


def pods(count: int, group: str = "g", sub_group: str = "", **more: Any) -> list[Pod]:
    return [
        Pod("ml", f"{group}-{sub_group}{number}", Shape(), group=group, sub_group=sub_group, **more)
        for number in range(count)
    ]


def told(objects: Iterable[Object], config: Config | None = None) -> list[Problem]:
    return problems_of(Cluster.of(objects), config or Config())


def texts(objects: Iterable[Object]) -> list[str]:
    return [str(problem) for problem in told(objects)]


def test_a_sound_cluster_has_no_problems() -> None:
    group = PodGroup("ml", "g", queue="a", min_member=2, priority_class="train")
    assert told([*queues("d", "a<d"), Node("n"), PriorityClass("train", 50), group, *pods(2, node="n")]) == []


class TestQueues:
    def test_a_cycle_is_fatal_and_named_whole_from_its_smallest_name(self) -> None:
        (found,) = told(queues("c<b", "b<a", "a<c", "tail<c", "sound"))
        assert found.fatal
        assert (found.subject, found.field) == ("Queue a", "spec.parentQueue")
        assert "(a -> c -> b -> a)" in found.message

    def test_each_cycle_is_told_once_one_of_a_single_queue_too(self) -> None:
        found = told(queues("x<y", "y<x", "self<self"))
        assert [problem.subject for problem in found] == ["Queue self", "Queue x"]

    def test_an_unknown_parent_leaves_the_whole_subtree_out(self) -> None:
        (found,) = told(queues("d<gone", "a<d", "b<a", "sound"))
        assert not found.fatal
        assert (found.subject, found.field) == ("Queue d", "spec.parentQueue")
        assert "'gone'" in found.message
        assert "a, b" in found.message

    def test_leaves(self) -> None:
        cluster = Cluster.of(queues("d", "b<d", "a<d", "root", "lost<gone", "below<lost"))
        assert leaf_queues(cluster, Config()) == ["a", "b", "root"]
        assert leaf_queues(cluster, Config(full_hierarchy_fairness=False)) == ["a", "b"]


class TestQueueOfAGroup:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("x", "no queue 'x'"),
            ("", "names no queue"),
            ("d", "queue 'd' has child queues and accepts no pods itself"),
            ("below", "queue 'below' is ignored"),
        ],
    )
    def test_the_value_and_the_leaves_are_named(self, name: str, words: str) -> None:
        objects = [*queues("d", "b<d", "a<d", "lost<gone", "below<lost"), PodGroup("ml", "g", queue=name, min_member=0)]
        found = [problem for problem in told(objects) if problem.subject == "PodGroup ml/g"]
        assert [(problem.field, problem.fatal) for problem in found] == [("spec.queue", False)]
        assert words in found[0].message
        assert "a, b" in found[0].message

    def test_at_most_ten_leaves_are_named(self) -> None:
        objects = [*queues(*(f"q{number:02}" for number in range(13))), PodGroup("ml", "g", queue="x", min_member=0)]
        (text,) = texts(objects)
        assert "q09 and 3 more" in text
        assert "q10" not in text

    def test_without_any_queue(self) -> None:
        (text,) = texts([PodGroup("ml", "g", queue="x", min_member=0)])
        assert "there is no queue that accepts pods" in text

    def test_a_pod_of_its_own(self) -> None:
        bare = [Pod("ml", "lone", Shape(), queue="x", scheduler=OURS), Pod("ml", "none", Shape(), scheduler=OURS)]
        found = told([*queues("a"), *bare, Pod("ml", "other", Shape(), queue="x", scheduler="default-scheduler")])
        assert [(problem.subject, problem.field) for problem in found] == [
            ("Pod ml/lone", "metadata.labels[kai.scheduler/queue]"),
            ("Pod ml/none", "metadata.labels[kai.scheduler/queue]"),
        ]
        assert "'default-queue'" in found[1].message


class TestMinimum:
    def group(self, *subs: SubGroup, **more: int) -> list[Object]:
        return [*queues("a"), PodGroup("ml", "g", queue="a", sub_groups=subs, **more)]  # type: ignore[arg-type]

    def test_fewer_pods_than_the_minimum(self) -> None:
        (found,) = told([*self.group(min_member=4), *pods(3)])
        assert (found.subject, found.field) == ("PodGroup ml/g", "spec.minMember")
        assert "3 of 4 required pods" in found.message

    def test_without_a_minimum_one_pod_is_needed_and_with_zero_none(self) -> None:
        assert len(told(self.group())) == 1
        assert told(self.group(min_member=0)) == []

    def test_pods_that_failed_do_not_count_and_one_that_succeeded_ends_the_matter(self) -> None:
        assert len(told([*self.group(min_member=2), *pods(2, phase=Phase.FAILED)])) == 1
        assert told([*self.group(min_member=2), *pods(1, phase=Phase.SUCCEEDED)]) == []

    def test_sub_groups_count_their_own_pods(self) -> None:
        subs = (SubGroup("head", min_member=1), SubGroup("work", min_member=2))
        assert told([*self.group(*subs, min_member=99), *pods(1, sub_group="head"), *pods(2, sub_group="work")]) == []
        (found,) = told([*self.group(*subs), *pods(2, sub_group="work")])
        assert (found.field, "sub-group head has 0 of 1 pods" in found.message) == ("spec.subGroups", True)

    def test_min_sub_group_asks_for_so_many_and_no_more(self) -> None:
        subs = (SubGroup("a", min_member=1), SubGroup("b", min_member=1), SubGroup("c", min_member=1))
        assert told([*self.group(*subs, min_sub_group=1), *pods(1, sub_group="b")]) == []
        assert len(told([*self.group(*subs, min_sub_group=2), *pods(1, sub_group="b")])) == 1
        assert (
            "larger than the number of sub-groups"
            in texts([*self.group(SubGroup("a", min_member=0), min_sub_group=2)])[0]
        )

    def test_nested_sub_groups(self) -> None:
        subs = (
            SubGroup("set", min_sub_group=1),
            SubGroup("x", "set", min_member=1),
            SubGroup("y", "set", min_member=1),
            SubGroup("z", min_member=0),
        )
        assert told([*self.group(*subs), *pods(1, sub_group="y")]) == []
        assert len(told(self.group(*subs))) == 1

    @pytest.mark.parametrize(
        ("subs", "field", "words"),
        [
            ((SubGroup("a"), SubGroup("a")), "spec.subGroups[0].name", "occurs 2 times"),
            ((SubGroup("a", "b"),), "spec.subGroups[0].parent", "no sub-group 'b'"),
            ((SubGroup("", "a"), SubGroup("a")), "spec.subGroups[0].name", "empty"),
            ((SubGroup("a", "b"), SubGroup("b", "a")), "spec.subGroups[0].parent", "its own ancestor"),
            (
                (SubGroup("z"), SubGroup("c", "a"), SubGroup("a", "b"), SubGroup("b", "a")),
                "spec.subGroups[1].parent",
                "its own ancestor",
            ),
        ],
    )
    def test_sub_groups_that_are_no_tree(self, subs: tuple[SubGroup, ...], field: str, words: str) -> None:
        (found,) = told([*self.group(*subs), *pods(1)])
        assert found.field == field
        assert words in found.message


class TestPods:
    BASE = (*queues("a"), PodGroup("ml", "g", queue="a", min_member=0, sub_groups=(SubGroup("s", "", 0),)))

    def one(self, pod: Pod) -> Problem:
        (found,) = told([*self.BASE, pod])
        assert not found.fatal
        return found

    def test_on_a_node_that_is_not_there(self) -> None:
        found = self.one(Pod("ml", "p", Shape(), group="g", sub_group="s", node="gone"))
        assert (found.subject, found.field, "'gone'" in found.message) == ("Pod ml/p", "spec.nodeName", True)

    def test_of_a_group_that_does_not_exist(self) -> None:
        found = self.one(Pod("ml", "p", Shape(), group="h"))
        assert (found.field, "'ml/h'" in found.message) == ("metadata.annotations[pod-group-name]", True)

    def test_of_a_group_of_that_name_in_another_namespace(self) -> None:
        assert "'other/g'" in self.one(Pod("other", "p", Shape(), group="g")).message

    @pytest.mark.parametrize("name", ["t", ""])
    def test_of_a_sub_group_that_does_not_exist(self, name: str) -> None:
        found = self.one(Pod("ml", "p", Shape(), group="g", sub_group=name))
        assert found.field == "metadata.labels[kai.scheduler/subgroup-name]"
        assert f"'{name or 'default'}'" in found.message
        assert "use one of s" in found.message

    def test_a_sub_group_with_children_takes_no_pods(self) -> None:
        subs = (SubGroup("set"), SubGroup("leaf", "set", 0))
        group = PodGroup("ml", "g", queue="a", sub_groups=subs)
        (found,) = told([*queues("a"), group, Pod("ml", "p", Shape(), group="g", sub_group="set")])
        assert "use one of leaf" in found.message

    def test_finished_pods_are_of_no_concern(self) -> None:
        pod = Pod("ml", "p", Shape(), group="h", node="gone", phase=Phase.SUCCEEDED)
        assert told([*self.BASE, pod]) == []

    def test_an_unknown_priority_class(self) -> None:
        group = PodGroup("ml", "h", queue="a", min_member=0, priority_class="train")
        bare = Pod("ml", "p", Shape(), queue="a", scheduler=OURS, priority_class="build")
        found = told([*self.BASE, group, bare, PriorityClass("inference", 125)])
        assert [(problem.subject, problem.field) for problem in found] == [
            ("Pod ml/p", "spec.priorityClassName"),
            ("PodGroup ml/h", "spec.priorityClassName"),
        ]

    def test_kinds_that_the_input_lacks_altogether(self) -> None:
        needy = Shape(config_maps=("ml/c",), claims=("ml/d",))
        objects = [*queues("a"), *(Pod("ml", f"p{n}", needy, queue="a", scheduler=OURS) for n in range(2))]
        found = told(objects)
        assert [problem.subject for problem in found] == ["ConfigMap", "PersistentVolumeClaim"]
        assert "2 pending pods need one" in found[0].message
        assert [problem.subject for problem in told([*objects, ConfigMap("ml", "x")])] == ["PersistentVolumeClaim"]


def test_any_order_of_the_objects_gives_the_same_problems() -> None:
    objects: list[Object] = [
        *queues("d<gone", "a<d", "b", "c<b"),
        *(PodGroup("ml", f"g{number}", queue=f"q{number}", min_member=number) for number in range(5)),
        *pods(3, "g1", node="n1"),
        *pods(3, "g9"),
        *(Pod("ml", f"lone{number}", Shape(), scheduler=OURS, queue="b") for number in range(3)),
    ]
    expected = told(objects)
    assert len(expected) > 10
    for seed in range(5):
        random.Random(seed).shuffle(objects)
        assert told(objects) == expected


def test_many_findings_of_one_kind_are_cut_short_and_counted() -> None:
    many = [
        Problem("f", f"Pod ml/p{number}", f"spec.x[{number}]", f"no node 'n{number}'")
        for number in range(ALIKE_MAX + 5)
    ]
    other = [Problem("f", "Queue a", "spec.parentQueue", "x", fatal=True)]
    found = limited([*many, *other, *other])
    assert found[: ALIKE_MAX + 1] == [*many[:ALIKE_MAX], *other]
    assert [str(problem) for problem in found[ALIKE_MAX + 1 :]] == ["Pod: spec.x: 5 more like this"]
