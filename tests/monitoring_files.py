"""The alerts and boards of the chart, as the tests read them: every expression, and the metrics that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tests.tree import ROOT

FOLDER = ROOT / "charts" / "kai-scheduler" / "files" / "monitoring"
ALERTS = FOLDER / "alerts.yaml"
METRIC = re.compile(r"\b((?:kai|process|python)_[a-z0-9_]+)\b")
PARTS = re.compile(r"_(bucket|count|sum)$")  # of histograms
# What Grafana puts in place of variables: everything, and a range.
VARIABLES = {"$__rate_interval": "1m", "$job": ".*", "$queue": ".*"}


class Expression(NamedTuple):
    """An expression and where it stands."""

    place: str
    text: str

    @property
    def metrics(self) -> set[str]:
        """The metrics that it names, histograms without their parts."""
        return {PARTS.sub("", name) for name in METRIC.findall(self.text)}


def alerts() -> list[dict[str, Any]]:
    """All alerts."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def boards() -> dict[str, dict[str, Any]]:
    """The boards by the name of their file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "boards").glob("*.json"))}


def alert_expressions() -> Iterator[Expression]:
    """The expressions of all alerts."""
    for rule in alerts():
        yield Expression(rule["alert"], rule["expr"])


def board_expressions() -> Iterator[Expression]:
    """The expressions of all panels, with values for their variables."""
    for name, board in boards().items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                text = target["expr"]
                for variable, value in VARIABLES.items():
                    text = text.replace(variable, value)
                yield Expression(f"{name}: {panel['title']} {target['refId']}", text)
