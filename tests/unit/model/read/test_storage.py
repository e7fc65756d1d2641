"""What storage drivers say of nodes, and what volumes and claims say of drivers (API 12)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.constraints import Requirement
from kai_sched.model.field_errors import FieldError
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from tests.unit.model.reading import read

NAMED = {"metadata": {"name": "a", "namespace": "ns"}}


def capacity(**fields: Any) -> StorageCapacity:
    item, found = read("CSIStorageCapacity", {**NAMED, **fields})
    assert found == []
    assert isinstance(item, StorageCapacity)
    return item


@pytest.mark.parametrize(
    ("spec", "tracks"),
    [({"storageCapacity": True}, True), ({"storageCapacity": None}, False), ({}, False), (None, False)],
)
def test_drivers(spec: dict[str, Any] | None, tracks: bool) -> None:
    assert read("CSIDriver", {"metadata": {"name": "d"}, "spec": spec}) == (StorageDriver("d", tracks), [])


def test_capacities() -> None:
    labels = {"matchLabels": {"zone": "x"}, "matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    found = capacity(storageClassName="fast", nodeTopology=labels, capacity="2Gi", maximumVolumeSize="1Gi")
    term = (Requirement("disk", "Exists"), Requirement("zone", "In", ("x",)))
    assert found == StorageCapacity("ns", "a", "fast", (term,), 2.0**31, 2.0**30)
    assert (found.key, found.bound_bytes) == ("ns/a", 2.0**30)


@pytest.mark.parametrize(("topology", "nodes"), [(None, ()), ({}, None), ({"matchLabels": {}}, None)])
def test_a_segment_of_all_nodes_and_one_of_none(topology: dict[str, Any] | None, nodes: object) -> None:
    """As in Kubernetes, an absent selector selects nothing and an empty one everything."""
    assert capacity(nodeTopology=topology).nodes == nodes


def test_a_capacity_that_says_nothing_makes_nothing() -> None:
    assert (capacity().bound_bytes, capacity(capacity="5").bound_bytes) == (0.0, 5.0)


@pytest.mark.parametrize("field", ["capacity", "maximumVolumeSize"])
def test_sizes_that_are_no_quantities(field: str) -> None:
    with pytest.raises(FieldError, match="is not a quantity") as error:
        capacity(**{field: "much"})
    assert error.value.field == field


def test_attach_limits() -> None:
    """Drivers without a count have no limit; the order of the list means nothing."""
    drivers = [{"name": "b", "allocatable": {"count": 3}}, {"name": "a", "allocatable": {"count": 0}}]
    drivers += [{"name": "c"}, {"name": "d", "allocatable": None}, {"name": "e", "allocatable": {}}]
    item, found = read("CSINode", {"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
    assert (item, found) == (NodeVolumes("n", {"a": 0, "b": 3}), [])
    assert list(item.most) == ["a", "b"]
    assert read("CSINode", {"metadata": {"name": "n"}, "spec": None})[0] == NodeVolumes("n")


@pytest.mark.parametrize("count", [-1, 2**31])
def test_attach_limits_that_are_no_numbers_of_volumes(count: int) -> None:
    drivers = [{"name": "a", "allocatable": {"count": count}}]
    with pytest.raises(FieldError, match="give one from 0 to"):
        read("CSINode", {"metadata": {"name": "n"}, "spec": {"drivers": drivers}})


def test_the_driver_of_a_volume() -> None:
    spec = {"csi": {"driver": "d", "volumeHandle": "vol-1"}}
    item, found = read("PersistentVolume", {"metadata": {"name": "v"}, "spec": spec})
    assert (item.driver, item.handle, found) == ("d", "vol-1", [])


def test_a_claim_that_is_deleted_with_its_pod() -> None:
    owners = [{"kind": "Other", "name": "o", "uid": "1"}, {"kind": "Pod", "name": "p", "uid": "2"}]
    item, _ = read("PersistentVolumeClaim", {"metadata": {"name": "c", "namespace": "ns", "ownerReferences": owners}})
    assert item.pod_uid == "2"
