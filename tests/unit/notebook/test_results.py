"""How results are shown: short reprs, escaped HTML, DataFrames, and names to complete."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pandas
import pytest

import kai_sched
from kai_sched import Config, LoadedCluster
from kai_sched.answers.waiting import Waiting
from kai_sched.notebook.arguments import moment, time_ns
from kai_sched.notebook.tables import ROWS_SHOWN_MAX, Amounts, Rows, columns, html_text
from kai_sched.report.overview_text import CSV_COLUMNS
from tests.tree import ROOT
from tests.unit.cli.command import environment

TEAMS = ROOT / "examples" / "teams"
EVIL = "<script>alert(1)</script>&"
LINES_MAX = 320  # characters of a repr: a few lines


@pytest.fixture(scope="module")
def teams() -> LoadedCluster:
    return kai_sched.load(TEAMS)


@pytest.fixture(scope="module")
def everything(teams: LoadedCluster) -> dict[str, Any]:
    """Each kind of result, by name."""
    found = teams.simulate(cycles=2)
    first = found.cycles[0]
    return {
        "cluster": teams,
        "simulation": found,
        "cycle": first,
        "queues": first.queues,
        "queue": first.queues["team-a"],
        "amounts": first.queues["team-a"].quota,
        "pods": first.pods,
        "pod": first.pods["ml-team-a/notebook-0"],
        "nodes": first.nodes,
        "node": first.nodes["gpu-node-1"],
        "waiting": first.waiting,
        "waiting workload": first.waiting[0],
        "placed": first.placed,
        "placed workload": first.placed[0],
        "running": first.running,
        "evictions": first.evictions,
        "explanation": teams.explain("llama-pretraining"),
        "difference": teams.diff(teams.drain("gpu-node-1")),
        "pods of the cycle": first.result.pods,
        "no pods": found.result.line,
    }


def test_reprs_fit_a_few_lines(everything: dict[str, Any]) -> None:
    for name, found in everything.items():
        text = repr(found)
        assert len(text) <= LINES_MAX, (name, text)
        assert " object at 0x" not in text, name
    assert repr(everything["simulation"]) == (
        "<SimulationResult: 2 cycles, the last one: 0 pods bound, 0 pipelined, 0 evicted; 3 pods in 1 workload wait>"
    )
    assert repr(everything["queue"]) == "<queue team-a, GPUs: quota 16, fair_share 16, allocated 9, requested 33>"
    assert repr(everything["waiting"]) == "<1 waiting workload: llama-pretraining>"
    assert repr(everything["pods of the cycle"]).startswith("<12 by name: ml-team-a/bert-finetuning-0, ")
    assert repr(everything["cluster"]).endswith(
        "/namespaces.yaml: 4 nodes, 3 queues, 12 pods, as of 2026-01-01 09:30 UTC>"
    )


def test_signatures_show_no_objects() -> None:
    for call in (kai_sched.run_cycle, kai_sched.load, *(getattr(LoadedCluster, name) for name in PUBLIC)):
        text = str(inspect.signature(call))
        assert "<class" not in text
        assert "Hints(" not in text
        assert inspect.getdoc(call)


PUBLIC = [name for name in dir(LoadedCluster) if not name.startswith("_") and callable(getattr(LoadedCluster, name))]


def test_names_are_complete(everything: dict[str, Any]) -> None:
    wanted = "diff drain explain fit simulate uncordon with_nodes with_objects with_queue without"
    assert set(wanted.split()) <= set(PUBLIC)
    assert {"queues", "pods", "nodes", "waiting", "placed", "evictions", "to_dict", "to_pandas"} <= set(
        dir(everything["simulation"])
    )
    assert everything["queues"]._ipython_key_completions_() == ["department-1", "team-a", "team-b"]
    for name in ("simulation", "explanation", "difference"):
        for public in (each for each in dir(type(everything[name])) if not each.startswith("_")):
            assert hasattr(everything[name], public)


class Tags(HTMLParser):
    """The tags of a text, and what is between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, _: Any) -> None:
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_html_is_escaped_and_whole(teams: LoadedCluster) -> None:
    found = teams.simulate()
    evil = Rows("waiting workload", Waiting, [replace(found.waiting[0], name=EVIL, message=EVIL)], str)
    for each in (found, found.cycles[0], evil, found.queues, found.pods, teams.explain("llama-pretraining")):
        tags = Tags(each._repr_html_())
        assert tags.tags <= {"pre", "table", "thead", "tbody", "tr", "th", "td", "p"}
        assert tags.open == []
    assert EVIL in Tags(evil._repr_html_()).words
    assert Tags(html_text([EVIL, EVIL])).words == f"{EVIL}\n{EVIL}"


def test_long_tables_say_what_is_left_out() -> None:
    rows = Rows("amount", Amounts, [Amounts(k, 0, 0) for k in range(ROWS_SHOWN_MAX + 5)], str)
    text = rows._repr_html_()
    assert text.count("<tr>") == ROWS_SHOWN_MAX + 1
    assert text.endswith("<p>and 5 more</p>")


def test_data_frames(everything: dict[str, Any]) -> None:
    cycle = everything["cycle"]
    frame = cycle.to_pandas()
    assert list(frame.columns) == list(CSV_COLUMNS)
    assert dict(zip(frame["name"], frame["state"], strict=True))["llama-pretraining"] == "waiting"
    assert list(cycle.queues.to_pandas()["fair_share_gpu"]) == [24.0, 16.0, 8.0]
    assert cycle.pods.to_pandas().groupby("status").size()["Binding"] == 8
    assert cycle.waiting.to_pandas().loc[0, "gpus"] == 24.0
    assert cycle.placed.to_pandas().loc[0, "nodes"] == {"gpu-node-1": 2}
    for name in ("queues", "pods", "nodes", "waiting", "placed", "running", "evictions"):
        table = everything[name]
        found = table.to_pandas()
        assert isinstance(found, pandas.DataFrame)
        assert len(found) == len(table)
        assert list(found.columns) == columns(table.kind)
    assert {"text", "gpus", "queue"} <= set(everything["evictions"].to_pandas().columns)


@pytest.mark.slow
def test_without_pandas_the_remedy_is_told() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import kai_sched\n"
        "try: kai_sched.load('examples/teams').simulate().to_pandas()\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "to_pandas needs pandas: install it with `pip install pandas`\n"


def test_times_come_back_as_they_were() -> None:
    text = "2026-01-31T12:00:00.123456Z"
    assert time_ns(moment(time_ns(text))) == time_ns(text)
    assert time_ns(pandas.Timestamp("2026-01-31T12:00:00", tz="Europe/Berlin")) == time_ns("2026-01-31T11:00:00Z")


def test_the_config_has_a_repr() -> None:
    assert "object at" not in repr(Config())
