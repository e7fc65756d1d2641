"""The data: the form that scenarios are checked in, and what plain clusters have on top."""

from __future__ import annotations

import json
from dataclasses import replace

import yaml

from kai_sched.model.config import Config
from kai_sched.model.problems import Problem
from kai_sched.plan.effects import Bind
from kai_sched.report.json import Cycle, cycle_document, document, encode, encoded, to_dict, to_yaml
from tests.unit.report.sample import WHY, sample


def cycle() -> Cycle:
    cluster, result = sample()
    settled = {"ml/large-0": result.pods["ml/large-0"]}
    return Cycle(cluster, result, settled)


def test_a_cycle_of_a_scenario() -> None:
    failed = {"status": "Failed", "node": "node-1"}
    pending = {"status": "Pending", "node": ""}
    assert to_dict(cycle_document(cycle(), None)) == {
        "decided": {
            "ml/broken-0": failed,
            "ml/large-0": pending,
            "ml/small-0": {"status": "Binding", "node": "node-1", "gpuGroups": ["g1"]},
        },
        "settled": {"ml/broken-0": failed, "ml/large-0": pending},
        "evicted": [],
        "moved": [],
        "nodes": {"node-1": {"idleGPUs": 6.0, "releasingGPUs": 0.0}},
        "podGroups": {"ml/large": {"reason": WHY.code, "message": WHY.message}},
    }


def test_a_cycle_of_a_plain_cluster_has_queues_and_groups_too() -> None:
    found = to_dict(cycle_document(cycle(), Config()))
    assert found["queues"]["team-a"] == {
        "parent": "dep",
        "priority": 100,
        "quota": {"cpu": -1.0, "memory": -1.0, "gpu": 1},
        "limit": {"cpu": -1.0, "memory": -1.0, "gpu": -1.0},
        "fairShare": {"cpu": 4000.0, "memory": 8e9, "gpu": 16 / 3},
        "allocated": {"cpu": 4000.0, "memory": 8e9, "gpu": 2},
        "allocatedNonPreemptible": {"cpu": 0.0, "memory": 0.0, "gpu": 0.0},
        "requested": {"cpu": 6000.0, "memory": 12e9, "gpu": 10},
    }
    assert found["groups"]["ml/small"] == {
        "queue": "team-a",
        "priority": 50,
        "preemptible": True,
        "minMember": 1,
        "counts": {"Binding": 1},
        "nodes": {"node-1": 1},
    }


def test_a_cycle_of_a_plain_cluster_has_a_summary_and_its_reasons_as_data() -> None:
    found = to_dict(cycle_document(cycle(), Config()))
    assert (found["summary"]["apiVersion"], found["summary"]["kind"]) == ("kai-sched.io/v1", "Overview")
    assert [each["name"] for each in found["summary"]["waiting"]] == ["large"]
    assert found["reasons"] == {"ml/large": {"code": WHY.code, "message": WHY.message}}


def test_pods_that_are_bound_show_the_devices_that_they_get() -> None:
    before = cycle()
    bind = Bind("ml/small-0", "", "node-1", ("new",))
    found = to_dict(cycle_document(replace(before, result=replace(before.result, effects=(bind,))), None))
    assert found["decided"]["ml/small-0"]["gpuGroups"] == ["new"]


def test_one_line_with_the_cycles_in_it_as_they_were_encoded() -> None:
    cycles = [cycle_document(cycle(), None)] * 2
    line = encode(document("a.json", "two\nlines", [encoded(item) for item in cycles], None))
    assert b"\n" not in line
    head = {"apiVersion": "kai-sched.io/v1", "kind": "Simulation", "file": "a.json", "name": "two\nlines"}
    assert json.loads(line) == {**head, "cycles": [to_dict(each) for each in cycles]}


def test_problems_are_told_for_plain_clusters() -> None:
    problem = Problem("a.yaml, document 2", "Pod ml/x", "spec", "wrong: mend it")
    assert to_dict(document("a.yaml", "", [], [problem]))["problems"] == [
        {"source": "a.yaml, document 2", "subject": "Pod ml/x", "field": "spec", "message": "wrong: mend it"}
    ]


def test_yaml_says_the_same_as_json() -> None:
    data = document("a.yaml", "x", [cycle_document(cycle(), Config())], [])
    assert yaml.safe_load(to_yaml(data)) == json.loads(encode(data))


def test_a_path_that_is_no_text_is_still_printed() -> None:
    assert json.loads(encode(document("bad\udc80.yaml", "x", [], None)))["file"] == "bad\\udc80.yaml"
