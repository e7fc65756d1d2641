"""Plans that were printed as JSON are read again and compared."""

from __future__ import annotations

import msgspec
import pytest

from kai_sched import Cluster, Config, run_cycle
from kai_sched.answers.difference import Difference
from kai_sched.model.field_errors import FieldError
from kai_sched.report.json import Cycle, cycle_document, document, encode
from kai_sched.report.plan_documents import answer_kind, plan_difference, read_plan
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

BASE = """
    node a gpu=8
    queue rich gpu=0
    queue poor gpu=8
    group over owner=PyTorchJob/llama queue=rich min=1 started=7200
    pod over-0..1 gpu=4 on=a
"""
MORE = f"{BASE}\ngroup asked owner=RayCluster/serve queue=poor min=1\npod asked-0 gpu=8"


def printed(cluster: Cluster) -> bytes:
    config = Config()
    result = run_cycle(cluster, config, NOW_NS)
    return encode(document("a.json", "", [cycle_document(Cycle(cluster, result, {}, NOW_NS), config)], []))


def between(before: str, after: str) -> Difference:
    first, second = (read_plan("a.json", printed(cluster_of(text))) for text in (before, after))
    return plan_difference(first, second)


def test_an_answer_is_told_from_objects_by_how_it_begins() -> None:
    plan = printed(cluster_of(BASE))
    assert answer_kind(plan) == answer_kind(plan[:60]) == answer_kind(b"\xef\xbb\xbf" + plan) == "Simulation"
    assert answer_kind(msgspec.json.format(plan)) == "Simulation"
    assert answer_kind(b"apiVersion: kai-sched.io/v1\nkind: Difference\n") == "Difference"
    assert answer_kind(b"") == ""
    assert answer_kind(b'{"apiVersion":"kai-sched.io/v1","kind":"ClusterDump"}') == ""
    assert answer_kind(b'{"apiVersion": "v1", "kind": "List", "items": []}') == ""
    assert answer_kind(b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Simulation"}}') == ""


def test_nothing_differs_from_itself() -> None:
    assert between(MORE, MORE).is_empty


def test_who_comes_and_who_pays() -> None:
    found = between(BASE, MORE)
    assert found.texts == [
        "no longer runs: llama (PyTorchJob)",
        "new: serve (RayCluster)",
        "evicted: llama (rich): 2 pods, 8 GPUs, up 2h",
        "queue poor: fair share 0 -> 8, allocated 0 -> 8 GPUs",
        "queue rich: fair share 8 -> 0, allocated 8 -> 0 GPUs",
    ]


def test_the_other_way_round() -> None:
    found = between(MORE, BASE)
    assert [each.name for each in found.gone] == ["serve"]
    assert [each.name for each in found.spared] == ["llama"]
    assert found.evicted == ()


def test_a_plan_of_another_version_is_refused_with_the_remedy() -> None:
    with pytest.raises(FieldError, match=r"not a plan of this version .*: simulate its cluster again"):
        read_plan("b.json", b'{"apiVersion": "kai-sched.io/v1", "kind": "Simulation", "cycles": 5}')


def test_a_plan_of_a_scenario_has_no_summary() -> None:
    cluster = cluster_of(BASE)
    result = run_cycle(cluster, Config(), NOW_NS)
    data = encode(document("a.json", "x", [cycle_document(Cycle(cluster, result, {}, NOW_NS), None)], None))
    with pytest.raises(FieldError, match="a plan of a scenario"):
        read_plan("a.json", data)
