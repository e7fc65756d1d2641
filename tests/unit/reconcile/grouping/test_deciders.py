"""Which owner decides about a group, against all owners compared each time."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.api import names
from kai_sched.reconcile.grouping.deciders import Deciders

QUEUES = st.sampled_from(["a", "b", names.DEFAULT_QUEUE])
STEPS = st.lists(st.tuples(st.sampled_from("klmnop"), st.one_of(st.none(), QUEUES)), max_size=30)


@given(STEPS)
def test_it_is_the_first_by_name_of_those_with_a_queue(steps: list[tuple[str, str | None]]) -> None:
    """Owners come with a queue, change it, and go (None)."""
    deciders, specs = Deciders(), dict[str, dict[str, Any]]()
    for by, queue in steps:
        if queue is None:
            specs.pop(by, None)
            deciders.drop(by)
        else:
            specs[by] = {"queue": queue}
        order = sorted(specs, key=lambda each: (specs[each]["queue"] == names.DEFAULT_QUEUE, each))
        if queue is not None:
            assert deciders.put(by, specs[by]) == (order[0] == by)
        assert deciders.first == next(iter(order), "")
        assert deciders.other == next((each for each in order if specs[each] != specs[order[0]]), "")
        assert bool(deciders.difference()) == bool(deciders.other)


def test_who_came_and_went_is_forgotten() -> None:
    deciders = Deciders()
    deciders.put("a", {"queue": "q"})
    for k in range(1000):
        deciders.put(f"b{k}", {"queue": "q"})
        deciders.put("a", {"queue": "q", "minMember": k})
        deciders.drop(f"b{k}")
    assert len(deciders._known) < 50
    assert deciders.first == "a"
