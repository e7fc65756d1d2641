"""The proofs that spare the search scenarios change nothing: without them the scheduler decides the same, only later.

A kernel that was compiled into others cannot be taken out of them, so all of this is about interpreted kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config
from kai_sched.model import objects as o
from kai_sched.model.config import ACTIONS
from kai_sched.snapshot.tables import Verdict
from tests.afresh import afresh
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import Plan, plan_of

run, search = afresh("cycle.run", "solver.kernels.search")
OK = int(Verdict.OK)
# What each proof says when it cannot tell.
WHO_KNOWS: dict[str, Callable[..., Any]] = {
    "weigh_up": lambda *_: False,
    "may_leave": lambda *_: True,
    "refute": lambda *_: OK,
    "may_suffice": lambda *_: True,
    "tried_before": lambda *_: 0,
    "is_by_itself": lambda *_: False,
    "all_have_gone": lambda *_: False,
}
CONFIGS = st.builds(
    Config,
    actions=st.sampled_from(
        [ACTIONS, ("reclaim",), ("consolidation", "reclaim"), ("preempt", "reclaim"), ("consolidation", "preempt")]
    ),
    max_consolidation_preemptees=st.sampled_from([-1, 2]),
    allow_consolidating_reclaim=st.sampled_from([True, True, False]),
    use_scheduling_signatures=st.booleans(),
)
# The more of the crowd is plain, the more proofs there are.
PLAIN = Crowd(deep=True, movable=True)
MIXED = Crowd(deep=True, sub_groups=True, limits=True, times=True)
MORE = settings(max_examples=16 * settings().max_examples)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let these proofs know nothing."""
    kept = {name: getattr(search, name) for name in names}
    for name in names:
        setattr(search, name, WHO_KNOWS[name])
    try:
        yield
    finally:
        for name in names:
            setattr(search, name, kept[name])


def decide(objects: list[o.Object], config: Config) -> Plan:
    cluster = Cluster.of(objects)
    return plan_of(cluster, run.run_cycle(cluster, config, NOW_NS))


@MORE
@given(st.one_of(crowds(PLAIN), crowds(MIXED)), CONFIGS)
def test_proofs_change_nothing(objects: list[o.Object], config: Config) -> None:
    """Where they do, those that make the difference are named."""
    plan = decide(objects, config)
    with without(*WHO_KNOWS):
        plain = decide(objects, config)
    if plan == plain:
        return
    wrong = []
    for name in WHO_KNOWS:
        with without(*(other for other in WHO_KNOWS if other != name)):
            if decide(objects, config) != plain:
                wrong.append(name)
    raise AssertionError(f"these proofs are wrong: {wrong}\nwith them:    {plan}\nwithout them: {plain}")
