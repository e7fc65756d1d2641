"""Who uses a device and what pods were told, as the API server says, whatever users write into their pods."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from kai_sched.cluster.sharing_requests import MapTaken, SharingRequests
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, Shape
from kai_sched.reconcile.gpu_reservation import GpuGroup
from tests.properties.sharing_world import Object, Server, pod

HALF, LABEL = {"gpu-fraction": "0.5"}, {"runai-gpu-group": "g"}


def on_node(server: Server, labels: dict[str, str], annotations: dict[str, str], **more: Any) -> Object:
    content = {**pod("a", "0.5"), **more}
    content["metadata"] |= {"labels": labels, "annotations": annotations}
    content["spec"] |= {"nodeName": "node-0"}
    server.put(content)
    return content


def requests_to(server: Server) -> SharingRequests:
    api: Any = server
    return SharingRequests(api, random.Random(1))


@pytest.mark.parametrize(
    ("labels", "annotations", "status", "is_user"),
    [
        (LABEL, HALF, "Running", True),
        (LABEL, {"gpu-memory": "100"}, "Pending", True),
        ({"runai-gpu-group/g": "g", "runai-gpu-group/h": "h"}, HALF, "Running", True),
        (LABEL, HALF, "Succeeded", False),
        ({"runai-gpu-group": "h"}, HALF, "Running", False),
        (LABEL, {}, "Running", False),
        (LABEL, {"gpu-fraction": "half"}, "Running", False),
        ({"runai-gpu-group/g": "h"}, HALF, "Running", False),
    ],
)
async def test_a_user_is_who_the_informer_would_take_for_one(
    labels: dict[str, str], annotations: dict[str, str], status: str, is_user: bool
) -> None:
    """A pod that the ledger does not know must not keep a device from everybody."""
    server = Server(1)
    on_node(server, labels, annotations, status={"phase": status})
    assert await requests_to(server).users(GpuGroup("node-0", "g"), Config()) == (["ml/a"] if is_user else [])


async def test_a_pod_with_whole_gpus_uses_none_by_its_annotation() -> None:
    server = Server(1)
    content = on_node(server, LABEL, HALF)
    content["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    assert await requests_to(server).users(GpuGroup("node-0", "g"), Config()) == []


async def test_a_pod_that_names_an_impossible_config_map_was_told_nothing() -> None:
    """Else no pod could share its device with others after a restart."""
    forged = Pod("ml", "forged", Shape(), gpu_groups=("g",), device_map="../x y")
    assert await requests_to(Server(1)).visible_device(forged, "g") == ""


OWN = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-1"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "db", "uid": "uid-db"}
GONE = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "uid-gone"}
OURS = {"kai.scheduler/shared-gpu": "true"}


def server_with(labels: dict[str, str], owners: list[Object]) -> Server:
    """A server with a pod, and with the ConfigMap whose name the pod would give its own."""
    server = Server(1)
    on_node(server, {}, HALF)
    meta = {"name": "config-0", "namespace": "ml", "resourceVersion": "5", "labels": labels, "ownerReferences": owners}
    server.maps["ml/config-0"] = {"kind": "ConfigMap", "metadata": meta, "data": {"password": "x"}}
    return server


async def prepare(server: Server) -> None:
    meta = {"name": "config-0", "namespace": "ml", "labels": OURS, "ownerReferences": [OWN]}
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}}
    await requests_to(server).prepare("ml/a", [wanted], {"metadata": {"uid": "uid-1", "labels": LABEL}})


@pytest.mark.parametrize(
    ("labels", "owners"),
    [
        ({}, []),
        ({}, [DEPLOYMENT]),
        ({}, [OWN]),
        (OURS, [DEPLOYMENT]),
        (OURS, [OWN, DEPLOYMENT]),
        ({"kai.scheduler/shared-gpu": "false"}, []),
    ],
)
async def test_a_config_map_of_others_is_not_touched(labels: dict[str, str], owners: list[Object]) -> None:
    """Users choose the names of the maps, by an annotation of the pod."""
    server = server_with(labels, owners)
    before = copy.deepcopy(server.maps), copy.deepcopy(server.pods)
    with pytest.raises(MapTaken, match=r"config-0 is there already.*create a without the annotation runai/shared-gpu"):
        await prepare(server)
    assert (server.maps, server.pods) == before


@pytest.mark.parametrize("owners", [[], [OWN], [GONE], [OWN, GONE]])
async def test_a_config_map_of_an_earlier_attempt_is_written_again(owners: list[Object]) -> None:
    server = server_with(OURS, owners)
    await prepare(server)
    found = server.maps["ml/config-0"]
    assert found["metadata"]["ownerReferences"] == [OWN]
    assert found["data"]["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


async def test_a_config_map_with_many_owners_is_not_looked_through() -> None:
    """A tenant writes them, and each would be a request."""
    server = server_with(OURS, [{**GONE, "name": f"gone-{n}"} for n in range(9)])
    server.paths.clear()
    with pytest.raises(MapTaken, match=r"config-0 has 9 owners.*create a without the annotation runai/shared-gpu"):
        await prepare(server)
    assert len(server.paths) == 2
