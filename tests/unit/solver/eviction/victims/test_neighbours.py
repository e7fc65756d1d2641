"""Which jobs keep their pods as others were placed near them, by hand (semantics 4.5)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.lower import Lowered, lower
from kai_sched.model.config import Config
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status, TermRole
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.eviction.victims import neighbours
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt
from kai_sched.solver.state import Context
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of
from tests.unit.solver.searches import searching

settle_neighbours = entry(neighbours.settle_neighbours)
settle_new_neighbours = entry(neighbours.settle_new_neighbours)
put = entry(attempt.place_on_node)
record = entry(attempt.record_placement)

NODES = """
node a gpu=8 labels=host:a,zone:x
node b gpu=8 labels=host:b,zone:x
node c gpu=8 labels=host:c,zone:y
"""


def prepared(text: str) -> tuple[Lowered, Context, Search]:
    lowered = lower(cluster_of(NODES + text), Config(), NOW_NS, Cache())
    return lowered, *searching(lowered.snapshot)


def place(pod: str, node: str, lowered: Lowered, ctx: Context) -> int:
    """The pod gets that place in the cycle. Returns its row."""
    pods, nodes = ([each.name for each in found] for found in (lowered.pods, lowered.nodes))
    t = pods.index(pod)
    assert ctx.state.task.status[t] == Status.PENDING
    put(int(lowered.snapshot.tasks.job[t]), t, nodes.index(node), True, ctx)
    record(t, ctx.state.task, ctx.decisions.placements)
    return t


def settled(text: str, places: dict[str, str]) -> list[str]:
    """The groups that are settled once the pods have got these places in the cycle."""
    lowered, ctx, search = prepared(text)
    for pod, node in places.items():
        place(pod, node, lowered, ctx)
    settle_neighbours(ctx, search)
    return names_of(lowered, search)


def names_of(lowered: Lowered, search: Search) -> list[str]:
    return [group.name for j, group in enumerate(lowered.groups) if search.jobs.settled[j]]


@pytest.mark.parametrize(
    ("text", "places", "expected"),
    [
        # of two jobs in the domain the first keeps its pods
        (
            "pod v-0 on=a labels=app:web\npod w-0 on=a labels=app:web\npod g-0 near='app In web @ host'",
            {"g-0": "a"},
            ["v"],
        ),
        # the other one is not in it
        (
            "pod v-0 on=b labels=app:web\npod w-0 on=a labels=app:web\npod g-0 near='app In web @ host'",
            {"g-0": "a"},
            ["w"],
        ),
        # a wider domain
        ("pod w-0 on=b labels=app:web\npod g-0 near='app In web @ zone'", {"g-0": "a"}, ["w"]),
        # one that may not be a victim anyway is enough
        (
            "group w preemptible=no\npod v-0 on=a labels=app:web\npod w-0 on=a labels=app:web\n"
            "pod g-0 near='app In web @ host'",
            {"g-0": "a"},
            [],
        ),
        # and a pod of somebody else
        (
            "pod v-0 on=a labels=app:web\npod other on=a labels=app:web foreign=x\npod g-0 near='app In web @ host'",
            {"g-0": "a"},
            [],
        ),
        # who got a place in this cycle, too
        ("pod v-0 labels=app:web\npod g-0 near='app In web @ host'", {"v-0": "a", "g-0": "a"}, ["v"]),
        # pods that wait are near nobody
        ("pod v-0 on=a labels=app:web\npod g-0 near='app In web @ host'", {}, []),
        # the pods of a gang that are near each other
        (
            "pod v-0 on=a labels=app:web\npod g-0..1 labels=app:web near='app In web @ host'",
            {"g-0": "a", "g-1": "a"},
            [],
        ),
        # a pod that matches all terms, here in domains of two levels
        (
            "pod u-0 on=a labels=app:web\npod v-0 on=a labels=app:web,tier:db\n"
            "pod g-0 near='app In web @ zone | tier In db @ host'",
            {"g-0": "a"},
            ["v"],
        ),
    ],
)
def test_one_job_of_each_domain_stays(text: str, places: dict[str, str], expected: list[str]) -> None:
    assert settled(text.replace("'", '"'), places) == expected


TERMS = ("app In web @ host", "app In db @ host", "app In web @ zone", "app In web @ host | app In db @ zone")
PLACES = st.sampled_from("abc")
LABELS = st.sampled_from(["app:web", "app:db", "app:other"])
RUNNING = st.tuples(PLACES, LABELS, st.booleans())


@settings(deadline=None)
@given(
    st.lists(RUNNING, min_size=1, max_size=8),
    st.lists(st.tuples(PLACES, st.sampled_from(TERMS), LABELS), min_size=1, max_size=5),
)
def test_search_after_search_settles_whom_the_rule_says(
    running: list[tuple[str, str, bool]], placed: list[tuple[str, str, str]]
) -> None:
    """Each search places one pod, which stays; of a domain that an earlier one needed nobody else has to."""
    groups = [f"group r{k} preemptible={'yes' if goes else 'no'}" for k, (*_, goes) in enumerate(running)]
    pods = [f"pod r{k}-0 on={node} labels={labels}" for k, (node, labels, _) in enumerate(running)]
    pods += [f'pod p{k}-0 labels={labels} near="{terms}"' for k, (_, terms, labels) in enumerate(placed)]
    lowered, ctx, search = prepared("\n".join([*groups, *pods]))
    met: set[int] = set()
    expected: set[int] = set()
    for k, (node, *_) in enumerate(placed):
        t = place(f"p{k}-0", node, lowered, ctx)
        own = int(lowered.snapshot.tasks.job[t])
        search.jobs.settled[own] = 1  # as ``reinsert_job`` does
        expected.add(own)
        search.lists.placed[0], search.counts.placed[0] = t, 1
        found, work = asked_to_stay(t, met, expected, lowered, ctx), int(search.counts.work[0])
        settle_new_neighbours(ctx, search)
        assert set(search.lists.neighbours[: search.counts.neighbours[0]]) == found
        expected |= found
        assert set(np.flatnonzero(search.jobs.settled)) == expected
        assert search.counts.work[0] - work <= 2 + 2 * len(pods)


def asked_to_stay(t: int, met: set[int], settled: set[int], lowered: Lowered, ctx: Context) -> set[int]:
    """The rule by brute force: of each new domain the job of the first pod that matches, if nobody stays anyway."""
    found: set[int] = set()
    if lowered.snapshot.term_roles.self_match[lowered.snapshot.tasks.cls[t]]:
        return found
    for needed in domains_of(t, TermRole.NEED, lowered, ctx):
        if needed in met:
            continue
        met.add(needed)
        there = [u for u in range(len(lowered.pods)) if needed in domains_of(u, TermRole.MATCH, lowered, ctx)]
        jobs = [int(lowered.snapshot.tasks.job[u]) for u in there]
        stay = [j for j in jobs if j in settled | found or not lowered.snapshot.jobs.preemptible[j]]
        found |= set() if stay else set(jobs[:1])
    return found


def domains_of(t: int, role: TermRole, lowered: Lowered, ctx: Context) -> list[int]:
    """The domains of the node of the pod for the terms of which its class has that role."""
    roles, node = lowered.snapshot.term_roles, ctx.state.task.node[t]
    if node == NULL:
        return []
    c = lowered.snapshot.tasks.cls[t]
    rows = roles.entry[roles.ptr[c] : roles.ptr[c + 1], :2]
    found = [int(lowered.snapshot.terms.domain[term, node]) for kind, term in rows if kind == role]
    return [domain for domain in found if domain != NULL]
