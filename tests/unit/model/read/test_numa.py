"""What NUMA alignment goes by, as it is read: zones of nodes, requests of pods, and what pods hold (semantics 12.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kai_sched.api.names import NUMA_OBSERVED_ANNOTATION, NUMA_PREDICTED_ANNOTATION
from kai_sched.model.config import OPERATOR_PLUGINS, Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.numa import (
    CONTAINERS_MAX,
    ZONES_MAX,
    Alignment,
    ContainerRequest,
    NodeZones,
    NumaRequest,
    ZoneAmounts,
    placement_text,
    zone_order,
)
from kai_sched.model.objects import Pod
from kai_sched.model.read.kinds import Reader
from tests.unit.model.reading import Findings, clean, container, pod, read

GPU = "nvidia.com/gpu"
GI = 2.0**30


def reader(**arguments: str) -> Reader:
    return Reader(Config(plugins={**OPERATOR_PLUGINS, "numa": arguments}))


def zone(name: str, kind: str = "Node", **amounts: str) -> dict[str, Any]:
    resources = [
        {"name": each, "capacity": "99", "allocatable": has, "available": "1"} for each, has in amounts.items()
    ]
    return {"name": name, "type": kind, "resources": resources}


def topology(*zones: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "zones": list(zones), **more}


def zones_of(document: dict[str, Any], **arguments: str) -> tuple[NodeZones, Findings]:
    return read("NodeResourceTopology", document, reader(**arguments))


def attributes(**values: str) -> list[dict[str, str]]:
    return [{"name": f"topologyManager{name}", "value": value} for name, value in values.items()]


class TestZones:
    def test_zones_of_type_node_by_their_number_and_then_by_name(self) -> None:
        document = topology(*map(zone, ["node-10", "node-2", "b", "a", "x2"]), zone("core-0", "Core"))
        found, warnings = zones_of(document)
        assert [each.name for each in found.zones] == ["a", "b", "node-2", "x2", "node-10"]
        assert warnings == []

    def test_amounts_are_in_scheduler_units_and_only_those_that_count_are_read(self) -> None:
        document = topology(zone("node-0", cpu="1500m", memory="1Gi", **{GPU: "2", "amd.com/gpu": "1"}))
        has = {"cpu": 1500.0, "memory": GI, "gpu": 3.0}
        (each,) = zones_of(document)[0].zones
        assert (each.allocatable, each.available) == (has, {})
        (each,) = zones_of(document, reconstructAvailable="false")[0].zones
        assert (each.allocatable, each.available) == (has, {"cpu": 1000.0, "memory": 1.0, "gpu": 2.0})

    @pytest.mark.parametrize(
        ("fields", "policy", "pod_scope"),
        [
            ({}, Alignment.NONE, False),
            ({"attributes": attributes(Policy="none", Scope="pod")}, Alignment.NONE, True),
            ({"attributes": attributes(Policy="best-effort")}, Alignment.BEST_EFFORT, False),
            ({"attributes": attributes(Policy="restricted", Scope="container")}, Alignment.RESTRICTED, False),
            ({"attributes": attributes(Policy="single-numa-node", Scope="pod")}, Alignment.SINGLE, True),
            ({"topologyPolicies": ["SingleNUMANodePodLevel", "None"]}, Alignment.SINGLE, True),
            ({"topologyPolicies": ["Restricted"]}, Alignment.RESTRICTED, False),
            ({"topologyPolicies": ["RestrictedPodLevel"], "attributes": attributes(Scope="container")}, 2, False),
            ({"topologyPolicies": ["BestEffortPodLevel"], "attributes": attributes(Policy="none")}, 0, False),
            ({"topologyPolicies": ["odd"]}, Alignment.NONE, False),
        ],
    )
    def test_policy_and_scope(self, fields: dict[str, Any], policy: int, pod_scope: bool) -> None:
        found, warnings = zones_of(topology(**fields))
        assert (found.policy, found.pod_scope, warnings) == (policy, pod_scope, [])

    def test_a_policy_that_is_not_known_aligns_nothing_and_is_told(self) -> None:
        found, ((field, message),) = zones_of(topology(attributes=attributes(Policy="strict")))
        assert found.policy == Alignment.NONE
        assert (field, "'strict' is not known" in message) == ("attributes", True)

    @pytest.mark.parametrize(
        ("zones", "field"),
        [
            ([zone("")], "zones[0].name"),
            ([zone("node-0"), zone("node-0")], "zones[1].name"),
            ([zone("node-0", cpu="much")], "zones[0].allocatable.cpu"),
            ([zone("node-0", cpu="-1")], "zones[0].allocatable.cpu"),
            ([zone(f"node-{z}") for z in range(ZONES_MAX + 1)], "zones"),
        ],
    )
    def test_unusable_ones(self, zones: list[dict[str, Any]], field: str) -> None:
        with pytest.raises(FieldError) as raised:
            zones_of(topology(*zones))
        assert raised.value.field == field

    def test_without_the_plugin_nothing_is_read(self) -> None:
        """So that reports of agents are no change for the scheduler."""
        assert read("NodeResourceTopology", topology(zone("node-0", cpu="much"))) == (NodeZones("n"), [])


def request(spec: dict[str, Any], **status: str) -> NumaRequest | None:
    return clean(Pod, {**pod(spec), "status": status}, reader()).shape.numa


LIMITS = {"cpu": "2", "memory": "1Gi", GPU: "1"}


class TestRequest:
    def test_a_guaranteed_pod_aligns_all(self) -> None:
        amounts = (("cpu", 2000.0), ("gpu", 1.0), ("memory", GI))
        found = request({"containers": [container(None, LIMITS)]})
        assert found == NumaRequest(True, amounts, (ContainerRequest(False, amounts),))

    @pytest.mark.parametrize(
        ("requests", "guaranteed"),
        [({"cpu": "2", "memory": "1Gi"}, True), ({"cpu": "2000m"}, True), ({"cpu": "1"}, False)],
    )
    def test_the_class_of_service_follows_from_requests(self, requests: dict[str, str], guaranteed: bool) -> None:
        found = request({"containers": [container(requests, LIMITS)]})
        assert found is not None
        assert found.guaranteed == guaranteed

    def test_every_container_must_have_limits(self) -> None:
        spec = {"containers": [container(None, LIMITS)], "initContainers": [container({"cpu": "1"})]}
        assert request(spec) == NumaRequest(False, (("gpu", 1.0),), (ContainerRequest(False, (("gpu", 1.0),)),))

    def test_resources_of_the_pod_decide_where_there_are_any(self) -> None:
        spec = {"containers": [container({GPU: "1"})], "resources": {"limits": {"cpu": "4", "memory": "8Gi"}}}
        found = request(spec)
        assert found is not None
        assert found.guaranteed

    def test_the_status_wins(self) -> None:
        found = request({"containers": [container(None, LIMITS)]}, qosClass="Burstable")
        assert found is not None
        assert not found.guaranteed

    def test_others_align_devices_alone(self) -> None:
        asked = {"cpu": "2", "hugepages-2Mi": "4Mi", "example.com/nic": "1"}
        found = request({"containers": [container(asked)]})
        amounts = (("example.com/nic", 1000.0),)
        assert found == NumaRequest(False, amounts, (ContainerRequest(False, amounts),))
        assert request({"containers": [container({"cpu": "2"})]}) is None
        assert request({}) is None

    def test_cpu_that_is_no_whole_number_of_cores_is_shared(self) -> None:
        limits = [{"cpu": cpu, "memory": "1Gi"} for cpu in ("2", "1500m")]
        found = request({"containers": [container(None, each) for each in limits]})
        assert found is not None
        assert found.pod == (("cpu", 2000.0), ("memory", 2 * GI))
        assert found.containers[1] == ContainerRequest(False, (("memory", GI),))

    def test_init_containers_come_first_then_sidecars(self) -> None:
        """CPU of the pod: 3 of the init container and 1 of the sidecar before it, more than 1 + 2."""
        spec = {
            "initContainers": [
                container(None, {"cpu": "1", "memory": "1"}, restartPolicy="Always"),
                container(None, {"cpu": "3", "memory": "1"}),
            ],
            "containers": [container(None, {"cpu": "2", "memory": "1"})],
        }
        found = request(spec)
        assert found is not None
        assert [(each.first, dict(each.amounts)["cpu"]) for each in found.containers] == [
            (True, 3000.0),
            (False, 1000.0),
            (False, 2000.0),
        ]
        assert dict(found.pod)["cpu"] == 4000.0

    def test_too_many_containers_are_not_supported(self) -> None:
        spec = {"containers": [container({GPU: "1"})] * (CONTAINERS_MAX + 1)}
        assert "NUMA" in clean(Pod, pod(spec), reader()).shape.unsupported[0]

    def test_without_the_plugin_containers_do_not_tell_pods_apart(self) -> None:
        one, two = (
            clean(Pod, pod({"containers": [container({GPU: "2"})]})),
            clean(Pod, pod({"containers": [container({GPU: "1"})] * 2})),
        )
        assert one.shape == two.shape
        assert one.zones == ()


def placed(**annotations: Any) -> tuple[Pod, Findings]:
    keys = {"observed": NUMA_OBSERVED_ANNOTATION, "predicted": NUMA_PREDICTED_ANNOTATION}
    texts = {keys[key]: value if isinstance(value, str) else json.dumps(value) for key, value in annotations.items()}
    return read("Pod", pod({}, annotations=texts), reader())


ZERO, ONE = ({"zone": f"node-{z}", "amount": {"cpu": "2", GPU: 1}} for z in (0, 1))
AMOUNTS = (("cpu", 2000.0), ("gpu", 1.0))


class TestPlacement:
    def test_what_was_observed_wins(self) -> None:
        found, warnings = placed(observed=[ONE], predicted=[ZERO])
        assert (found.zones, found.zones_observed, warnings) == ((ZoneAmounts("node-1", AMOUNTS),), True, [])
        found, _ = placed(predicted=[ONE, ZERO])
        assert [each.zone for each in found.zones] == ["node-0", "node-1"]
        assert not found.zones_observed

    @pytest.mark.parametrize(
        "bad", ["{", "{}", "[1]", '[{"zone": ""}]', '[{"zone": "a", "amount": {"cpu": "x"}}]', "[]"]
    )
    def test_a_bad_or_empty_one_is_ignored(self, bad: str) -> None:
        found, warnings = placed(observed=bad, predicted=[ZERO])
        assert [each.zone for each in found.zones] == ["node-0"]
        assert [field for field, _ in warnings] == [f"metadata.annotations[{NUMA_OBSERVED_ANNOTATION}]"] * (bad != "[]")

    def test_zones_are_bounded(self) -> None:
        found, warnings = placed(observed=[{"zone": f"node-{z}"} for z in range(ZONES_MAX + 1)])
        assert found.zones == ()
        assert "are the most" in warnings[0][1]

    def test_what_is_written_is_read(self) -> None:
        placement = (ZoneAmounts("node-0", (("cpu", 1500.0), ("example.com/nic", 1000.0), ("gpu", 2.0))),)
        assert placement_text(placement) == (
            '[{"zone":"node-0","amount":{"cpu":"1500m","example.com/nic":"1","nvidia.com/gpu":"2"}}]'
        )
        found, warnings = placed(predicted=placement_text(placement))
        assert (found.zones, warnings) == (placement, [])

    @given(
        st.text()
        | st.recursive(
            st.none() | st.text() | st.integers(),
            lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["zone", "amount", "cpu"]), x),
        ).map(json.dumps)
    )
    @example('[{"zone": "a", "amount": null}]')
    @example("[" * 5000)
    def test_whatever_stands_there_the_pod_is_read(self, text: str) -> None:
        found, _ = placed(observed=text)
        assert found.name == "p"


def test_a_bind_request_has_a_placement() -> None:
    spec = {"podName": "p", "selectedNode": "a", "predictedNUMAZones": [ZERO]}
    document = {"metadata": {"name": "r", "namespace": "ml"}, "spec": spec}
    found, warnings = read("BindRequest", document)
    assert (found.zones, warnings) == ((ZoneAmounts("node-0", AMOUNTS),), [])
    spec["predictedNUMAZones"] = [{"zone": "a", "amount": {"cpu": "-1"}}]
    found, ((field, _),) = read("BindRequest", document)
    assert (found.zones, field) == ((), "spec.predictedNUMAZones[0].amount.cpu")


def test_zone_order_takes_long_numbers() -> None:
    assert sorted(["n9", "n10", f"n{10**17}", "n"], key=zone_order) == ["n", "n9", "n10", f"n{10**17}"]
