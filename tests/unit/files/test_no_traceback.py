"""Whatever stands in a file, reading it ends with problems, never with an exception."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_sched.files.load import load
from tests.unit.files.inputs import listing, queue, thing
from tests.unit.files.test_workloads import MADE
from tests.unit.files.workloads import RAY_SPEC, new
from tests.unit.reconcile.workloads import owner, places, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
POD = thing(
    "Pod",
    "p",
    {
        "schedulerName": "kai-scheduler",
        "nodeName": "n",
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": SELECTOR["matchExpressions"]}]}},
            "podAffinity": {REQUIRED: [{"topologyKey": "a", "labelSelector": SELECTOR, "matchLabelKeys": ["a"]}]},
        },
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}],
        "containers": [
            {
                "name": "c",
                "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 1}},
                "ports": [{"containerPort": 1, "hostPort": 2}],
                "env": [{"name": "x", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
                "volumeMounts": [{"name": "v"}],
            }
        ],
        "overhead": {"memory": "1"},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "d"}}],
        "schedulingGates": [{"name": "g"}],
    },
    "ml",
    status={"phase": "Running"},
)
POD["metadata"] |= {
    "labels": {"kai.scheduler/queue": "a"},
    "annotations": {"pod-group-name": "g", "gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"},
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
GROUP_SPEC = {
    "queue": "a",
    "minMember": 1,
    "preemptionDelay": "1s",
    "subGroups": [{"name": "x", "parent": "y", "minMember": 1}, {"name": "y"}],
    "topologyConstraint": {"topology": "t"},
}
NODE = thing(
    "Node",
    "n",
    {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": False},
    status={"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
)
SCENARIO = thing(
    "Scenario",
    "s",
    {
        "actions": ["allocate"],
        "cycles": 1,
        "now": "2026-01-01T00:00:00Z",
        "schedulerConfig": {"tiers": [{"plugins": [{"name": "elastic", "arguments": {"a": "b"}}]}]},
        "objects": [queue("a", preemptMinRuntime="5s"), NODE, thing("PodGroup", "g", GROUP_SPEC, "ml"), POD],
    },
)
SHARD = thing("SchedulingShard", "x", {"kValue": 1, "plugins": {"elastic": {"enabled": True}}, "args": {"v": "1"}})
PLAIN = listing(*SCENARIO["spec"]["objects"], SHARD, thing("Config", "kai-config", {"global": {"schedulerName": "k"}}))

OWNED = pod("of-a-dump", owner("ray.io/v1 RayCluster", "dump", spec=RAY_SPEC), labels={"ray.io/group": "a"})
CONFIG_MAP = thing("ConfigMap", "kinds", namespace="kai", data={"types": "[]", "rules": "[]"})
KINDS_OF = {"defaultPrioritiesConfigMapName": "kinds", "defaultPrioritiesConfigMapNamespace": "kai"}
WORKLOADS = listing(
    queue("team-a"),
    owner("ray.io/v1 RayCluster", "dump", spec=RAY_SPEC),
    OWNED,
    CONFIG_MAP,
    thing("Config", "kai-config", {"podGrouper": {"args": KINDS_OF}}),
    *(new(kind, f"w{number}", spec) for number, (kind, spec, _) in enumerate(MADE)),
)

ODD = st.sampled_from(
    [None, True, -1, 0, 1, 2**31, 2**63, 10**40, -0.5, 1e300, "", "x", "-1", "1e99", "/", "\x00", [], {}, [[]], ["a"]]
)
ODD_VALUES = (
    ODD
    | st.dictionaries(st.sampled_from(["name", "key", "a", "cpu", "items"]), ODD, max_size=2)
    | st.lists(ODD, max_size=2)
)


@pytest.mark.parametrize("document", [SCENARIO, PLAIN, WORKLOADS], ids=["scenario", "plain", "workloads"])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_odd_values_anywhere(document: dict[str, Any], data: st.DataObject, tmp_path: Path) -> None:
    changed = json.loads(json.dumps(document))  # no part of it twice the same object
    for path in data.draw(st.lists(st.sampled_from(places(document)), min_size=1, max_size=2)):
        parent = changed
        try:
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = copy.deepcopy(data.draw(ODD_VALUES))
        except (KeyError, IndexError, TypeError):
            continue  # the first change took away what the second was to change
    file = tmp_path / "in.json"
    file.write_text(json.dumps(changed))
    loaded = load([str(file)])
    assert all("\n" not in problem.message for problem in loaded.problems)
    assert loaded.fatal or len(loaded.cases) == 1


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    for name in ("in.json", "in.yaml"):
        file = tmp_path / name
        file.write_bytes(content)
        assert load([str(file)]).fatal
