"""Workloads of all kinds that hold anything at all: grouped, or refused with a text, and never longer than that."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import POD_GROUP, Reader
from kai_sched.reconcile.grouping.registry import RULES, SKIPPED
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.workloads import SETTINGS, Thing, World, grouping

_KINDS = sorted({*RULES, *SKIPPED})
_FIELDS = [
    *("spec", "status", "replicas", "minReplicas", "numOfHosts", "suspend", "parallelism", "minAvailable", "size"),
    *("template", "metadata", "labels", "annotations", "name", "workerGroupSpecs", "groupName", "headGroupSpec"),
    *("rayClusterName", "activeServiceStatus", "pendingServiceStatus", "pytorchReplicaSpecs", "mpiReplicaSpecs"),
    *("tfReplicaSpecs", "Master", "Worker", "Launcher", "elasticPolicy", "runPolicy", "schedulingPolicy"),
    *("launcherCreationPolicy", "replicatedJobs", "startupPolicy", "startupPolicyOrder", "leaderWorkerTemplate"),
    *("subGroupPolicy", "subGroupSize", "type", "workerTemplate", "podgroups", "podReferences", "podGroupNames"),
    *("topologyConstraintGroupConfigs", "topologyConstraint", "packConstraint", "required", "preferred"),
    *("job", "options", "envs", "AZUREML_NODE_COUNT", "priorityClassName"),
]
_TEXT_KEYS = [
    value for name, value in vars(names).items() if name.endswith(("_LABEL", "_ANNOTATION")) and isinstance(value, str)
]
_TEXTS = st.sampled_from(
    [
        *("", "a", "0", "2", "-5", "9999999999", "9" * 25, "worker", "Master", "LeaderReady", "InOrder", "true"),
        *("x" * 300, "1" * 5000, "a\nb", "é", "../x", "system-node-critical", "2562047h", "preemptible"),
        "2200-01-01T00:00:00Z",
    ]
)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, 3, -1, 10_000, 2**31 - 1, 2**31, 2**63, 10**30, 1e300]),
    _TEXTS,
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=5),
    max_leaves=25,
)
_MAPS = st.dictionaries(st.sampled_from(_TEXT_KEYS), _TEXTS, max_size=5)
_BODIES = st.dictionaries(st.sampled_from(_FIELDS), _VALUES, max_size=6) | _VALUES
_NAMES = st.sampled_from(["w", "w", "w", "x" * 253, "a\nb", "", "..", 'a"b'])


def thing(draw: st.DrawFn, kind: tuple[str, str], by: Thing | None) -> Thing:
    """An object of the kind, which ``by`` owns."""
    meta: Thing = {"name": draw(_NAMES), "uid": "u", "labels": draw(_MAPS), "annotations": draw(_MAPS)}
    if by is not None:
        meta["ownerReferences"] = [
            {"apiVersion": by["apiVersion"], "kind": by["kind"], "name": by["metadata"]["name"], "uid": "u"}
        ]
    return {
        "apiVersion": kind[0],
        "kind": kind[1],
        "metadata": meta,
        "spec": draw(_BODIES),
        "status": draw(_BODIES),
    }


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Thing, list[Thing]]:
    """A pod, and what is above it."""
    top = None
    things: list[Thing] = []
    for _ in range(draw(st.integers(0, 2))):
        top = thing(draw, draw(st.sampled_from(_KINDS)), top)
        things.append(top)
    pod = thing(draw, ("v1", "Pod"), top)
    pod["metadata"] |= {"namespace": "ml", "name": "p-0"}
    pod["spec"] = {"schedulerName": "kai-scheduler", "priorityClassName": draw(_TEXTS)}
    pod["status"] = {}
    return pod, things


@given(workloads())
def test_any_workload_is_grouped_or_refused(case: tuple[Any, list[Thing]]) -> None:
    """What comes out can be read again; what is said is short, and what is refused can be named."""
    pod, things = case
    refused, found = "", None
    try:
        found = grouping(pod, World(things), SETTINGS)
    except (GroupingError, msgspec.ValidationError) as error:
        refused = str(error)
    if found is None:
        assert 0 < len(refused) < 3000
        return
    assert all(len(note.message) < 1100 for note in found.notes)
    told: list[str] = []
    raw = msgspec.json.encode(found.manifest)
    group = Reader(Config()).read(POD_GROUP, raw, lambda field, _message: told.append(field))
    assert group.key == f"ml/{found.name}"
    assert told == []
    assert "kubectl.kubernetes.io/last-applied-configuration" not in found.manifest["metadata"]["annotations"]
