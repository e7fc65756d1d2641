"""Topologies (semantics 10; API 1.5)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import Topology
from tests.unit.model.reading import clean, read


def topology(*levels: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "t", "uid": "u"}, "spec": {"levels": list(levels)}}


def test_levels_have_labels_and_other_names() -> None:
    found = clean(Topology, topology({"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack"}))
    assert found == Topology("t", "u", ("zone", "rack"), ("z", ""))
    assert [found.level(name) for name in ("zone", "z", "rack", "", "row")] == [1, 1, 2, 0, 0]


@pytest.mark.parametrize(
    ("levels", "field"),
    [
        ([], "spec.levels"),
        ([{"nodeLabel": f"level-{n}"} for n in range(17)], "spec.levels"),
        ([{"nodeLabel": "a"}, {"nodeLabel": "a"}], "spec.levels[1].nodeLabel"),
        ([{"nodeLabel": "a", "alias": "b"}, {"nodeLabel": "b"}], "spec.levels[1].nodeLabel"),
        ([{"nodeLabel": "a", "alias": "x"}, {"nodeLabel": "b", "alias": "x"}], "spec.levels[1].alias"),
        ([{"nodeLabel": 1}], "spec.levels[0].nodeLabel"),
        ([{"alias": "x"}], "spec.levels[0].nodeLabel"),
    ],
)
def test_what_is_wrong_names_the_field(levels: list[dict[str, Any]], field: str) -> None:
    with pytest.raises(FieldError) as refused:
        read("Topology", topology(*levels))
    assert refused.value.field == field
