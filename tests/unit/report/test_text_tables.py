"""The tables, as they are read: on 80 columns, on few, and in full width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kai_sched.report.text_tables import cycle_line, summary, tables

from kai_sched.model.config import Config
from kai_sched.model.objects import Node
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind, Evict, Pipeline, Side
from kai_sched.plan.result import CycleResult, GroupState, NodeState
from tests.unit.report.sample import LONG_NAME, WHY, sample

ONLY = Config(actions=("allocate",))


def drawn(result: CycleResult, width: int = 80, wide: bool = False) -> list[str]:
    cluster, _ = sample()
    return ["".join(text for text, _ in line) for line in tables(cluster, result, width, wide)]


def group(key: str, counts: dict[str, int], nodes: dict[str, int]) -> GroupState:
    return GroupState(key, "team-a", 50, True, 1, counts, nodes, None)


def test_the_whole_of_it() -> None:
    _, result = sample()
    assert drawn(result) == [
        "Queues, in GPUs",
        "Queue         Quota  Fair share  Allocated  Requested",
        "dep       unlimited           8          2         10",
        "  team-a          1       5.333          2         10",
        "over quota: team-a by 1",
        "",
        "Pod groups",
        "Pod group  Queue   Pods       Nodes, or why it waits",
        "ml/large   team-a  1 pending  PodSchedulingErrors",
        "    no node for pod ml/large-0: 1 of 1 nodes lack the 8 GPUs it asks for (most",
        "    free on one: 6)",
        "ml/small   team-a  1 binding  node-1 (1)",
        "binding: gets its node in this cycle",
        "",
    ]


def test_wide_shows_every_resource_with_limit_weight_and_priority() -> None:
    _, result = sample()
    lines = drawn(result, 120, wide=True)
    assert lines[1].split() == [
        "Queue",
        "Priority",
        "Quota",
        "Limit",
        "Weight",
        "Fair",
        "share",
        "Allocated",
        "Requested",
    ]
    assert [line.split() for line in lines[2:5]] == [
        ["dep", "100", "GPUs", "unlimited", "unlimited", "2", "8", "2", "10"],
        ["CPU", "cores", "unlimited", "unlimited", "2", "4", "4", "6"],
        ["GB", "memory", "unlimited", "unlimited", "2", "8", "8", "12"],
    ]
    assert any(line.startswith("ml/large   team-a  50        yes          1    1 pending") for line in lines)


@pytest.mark.parametrize("width", [55, 60, 80, 200])
def test_a_reason_is_never_cut(width: int) -> None:
    _, result = sample()
    lines = drawn(result, width)
    start = next(number for number, line in enumerate(lines) if line.startswith("    no node"))
    reason = []
    while lines[start].startswith("    "):
        reason.append(lines[start].strip())
        start += 1
    assert " ".join(reason) == WHY.message
    assert all(len(line) <= width for line in lines)


def test_names_from_outside_cannot_act_on_the_terminal() -> None:
    _, result = sample()
    evil = "ml/\x1b]0;owned\x07[bold]x"
    lines = drawn(replace(result, groups={evil: group(evil, {"Binding": 1}, {"node\n1": 1})}))
    assert "ml/\\x1b]0;owned\\x07[bold]x  team-a  1 binding  node\\n1 (1)" in lines
    assert not any("\x1b" in line or "\n" in line for line in lines)


def test_many_nodes_are_listed_in_full_only_when_wide() -> None:
    _, result = sample()
    spread = replace(
        result, groups={"ml/all": group("ml/all", {"Running": 20}, {f"n{number:02}": 1 for number in range(20)})}
    )
    narrow = " ".join(" ".join(drawn(spread)).split())
    assert "n07 (1), and 12 more" in narrow
    assert "n08" not in narrow
    assert "n19 (1)" in " ".join(" ".join(drawn(spread, wide=True)).split())


def test_a_cluster_without_gpus_shows_cpu() -> None:
    _, result = sample()
    queues = tuple(replace(queue, requested=(6000.0, 12e9, 0.0)) for queue in result.queues)
    without = replace(result, queues=queues, nodes={"node-1": NodeState({"cpu": 8000.0}, {"cpu": 1500.0}, {})})
    assert drawn(without)[0] == "Queues, in CPU cores"
    cluster, _ = sample()
    assert list(summary(cluster, without, ONLY))[1] == "1 node; free: 1.5 of 8 CPU cores."


def test_nothing_to_show_is_no_table() -> None:
    assert drawn(CycleResult((), (), {}, {}, (), {}, 0.0)) == []


def test_a_name_that_is_too_long_is_folded() -> None:
    _, result = sample()
    lines = drawn(replace(result, groups={LONG_NAME: group(LONG_NAME, {"Binding": 1}, {"node-1": 1})}))
    assert all(len(line) <= 80 for line in lines)
    assert LONG_NAME in "".join(line.split("  ")[0] for line in lines)


def test_a_cycle_in_a_sentence() -> None:
    _, result = sample()
    assert cycle_line(result) == "1 pod bound, 0 pipelined, 0 evicted; 1 pod pending in 1 group (PodSchedulingErrors 1)"
    effects = (Bind("ml/a", "", "node-1"), Bind("ml/b", "", "node-1"), Pipeline("ml/c", "", "node-1"))
    done = replace(result, effects=effects, groups={"ml/small": result.groups["ml/small"]})
    assert cycle_line(done) == "2 pods bound, 1 pipelined, 0 evicted; nothing pending"


def test_the_summary_names_the_actions_and_the_room_that_is_left() -> None:
    cluster, result = sample()
    assert list(summary(cluster, result, ONLY)) == [
        f"This cycle (allocate): {cycle_line(result)}.",
        "1 node; free: 6 of 8 GPUs.",
    ]


def test_room_on_a_node_that_takes_no_pods_is_not_free() -> None:
    _, result = sample()
    cordoned = Cluster.of([Node("node-1", unschedulable=True)])
    assert list(summary(cordoned, result, ONLY))[1] == (
        "1 node; free: 0 of 0 GPUs; 6 more on 1 node that takes no pods (cordoned or not ready)."
    )


def eviction(number: int) -> Evict:
    side = Side("team-b", 100, (0.0, 0.0, 10.0), (0.0, 0.0, 8.0), (0.0, 0.0, 8.0))
    freed = (("gpu", 1.0), ("pods", 1.0))
    return Evict(f"ml/b-{number}", f"u{number}", "n1", "reclaim", "ml/a", f"ml/b{number}", freed, "", False, (side,))


def test_who_is_evicted_for_whom_and_by_which_rule() -> None:
    _, result = sample()
    lines = drawn(replace(result, effects=(eviction(0),), groups={}, queues=()))
    assert lines == [
        "Evictions",
        "pod ml/b-0 is evicted by reclaim for ml/a, which reclaims the share of its",
        "    queue (frees 1 GPU on n1)",
        "    queue team-b (priority 100): holds 10 GPUs, quota 8 GPUs, fair share 8 GPUs",
        "",
    ]


def test_many_evictions_are_listed_in_full_only_when_wide() -> None:
    _, result = sample()
    result = replace(result, effects=tuple(eviction(number) for number in range(23)), groups={}, queues=())
    assert drawn(result)[-2:] == ["and 3 more: -o wide shows all", ""]
    assert sum(line.startswith("pod ") for line in drawn(result)) == 20
    assert sum(line.startswith("pod ") for line in drawn(result, wide=True)) == 23
