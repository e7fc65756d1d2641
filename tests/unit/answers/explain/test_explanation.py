"""An explanation as a whole: what the group needs and has, its place in line, who holds what, and what changes cost."""

from __future__ import annotations

import pytest

from kai_sched.answers.explain.explanation import Needs, needs_text
from tests.unit.answers.explain.explained import explanation, suggested

CLUSTER = """
    node n gpu=16
    queue rich gpu=4
    queue poor gpu=4/-1/0
    priorityclass train value=50
    group over owner=Job/over queue=rich min=1
    pod over-0..2 gpu=4 on=n
    group first owner=Job/first queue=poor class=train
    pod first-0 gpu=8 age=90
    group g owner=RayCluster/tune queue=poor class=train min=2
    pod g-0 gpu=2 age=30
    pod g-1..2 gpu=4 age=40
"""


def test_who_it_is_and_what_it_needs() -> None:
    found = explanation(CLUSTER)
    assert (str(found.workload), found.queue) == ("RayCluster ns/tune", "poor")
    assert (found.priority_class, found.priority, found.preemptible) == ("train", 50, True)
    assert found.waits_s == 2400.0
    assert [(each.pods, each.gpus) for each in found.needs] == [(1, 2.0), (2, 4.0)]
    assert not found.starts


def test_the_place_in_line_and_who_comes_before() -> None:
    found = explanation(CLUSTER)
    assert ([each.name for each in found.earlier], found.waiting) == (["first"], 2)


def test_who_holds_the_gpus_and_what_of_it_is_over_quota() -> None:
    assert explanation(CLUSTER).holders == (("rich", 12.0, 8.0),)


def test_one_that_starts_needs_no_change() -> None:
    found = explanation("node n gpu=8\npod g-0 gpu=8")
    assert (found.starts, found.constraints, found.suggestions, found.nothing) == (True, (), (), ())
    assert found.after.text == "evicts nobody"


def test_one_that_starts_at_the_expense_of_others_says_so() -> None:
    found = explanation(CLUSTER.replace("poor gpu=4/-1/0", "poor gpu=16").replace("first-0 gpu=8", "first-0 gpu=1"))
    assert found.starts
    assert found.after.text.startswith("evicts over (rich): ")


def test_a_group_of_which_nothing_waits_is_explained_all_the_same() -> None:
    found = explanation("node n gpu=8\npod g-0 gpu=8 on=n")
    assert (found.running, found.needs, found.suggestions, found.reason) == (1, (), (), None)


@pytest.mark.parametrize(
    ("pods", "name", "text"),
    [
        ("pod g-0..1 gpu=4 on=n", "runs", "It runs: 2 pods, 8 GPUs, on n, up 40m."),
        ("pod g-0 cpu=1 on=n", "runs", "It runs: 1 pod on n, up 40m."),
        ("pod g-0..1 gpu=4 on=n\npod g-2 status=Failed on=n", "runs", "It runs: 2 pods, 8 GPUs, on n, up 40m."),
        ("pod g-0 gpu=4 on=n\npod g-1 gpu=8", "waits", ""),
        ("pod g-0 gpu=4 on=n status=Releasing", "leaves", "It is being deleted."),
        ("pod g-0..2 on=n status=Succeeded", "finished", "It has finished: 3 pods."),
        (
            "pod g-0 on=n status=Succeeded\npod g-1 on=n status=Failed",
            "finished",
            "It has finished: 2 pods, of which 1 failed.",
        ),
        ("", "empty", "It has no pods: what makes them has not made any, or they are gone."),
    ],
)
def test_what_it_does_if_it_does_not_wait(pods: str, name: str, text: str) -> None:
    aged = "\n".join(f"{line} age=40" if line else "" for line in pods.split("\n"))
    found = explanation(f"node n gpu=8\nqueue q gpu=8\ngroup g queue=q\n{aged}")
    assert (found.state.name, found.state.text) == (name, text)
    if name != "waits":
        assert (found.starts, found.needs, found.suggestions, found.when) == (False, (), (), None)


def test_one_that_runs_and_is_evicted_says_for_whom() -> None:
    found = explanation("""
        node n gpu=8
        queue rich gpu=0
        queue poor gpu=8
        group g queue=rich
        pod g-0 gpu=8 on=n
        group urgent owner=Job/urgent queue=poor
        pod urgent-0 gpu=8
    """)
    assert found.state.text.endswith(" The next cycles evict 1 pod of it for urgent.")


