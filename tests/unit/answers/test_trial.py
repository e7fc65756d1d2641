"""Trials: a changed cluster is left alone until nothing changes any more."""

from __future__ import annotations

import pytest

from kai_sched import Config
from kai_sched.answers.changes import AddNodes, Override, Remove
from kai_sched.answers.trial import CYCLES_MAX, FIXED_WORK, Trials, may_change
from kai_sched.model.objects import Queue
from kai_sched.model.store import JOURNAL_LENGTH
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

# Fair shares are 8 of 16 GPUs each; a, which has all of them, pays for b, whose pod starts once those of a have left.
RECLAIM = """
    node n gpu=16
    queue a gpu=8
    queue b gpu=8
    group over queue=a min=1
    pod over-0..3 gpu=4 on=n
    group poor queue=b min=1
    pod poor-0 gpu=8
"""


def test_a_trial_goes_on_until_the_cluster_has_settled() -> None:
    found = Trials(cluster_of(RECLAIM), Config(), NOW_NS).outcome()
    assert found.settled
    assert [each.group for each in found.evicted] == ["ns/over", "ns/over"]
    assert found.bound == ("ns/poor-0",)
    assert found.end.pods["ns/poor-0"].node == "n"
    assert (found.first.pods["ns/poor-0"].status, found.last.pods["ns/poor-0"].status) == ("Pipelined", "Running")
    assert 2 <= found.cycles < CYCLES_MAX


def test_start_is_with_the_changes_and_before_the_first_cycle() -> None:
    trials = Trials(cluster_of(RECLAIM), Config(), NOW_NS)
    found = trials.outcome([AddNodes(1, "n")])
    assert set(found.start.nodes) == {"n", "n-new-1"}
    assert found.start.pods["ns/poor-0"].node == ""
    assert found.evicted == ()
    assert set(trials.cluster.nodes) == {"n"}


def test_work_counts_the_objects_that_cycles_look_at() -> None:
    trials = Trials(cluster_of(RECLAIM), Config(), NOW_NS)
    assert (trials.work, trials.cycle_cost) == (0, FIXED_WORK + 6)
    found = trials.outcome()
    assert trials.work == (FIXED_WORK + 6) * found.cycles


def test_a_cluster_may_be_changed_as_it_takes_its_course() -> None:
    trials = Trials(cluster_of(RECLAIM), Config(actions=("allocate",)), NOW_NS)
    with trials.left_alone() as course:
        assert course.settle(NOW_NS).pods["ns/poor-0"].node == ""
        course.apply(Remove("ns/over"))
        assert course.settle(NOW_NS).pods["ns/poor-0"].node == "n"
    assert trials.outcome().end.pods["ns/poor-0"].node == ""


@pytest.mark.slow
def test_a_trial_that_changes_more_than_the_journal_holds_is_taken_back_all_the_same() -> None:
    cluster = cluster_of(RECLAIM)
    trials = Trials(cluster, Config(), NOW_NS)
    many = tuple(Queue(f"q{number}") for number in range(2 * JOURNAL_LENGTH + 1))
    with trials.left_alone() as course:
        course.apply(Override("many.yaml", many))
        course.apply(Remove("ns/over"))
    after = trials.outcome().start
    assert (dict(after.pods), set(after.queues)) == (dict(cluster.pods), {"a", "b"})


def test_a_cluster_in_which_nothing_moves_is_settled_after_one_cycle() -> None:
    cluster = cluster_of("node n gpu=1\npod g-0 gpu=2")
    found = Trials(cluster, Config(), NOW_NS).outcome()
    assert (found.cycles, found.settled, found.bound, found.evicted) == (1, True, (), ())
    assert not may_change(cluster, found.first)


def test_a_pod_that_leaves_may_change_it() -> None:
    cluster = cluster_of("node n gpu=1\npod g-0 gpu=1 on=n status=Releasing\ngroup h min=1\npod h-0 gpu=1")
    found = Trials(cluster, Config(), NOW_NS).outcome()
    assert may_change(cluster, found.first)
    assert found.bound == ("ns/h-0",)
