"""Whose search was cut has its turn in the next cycles (``SearchRound``), and is told so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Cluster, Config, CycleResult, Store, run_cycle
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.cycle.search_rounds import SearchRound
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.objects import Node, Phase, Pod, PodGroup, Queue, Shape, Share
from kai_sched.snapshot.tables import Help

CLUSTER = Cluster.of([])
CHANGED = replace(CLUSTER, serial=CLUSTER.serial + 1)
CUT, FOUND, NOT_FOUND = (0, 0, int(Help.TOO_LONG), 0), (0, 0, int(Help.HELPED), 0), (0, 0, int(Help.NOT_FOUND), 0)


def cycle(**searches: tuple[int, ...]) -> CycleResult:
    return CycleResult((), (), {}, {}, (), {}, searches=searches)


def test_without_cut_searches_nothing_is_told() -> None:
    round = SearchRound()
    round.record(CLUSTER, cycle())
    assert round == replace(SearchRound(), _began=round._began)


def test_who_had_its_turn_rests_until_the_others_had_theirs() -> None:
    round = SearchRound()
    round.record(CLUSTER, cycle(a=NOT_FOUND, b=CUT, c=CUT))
    assert (round.waiting, round.searched, round.due) == (("b", "c"), {"a": NOT_FOUND}, True)
    round.record(CLUSTER, cycle(b=FOUND, c=CUT))
    assert (round.waiting, round.searched, round.due) == (("c",), {"a": NOT_FOUND, "b": FOUND}, True)
    round.record(CLUSTER, cycle(c=NOT_FOUND))
    assert (round.waiting, round.searched, round.due) == ((), {}, False)


def test_who_takes_all_the_time_has_its_turn_alone() -> None:
    """``b`` is tried first whenever it may be, and is never done."""
    round, alone = SearchRound(), []
    round.record(CLUSTER, cycle(a=NOT_FOUND, b=CUT, c=CUT, d=CUT, e=CUT))
    for _ in range(20):
        tried = [key for key in round.waiting if not round.may_search or key in round.may_search]
        alone += tried if len(round.may_search) == 1 else []
        if not round.waiting:
            break
        round.record(CLUSTER, cycle(**dict.fromkeys(tried, CUT if "b" in tried else NOT_FOUND)))
    assert alone == ["b"]
    assert (round.waiting, round.may_search, round.due) == ((), frozenset(), False)


def test_what_has_changed_in_a_round_is_looked_at_by_all() -> None:
    round = SearchRound()
    round.record(CLUSTER, cycle(a=NOT_FOUND, b=CUT))
    round.record(CHANGED, cycle(b=NOT_FOUND))
    assert (round.waiting, round.searched, round.due) == ((), {}, True)
    round.record(CHANGED, cycle())
    assert not round.due


def test_a_group_that_is_gone_is_owed_nothing() -> None:
    round = SearchRound()
    round.record(CLUSTER, cycle(a=NOT_FOUND, b=CUT))
    round.record(CLUSTER, cycle())
    assert (round.waiting, round.due) == ((), False)


def test_a_newcomer_may_search_in_a_round_and_rests_after_it() -> None:
    round = SearchRound()
    round.record(CLUSTER, cycle(a=NOT_FOUND, b=CUT, c=CUT))
    round.record(CHANGED, cycle(b=CUT, c=NOT_FOUND, new=NOT_FOUND))
    assert round.waiting == ("b",)
    assert round.searched == {"a": NOT_FOUND, "c": NOT_FOUND, "new": NOT_FOUND}


@pytest.fixture
def store() -> Store:
    """A node of two GPUs, both lent to ``rich``; two pods of ``poor`` wait for its quota, and one that is too much."""
    store = Store()
    free = Share(-1.0, -1.0, 1.0)
    store.put(Queue("rich", cpu=free, memory=free, gpu=Share(0.0, -1.0, 1.0)))
    store.put(Queue("poor", cpu=free, memory=free, gpu=Share(2.0, -1.0, 0.0)))
    store.put(Node("n1", allocatable={"cpu": 64000.0, "memory": 1e12, "gpu": 2.0, "pods": 110.0}))
    shape = Shape((("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))
    for name, queue, node in (("l0", "rich", "n1"), ("l1", "rich", "n1"), ("w0", "poor", ""), ("w1", "poor", "")):
        store.put(PodGroup("ml", name, name, 1, queue=queue, min_member=1))
        phase = Phase.RUNNING if node else Phase.PENDING
        store.put(Pod("ml", name, shape, name, 1, group=name, scheduler="kai-scheduler", node=node, phase=phase))
    return store


ONE_EACH = Config(search_work=0)


def evicted_for(result: CycleResult) -> list[str]:
    return [effect.cause for effect in result.effects if hasattr(effect, "cause")]


def message(result: CycleResult, group: str) -> str:
    reason = result.groups[group].reason
    assert reason is not None
    return reason.message


def test_for_groups_that_rest_nobody_is_evicted(store: Store) -> None:
    view = store.cluster()
    assert evicted_for(run_cycle(view, Config(), 0)) == ["ml/w0", "ml/w1"]
    assert evicted_for(run_cycle(view, Config(), 0, hints=SchedulingHints(may_search=frozenset({"ml/w1"})))) == [
        "ml/w1"
    ]
    assert evicted_for(run_cycle(view, Config(), 0, hints=SchedulingHints(searched={"ml/w1": NOT_FOUND}))) == ["ml/w0"]


def test_they_are_told_what_their_own_search_found(store: Store) -> None:
    view, told = store.cluster(), {"ml/w0": (0, 0, int(Help.SHARES), 0), "ml/w1": (0, 0, int(Help.DELAYED), 0)}
    rests = run_cycle(view, Config(), 0, hints=SchedulingHints(searched=told))
    assert message(rests, "ml/w0").endswith("; reclaim: other queues hold too little above their fair shares")
    assert "delay" not in message(rests, "ml/w1")
    new = run_cycle(view, Config(), 0, hints=SchedulingHints(may_search=frozenset({"ml/none"})))
    assert message(new, "ml/w0").endswith(
        "; groups whose search for victims was cut short before go first in this cycle"
    )


def test_groups_that_rest_get_free_room(store: Store) -> None:
    store.remove(Pod, "ml/l0")
    result = run_cycle(store.cluster(), Config(), 0, hints=SchedulingHints(may_search=frozenset({"ml/none"})))
    assert [effect.pod for effect in result.effects] == ["ml/w0"]


def test_no_cycle_is_due_for_those_who_rest(store: Store) -> None:
    assert (
        run_cycle(
            store.cluster(), Config(), 0, hints=SchedulingHints(may_search=frozenset({"ml/none"}))
        ).next_deadline_ns
        == 0
    )


def test_a_delay_that_runs_is_told_of_a_group_that_rests(store: Store) -> None:
    group = store.get(PodGroup, "ml/w0")
    assert isinstance(group, PodGroup)
    store.put(replace(group, preemption_delay_s=60.0, last_eviction_ns=10**9))
    result = run_cycle(store.cluster(), Config(), 2 * 10**9, hints=SchedulingHints(searched={"ml/w0": NOT_FOUND}))
    reason = result.groups["ml/w0"].reason
    assert reason is not None
    assert "its preemption delay is 60 seconds" in reason.message
    assert result.next_deadline_ns == 61 * 10**9


def test_cycles_hand_over_who_was_cut(store: Store) -> None:
    tracker, view = HintTracker(), store.cluster()
    result = run_cycle(view, ONE_EACH, 0, hints=tracker.next_hints())
    tracker.record(view, result, ONE_EACH)
    assert set(result.searches) == {"ml/w0", "ml/w1"}
    assert tracker.due
    assert "was cut short" in message(result, "ml/w1")
