"""The extremes of every field: what is refused, what is cut, and that nothing that holds room is lost or takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from kai_sched.api.podgroup import SUB_GROUP_DEPTH_MAX, SUB_GROUPS_MAX
from kai_sched.model.config import Config
from kai_sched.model.field_errors import MESSAGE_MAX, FieldError
from kai_sched.model.objects import Pod
from kai_sched.model.read.kinds import POD_GROUP, QUEUE, VERSIONS, Kind, Reader
from kai_sched.model.resources import QuantityError, parse_quantity
from kai_sched.model.sub_groups import survey
from kai_sched.model.times import DURATION_MAX_S, parse_duration, parse_time
from tests.unit.model.reading import clean, container, pod, read

INT32 = 2**31
INT64 = 2**63
TEN_YEARS_S = 10 * 365 * 86_400


def queue(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q"}, "spec": {"resources": {}, **spec}}


def group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g", "namespace": "ml"}, "spec": spec}


def chain(length: int, leaf: int = 1) -> list[dict[str, Any]]:
    """Sub-groups that stand above each other."""
    found = [{"name": f"s{i}", **({"parent": f"s{i - 1}"} if i else {})} for i in range(length)]
    found[-1]["minMember"] = leaf
    return found


class TestNumbers:
    @pytest.mark.parametrize("value", [-INT32, INT32 - 1])
    def test_priorities_have_32_bits(self, value: int) -> None:
        assert read("Queue", queue(priority=value))[0].priority == value
        assert read("PriorityClass", {"metadata": {"name": "p"}, "value": value})[0].value == value

    @pytest.mark.parametrize("value", [-INT32 - 1, INT32, INT64, 10**40])
    def test_and_no_more(self, value: int) -> None:
        with pytest.raises(FieldError, match=r"spec\.priority: .* from -2147483648 to 2147483647"):
            read_raw(QUEUE, b'{"metadata":{"name":"q"},"spec":{"resources":{},"priority":%d}}' % value)
        if value < 2**63:
            with pytest.raises(FieldError, match=r"value: .* from -2147483648 to 2147483647"):
                read("PriorityClass", {"metadata": {"name": "p"}, "value": value})

    @pytest.mark.parametrize("text", [b"1e999", b"-1e999", b"1e16"])
    def test_shares_are_finite(self, text: bytes) -> None:
        raw = b'{"metadata":{"name":"q"},"spec":{"resources":{"gpu":{"quota":%s}}}}' % text
        with pytest.raises(FieldError, match=r"spec\.resources\.gpu\.quota"):
            read_raw(QUEUE, raw)

    @pytest.mark.parametrize(
        "value", [b"1" * 30, b"1" * 5000, b"1e999", b'"\\ud800"', b'"\xff"', b"[" * 500 + b"]" * 500, b"NaN"]
    )
    @pytest.mark.parametrize("field", ["queue", "minMember", "unknown", "subGroups", "stalenessGracePeriod"])
    def test_what_json_can_hold_is_read_or_refused(self, field: str, value: bytes) -> None:
        """Nothing else is raised than the one error that callers know."""
        with suppress(FieldError):
            read_raw(POD_GROUP, b'{"metadata":{"name":"g"},"spec":{"%s":%s}}' % (field.encode(), value))

    def test_the_largest_requests_stay_numbers(self) -> None:
        spec = {"containers": [container(dict.fromkeys(("cpu", "memory", "x.io/y"), "9223372036854775807"))] * 1000}
        request = dict(clean(Pod, pod(spec)).shape.request)
        assert request["memory"] == pytest.approx(1000 * INT64)
        assert request["cpu"] == pytest.approx(1_000_000 * INT64)
        assert all(value < 1e30 for value in request.values())


def read_raw(kind: Kind, raw: bytes) -> Any:
    return Reader(Config()).read(kind, raw, lambda _field, _message: None)


class TestDurations:
    @pytest.mark.parametrize("text", ["2562047h", "9223372036.854775807s", "87601h"])
    def test_those_beyond_ten_years_are_cut_and_told(self, text: str) -> None:
        item, found = read("PodGroup", group(preemptionDelay=text, stalenessGracePeriod=text))
        assert (item.preemption_delay_s, item.staleness_grace_s) == (TEN_YEARS_S, TEN_YEARS_S)
        assert [field for field, _ in found] == ["spec.preemptionDelay", "spec.stalenessGracePeriod"]
        assert all(repr(text) in message and "87600h" in message for _, message in found)
        item, found = read("Queue", queue(preemptMinRuntime=text, reclaimMinRuntime=text))
        assert (item.preempt_min_runtime_s, item.reclaim_min_runtime_s) == (TEN_YEARS_S, TEN_YEARS_S)
        assert [field for field, _ in found] == ["spec.preemptMinRuntime", "spec.reclaimMinRuntime"]

    def test_ten_years_after_any_time_fit_64_bits(self) -> None:
        assert parse_duration("87600h") == DURATION_MAX_S == TEN_YEARS_S
        assert parse_duration("-2562047h") == -TEN_YEARS_S
        assert parse_duration("15000w", long_units=True) == TEN_YEARS_S
        assert parse_time("2200-12-31T23:59:59.999999999-99:99") + TEN_YEARS_S * 10**9 < INT64


class TestTimes:
    @pytest.mark.parametrize(("year", "nearest"), [("0000", "1900"), ("1899", "1900"), ("2311", "2200")])
    def test_a_pod_with_an_impossible_time_keeps_its_room(self, year: str, nearest: str) -> None:
        """A grace of centuries is allowed: the time of deletion is then centuries away, and the pod runs."""
        document = pod({"nodeName": "n", "containers": [container({"cpu": "1"})]})
        document["metadata"] |= dict.fromkeys(("creationTimestamp", "deletionTimestamp"), f"{year}-06-01T00:00:00Z")
        item, found = read("Pod", document)
        assert (item.node, dict(item.shape.request)["cpu"]) == ("n", 1000)
        assert parse_time(f"{nearest}-01-01T00:00:00Z") <= item.deleted_ns <= parse_time(f"{nearest}-12-31T00:00:00Z")
        assert [field for field, _ in found] == ["metadata.creationTimestamp", "metadata.deletionTimestamp"]

    @pytest.mark.parametrize("kind", ["PodGroup", "Queue"])
    def test_so_does_what_its_pods_run_by(self, kind: str) -> None:
        document = {"metadata": {"name": "x", "creationTimestamp": "2300-01-01T00:00:00Z"}, "spec": {"resources": {}}}
        item, found = read(kind, document)
        assert item.created_ns == parse_time("2200-12-31T00:00:00Z")
        assert "metadata.creationTimestamp" in [field for field, _ in found]


class TestNames:
    @pytest.mark.parametrize("name", ["a\nb", "a\x00", "a/b", "..", ".", "a%2fb", "x" * 254, "\u202e", "\x7f"])
    @pytest.mark.parametrize("kind", sorted(VERSIONS))
    def test_impossible_ones_are_refused(self, kind: str, name: str) -> None:
        if kind in ("Config", "SchedulingShard"):
            return
        with pytest.raises(FieldError) as caught:
            read(kind, {"metadata": {"name": name}, "value": 1, "spec": {"podName": "p", "selectedNode": "n"}})
        assert caught.value.field == "metadata.name"
        assert str(caught.value).isprintable()

    def test_so_are_namespaces(self) -> None:
        with pytest.raises(FieldError, match=r"metadata\.namespace"):
            read("Pod", pod(namespace="a\nb"))

    @pytest.mark.parametrize("field", ["queue", "priorityClassName"])
    def test_names_of_other_objects_are_no_longer_than_names(self, field: str) -> None:
        with pytest.raises(FieldError, match=rf"spec\.{field}: .*253"):
            read("PodGroup", group(**{field: "x" * 254}))

    def test_names_for_people_are_cut(self) -> None:
        assert len(read("Queue", queue(displayName="x" * 10_000))[0].display_name) == 253


class TestSubGroups:
    @pytest.mark.alone
    @pytest.mark.slow
    def test_the_most_there_can_be(self) -> None:
        flat = [{"name": f"s{i}", "minMember": 1} for i in range(SUB_GROUPS_MAX + 1)]
        assert len(read("PodGroup", group(subGroups=flat[:-1]))[0].sub_groups) == SUB_GROUPS_MAX
        with pytest.raises(FieldError, match=r"spec\.subGroups: .*10000"):
            read("PodGroup", group(subGroups=flat))

    def test_the_deepest_there_can_be(self) -> None:
        deepest = chain(SUB_GROUP_DEPTH_MAX)
        assert len(read("PodGroup", group(subGroups=deepest))[0].sub_groups) == SUB_GROUP_DEPTH_MAX
        for order in (1, -1):
            with pytest.raises(FieldError, match=r"subGroups\[\d+\]\.parent: .*at most 64 levels"):
                read("PodGroup", group(subGroups=chain(SUB_GROUP_DEPTH_MAX + 1)[::order]))

    def test_circles_are_left_to_those_who_tell_of_them(self) -> None:
        circle = [{"name": f"s{i}", "parent": f"s{(i + 1) % 100}"} for i in range(100)]
        assert len(read("PodGroup", group(subGroups=[*circle, {"name": "x", "parent": "s5"}]))[0].sub_groups) == 101

    def test_the_walk(self) -> None:
        parents = {"a": "", "b": "a", "c": "b", "lost": "gone", "x": "y", "y": "x", "below": "x", "own": "own"}
        depths, circles = survey(parents)
        assert depths == {"a": 1, "b": 2, "c": 3, "lost": 1, "x": 0, "y": 0, "below": 0, "own": 0}
        assert circles == {"x": ["x", "y"], "y": ["x", "y"], "own": ["own"]}


LONG = "1" * 250_000


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(lambda: parse_duration(LONG), id="duration"),
        pytest.param(lambda: parse_time(LONG), id="time"),
        pytest.param(lambda: parse_quantity(LONG + "x"), id="quantity"),
        pytest.param(lambda: read("Queue", queue(preemptMinRuntime=LONG)), id="field of ours"),
    ],
)
def test_long_texts_are_refused_at_once(attempt: Callable[[], Any]) -> None:
    start = time.monotonic()
    with pytest.raises((FieldError, QuantityError, ValueError)) as caught:
        attempt()
    assert time.monotonic() - start < 0.5
    assert len(str(caught.value)) < 2 * MESSAGE_MAX


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "nvidia.com/mig-1g.5gb"])
def test_long_annotations_of_any_pod_are_passed_over_at_once(key: str) -> None:
    """Pods of all schedulers are read, and annotations have up to 256 KiB."""
    start = time.monotonic()
    item, found = read("Pod", pod({"nodeName": "n"}, annotations={key: LONG + "x", "gpu-fraction": LONG + "x"}))
    assert time.monotonic() - start < 0.5
    assert (item.node, item.shape.share) == ("n", None)
    assert all(len(message) < MESSAGE_MAX for _, message in found)


def test_long_messages_keep_their_beginning_and_their_end() -> None:
    error = FieldError("spec.x", f"begins {LONG} ends")
    assert error.message.startswith("begins")
    assert error.message.endswith("ends")
    assert len(error.message) <= MESSAGE_MAX + 5


def test_unknown_fields_are_told_up_to_a_number() -> None:
    start = time.monotonic()
    _, found = read("Queue", {**queue(**{f"x{i}" * 1000: 1 for i in range(1000)}), **{f"y{i}": 1 for i in range(1000)}})
    assert time.monotonic() - start < 1
    assert 0 < len(found) <= 40


def test_numbers_of_node_selectors_have_64_bits() -> None:
    def term(value: str) -> Any:
        return {"matchExpressions": [{"key": "k", "operator": "Gt", "values": [value]}]}

    for value, good in (("-9223372036854775808", True), ("9223372036854775808", False), ("٣", False), ("1_0", False)):
        required = {"nodeSelectorTerms": [term(value)]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        item, found = read("Pod", pod({"affinity": affinity, "nodeName": "n"}))
        assert (item.node, not item.shape.unsupported, not found) == ("n", good, good)


def test_a_wrong_value_that_cannot_be_written_as_json_is_told() -> None:
    raw = b'{"metadata":{"name":"g"},"spec":{"queue":%s}}' % (b"1" * 40)
    with pytest.raises(FieldError, match=r"spec\.queue: expected a text, got 1111"):
        read_raw(POD_GROUP, raw)
    assert msgspec.json.decode(raw)["spec"]["queue"] == int("1" * 40)


class TestSystemClasses:
    """Kubernetes' own classes stand above all others, and count in kube-system only."""

    @pytest.mark.parametrize(
        ("namespace", "label", "own", "counts", "field"),
        [
            ("ml", "system-node-critical", "train", "train", "metadata.labels[priorityClassName]"),
            ("ml", "system-node-critical", None, "", "metadata.labels[priorityClassName]"),
            ("ml", None, "system-cluster-critical", "", "spec.priorityClassName"),
            ("ml", "train", "system-cluster-critical", "train", None),
            ("kube-system", "system-node-critical", None, "system-node-critical", None),
        ],
    )
    def test_of_pods(self, namespace: str, label: str | None, own: str | None, counts: str, field: str | None) -> None:
        spec = {"schedulerName": "kai-scheduler", **({"priorityClassName": own} if own else {})}
        labels = {"priorityClassName": label} if label else {}
        item, found = read("Pod", pod(spec, namespace=namespace, labels=labels))
        assert item.priority_class == counts
        assert [name for name, _ in found] == ([field] if field else [])
        assert all(repr(counts) in message or "the default priority" in message for _, message in found)

    def test_pods_of_other_schedulers_are_not_talked_about(self) -> None:
        item, found = read("Pod", pod({"priorityClassName": "system-node-critical"}))
        assert (item.priority_class, found) == ("", [])

    def test_of_pod_groups(self) -> None:
        item, found = read("PodGroup", group(priorityClassName="system-node-critical"))
        assert (item.priority_class, [field for field, _ in found]) == ("", ["spec.priorityClassName"])
        inside = group(priorityClassName="system-node-critical")
        inside["metadata"]["namespace"] = "kube-system"
        assert read("PodGroup", inside)[0].priority_class == "system-node-critical"
