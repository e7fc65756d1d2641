"""What an administrator can do, and whose end is enough."""

from __future__ import annotations

import pytest

from kai_sched.answers import changes
from kai_sched.answers.explain import node_changes
from tests.unit.answers.explain.explained import explanation, flags, helpless, suggested

FULL = """
    node n gpu=8
    group runs preemptible=no
    pod runs-0 gpu=8 on=n
"""
AWAY = """
    node c gpu=8 cordoned
    node d gpu=8 bad=NotReady
    node e gpu=2 cordoned
"""


def test_the_fewest_nodes_like_one_that_exists() -> None:
    """Three pods of 4 on nodes of 8."""
    found = explanation(f"{FULL}\npod g-0..2 gpu=4")
    assert suggested(found)["nodes"] == ["2 more nodes like n"]
    assert flags(found, "nodes") == ["--add-nodes 2:like=n"]


def test_of_several_kinds_the_one_of_which_fewest_are_enough() -> None:
    """Three pods of 4: three nodes of 4 GPUs, of which there are most, or two of 8."""
    found = explanation("""
        node small-1 gpu=4
        node small-2 gpu=4
        node large gpu=8
        group runs preemptible=no
        pod runs-0 gpu=4 on=small-1
        pod runs-1 gpu=4 on=small-2
        pod runs-2 gpu=8 on=large
        pod g-0..2 gpu=4
    """)
    assert suggested(found)["nodes"] == ["2 more nodes like large"]


def test_nodes_that_hold_no_pod_of_it_are_no_kind() -> None:
    found = explanation(f"{FULL}\nnode cpu\npod g-0 gpu=8")
    assert suggested(found)["nodes"] == ["1 more node like n"]
    assert "nodes" not in suggested(explanation("node cpu\npod g-0 gpu=8"))


def test_more_nodes_do_not_help_who_may_not_run_on_them() -> None:
    found = explanation("node n gpu=8 taints=gpu:yes:NoSchedule\npod g-0..1 gpu=1")
    assert helpless(found)["nodes"] == "more nodes (up to 16, 1 kind tried)"


def test_each_node_that_is_enough_when_it_comes_back() -> None:
    found = explanation(f"{FULL}{AWAY}\npod g-0 gpu=8")
    assert suggested(found)["nodeBack"] == ["c uncordoned", "d back"]
    assert flags(found, "nodeBack") == ["--uncordon c", "--uncordon d"]


def test_nodes_that_are_enough_only_together_without_those_that_are_not_needed() -> None:
    found = explanation(f"{FULL}{AWAY}\npod g-0..1 gpu=8")
    assert suggested(found)["nodeBack"] == ["c uncordoned and d back"]


def test_nodes_that_come_back_in_vain() -> None:
    found = explanation(f"{FULL}\nnode c gpu=2 cordoned\npod g-0 gpu=8")
    assert helpless(found)["nodeBack"] == "1 node that may come back (all together)"


def test_whose_end_is_enough() -> None:
    found = explanation(f"{FULL}\nnode m gpu=4\ngroup small preemptible=no\npod small-0 gpu=4 on=m\npod g-0 gpu=8")
    assert suggested(found)["end"] == ["the end of runs (q)"]
    assert flags(found, "end") == ["--remove ns/runs"]


def test_many_whose_end_is_enough_are_counted() -> None:
    nodes = "\n".join(f"node n{k} gpu=4\ngroup r{k} preemptible=no\npod r{k}-0 gpu=4 on=n{k}" for k in range(5))
    found = explanation(f"{nodes}\npod g-0 gpu=4")
    assert suggested(found)["end"] == ["the end of r0 (q)", "the end of r1 (q)", "the end of r2 (q)"]
    assert {each.more for each, _ in found.suggestions if each.kind == "end"} == {2}


def test_the_end_of_one_is_not_enough() -> None:
    nodes = "\n".join(f"node n{k} gpu=4\ngroup r{k} preemptible=no\npod r{k}-0 gpu=4 on=n{k}" for k in range(2))
    found = explanation(f"{nodes}\npod g-0..1 gpu=4")
    assert helpless(found)["end"] == "the end of one running workload (2 tried)"


def test_no_more_nodes_are_looked_at_than_may_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of 5,001 pods would look at 10,002."""
    for module in (changes, node_changes):
        monkeypatch.setattr(module, "NODES_MAX", 20)
    found = explanation("node n gpu=8 taints=gpu:yes:NoSchedule\npod g-0..10 gpu=1")
    assert helpless(found)["nodes"] == "more nodes (up to 20, 1 kind tried)"
