"""The PodGroup of every kind of workload (API contract 4.4 to 4.10)."""

from __future__ import annotations

import pytest

from kai_sched.reconcile.grouping.registry import RULES, SKIPPED, SKIPPED_IN_GROUP
from tests.unit.reconcile.kinds import Row
from tests.unit.reconcile.kinds_more import ALL
from tests.unit.reconcile.workloads import World, grouping, line


@pytest.mark.parametrize("row", ALL, ids=[row.title for row in ALL])
def test_group_of_each_kind(row: Row) -> None:
    found = grouping(row.pod, World(row.things))
    assert (line(found), found.notes) == (row.group, ())


def test_every_kind_of_the_table_has_a_row() -> None:
    kinds = {(thing["apiVersion"], thing["kind"]) for row in ALL for thing in (*row.things, row.pod)}
    groups = {(version.rpartition("/")[0], kind) for version, kind in kinds}
    assert RULES.keys() - kinds == set()
    assert SKIPPED - kinds == set()
    # the other three of run.ai differ from this one in nothing but their name
    alike = {
        ("run.ai", f"{each}Workload") for each in ("Interactive", "Distributed", "Inference", "DistributedInference")
    }
    assert SKIPPED_IN_GROUP - groups - alike == set()
