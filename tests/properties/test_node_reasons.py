"""Nodes that are listed by name with what they lack are as many as the solver counts for each verdict."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config
from kai_sched.cycle.explain.nodes import PLACED, judge
from kai_sched.lowering.settings import lower_settings
from kai_sched.model import objects as o
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.pipeline import solve
from tests.answered import lower_offline
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.crowds import FULL, Crowd, crowds
from tests.properties.shares import Sharing

CLUSTERS = st.one_of(
    clusters(),
    clusters(Spice(pod_affinity=True)),
    clusters(Spice(sharing=Sharing(mig=True))),
    clusters(Spice(sharing=Sharing(odd=True))),
    crowds(FULL),
    crowds(Crowd(sharing=Sharing(), limits=True)),
)
ROOM = {Verdict.NO_ROOM, Verdict.NO_POD_SLOT}


@given(CLUSTERS)
def test_as_many_nodes_are_named_as_counted(objects: list[o.Object]) -> None:
    config = Config()
    lowered = lower_offline(Cluster.of(objects), config, NOW_NS)
    solution = solve(lowered.snapshot, lower_settings(config, NOW_NS), config.actions)
    outcomes = [solution.outcome(j) for j in range(len(lowered.groups))]
    stuck = {each.blocking_row for each in outcomes if each.verdict == Verdict.NO_FIT}
    for c in {int(lowered.snapshot.tasks.cls[t]) for t in stuck}:
        counts, found = solution.class_facts(c).nodes, judge(c, lowered, solution)
        fixed = Counter(Verdict(verdict) for verdict in found.fixed.tolist())
        later = {Verdict.OK, *ROOM, *PLACED}
        assert {verdict: n for verdict, n in fixed.items() if verdict != Verdict.OK} == {
            verdict: n for verdict, n in counts.items() if verdict not in later
        }
        short, counted = int(found.short.any(axis=1).sum()), sum(counts.get(verdict, 0) for verdict in ROOM)
        if lowered.snapshot.classes.shares[c]:
            assert short <= counted
        else:
            assert short == counted
        assert bool(found.left) == (fixed[Verdict.OK] > short), "a node is left over if some verdict is, and only then"
