"""The PodGroup of every kind of workload (API 4.4 to 4.10)."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.reconcile.grouping.registry import RULES, SKIPPED, SKIPPED_IN_GROUP
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.kinds import Row
from tests.unit.reconcile.kinds_more import ALL
from tests.unit.reconcile.workloads import World, grouping, line, places


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


ODD = st.sampled_from([None, True, -1, 0, 2**31, 10**40, 1.5, "", "x", "-1", "/", [], {}, [[]], ["a"], {"a": "b"}])


@given(row=st.sampled_from([row for row in ALL if row.things]), data=st.data())
def test_odd_values_give_a_group_or_a_fault(row: Row, data: st.DataObject) -> None:
    """Anything may stand in an object of a kind that is not ours. Its own rule must not fail on it."""
    things = json.loads(json.dumps(row.things))
    parts = [thing[part] for thing in things for part in ("spec", "status") if part in thing]
    choices = [(part, path) for part in parts for path in places(part)] or [({"x": 0}, ("x",))]
    for part, path in data.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2)):
        with contextlib.suppress(KeyError, IndexError, TypeError):  # the first change may take away the second's place
            parent = part
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = copy.deepcopy(data.draw(ODD))
    with contextlib.suppress(GroupingError):
        assert grouping(row.pod, World(things)).name
