"""Which jobs keep their pods as others were placed near them, by hand (semantics 4.5)."""

from __future__ import annotations

import pytest

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.lower import lower
from kai_sched.model.config import Config
from kai_sched.snapshot.tables import Status
from kai_sched.solver.eviction.victims import neighbours
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import attempt
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of
from tests.unit.solver.searches import searching

settle_neighbours = entry(neighbours.settle_neighbours)
put = entry(attempt.place_on_node)
record = entry(attempt.record_placement)

NODES = """
node a gpu=8 labels=host:a,zone:x
node b gpu=8 labels=host:b,zone:x
node c gpu=8 labels=host:c,zone:y
"""


def settled(text: str, places: dict[str, str]) -> list[str]:
    """The groups that are settled once the pods have got these places in the cycle."""
    lowered = lower(cluster_of(NODES + text), Config(), NOW_NS, Cache())
    ctx, search = searching(lowered.snapshot)
    pods, nodes = ([each.name for each in found] for found in (lowered.pods, lowered.nodes))
    for pod, node in places.items():
        t = pods.index(pod)
        assert ctx.state.task.status[t] == Status.PENDING
        put(int(lowered.snapshot.tasks.job[t]), t, nodes.index(node), True, ctx)
        record(t, ctx.state.task, ctx.decisions.placements)
    found = settle_neighbours(ctx, search)
    names = [group.name for j, group in enumerate(lowered.groups) if search.jobs.settled[j]]
    assert found == bool(names)
    return names


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
