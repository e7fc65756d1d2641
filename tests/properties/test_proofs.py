"""The proofs that spare the search scenarios change nothing: without them the scheduler decides the same, only later.

A kernel that was compiled into others cannot be taken out of them, so all of this is about interpreted kernels; where
they are compiled, it runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config
from kai_sched.model import objects as o
from kai_sched.model.config import ACTIONS
from kai_sched.snapshot.tables import Verdict
from kai_sched.solver.jit import interpreted
from kai_sched.solver.kernels import search
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import by_scheduler

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
MORE = settings(max_examples=4 * settings().max_examples)


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


def check(objects: list[o.Object], config: Config) -> None:
    """Decide with and without the proofs; where that differs, name those that make the difference."""
    plan = by_scheduler(Cluster.of(objects), config, NOW_NS)
    with without(*WHO_KNOWS):
        plain = by_scheduler(Cluster.of(objects), config, NOW_NS)
    if plan == plain:
        return
    wrong = []
    for name in WHO_KNOWS:
        with without(*(other for other in WHO_KNOWS if other != name)):
            if by_scheduler(Cluster.of(objects), config, NOW_NS) != plain:
                wrong.append(name)
    raise AssertionError(f"these proofs are wrong: {wrong}\nwith them:    {plan}\nwithout them: {plain}")


@MORE
@given(st.one_of(crowds(PLAIN), crowds(MIXED)), CONFIGS)
def interpreted_property(objects: list[o.Object], config: Config) -> None:
    check(objects, config)


def test_proofs_change_nothing() -> None:
    """On small clusters with up to three levels of queues, in every order of the actions that have proofs."""
    if interpreted():
        interpreted_property()
        return
    profile = settings.get_current_profile_name()
    command = [sys.executable, "-m", "pytest", "-q", f"--hypothesis-profile={profile}", __file__]
    there = subprocess.run(command, env={**os.environ, "KAI_SCHED_JIT": "off"}, capture_output=True, text=True)
    assert there.returncode == 0, there.stdout + there.stderr
