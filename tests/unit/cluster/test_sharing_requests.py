"""Who uses a device and what pods were told, as the API server says, whatever users write into their pods."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kai_sched.cluster.sharing_requests import SharingRequests
from kai_sched.model.objects import Pod, Shape
from kai_sched.reconcile.gpu_reservation import GpuGroup
from tests.properties.sharing_world import NAMESPACE, Object, Server, pod

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
    assert await requests_to(server).users(GpuGroup("node-0", "g"), NAMESPACE) == (["ml/a"] if is_user else [])


async def test_a_pod_with_whole_gpus_uses_none_by_its_annotation() -> None:
    server = Server(1)
    content = on_node(server, LABEL, HALF)
    content["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    assert await requests_to(server).users(GpuGroup("node-0", "g"), NAMESPACE) == []


async def test_a_pod_that_names_an_impossible_config_map_was_told_nothing() -> None:
    """Else no pod could share its device with others after a restart."""
    forged = Pod("ml", "forged", Shape(), gpu_groups=("g",), device_map="../x y")
    assert await requests_to(Server(1)).visible_device(forged, "g") == ""
