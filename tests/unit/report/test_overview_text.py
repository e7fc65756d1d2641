"""The table that people read: on 80 columns, in a pipe, and wide."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from rich.cells import cell_len

from kai_sched.answers.overview import Overview, overview
from kai_sched.model.config import Config
from kai_sched.model.objects import Node, PodGroup
from kai_sched.model.store import Cluster, Store
from kai_sched.plan.effects import Bind, Evict, Pipeline, Side
from kai_sched.plan.result import CycleResult, GroupState, NodeState
from kai_sched.report.columns import Line
from kai_sched.report.overview_text import (
    BAR_WIDTH,
    CSV_COLUMNS,
    TableView,
    bar,
    csv_lines,
    cycle_text,
    hidden_text,
    name_lines,
    nodes_text,
    overview_lines,
)
from tests.unit.report.sample import LONG_NAME, WHY, sample

EVIL = "\x1b]0;owned\x07[bold]\u202ex"
SHOWN_EVIL = "\\x1b]0;owned\\x07[bold]\\u202ex"


def of(result: CycleResult, cluster: Cluster | None = None) -> Overview:
    return overview(cluster or sample()[0], result, Config(), 0)


def drawn(
    result: CycleResult, width: int | None = 80, cluster: Cluster | None = None, wide: bool = False, **how: bool
) -> list[str]:
    cluster = cluster or sample()[0]
    return lines(overview_lines(of(result, cluster), TableView(width, wide, **how), cluster, result))


def lines(found: object) -> list[str]:
    shown: list[Line] = list(found)  # type: ignore[call-overload]
    return ["".join(text for text, _ in line) for line in shown]


def group(key: str, counts: dict[str, int], nodes: dict[str, int]) -> GroupState:
    return GroupState(key, "team-a", 50, True, 1, counts, nodes, None)


def eviction(number: int, cause: str = "ml/large", moves_to: str = "") -> Evict:
    side = Side("team-b", 100, (0.0, 0.0, 10.0), (0.0, 0.0, 8.0), (0.0, 0.0, 8.0))
    freed = (("gpu", 1.0), ("pods", 1.0))
    return Evict(
        f"ml/b-{number}",
        f"u{number}",
        "n1",
        "reclaim",
        cause,
        f"ml/b-{number}",
        freed,
        moves_to,
        bool(moves_to),
        (side,),
    )


def renamed(name: str, namespace: str = "ml", queue: str = "team-a") -> tuple[Cluster, CycleResult]:
    """The sample with another PodGroup in place of the one that is bound: its pod is bound to a node of that name."""
    cluster, result = sample()
    store = Store.of(cluster)
    pod = cluster.pods["ml/small-0"]
    store.remove(type(pod), pod.key)
    moved = replace(pod, namespace=namespace, name=f"{name}-0", group=name)
    store.put(moved)
    store.put(PodGroup(namespace, name, queue=queue))
    key = f"{namespace}/{name}"
    groups = {"ml/large": result.groups["ml/large"], key: group(key, {"Binding": 1}, {name: 1})}
    return store.cluster(), replace(result, effects=(Bind(moved.key, "", name),), groups=groups)


def test_the_whole_of_it() -> None:
    _, result = sample()
    assert drawn(result, 100) == [
        "Cluster  1 node, 8 GPUs: 2 used, 6 free",
        "",
        "QUEUE (GPUS)  USED  FAIR SHARE      QUOTA  WAITING",
        "dep              2           8  unlimited        8  ████████████████████",
        "  team-a         2        5.33          1        8  ████████████████████ +1 over quota",
        "",
        "WAITING  1 pod in 1 workload, the oldest first",
        f"  large  PodGroup  team-a  1 pod  -  {WHY.message[:62]}…",
        "",
        "STARTS NOW  1 pod in 1 workload",
        "  small  PodGroup  team-a  1 pod  node-1",
    ]


def test_the_time_stands_beside_the_cluster() -> None:
    cluster, result = sample()
    view = TableView(as_of="as of 2026-01-01 12:00 UTC")
    first = lines(overview_lines(of(result), view, cluster, result))[0]
    assert first == "Cluster  1 node, 8 GPUs: 2 used, 6 free   as of 2026-01-01 12:00 UTC"


def test_wide_shows_every_resource_with_limits_the_pod_group_and_the_whole_reason() -> None:
    _, result = sample()
    found = [line.split() for line in drawn(result, None, wide=True)]
    assert ["QUEUE", "(GPUS)", "USED", "FAIR", "SHARE", "QUOTA", "LIMIT", "WAITING"] in found
    assert ["QUEUE", "(CPU", "CORES)", "USED", "FAIR", "SHARE", "QUOTA", "LIMIT", "WAITING"] in found
    assert ["dep", "4", "4", "unlimited", "unlimited", "2", BAR_WIDTH * "█"] in found
    assert ["dep", "7.45", "7.45", "unlimited", "unlimited", "3.73", BAR_WIDTH * "█"] in found
    whole = next(line for line in drawn(result, None, wide=True) if line.startswith("  large"))
    assert whole == f"  large  PodGroup  team-a  1 pod  -  ml/large  PodSchedulingErrors  {WHY.message}"


@pytest.mark.parametrize("width", [70, 80, 100, 200])
def test_tables_fit_the_terminal_and_a_pipe_gets_the_whole_reason(width: int) -> None:
    cluster, result = renamed(LONG_NAME)
    assert all(cell_len(line) <= width for line in drawn(result, width, cluster))
    row = next(line for line in drawn(result, None, cluster) if line.startswith("  large"))
    assert row.endswith(WHY.message)


def test_on_the_narrowest_terminal_names_are_elided_and_bars_left_out() -> None:
    cluster, result = renamed(LONG_NAME)
    found = drawn(result, 40, cluster)
    assert "  a-name-th…n-and-on  PodGroup  team-a  1 pod  a-name-th…n-and-on" in found
    assert "  team-a         2        5.33          1        8  +1 over quota" in found
    assert "█" not in "".join(found)


def test_a_name_that_is_too_long_is_whole_in_a_pipe_and_elided_on_a_terminal() -> None:
    cluster, result = renamed(LONG_NAME)
    assert any(line.startswith(f"  {LONG_NAME}  ") for line in drawn(result, None, cluster))
    on_terminal = [line for line in drawn(result, 80, cluster) if line.startswith("  a-name-")]
    assert len(on_terminal) == 1
    assert "…" in on_terminal[0]


def test_names_from_outside_cannot_act_on_the_terminal() -> None:
    cluster, result = renamed(EVIL, queue=EVIL)
    result = replace(result, effects=(*result.effects, eviction(0, f"ml/{EVIL}")))
    everything = [
        *drawn(result, None, cluster, wide=True, everything=True),
        *drawn(result, 80, cluster),
        *lines(name_lines(of(result, cluster), True)),
        *lines(csv_lines(of(result, cluster), True)),
    ]
    text = "\n".join(everything)
    assert f"podgroup/ml/{SHOWN_EVIL}" in text
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert f"To place {SHOWN_EVIL} this evicts" in text


def test_a_line_break_in_a_name_is_no_new_record() -> None:
    cluster, result = renamed("two\nlines")
    assert any("two\\nlines" in line for line in drawn(result, None, cluster))
    assert not any("\n" in line for line in drawn(result, None, cluster))


def test_nodes_beyond_the_third_are_counted_unless_wide() -> None:
    nodes = [(f"n{number:02}", 1 + (number == 0)) for number in range(20)]
    assert nodes_text(nodes[:3], False) == "n00 (2), n01, n02"
    assert nodes_text(nodes[:4], False) == "n00 (2), n01 and 2 more"
    assert nodes_text(nodes, False) == "n00 (2), n01 and 18 more"
    assert nodes_text(nodes, True).endswith("n18, n19")


def test_a_cluster_without_gpus_shows_cpu() -> None:
    _, result = sample()
    queues = tuple(replace(queue, requested=(6000.0, 12e9, 0.0)) for queue in result.queues)
    without = replace(result, queues=queues, nodes={"node-1": NodeState({"cpu": 8000.0}, {"cpu": 1500.0}, {})})
    found = drawn(without)
    assert found[0] == "Cluster  1 node, 8 CPU cores: 6.5 used, 1.5 free"
    assert found[2].startswith("QUEUE (CPU CORES)  USED")
    assert found[3].split()[:5] == ["dep", "4", "4", "unlimited", "2"]


def test_room_on_a_node_that_takes_no_pods_is_not_free() -> None:
    _, result = sample()
    store = Store.of(sample()[0])
    store.put(Node("node-1", unschedulable=True))
    assert drawn(result, cluster=store.cluster())[0] == (
        "Cluster  1 node, 8 GPUs: 0 used, 0 free, 8 on 1 unusable node"
    )


def test_nothing_to_show_is_one_line() -> None:
    empty = CycleResult((), (), {}, {}, (), {}, 0.0)
    assert drawn(empty, cluster=Cluster.of([])) == ["Cluster  0 nodes, 0 CPU cores: 0 used, 0 free"]


@pytest.mark.parametrize(
    ("value", "most", "shown"),
    [
        (20.0, 20.0, "█" * 20),
        (10.0, 20.0, "█" * 10),
        (0.5, 20.0, "▌"),
        (0.001, 20.0, "▏"),
        (0.0, 20.0, ""),
        (0.0, 0.0, ""),
    ],
)
def test_bars_are_in_eighths_of_a_column(value: float, most: float, shown: str) -> None:
    assert bar(value, most) == shown


def test_evictions_are_a_headline_for_each_pair_and_the_rule() -> None:
    _, result = sample()
    found = drawn(replace(result, effects=tuple(eviction(number) for number in range(4)), groups={}, queues=()), 200)
    assert found[2:] == [
        "EVICTIONS  1 workload gets room, 4 pay",
        "  To place large this evicts b-{0..3}: 4 x 1 pod, 1 GPU",
        "    reclaim: large reclaims the share of its queue",
    ]


def test_a_headline_is_folded_on_a_terminal_and_one_line_in_a_pipe() -> None:
    _, result = sample()
    result = replace(result, effects=(eviction(0, f"ml/{LONG_NAME}"),), groups={}, queues=())
    on_terminal, piped = drawn(result, 80), drawn(result, None)
    assert f"  To place {LONG_NAME} this evicts b-0: 1 pod, 1 GPU" in piped
    assert all(len(line) <= 80 for line in on_terminal)
    assert any(LONG_NAME in line for line in on_terminal)
    assert len(on_terminal) > len(piped)


def test_a_cycle_in_a_sentence() -> None:
    _, result = sample()
    assert cycle_text(of(result)) == "1 pod bound, 0 pipelined, 0 evicted; 1 pod in 1 workload wait"
    effects = (Bind("ml/small-0", "", "node-1"), Pipeline("ml/large-0", "", "node-1"), eviction(0))
    groups = {"ml/small": result.groups["ml/small"], "ml/large": group("ml/large", {"Pipelined": 1}, {"node-1": 1})}
    done = replace(result, effects=effects, groups=groups)
    assert cycle_text(of(done)) == "1 pod bound, 1 pipelined, 1 evicted; nothing waits"


def test_wide_says_what_a_workload_that_has_a_place_waits_for() -> None:
    _, result = sample()
    groups = {"ml/large": group("ml/large", {"Pipelined": 1}, {"node-1": 1})}
    result = replace(result, effects=(Pipeline("ml/large-0", "", "node-1"),), groups=groups)
    waits = replace(result, leaving={"node-1": ("ml/a",)})
    (row,) = [line for line in drawn(waits, None, wide=True) if line.startswith("  large")]
    assert row.endswith("ml/large  node-1  waits for node node-1 (ml/a is leaving)")
    assert "leaving" not in "".join(drawn(waits, None))


def test_what_is_not_listed_is_counted() -> None:
    found = of(sample()[1])
    assert hidden_text(found, False) == ""
    hidden = replace(found, finished=68, others=(("a\x1b", 2), ("default-scheduler", 3)))
    assert hidden_text(hidden, False) == (
        "Not listed: 68 finished pods, 5 pods waiting for other schedulers (a\\x1b, default-scheduler)."
    )


def test_suspended_workloads_are_counted() -> None:
    cluster, result = sample()
    for suspended, text in (
        ((False,), "1 suspended workload."),
        ((True, False), "2 suspended workloads (1 by Kueue)."),
    ):
        assert hidden_text(overview(cluster, result, Config(), 0, suspended), True) == f"Not listed: {text}"


def test_without_headers_there_are_records_alone() -> None:
    _, result = sample()
    found = drawn(result, 200, headers=False)
    assert [line.split()[0] for line in found if line] == ["Cluster", "dep", "team-a", "large", "small"]


def test_names_are_kind_namespace_and_name() -> None:
    _, result = sample()
    assert lines(name_lines(of(result), False)) == ["podgroup/ml/large", "podgroup/ml/small"]


def test_csv_has_a_row_for_each_workload() -> None:
    _, result = sample()
    rows = list(csv.DictReader(lines(csv_lines(of(result), True))))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [(row["name"], row["state"], row["code"], row["nodes"]) for row in rows] == [
        ("large", "waiting", WHY.code, ""),
        ("small", "starting", "", "node-1"),
    ]
    assert rows[0]["why"] == WHY.message
    assert len(lines(csv_lines(of(result), False))) == 2


def test_csv_quotes_what_has_commas_or_quotes() -> None:
    cluster, result = renamed('a,"b"')
    rows = list(csv.DictReader(lines(csv_lines(of(result, cluster), True))))
    assert 'a,"b"' in [row["name"] for row in rows]
