"""Queues and pod groups (semantics 0.4, 1.4; API 1.2, 1.3)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import PodGroup, Queue, Share, SubGroup, TopologyConstraint
from tests.unit.model.reading import clean, read


def queue(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q"}, "spec": {"resources": {}, **spec}}


def group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g", "namespace": "ml"}, "spec": spec}


class TestQueue:
    def test_units(self) -> None:
        resources = {
            "cpu": {"quota": 1500, "limit": -1, "overQuotaWeight": 2},
            "memory": {"quota": 2.5, "limit": -1},
            "gpu": {"quota": 0.5, "limit": 8, "overQuotaWeight": -1},
        }
        item = clean(Queue, queue(resources=resources))
        assert item.cpu == Share(1500, -1, 2)
        assert item.memory == Share(2_500_000, -1, 0)
        assert item.gpu == Share(0.5, 8, -1)

    def test_all_fields(self) -> None:
        document = queue(
            parentQueue="dep",
            displayName="Team",
            priority=7,
            preemptMinRuntime="1h",
            reclaimMinRuntime="30s",
        )
        document["metadata"].update(uid="u", creationTimestamp="1970-01-01T00:00:01Z", labels={"a": "b"})
        item = clean(Queue, document)
        assert (item.parent, item.display_name, item.priority) == ("dep", "Team", 7)
        assert (item.preempt_min_runtime_s, item.reclaim_min_runtime_s) == (3600, 30)
        assert (item.uid, item.created_ns, item.labels) == ("u", 10**9, {"a": "b"})

    def test_defaults(self) -> None:
        item = clean(Queue, queue(priority=None))
        assert (item.priority, item.preempt_min_runtime_s, item.parent) == (100, None, "")

    def test_without_resources_nothing_can_run_and_that_is_said(self) -> None:
        item, found = read("Queue", {"metadata": {"name": "q"}})
        assert (item.cpu, item.memory, item.gpu) == (Share(), Share(), Share())
        assert [field for field, _ in found] == ["spec.resources"]

    @pytest.mark.parametrize("field", ["quota", "limit", "overQuotaWeight"])
    @pytest.mark.parametrize("resource", ["cpu", "memory", "gpu"])
    @pytest.mark.parametrize("value", [-2, -0.5, 1e300])
    def test_impossible_bounds(self, resource: str, field: str, value: float) -> None:
        with pytest.raises(FieldError) as caught:
            read("Queue", queue(resources={resource: {field: value}}))
        assert caught.value.field == f"spec.resources.{resource}.{field}"

    @pytest.mark.parametrize("value", ["8", "8Gi", True, [1]])
    def test_a_bound_is_a_number(self, value: object) -> None:
        with pytest.raises(FieldError) as caught:
            read("Queue", queue(resources={"gpu": {"quota": value}}))
        assert caught.value.field == "spec.resources.gpu.quota"
        assert "expected a number" in caught.value.message

    def test_a_bad_duration(self) -> None:
        with pytest.raises(FieldError, match=r"spec\.preemptMinRuntime: '5 minutes' is not a duration"):
            read("Queue", queue(preemptMinRuntime="5 minutes"))

    def test_unknown_fields_are_told_with_the_likely_name(self) -> None:
        document = {**queue(parentQueu="x", resources={"gpu": {"qouta": 5}, "tpu": {}}), "sepc": {}}
        _, found = read("Queue", document)
        told = dict(found)
        assert list(told) == ["sepc", "spec.parentQueu", "spec.resources.tpu", "spec.resources.gpu.qouta"]
        assert "did you mean parentQueue?" in told["spec.parentQueu"]
        assert "did you mean quota?" in told["spec.resources.gpu.qouta"]

    def test_a_live_object_brings_no_warning(self) -> None:
        document = queue()
        document["metadata"].update(
            managedFields=[{"manager": "x"}], generation=3, resourceVersion="5", annotations={"a": "b"}
        )
        document["status"] = {"childQueues": ["a"], "allocated": {"cpu": "5"}, "whatever": 1}
        clean(Queue, document)


class TestPodGroup:
    def test_all_fields(self) -> None:
        constraint = {"topology": "t", "requiredTopologyLevel": "rack", "preferredTopologyLevel": "host"}
        document = group(
            minMember=0,
            queue="q",
            priorityClassName="train",
            preemptibility="non-preemptible",
            preemptionDelay="10m0s",
            stalenessGracePeriod="-1s",
            markUnschedulable=False,
            schedulingBackoff=1,
            topologyConstraint=constraint,
            subGroups=[
                {"name": "a", "minSubGroup": 1},
                {"name": "b", "parent": "A", "minMember": 2, "topologyConstraint": constraint},
            ],
        )
        document["metadata"]["annotations"] = {
            "kai.scheduler/stale-podgroup-timestamp": "1970-01-01T00:00:01Z",
            "kai.scheduler/last-start-timestamp": "1970-01-01T00:00:02Z",
            "kai.scheduler/last-eviction-timestamp": "1970-01-01T00:00:03Z",
        }
        item = clean(PodGroup, document)
        topology = TopologyConstraint("t", "rack", "host")
        assert item.key == "ml/g"
        assert (item.min_member, item.queue, item.priority_class, item.preemptible) == (0, "q", "train", False)
        assert (item.preemption_delay_s, item.staleness_grace_s) == (600, -1)
        assert (item.mark_unschedulable, item.scheduling_backoff, item.topology) == (False, 1, topology)
        assert item.sub_groups == (SubGroup("a", min_sub_group=1), SubGroup("b", "a", 2, None, topology))
        assert (item.stale_since_ns, item.last_start_ns, item.last_eviction_ns) == (10**9, 2 * 10**9, 3 * 10**9)

    def test_defaults(self) -> None:
        item = clean(PodGroup, group())
        assert (item.min_member, item.min_sub_group, item.preemptible, item.staleness_grace_s) == (
            None,
            None,
            None,
            None,
        )
        assert (item.mark_unschedulable, item.scheduling_backoff, item.preemption_delay_s) == (True, -1, 0)

    @pytest.mark.parametrize(
        ("backoff", "conditions", "pool"),
        [
            (1, [("1", "a", "True"), ("3", "b", "True"), ("2", "c", "True")], "b"),
            (0, [("1", "a", "True")], "a"),
            (-1, [("1", "a", "True")], ""),
            (None, [("1", "a", "True")], ""),
            (1, [], ""),
            (1, [("1", "a", "False")], ""),
            (1, [("x", "a", "True"), ("9" * 5000, "b", "True")], "a"),
        ],
    )
    def test_where_it_gave_up(self, backoff: int | None, conditions: list[tuple[str, str, str]], pool: str) -> None:
        document = group() if backoff is None else group(schedulingBackoff=backoff)
        found = [
            {"type": "UnschedulableOnNodePool", "transitionID": number, "nodePool": name, "status": status}
            for number, name, status in conditions
        ]
        document["status"] = {"schedulingConditions": found}
        assert clean(PodGroup, document).given_up_in == pool

    def test_a_constraint_without_a_topology_is_none(self) -> None:
        assert clean(PodGroup, group(topologyConstraint={"requiredTopologyLevel": "rack"})).topology is None

    def test_a_negative_delay_is_none(self) -> None:
        assert clean(PodGroup, group(preemptionDelay="-5s")).preemption_delay_s == 0

    def test_a_malformed_timestamp_annotation_is_told_and_ignored(self) -> None:
        document = group()
        document["metadata"]["annotations"] = {"kai.scheduler/last-start-timestamp": "never"}
        item, found = read("PodGroup", document)
        assert item.last_start_ns == 0
        assert [field for field, _ in found] == ["metadata.annotations[kai.scheduler/last-start-timestamp]"]

    def test_two_minimums_are_told(self) -> None:
        subs = [{"name": "a", "minMember": 1, "minSubGroup": 1}]
        _, found = read("PodGroup", group(minMember=1, minSubGroup=1, subGroups=subs))
        assert [field for field, _ in found] == ["spec.minMember", "spec.subGroups[0]"]

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"minMember": -1}, "spec.minMember"),
            ({"minMember": "4"}, "spec.minMember"),
            ({"minMember": 2**31}, "spec.minMember"),
            ({"preemptibility": "maybe"}, "spec.preemptibility"),
            ({"queue": 5}, "spec.queue"),
            ({"subGroups": [{"minMember": 1}]}, "spec.subGroups[0].name"),
            ({"subGroups": [{"name": "a"}, {"name": "", "parent": "a"}]}, "spec.subGroups[1].name"),
            ({"subGroups": [{"name": "a", "minMember": 1.5}]}, "spec.subGroups[0].minMember"),
            ({"preemptionDelay": "soon"}, "spec.preemptionDelay"),
        ],
    )
    def test_bad_values_name_the_field(self, spec: dict[str, Any], field: str) -> None:
        with pytest.raises(FieldError) as caught:
            read("PodGroup", group(**spec))
        assert caught.value.field == field

    def test_a_spec_that_is_no_mapping(self) -> None:
        with pytest.raises(FieldError, match="spec: expected a mapping"):
            read("PodGroup", {"metadata": {"name": "g"}, "spec": ["a"]})
