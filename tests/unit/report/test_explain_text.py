"""What ``explain`` prints: a screen that fits the terminal, with every name in full in a pipe, and escaped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from kai_sched.answers.explain.explanation import Explanation
from kai_sched.report.explain_text import explanation_lines
from tests.unit.answers.explain.explained import explanation

TEXT = """
    node n gpu=16
    queue rich gpu=8
    queue poor gpu=4/-1/0
    group over owner=PyTorchJob/llama3-70b-sft-of-a-name-that-is-rather-long queue=rich min=1
    pod over-0..3 gpu=4 on=n
    group first owner=Job/first queue=poor
    pod first-0 gpu=8 age=90
    group g owner=RayCluster/tune queue=poor min=2
    pod g-0..1 gpu=3 age=55
"""
FOUND = explanation(TEXT)


def drawn(found: Explanation, width: int | None, wide: bool = False) -> list[str]:
    return ["".join(text for text, _ in line) for line in explanation_lines(found, width, wide)]


def test_who_it_is_and_what_it_needs_come_first() -> None:
    lines = drawn(FOUND, None)
    assert lines[0] == "ns/tune  RayCluster, queue poor, priority 50, waiting 55m"
    assert lines[1] == "needs   2 pods together, each 3 GPUs, 1 CPU core, 1G memory = 6 GPUs in all"


def test_what_blocks_it_who_holds_what_and_what_would_start_it_follow() -> None:
    lines = drawn(FOUND, None)
    assert any(line.startswith("  1. room: 1 GPU node full") for line in lines)
    assert "Who holds the GPUs: rich 16 (+8 over quota)" in lines
    starts = lines.index("Any one of these starts it (each was simulated)")
    assert all(line.startswith("  ") for line in lines[starts + 1 : lines.index("", starts)] if "Does not" not in line)
    assert "In line: 2 of 2, after first" in lines


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    assert all(cell_len(line) <= width for line in drawn(FOUND, width))
    words = " ".join(" ".join(drawn(FOUND, width)).split())
    assert "llama3-70b-sft-of-a-name-that-is-rather-long" in words


def test_wide_has_the_pod_group_and_the_flags() -> None:
    assert "PodGroup  ns/g" in drawn(FOUND, None, wide=True)
    assert any("--set queue/poor.gpu.quota=" in line for line in drawn(FOUND, None, wide=True))
    assert not any("--set" in line for line in drawn(FOUND, None))


def test_one_that_starts() -> None:
    found = explanation("node n gpu=8\npod g-0 gpu=8")
    assert drawn(found, None)[-1] == "It starts without any change: evicts nobody."


def test_one_that_does_not_wait() -> None:
    lines = drawn(explanation("node n gpu=8\npod g-0..1 gpu=4 on=n"), None)
    assert lines == ["ns/g  PodGroup, queue q, priority 50", "", "It runs: 2 pods, 8 GPUs, on n, up 16h 39m."]


def test_where_nothing_helps() -> None:
    lines = drawn(explanation("node n gpu=8\npod g-0 gpu=1 configmaps=none"), None)
    assert "Nothing that was tried starts it" in lines
    assert any(line.startswith("Does not help: ") for line in lines)
    assert any("ConfigMap ns/none does not exist" in line for line in lines)


def test_names_from_outside_cannot_act_on_the_terminal() -> None:
    evil = "a\x1b[2J\u202eb"
    found = replace(
        FOUND,
        workload=replace(FOUND.workload, name=evil, kind=evil, group=evil),
        queue=evil,
        priority_class=evil,
        earlier=(replace(FOUND.workload, name=evil),),
        holders=((evil, 1.0, 0.0),),
        constraints=tuple(replace(each, text=evil) for each in FOUND.constraints),
        suggestions=tuple((replace(each, text=evil), costs) for each, costs in FOUND.suggestions),
        nothing=tuple(replace(each, bound=evil) for each in FOUND.nothing),
    )
    text = "\n".join(drawn(found, 80, wide=True))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "a\\x1b[2J\\u202eb" in text


def test_wide_characters_stay_in_their_columns() -> None:
    found = replace(
        FOUND, suggestions=tuple((replace(each, text="数据数据"), cost) for each, cost in FOUND.suggestions)
    )
    assert all(cell_len(line) <= 100 for line in drawn(found, 100))
