"""Nodes, volumes and the small kinds (semantics 0.3, 12)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.constraints import Requirement, Taint
from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import Node, StorageClass, Volume, VolumeClaim
from tests.unit.model.reading import clean, read


def node(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": "81920"}}, "status": status}


def test_node_in_scheduler_units() -> None:
    allocatable = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110", "example.com/gpu": 1}
    item = clean(Node, node(allocatable=allocatable, capacity={"cpu": "100"}))
    assert item.allocatable == {"cpu": 96_000, "memory": 2**40, "gpu": 8, "pods": 110, "example.com/gpu": 1000}
    assert item.labels == {"nvidia.com/gpu.memory": "81920"}
    assert (item.unschedulable, item.bad_conditions, item.taints) == (False, (), ())


def test_a_node_that_says_nothing_of_allocatable_offers_its_capacity() -> None:
    assert clean(Node, node(capacity={"cpu": "100"})).allocatable == {"cpu": 100_000}


@pytest.mark.parametrize(
    ("conditions", "bad"),
    [
        ({}, ()),
        ({"Ready": "True", "MemoryPressure": "False", "SomethingElse": "True"}, ()),
        ({"Ready": "False"}, ("NotReady",)),
        ({"Ready": "Unknown"}, ("NotReady",)),
        (
            {"PIDPressure": "True", "DiskPressure": "Unknown", "Ready": "False"},
            ("NotReady", "DiskPressure", "PIDPressure"),
        ),
        ({"NetworkUnavailable": "True", "MemoryPressure": "True"}, ("MemoryPressure", "NetworkUnavailable")),
    ],
)
def test_conditions(conditions: dict[str, str], bad: tuple[str, ...]) -> None:
    wire = [{"type": kind, "status": status} for kind, status in conditions.items()]
    assert clean(Node, node(conditions=wire)).bad_conditions == bad


def test_cordon_and_taints() -> None:
    taints = [{"key": "b", "effect": "NoExecute"}, {"key": "a", "value": "1", "effect": "NoSchedule", "timeAdded": "x"}]
    item = clean(Node, {**node(), "spec": {"unschedulable": True, "taints": taints}})
    assert item.unschedulable
    assert item.taints == (Taint("a", "1", "NoSchedule"), Taint("b", "", "NoExecute"))


@pytest.mark.parametrize("text", ["80 GB", "", "0", "-1", "1e3", "9" * 30])
def test_memory_of_gpus_that_cannot_be_read_is_told(text: str) -> None:
    """The rest of the node is used."""
    item, found = read("Node", {"metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": text}}})
    assert item.name == "n"
    ((field, message),) = found
    assert field == "metadata.labels[nvidia.com/gpu.memory]"
    assert "correct the label" in message


@pytest.mark.parametrize("text", ["16Gib", "-1", ""])
def test_a_malformed_quantity_is_an_error(text: str) -> None:
    with pytest.raises(FieldError) as caught:
        read("Node", node(allocatable={"memory": text}))
    assert caught.value.field == "status.allocatable.memory"
    assert repr(text) in caught.value.message


def test_an_unknown_taint_effect_is_an_error() -> None:
    with pytest.raises(FieldError, match=r"spec\.taints\[0\]\.effect: 'Never' is not an effect"):
        read("Node", {**node(), "spec": {"taints": [{"key": "a", "effect": "Never"}]}})


def test_volume_claim() -> None:
    document = {
        "metadata": {"name": "c", "namespace": "ml", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "volumeName": "v",
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    }
    expected = VolumeClaim("ml", "c", "Bound", "v", "fast", True, ("ReadWriteOnce",), 2.0**30)
    assert read("PersistentVolumeClaim", document) == (expected, [])


def test_volume() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    document = {
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "5"},
            "accessModes": ["B", "A"],
            "storageClassName": "fast",
            "claimRef": {"namespace": "ml", "name": "c"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Available"},
    }
    affinity = ((Requirement("zone", "In", ("a",)),),)
    expected = Volume("v", affinity, "fast", "ml/c", "Available", ("A", "B"), 5.0)
    assert read("PersistentVolume", document) == (expected, [])


def test_what_static_binding_looks_at() -> None:
    claim_document = {
        "metadata": {"name": "c", "uid": "u", "annotations": {"volume.kubernetes.io/selected-node": "n"}},
        "spec": {
            "volumeMode": "Block",
            "volumeAttributesClassName": "gold",
            "selector": {"matchLabels": {"tier": "fast"}},
        },
    }
    claim, found = read("PersistentVolumeClaim", claim_document)
    assert (claim.uid, claim.selected_node, claim.volume_mode, claim.attributes_class) == ("u", "n", "Block", "gold")
    assert claim.selector == (Requirement("tier", "In", ("fast",)),)
    volume_document = {
        "metadata": {"name": "v", "uid": "w", "labels": {"tier": "fast"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "volumeMode": "Block",
            "volumeAttributesClassName": "gold",
            "claimRef": {"namespace": "ml", "name": "c", "uid": "u"},
        },
    }
    volume, more = read("PersistentVolume", volume_document)
    assert (volume.uid, volume.claim_uid, volume.labels) == ("w", "u", {"tier": "fast"})
    assert (volume.volume_mode, volume.attributes_class, volume.deleted) == ("Block", "gold", True)
    assert found == more == []


def test_a_malformed_size_is_an_error() -> None:
    with pytest.raises(FieldError, match=r"spec\.capacity\.storage: 'big' is not a quantity"):
        read("PersistentVolume", {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "big"}}})


def test_storage_class() -> None:
    document = {
        "metadata": {"name": "s"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}],
    }
    topologies = ((Requirement("zone", "In", ("a", "b")),),)
    assert read("StorageClass", document) == (StorageClass("s", True, "csi.example.com", topologies), [])
    assert read("StorageClass", {"metadata": {"name": "s"}}) == (StorageClass("s"), [])


def test_namespaces_always_carry_their_name_as_a_label() -> None:
    item, _ = read("Namespace", {"metadata": {"name": "ml", "labels": {"a": "b"}}})
    assert item.labels == {"a": "b", "kubernetes.io/metadata.name": "ml"}


def test_of_a_config_map_only_the_name_is_read() -> None:
    item, _ = read("ConfigMap", {"metadata": {"name": "c", "namespace": "ml"}, "data": {"a": 5}})
    assert item.key == "ml/c"


def test_priority_class() -> None:
    item, _ = read("PriorityClass", {"metadata": {"name": "p"}, "value": 75, "globalDefault": True})
    assert (item.name, item.value, item.global_default) == ("p", 75, True)
    with pytest.raises(FieldError, match="value: missing"):
        read("PriorityClass", {"metadata": {"name": "p"}})
    with pytest.raises(FieldError, match="does not fit into 32 bits"):
        read("PriorityClass", {"metadata": {"name": "p"}, "value": 2**40})


@pytest.mark.parametrize("count", ["4097", "1e8", "1e18", "9E"])
def test_more_gpus_than_a_node_can_have_are_told_and_do_not_count(count: str) -> None:
    item, found = read("Node", node(allocatable={"cpu": "1", "nvidia.com/gpu": count, "pods": "110"}))
    assert item.allocatable == {"cpu": 1000, "pods": 110}
    assert [(field, "4096 at most" in message) for field, message in found] == [
        ("status.allocatable[nvidia.com/gpu]", True)
    ]


def test_as_many_gpus_as_a_node_can_have_count() -> None:
    assert clean(Node, node(allocatable={"nvidia.com/gpu": "4096"})).allocatable == {"gpu": 4096}
