"""GPU memory for one container by its name: what is scheduled, what is told, and what cannot be combined."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.config import Config
from kai_sched.model.gpu_memory import memory_limit
from kai_sched.model.objects import GpuShare, Node
from kai_sched.model.read.container_memory import MEMORY_MAX_MIB, read_container_memory
from kai_sched.model.read.kinds import POD, Reader

REQUEST, LIMIT = "nvidia.com/container.main.gpu-memory.request", "nvidia.com/container.main.gpu-memory.limit"
OTHER = "nvidia.com/container.side.gpu-memory.request"
GPU = "nvidia.com/gpu"


def shape_of(annotations: dict[str, str], gpus: int = 0, node: str = "") -> tuple[Any, list[str]]:
    """A pod with the containers ``init``, ``main`` and ``side``, and the fields that are told."""
    main: dict[str, Any] = {"name": "main", "resources": {"limits": {GPU: str(gpus)}} if gpus else {}}
    spec = {"initContainers": [{"name": "init"}], "containers": [{"name": "first"}, main, {"name": "side"}]}
    content = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "ml", "name": "p", "annotations": annotations},
        "spec": {**spec, "schedulerName": "kai-scheduler", "nodeName": node},
    }
    told: list[str] = []
    item = Reader(Config()).read(
        POD, json.dumps(content).encode(), lambda field, message: told.append(f"{field}: {message}")
    )
    return item, told


@pytest.mark.parametrize(
    ("annotations", "share"),
    [
        ({REQUEST: "4096Mi"}, GpuShare(1, 0.0, 4096)),
        ({LIMIT: "4Gi"}, GpuShare(1, 0.0, 4096)),
        ({REQUEST: "4Gi", LIMIT: "4096Mi"}, GpuShare(1, 0.0, 4096)),
        ({REQUEST: "4Gi", LIMIT: "8Gi"}, GpuShare(1, 0.0, 4096, 8192)),
        ({REQUEST: "1024M"}, GpuShare(1, 0.0, 977)),
        ({REQUEST: "1Mi", "gpu-fraction-num-devices": "2"}, GpuShare(2, 0.0, 1)),
        ({REQUEST: "1Gi", "gpu-fraction-container-name": "main"}, GpuShare(1, 0.0, 1024)),
        ({"nvidia.com/container.init.gpu-memory.limit": "1Gi"}, GpuShare(1, 0.0, 1024)),
    ],
)
def test_the_request_is_scheduled_and_a_limit_alone_is_both(annotations: dict[str, str], share: GpuShare) -> None:
    item, told = shape_of(annotations)
    assert (item.shape.share, item.shape.unsupported, told) == (share, (), [])


def test_what_the_container_may_use_is_its_limit() -> None:
    node = Node("n", labels={"nvidia.com/gpu.memory": "81920"})
    assert memory_limit(GpuShare(1, 0.0, 4096, 8192), node, Config()) == "8192m"
    assert memory_limit(GpuShare(1, 0.0, 4096), node, Config()) == "4096m"


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({REQUEST: "much"}, (REQUEST, "'much' is not an amount of memory such as 4096Mi", "correct it")),
        ({REQUEST: "4096"}, ("'4096' is less than one MiB, as it counts in bytes: give an amount",)),
        ({LIMIT: "0"}, (LIMIT, "'0' is not above 0")),
        ({REQUEST: "-1Gi"}, ("'-1Gi' is not above 0",)),
        ({REQUEST: "1Pi"}, ("'1Pi' is more than 999,999,999 MiB",)),
        ({REQUEST: "8Gi", LIMIT: "4Gi"}, (REQUEST, "8,192 MiB are above the limit of 4,096 MiB", "lower the request")),
        ({REQUEST: "1Gi", OTHER: "1Gi"}, (OTHER, "not 'main' and 'side': remove the annotations of all but one")),
        ({LIMIT.replace("main", "absent"): "1Gi"}, ("no container 'absent': use one of init, first, main, side",)),
        ({REQUEST: "1Gi", "gpu-memory": "1024"}, (REQUEST, "by gpu-memory as well: remove one of them")),
        ({REQUEST: "1Gi", "gpu-fraction": "0.5"}, (REQUEST, "by gpu-fraction as well: remove one of them")),
        (
            {REQUEST: "1Gi", "gpu-fraction-container-name": "side"},
            ("gpu-fraction-container-name", "'side' is another container than that of", "remove the annotation"),
        ),
    ],
    ids=str,
)
def test_what_is_wrong_names_the_annotation_and_the_remedy(annotations: dict[str, str], words: tuple[str, ...]) -> None:
    """The pod waits: it would be bound without a GPU, or with less than it needs."""
    item, told = shape_of(annotations)
    for text in (" ".join(item.shape.unsupported), " ".join(told)):
        assert [word for word in words if word not in text] == []
    assert all(each.startswith("metadata.annotations[") for each in told)


def test_beside_whole_gpus_these_count() -> None:
    item, _ = shape_of({REQUEST: "1Gi"}, gpus=2)
    assert (item.shape.share, dict(item.shape.request)["gpu"]) == (None, 2.0)
    assert item.shape.unsupported == ("a part of a GPU by annotation beside whole GPUs of containers",)


def test_a_pod_on_a_node_holds_what_it_asks_for_whatever_else_is_wrong() -> None:
    item, _ = shape_of({LIMIT.replace("main", "absent"): "1Gi"}, node="n")
    assert (item.shape.share, item.shape.unsupported) == (GpuShare(1, 0.0, 1024), ())


def test_its_config_map_is_that_of_the_container() -> None:
    item, _ = shape_of({REQUEST: "1Gi", "runai/shared-gpu-configmap": "maps"})
    assert item.device_map == "maps-1"


def test_other_keys_say_nothing() -> None:
    for key in ("nvidia.com/container.main.gpus.devices", "gpu-memory.request"):
        item, told = shape_of({key: "1Gi"})
        assert (item.shape.share, item.shape.unsupported, told) == (None, (), [])


@pytest.mark.parametrize(
    ("key", "right"),
    [
        (f"{LIMIT}s", LIMIT),
        ("nvidia.com/container.main.gpu-memory", REQUEST),
        ("nvidia.com/container..gpu-memory.limit", "nvidia.com/container.<name>.gpu-memory.limit"),
    ],
)
def test_a_misspelt_key_is_told_with_the_right_form(key: str, right: str) -> None:
    """The pod waits, as it would be bound without a GPU; what a pod on a node says rightly beside it holds."""
    item, told = shape_of({key: "1Gi"})
    assert item.shape.share is None
    for text in (*item.shape.unsupported, *told):
        assert key in text
        assert right in text.partition("write ")[2]
    assert (len(item.shape.unsupported), len(told)) == (1, 1)
    item, _ = shape_of({key: "1Gi", REQUEST: "1Gi"}, node="n")
    assert (item.shape.share, item.shape.unsupported) == (GpuShare(1, 0.0, 1024), ())


@given(
    st.dictionaries(st.from_regex(r"\Anvidia\.com/container\.[a-b.]{0,3}\.gpu-memory\.(request|limit)\Z"), st.text())
)
def test_whatever_stands_there_is_read(annotations: dict[str, str]) -> None:
    found = read_container_memory(annotations)
    assert bool(found.mib) == bool(found.keys and not found.faults)
    assert 0 <= found.mib <= MEMORY_MAX_MIB
    assert found.limit_mib == 0 or found.limit_mib > found.mib
