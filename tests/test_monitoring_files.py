"""Alerts, runbooks and boards agree with each other and with the metrics; tests/cluster/test_monitoring.py has
Prometheus evaluate them.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from kai_sched.telemetry.loop_time import LoopTimes, MeasuredLoop
from kai_sched.telemetry.metrics import Metrics
from tests.cluster.alert_cases import CASES
from tests.monitoring_files import Expression, alert_expressions, alerts, board_expressions, boards
from tests.tree import ROOT

RUNBOOKS = "docs/runbooks.md"
SEVERITIES = {"critical", "warning", "info"}
# What each section says, in this order.
PARTS = ["Meaning", "Users notice", "Look at", "Do"]
SECTIONS = re.split(r"^### ", (ROOT / RUNBOOKS).read_text(), flags=re.MULTILINE)[1:]
RULES = {rule["alert"]: rule for rule in alerts()}


def exported() -> set[str]:
    """Every metric that a process can show."""
    metrics = Metrics()
    loop = MeasuredLoop()
    try:
        metrics.add(LoopTimes(loop, metrics.prefix))
        text = metrics.render().decode()
    finally:
        loop.close()
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


@pytest.mark.parametrize("expression", [*alert_expressions(), *board_expressions()], ids=lambda each: each.place)
def test_only_metrics_that_exist_are_used(expression: Expression) -> None:
    assert expression.metrics, "no metric is named"
    assert expression.metrics - exported() == set()


def test_a_metric_that_does_not_exist_is_found() -> None:
    wrong = Expression("a panel", "rate(kai_typo_total[5m]) / kai_leader + kai_task_bind_latency_milliseconds_count")
    assert wrong.metrics - exported() == {"kai_typo_total"}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_alert_says_how_grave_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in SEVERITIES
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    assert notes["description"].endswith(".")
    assert notes["runbook_url"].endswith(f"/{RUNBOOKS}#{rule['alert'].lower()}")


def test_every_alert_has_one_runbook_in_their_order() -> None:
    assert [section.splitlines()[0] for section in SECTIONS] == list(RULES)


@pytest.mark.parametrize("section", SECTIONS, ids=list(RULES))
def test_a_runbook_says_what_to_do(section: str) -> None:
    assert re.findall(r"^\*\*([^*]+):\*\* \S", section, flags=re.MULTILINE) == PARTS


@pytest.mark.parametrize("name", RULES)
def test_an_alert_was_seen_to_fire_and_not_to_fire(name: str) -> None:
    found = [case for case in CASES if case.alert == name]
    assert any(case.fires is not None for case in found)
    assert any(case.fires is None for case in found)
    labels = set(re.findall(r"\$labels\.(\w+)", RULES[name]["annotations"]["description"]))
    for case in found:
        assert case.severity == RULES[name]["labels"]["severity"]
        assert case.fires is None or labels <= case.fires.keys(), "the text names a label that the alert has not"


@pytest.mark.parametrize("board", boards().values(), ids=list(boards()))
def test_a_board_is_whole(board: dict[str, Any]) -> None:
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, "two panels overlap"
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    variables = {each["name"] for each in board["templating"]["list"]} | {"__rate_interval"}
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables


def test_boards_have_names_of_their_own() -> None:
    assert sorted(boards()) == ["api-server", "decisions", "process", "queues"]
    assert {board["uid"] for board in boards().values()} == {f"kai-sched-{name}" for name in boards()}
