"""A real driver of devices publishes slices, and pods with claims of templates get its devices."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster import allocator, claims, dra_driver
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_until

TOOLS = ("dra", "allocator")

DEVICES = 2
CONFIG = {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig"}


@pytest.fixture
def nodes(cluster: Cluster, controller_manager: ControlPlane) -> Iterator[list[str]]:
    """Two nodes with the driver."""
    names = cluster.add_nodes(2, gpus=0)
    with dra_driver.running(controller_manager, names, devices=DEVICES):
        wait_until(lambda: len(cluster.list("ResourceSlice")) >= len(names), "the slices of both nodes", 60.0)
        yield names


def test_pods_get_the_devices_of_a_real_driver(cluster: Cluster, nodes: list[str], operator: StartOperator) -> None:
    cluster.add_queues("team")
    cluster.create(claims.device_class())
    operator()
    told = {"opaque": {"driver": claims.DRIVER, "parameters": CONFIG}}
    template = claims.template("one")
    template["spec"]["spec"]["devices"]["config"] = [told]
    cluster.kubectl("create", "-f", "-", input=json.dumps(template, separators=(",", ":")))
    names = [f"p-{n}" for n in range(DEVICES * len(nodes))]
    cluster.create_all(claims.pod(name, template="one") for name in names)
    bound = cluster.wait_bound(names)
    assert sorted(bound.values()) == sorted(nodes * DEVICES)
    devices = set()
    for content in cluster.list("ResourceClaim", "default"):
        [pod] = claims.reserved(content)
        [(pool, device)] = claims.allocated(content)
        assert pool == bound[pod]
        devices.add((pool, device))
        assert [each["source"] for each in content["status"]["allocation"]["devices"]["config"]] == ["FromClaim"]
    assert len(devices) == len(names)
    assert allocator.accepted(cluster) == len(names)
    cluster.create(claims.pod("late", template="one"))
    cluster.wait_condition("Pod", "late", "PodScheduled", status="False")
    cluster.delete("Pod", names[0])
    assert cluster.wait_bound(["late"])["late"] == bound[names[0]]
