"""Rules 1 and 2 of semantics 4.7 stand once: a changed line changes validator, choice and bounds together."""

from __future__ import annotations

import pytest

from kai_sched import Cluster, Config
from kai_sched.model import objects as o
from tests.afresh import afresh, edited
from tests.tree import modules

SHARES = "solver.eviction.rules.shares"
NOW_NS = 1_800_000_000 * 10**9
FREE = o.Share(-1.0, -1.0, 1.0)
RULE_1 = ("return amount > threshold", "return amount >= threshold")
RULE_2 = (
    "return used * ctx.settings.saturation < ratio(theirs, fair[s, r])",
    "return used * ctx.settings.saturation <= ratio(theirs, fair[s, r])",
)


def queue(name: str, parent: str = "") -> o.Queue:
    return o.Queue(name, name, parent=parent, cpu=FREE, memory=FREE, gpu=o.Share(0.0, -1.0, 1.0))


def pods(name: str, leaf: str, gpus: float, on: str = "", fixed: bool = False, at: str = "") -> list[o.Object]:
    """A job of one pod; it runs if it is on a node, and fits only nodes with the label that ``at`` names."""
    request = (("cpu", 1000.0), ("gpu", gpus), ("pods", 1.0))
    shape = o.Shape(request, node_selector=((at, at),) if at else ())
    phase = o.Phase.RUNNING if on else o.Phase.PENDING
    return [
        o.PodGroup("ns", name, name, ord(name[0]), leaf, "", not fixed, 1),
        o.Pod("ns", name, shape, name, group=name, scheduler="kai-scheduler", node=on, phase=phase),
    ]


def siblings(gpus: int) -> list[o.Object]:
    """Departments with a fair share of a third each; the second one holds so many GPUs.

    The first one has 3 of a job that stays, and a job of the other team asks for 2: then it has 5. The third one has 2,
    and asks for more that no node can give it.
    """
    total = 3 + gpus + 2
    capacity = {"cpu": 64_000.0, "memory": 1e12, "gpu": float(total), "pods": 110.0}
    found: list[o.Object] = [o.Node("n", "n", {}, capacity)]
    found += [queue(name) for name in ("d1", "d2", "d3")]
    found += [queue("a", "d1"), queue("b", "d1"), queue("c", "d2"), queue("e", "d3")]
    found += pods("stays", "b", 3.0, "n", fixed=True)
    for number in range(gpus):
        found += pods(f"victim{number}", "c", 1.0, "n")
    found += pods("small", "e", 2.0, "n")
    found += pods("never", "e", 2.0, at="nowhere")
    found += pods("wants", "a", 2.0)
    return found


def at_the_share() -> list[o.Object]:
    """Departments with a fair share of 4: the first has 3 and asks for one, the second holds 4, all others stay."""
    capacity = {"cpu": 64_000.0, "memory": 1e12, "gpu": 12.0, "pods": 110.0}
    found: list[o.Object] = [o.Node("n", "n", {}, capacity)]
    found += [queue(name) for name in ("d1", "d2", "d3")]
    found += [queue("a", "d1"), queue("c", "d2"), queue("e", "d3")]
    found += pods("stays", "e", 5.0, "n", fixed=True) + pods("own", "a", 3.0, "n", fixed=True)
    for number in range(4):
        found += pods(f"victim{number}", "c", 1.0, "n")
    return [*found, *pods("wants", "a", 1.0)]


def victims(objects: list[o.Object], search: str, *edit: str) -> int:
    """How many pods a reclaim evicts, with the rules as they are or with one line changed."""
    config = Config(actions=("allocate", "reclaim"), victims=search)
    if edit:
        with edited(SHARES, *edit):
            (run,) = afresh("cycle.run")
    else:
        (run,) = afresh("cycle.run")
    result = run.run_cycle(Cluster.of(objects), config, NOW_NS)
    return sum(1 for state in result.pods.values() if state.status == "Releasing")


@pytest.mark.parametrize("search", ["minimal", "original"])
def test_a_changed_comparison_of_rule_2_changes_all_that_ask_it(search: str) -> None:
    """The taker ends at 5 of 4 and the loser at 5 of 4: a tie, which the rule refuses."""
    assert victims(siblings(7), search) == 0
    assert victims(siblings(7), search, *RULE_2) == 2


@pytest.mark.parametrize("search", ["minimal", "original"])
def test_a_changed_comparison_of_rule_1_changes_all_that_ask_it(search: str) -> None:
    """The loser holds as much as its share."""
    assert victims(at_the_share(), search) == 0
    assert victims(at_the_share(), search, *RULE_1) == 1


def test_rules_are_compared_in_one_place() -> None:
    """The multiplier of rule 2 is read where the rule is, and nowhere else."""
    found = [m.name for m in modules() if m.name.startswith("kai_sched.solver") and "settings.saturation" in m.text]
    assert found == [f"kai_sched.{SHARES}"]
