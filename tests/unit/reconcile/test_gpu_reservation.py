"""What is written for pods that share a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.constraints import Toleration
from kai_sched.model.objects import GpuShare, Phase, Pod, Shape
from kai_sched.reconcile.gpu_reservation import (
    GpuGroup,
    device_maps,
    is_user,
    portion_text,
    reservation_pod,
    sharing_patch,
    visible_device,
)

SETTINGS = ReservationSettings(requests={"cpu": "5m"}, runtime_class="nvidia")
POD = Pod("ml", "half", Shape(), uid="u1", labels={"a": "b"}, device_map="half-x-shared-gpu-0")


def test_the_name_of_a_reservation_follows_from_node_and_group() -> None:
    first = GpuGroup("node-1", "4f").reservation
    assert first == "gpu-reservation-ae24ae802213be80"
    assert len({first, GpuGroup("node-2", "4f").reservation, GpuGroup("node-1", "4e").reservation}) == 3


def test_a_reservation_pod_holds_one_device_of_its_node() -> None:
    tolerations = (Toleration("gpu", "Exists", "", "NoSchedule"),)
    pod = reservation_pod(GpuGroup("node-1", "4f"), tolerations, "kai-sched:1", False, SETTINGS)
    assert pod["metadata"]["labels"] == {"app": "kai-resource-reservation", "runai-gpu-group": "4f"}
    spec = pod["spec"]
    assert (spec["nodeName"], spec["runtimeClassName"]) == ("node-1", "nvidia")
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "5m", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    assert container["args"] == ["reserve"]
    fake = reservation_pod(GpuGroup("node-1", "4f"), (), "kai-sched:1", True, SETTINGS)["spec"]
    assert fake["containers"][0]["args"] == ["reserve", "--fake-device"]
    assert "runtimeClassName" not in fake


@pytest.mark.parametrize(
    ("share", "memory", "text"),
    [
        (GpuShare(1, 0.5), 0, "0.50"),
        (GpuShare(2, 0.333), 40_000, "0.33"),
        (GpuShare(1, 0.0, 10_001), 40_000, "0.26"),
        (GpuShare(2, 0.0, 20_000), 40_000, "0.50"),
    ],
)
def test_the_portion_has_two_decimals(share: GpuShare, memory: int, text: str) -> None:
    assert portion_text(share, memory) == text


def test_containers_read_their_devices_from_two_maps_of_the_pod() -> None:
    first, second = device_maps(POD, ["GPU-1", "GPU-2"], "0.50", "", SETTINGS)
    assert first["data"] == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2",
        "GPU_PORTION": "0.50",
        "RUNAI_NUM_OF_GPUS": "0.50",
    }
    assert (second["metadata"]["name"], second["data"]) == (
        "half-x-shared-gpu-0-evar",
        {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"},
    )
    assert first["metadata"]["labels"] == {"kai.scheduler/shared-gpu": "true"}
    assert first["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "half", "uid": "u1"}]
    limited, _ = device_maps(POD, ["GPU-1"], "0.50", "100m", replace(SETTINGS, cdi_enabled=True))
    assert limited["data"]["CUDA_DEVICE_MEMORY_LIMIT"] == "100m"
    assert limited["data"]["NVIDIA_VISIBLE_DEVICES"] == "k8s.device-plugin.nvidia.com/gpu=GPU-1"


@pytest.mark.parametrize("cdi", [False, True])
def test_what_a_pod_was_told_can_be_read_back(cdi: bool) -> None:
    settings, shown = replace(SETTINGS, cdi_enabled=cdi), replace(POD, gpu_groups=("b", "a"))
    data = device_maps(shown, ["GPU-1", "GPU-2"], "0.50", "", settings)[0]["data"]
    assert [visible_device(data, shown, group) for group in ("a", "b")] == ["GPU-1", "GPU-2"]
    assert visible_device({}, shown, "a") == ""
    assert visible_device({"NVIDIA_VISIBLE_DEVICES": "GPU-1"}, shown, "a") == ""


def test_labels_of_a_bind_that_failed_go() -> None:
    stale = replace(POD, labels={"a": "b", "runai-gpu-group": "old", "runai-gpu-group/older": "older"})
    one = sharing_patch(stale, ["new"], ["GPU-1"], SETTINGS)["metadata"]
    assert one["labels"] == {"runai-gpu-group": "new", "runai-gpu-group/older": None}
    assert one["annotations"] == {"received-resource-type": "Fraction"}
    two = sharing_patch(stale, ["x", "y"], ["GPU-1", "GPU-2"], replace(SETTINGS, cdi_enabled=True))["metadata"]
    assert two["labels"] == {
        "runai-gpu-group": None,
        "runai-gpu-group/older": None,
        "runai-gpu-group/x": "x",
        "runai-gpu-group/y": "y",
    }
    assert two["annotations"]["cdi.k8s.io/kai-gpu-sharing"].count("=GPU-") == 2


def test_who_uses_a_device() -> None:
    half = Shape(share=GpuShare(1, 0.5))
    running = replace(POD, shape=half, node="node-1", gpu_groups=("a",), phase=Phase.RUNNING, scheduler="kai-scheduler")
    assert is_user(running, Config())
    for other in (
        replace(running, shape=Shape()),
        replace(running, node=""),
        replace(running, gpu_groups=()),
        replace(running, phase=Phase.SUCCEEDED),
        replace(running, namespace=SETTINGS.namespace),
        replace(running, scheduler="default-scheduler"),
        replace(running, scheduler=""),
    ):
        assert not is_user(other, Config())
