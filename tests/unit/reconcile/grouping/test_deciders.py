"""Which owner decides about a group, against all owners compared each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.reconcile.grouping.deciders import Deciders
from kai_sched.reconcile.grouping.manifest import Decider

# Of an owner: the queue that it names, None for none, and what the group says at that time; or that it goes.
NEWS = st.one_of(st.just("goes"), st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2)))
STEPS = st.lists(st.tuples(st.sampled_from("klmnop"), NEWS), max_size=30)


@given(STEPS)
def test_it_is_the_first_by_name_of_those_with_a_queue(steps: list[tuple[str, str | tuple[str | None, int]]]) -> None:
    """Compared are those that were decided since the group says what it says."""
    deciders, known = Deciders(), dict[str, tuple[str | None, int]]()
    said, time = None, 0
    for by, news in steps:
        if isinstance(news, str):
            known.pop(by, None)
            deciders.drop(by)
        else:
            queue, source = news
            said, time = source, time + (source != said)
            known[by] = queue, time
            decides = deciders.put(Decider(by, queue is not None, source), {"queue": queue})
        order = sorted(known, key=lambda each: (known[each][0] is None, each))
        first = next(iter(order), "")
        if not isinstance(news, str):
            assert decides == (first == by)
        assert deciders.first == first
        others = [each for each in order if known[each] != known[first] and known[each][1] == known[first][1] == time]
        assert deciders.other == next(iter(others), "")
        assert bool(deciders.difference()) == bool(others)


def test_who_came_and_went_is_forgotten() -> None:
    deciders = Deciders()
    deciders.put(Decider("a", True, 0), {})
    for k in range(1000):
        deciders.put(Decider(f"b{k}", True, 0), {})
        deciders.put(Decider("a", k % 2 == 0, 0), {"minMember": k})
        deciders.drop(f"b{k}")
    assert len(deciders._known) < 50
    assert deciders.first == "a"
