"""Objects that hold anything at all are read or refused; what is read is finite, and fits 64 bits with all delays."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.api import names
from kai_sched.model.config import Config
from kai_sched.model.field_errors import MESSAGE_MAX, FieldError
from kai_sched.model.objects import Node, Object, Pod, PodGroup, PriorityClass, Queue, Volume, VolumeClaim
from kai_sched.model.read.kinds import CLASSES, Reader
from kai_sched.model.times import DURATION_MAX_S

INT64_MAX = 2**63 - 1
_KEYS = [
    *("queue", "minMember", "minSubGroup", "subGroups", "name", "parent", "preemptionDelay", "stalenessGracePeriod"),
    *("priorityClassName", "schedulingBackoff", "topologyConstraint", "priority", "parentQueue", "displayName"),
    *("preemptMinRuntime", "reclaimMinRuntime", "resources", "cpu", "memory", "gpu", "quota", "limit"),
    *("overQuotaWeight", "containers", "initContainers", "requests", "limits", "nvidia.com/gpu", "overhead", "ports"),
    *("hostPort", "containerPort", "hostNetwork", "nodeName", "schedulerName", "nodeSelector", "affinity", "key"),
    *("nodeAffinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
    *("preferredDuringSchedulingIgnoredDuringExecution", "matchExpressions", "operator", "values", "weight"),
    *("podAffinityTerm", "labelSelector", "matchLabels", "topologyKey", "namespaces", "tolerations", "effect"),
    *("volumes", "persistentVolumeClaim", "claimName", "ephemeral", "schedulingGates", "taints", "allocatable"),
    *("capacity", "storage", "podName", "selectedNode", "backoffLimit", "phase", "failedAttempts", "value"),
]
_TEXTS = [
    *("", "a", "1", "-1", "9E", "1e999", "9223372036854775807", "9" * 200, "0.000000001", "1Ki", "Gt", "In", "0s"),
    *("2562047h", "-2562047h", "9223372036.854775807s", "1h", "x" * 300, "1" * 5000, "a\nb", "a/b", "..", "\u202e"),
    *("2200-12-31T23:59:59Z", "2311-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "system-node-critical", "NoSchedule"),
]
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 10**30, 0.5, 1e300]),
    st.sampled_from(_TEXTS),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=20,
)
_LABELS = [
    value for name, value in vars(names).items() if name.endswith(("_LABEL", "_ANNOTATION")) and isinstance(value, str)
]
_MAPS = st.dictionaries(st.sampled_from([*_LABELS, "nvidia.com/mig-1g.5gb"]), st.sampled_from(_TEXTS), max_size=5)
_TIMES = st.sampled_from([None, *_TEXTS])
_BODIES = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=6)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """An object of some kind. Most have what all objects have, so that the rest is looked at."""
    meta = {
        "name": draw(st.sampled_from(["x", "x", "x", "x", *_TEXTS])),
        "namespace": draw(st.sampled_from(["ml", "ml", "kube-system", *_TEXTS])),
        "labels": draw(_MAPS),
        "annotations": draw(_MAPS),
        "creationTimestamp": draw(_TIMES),
        "deletionTimestamp": draw(_TIMES),
    }
    return {"metadata": meta, "spec": draw(_BODIES), "status": draw(_BODIES), "value": draw(_LEAVES)}


@given(st.sampled_from(sorted(CLASSES)), documents())
def test_anything_is_read_or_refused(kind: tuple[str, str], document: dict[str, Any]) -> None:
    told: list[str] = []
    refused, found = "", None
    try:
        found = Reader(Config()).read(kind, msgspec.json.encode(document), lambda *parts: told.append(": ".join(parts)))
    except FieldError as error:
        refused = str(error)
    assert all(len(text) < 2 * MESSAGE_MAX for text in (*told, refused))
    assert (found is None) == bool(refused)
    if found is not None:
        assert found.key.isprintable()
        assert all(_fits(value) for value in _numbers(found)), found


def _numbers(found: Object) -> list[float]:
    """The numbers of an object, times with the longest delay on top."""
    longest_ns = int(DURATION_MAX_S * 1e9)
    match found:
        case Pod():
            amounts = [value for _, value in found.shape.request]
            times = [found.created_ns, found.deleted_ns]
            share = found.shape.share
            parts = [share.quota, share.memory_mib, share.devices] if share else []
            return [*amounts, *(each + longest_ns for each in times), *parts]
        case PodGroup():
            times = [found.created_ns, found.last_start_ns, found.last_eviction_ns, found.stale_since_ns]
            durations = [found.preemption_delay_s * 1e9, (found.staleness_grace_s or 0.0) * 1e9]
            return [*(each + longest_ns for each in times), *durations, found.min_member or 0, found.min_sub_group or 0]
        case Queue():
            durations = [each or 0.0 for each in (found.preempt_min_runtime_s, found.reclaim_min_runtime_s)]
            shares = [value for each in (found.cpu, found.memory, found.gpu) for value in (each.quota, each.limit)]
            return [*(each * 1e9 for each in durations), *shares, found.priority, found.gpu.weight]
        case Node():
            return list(found.allocatable.values())
        case PriorityClass():
            return [found.value]
        case Volume() | VolumeClaim():
            return [found.size_bytes]
        case _:
            return []


def _fits(value: float) -> bool:
    """Whole numbers must fit 64 bits; amounts are floating-point and only must stay numbers, however many add up."""
    return -INT64_MAX <= value <= INT64_MAX if isinstance(value, int) else math.isfinite(value) and abs(value) < 1e30
