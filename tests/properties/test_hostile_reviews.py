"""Whatever is put before an admission review: it is answered, and in a time that grows with its size and no faster."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_sched.api import names
from kai_sched.reconcile.admission.review import BODY_MAX, AdmissionSettings, review
from tests.properties.hostile_values import encode
from tests.properties.hostile_wire import hostile, schema_of
from tests.properties.hostile_world import BASES, Hostile, hostiles, thing

LONG = settings(max_examples=3000, suppress_health_check=[*HealthCheck])
REVIEWED = {"Pod": "v1-pod", "Queue": "v2-queue", "PodGroup": "v2alpha2-podgroup", "Topology": "v1alpha1-topology"}
ROLES = sorted(role for role, content in BASES.items() if content["kind"] in REVIEWED)
ANSWER_OVER = 10_000  # bytes that an answer may be longer than what was asked
SETTINGS = AdmissionSettings(gpu_sharing=True, hami_core=True, block_visible_devices=True)


def asked(content: Any, operation: str = "CREATE", old: Any = None, **request: Any) -> bytes:
    """An AdmissionReview of the object."""
    request = {"uid": "1", "operation": operation, "name": "a", "namespace": "evil", "object": content, **request}
    request |= {"oldObject": old} if old is not None else {}
    return encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def check(path: str, body: bytes, settings: AdmissionSettings = SETTINGS) -> None:
    """It is answered, or said to be no review."""
    try:
        answer = review(path, body, settings, "abcdefg")
    except ValueError:
        return
    response = json.loads(answer)["response"]
    assert isinstance(response["allowed"], bool)
    assert "uid" in response
    if not response["allowed"]:
        assert response["status"]["message"]
        assert len(answer) <= len(body) + ANSWER_OVER, f"{len(body)} bytes are answered with {len(answer)}"


def paths_of(kind: str) -> list[str]:
    return [path for path in BODY_MAX if path.endswith(REVIEWED[kind].split("-")[-1])]


@given(
    found=hostiles(ROLES, 4), operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]), both=st.booleans()
)
def test_any_object_is_answered(found: Hostile, operation: str, both: bool) -> None:
    for path in paths_of(found.sane["kind"]):
        check(path, asked(found.content, operation, found.sane if both else found.content))
        check(path, asked(found.sane, operation, found.content))


@given(found=hostiles(ROLES, 2), path=st.sampled_from(sorted(BODY_MAX)), data=st.data())
def test_any_body_is_answered(found: Hostile, path: str, data: st.DataObject) -> None:
    """Another kind than the path is for, a request without its parts, and bytes that are no JSON."""
    body = asked(found.content)
    check(path, body)
    at = data.draw(st.integers(0, len(body)))
    check(path, body[:at])
    check(path, body[:at] + b"\xff" + body[at:])
    field = data.draw(st.sampled_from(["uid", "operation", "name", "namespace", "object", "oldObject"]))
    check(path, asked(found.content, **{field: data.draw(hostile(schema_of("Namespace")))}))


@pytest.mark.long
@LONG
@given(found=hostiles(ROLES, 6), operation=st.sampled_from(["CREATE", "UPDATE"]), both=st.booleans())
def test_any_object_is_answered_for_long(found: Hostile, operation: str, both: bool) -> None:
    for path in paths_of(found.sane["kind"]):
        check(path, asked(found.content, operation, found.sane if both else found.content))


# What is large


def _group(sub_groups: list[Any]) -> Any:
    return thing("PodGroup", "a", "evil", spec={"queue": "a", "minSubGroup": 1, "subGroups": sub_groups})


def _pod(**parts: Any) -> Any:
    content = json.loads(json.dumps(BASES["pod that waits"]))
    content["spec"] |= parts.pop("spec", {})
    content["metadata"] |= parts
    return content


def _named(count: int, **more: Any) -> list[Any]:
    return [{"name": f"s{i}", **{key: value(i) for key, value in more.items()}} for i in range(count)]


LARGE: dict[str, Any] = {
    "chain": lambda n: _group(
        [{"name": f"s{i}", "minMember": 0} | ({"parent": f"s{i - 1}"} if i else {}) for i in range(n)]
    ),
    "chain from below": lambda n: _group([{"name": f"s{i}", "parent": f"s{i + 1}", "minMember": 0} for i in range(n)]),
    "ring": lambda n: _group([{"name": f"s{i}", "parent": f"s{(i + 1) % n}"} for i in range(n)]),
    "star": lambda n: _group(_named(n, parent=lambda i: "s0" if i else None)),
    "twins": lambda n: _group([{"name": "s", "minMember": 1} for _ in range(n)]),
    "own parents": lambda n: _group(_named(n, parent=lambda i: f"s{i}")),
    "orphans": lambda n: _group(_named(n, parent=lambda i: f"none{i}")),
    "both minima": lambda n: _group(_named(n, minMember=lambda _: 1, minSubGroup=lambda _: 1)),
    "unknown fields": lambda n: _group([{"name": "a", **{f"name{i}": i for i in range(n)}}]),
    "levels": lambda n: thing(
        "Topology", "a", spec={"levels": [{"nodeLabel": f"l{i}", "alias": f"a{i}"} for i in range(n)]}
    ),
    "unknown resources": lambda n: thing("Queue", "a", spec={"resources": {f"gpus{i}": {} for i in range(n)}}),
    "annotations": lambda n: _pod(annotations={f"{names.MIG_PREFIX}{i}": "x" for i in range(n)}),
    "labels": lambda n: _pod(labels={f"{names.GPU_GROUPS_PREFIX}{i}": "x" for i in range(n)}),
    "containers": lambda n: _pod(
        annotations={names.GPU_FRACTION_ANNOTATION: "0.5", names.GPU_CONTAINER_ANNOTATION: "c"},
        spec={"containers": [{"name": f"c{i}", "env": [{"name": "A", "value": "b"}]} for i in range(n)]},
    ),
    "environment": lambda n: _pod(
        annotations={names.GPU_FRACTION_ANNOTATION: "0.5"},
        spec={"containers": [{"name": "c", "env": [{"name": f"E{i}", "value": "b"} for i in range(n)]}]},
    ),
    "volumes": lambda n: _pod(
        annotations={names.GPU_FRACTION_ANNOTATION: "0.5"}, spec={"volumes": [{"name": f"v{i}"} for i in range(n)]}
    ),
}
COUNT = 2_000
# Several times what a slow machine needs where the time grows with the size; where it grew with its square or cube the
# first factor alone would be 4 or 8.
FACTOR_MAX, LEAST_S, MOST_S = 3.2, 0.02, 1.0


def cpu_s(path: str, body: bytes) -> float:
    """The least of three times."""
    found = []
    for _ in range(3):
        started = time.process_time()
        check(path, body)
        found.append(time.process_time() - started)
    return min(found)


def grows_too_fast(small_s: float, large_s: float) -> bool:
    """Whether twice the size takes far more than twice the time; what is quick anyway is not measured so finely."""
    return large_s > FACTOR_MAX * max(small_s, LEAST_S)


@pytest.mark.parametrize("shape", sorted(LARGE))
def test_the_time_of_a_review_grows_with_the_size(shape: str) -> None:
    content = LARGE[shape](COUNT)
    for path in paths_of(content["kind"]):
        small_s = cpu_s(path, asked(content))
        assert small_s < MOST_S, f"{COUNT} take {small_s:.2f} s"
        large_s = cpu_s(path, asked(LARGE[shape](2 * COUNT)))
        assert not grows_too_fast(small_s, large_s), f"{small_s:.3f} s, twice as large {large_s:.3f} s"


def test_what_grows_too_fast_is_found() -> None:
    assert grows_too_fast(0.1, 0.4)
    assert not grows_too_fast(0.1, 0.25)
    assert not grows_too_fast(0.001, 0.01)
