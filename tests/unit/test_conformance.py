"""The conformance data of the folder that KAI_CONFORMANCE_DIR names: divisions among queues, and scenarios.

Without the variable nothing is collected here, and the header of the test run says so (tests/conftest.py).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kai_sched.solver.stages.fair_share import divide
from tests.conftest import CONFORMANCE_DIR
from tests.oracle.fair_share import UNLIMITED, Claim
from tests.oracle.fair_share import divide as divide_slowly

RELATIVE = 1e-6
SIMULATE = [sys.executable, "-m", "kai_sched.cli.main", "simulate", "--output", "json"]
Division = dict[str, Any]


def divisions(folder: Path) -> list[Division]:
    """All divisions of the file, one a line."""
    return [json.loads(line) for line in (folder / "fairshare.jsonl").read_text().splitlines()]


def claims_of(division: Division, resource: str) -> list[Claim]:
    """The sibling queues in the file's order; age by creation time, then by name, which stands for the UID."""
    by_age = sorted(division["queues"], key=lambda queue: (queue["creationTimestamp"], queue["name"]))
    ages = {queue["name"]: age for age, queue in enumerate(by_age)}
    claims = []
    for queue in division["queues"]:
        one = queue["resources"][resource]
        claim = Claim(one["quota"], one["limit"], one["overQuotaWeight"], one["request"], queue["priority"])
        claim.usage, claim.age = one["usage"], ages[queue["name"]]
        claims.append(claim)
    return claims


def by_kernel(total: float, k_value: float, claims: list[Claim]) -> list[float]:
    columns = [
        np.array([getattr(c, name) for c in claims]) for name in ("quota", "limit", "weight", "request", "usage")
    ]
    columns[:2] = [np.where(column == UNLIMITED, np.inf, column) for column in columns[:2]]
    priority, rank = (np.array([getattr(c, name) for c in claims], np.int64) for name in ("priority", "age"))
    return divide(total, k_value, *columns, priority, rank).tolist()


def check_division(division: Division) -> None:
    """The kernel and its twin give every queue the recorded share of every resource."""
    for resource, total in division["total"].items():
        expected = [queue["resources"][resource]["fairShare"] for queue in division["queues"]]
        claims = claims_of(division, resource)
        k_value = float(division["kValue"])
        assert by_kernel(float(total), k_value, claims) == pytest.approx(expected, rel=RELATIVE), resource
        assert divide_slowly(float(total), claims, k_value) == pytest.approx(expected, rel=RELATIVE), resource


def check_scenarios(folder: Path) -> None:
    """The check that comes with the data is content with every scenario."""
    check = [sys.executable, str(folder / "check.py"), "--cmd", shlex.join(SIMULATE), "--failures", "99"]
    run = subprocess.run([*check, str(folder)], capture_output=True, text=True, check=False)
    held, total = re.findall(r"^all: (\d+) of (\d+) scenarios hold", run.stdout, re.MULTILINE)[0]
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(held) == int(total) > 0


FOLDER = os.environ.get(CONFORMANCE_DIR)

if FOLDER is not None:

    @pytest.mark.parametrize("division", divisions(Path(FOLDER)), ids=lambda division: division["name"])
    def test_division(division: Division) -> None:
        check_division(division)

    @pytest.mark.slow
    def test_scenarios() -> None:
        check_scenarios(Path(str(FOLDER)))


DIVISION: Division = {
    "name": "by hand",
    "kValue": 1,
    "total": {"gpu": 10},
    "queues": [
        {
            "name": name,
            "priority": 100,
            "creationTimestamp": f"2026-01-01T00:0{age}:00Z",
            "resources": {"gpu": {"limit": -1, "usage": 0, "quota": quota, "overQuotaWeight": weight, **rest}},
        }
        for age, (name, quota, weight, rest) in enumerate(
            [
                ("a", 2, 1, {"request": 10, "fairShare": 3.5}),
                ("b", 2, 2, {"request": 10, "fairShare": 5}),
                ("c", 0, 1, {"request": 1.5, "fairShare": 1.5}),
            ]
        )
    ],
}


def test_a_wrong_share_is_found() -> None:
    """The first worked example of semantics 2.3 holds, and the check on the data does fail on a share that is off."""
    check_division(DIVISION)
    queues = DIVISION["queues"]
    off = {**queues[0], "resources": {"gpu": {**queues[0]["resources"]["gpu"], "fairShare": 4}}}
    with pytest.raises(AssertionError):
        check_division({**DIVISION, "queues": [off, *queues[1:]]})