@pytest.mark.parametrize(
    ("pods", "never"),
    [
        ("pod g-0..1 gpu=4", False),  # there is room once both have ended
        ("pod g-0 gpu=16", True),
        ("pod g-0 gpu=1 selector=zone:x", True),
    ],
)
def test_it_never_starts_where_all_ends_together_are_not_enough(pods: str, never: bool) -> None:
    found = explanation(f"""
        node n gpu=8
        queue q gpu=8
        group one owner=Job/one queue=q
        pod one-0 gpu=4 on=n
        group two owner=Job/two queue=q
        pod two-0 gpu=4 on=n
        group g queue=q min=2
        {pods}
    """)
    assert found.when is not None
    assert found.when.never == never
    assert found.when.text.startswith("never" if never else "unknown, since no deadline is set on one, two")


def test_others_that_would_have_started_are_told_as_late() -> None:
    """With a limit of 8 instead of 4 it takes the room of the younger one."""
    found = explanation("""
        node n gpu=8
        queue q gpu=8/4
        queue r gpu=0
        group g queue=q age=90
        pod g-0 gpu=8
        group young owner=Job/young queue=r
        pod young-0 gpu=8 age=10
    """)
    costs = {each.kind: costs for each, costs in found.suggestions}
    assert [each.name for each in costs["limit"].late] == ["young"]
    assert costs["limit"].text == "evicts nobody; young then waits"


def test_pods_that_end_and_start_again_elsewhere_are_moved() -> None:
    """A class of 75 takes the pod of 50, which then starts on the other node."""
    found = explanation("""
        node a gpu=2
        node b gpu=2
        queue q gpu=4
        priorityclass high value=75
        group g queue=q prio=50
        group one owner=Job/one queue=q prio=50
        group two owner=Job/two queue=q prio=50
        pod one-0 gpu=1 on=a unsafe
        pod two-0 gpu=1 on=b unsafe
        pod g-0 gpu=2
    """)
    costs = {each.kind: costs.text for each, costs in found.suggestions}
    assert costs["priorityClass"].startswith("moves two (q): 1 pod, 1 GPU")


def test_the_background_that_makes_room_is_a_cost() -> None:
    found = explanation("""
        node a gpu=2
        queue q gpu=2
        group back owner=Job/back queue=q
        group g queue=q
        pod back-0 gpu=1 on=a background
        pod g-0 gpu=2
    """)
    assert found.starts
    assert found.after.text.startswith("evicts back (q): 1 pod, 1 GPU")


def test_what_happens_without_the_change_too_is_no_cost_of_it() -> None:
    """ "other" is evicted for "urgent" in any case."""
    found = explanation("""
        node n gpu=8
        node m gpu=4
        queue rich gpu=0
        queue poor gpu=8
        queue q gpu=2/2
        group other owner=Job/other queue=rich
        pod other-0 gpu=8 on=n
        group urgent queue=poor
        pod urgent-0 gpu=8
        group g queue=q
        pod g-0 gpu=4
    """)
    assert {costs.text for each, costs in found.suggestions if each.kind == "limit"} == {"evicts nobody"}


def test_an_explanation_is_the_same_each_time() -> None:
    assert explanation(CLUSTER) == explanation(CLUSTER)


@pytest.mark.parametrize(
    ("needs", "text"),
    [
        ([Needs(1, 1, (("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)), 1.0)], "1 pod, 1 GPU, 1 CPU core"),
        (
            [Needs(2, 2, (("cpu", 160_000.0), ("gpu", 8.0), ("memory", 960 * 2.0**30), ("pods", 1.0)), 8.0)],
            "2 pods together, each 8 GPUs, 160 CPU cores, 960Gi memory = 16 GPUs in all",
        ),
        (
            [Needs(4, 2, (("gpu", 1.0), ("pods", 1.0)), 1.0)],
            "4 pods, at least 2 together, each 1 GPU = 4 GPUs in all",
        ),
        ([Needs(2, 1, (("pods", 1.0),), 0.5)], "2 pods, each 0.5 GPUs = 1 GPU in all"),
        (
            [Needs(1, 1, (("cpu", 500.0), ("pods", 1.0)), 0.0), Needs(2, 2, (("gpu", 4.0), ("pods", 1.0)), 4.0)],
            "1 pod, 0.5 CPU cores; 2 pods together, each 4 GPUs = 8 GPUs in all",
        ),
    ],
)
def test_what_it_needs_in_words(needs: list[Needs], text: str) -> None:
    assert needs_text(needs) == text


def test_every_change_is_one_of_a_kind_once() -> None:
    found = explanation(CLUSTER)
    kinds = [*suggested(found), *(each.kind for each in found.nothing)]
    assert len(kinds) == len(set(kinds))
