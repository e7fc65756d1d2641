"""Annotations of pods that this scheduler did not place hold no device (semantics 8.2)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kai_sched import Config
from kai_sched.cycle.run import run_cycle
from kai_sched.lowering.cache import Cache
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.read.kinds import Reader
from kai_sched.model.store import Store
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult

Manifest = dict[str, Any]
OFFLINE = Config()
LIVE = replace(Config(), proves_shares=True)
GPU = "nvidia.com/gpu"
OURS, OTHER = "kai-scheduler", "default-scheduler"


def pod(
    name: str,
    *,
    node: str = "",
    scheduler: str = OURS,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    namespace: str = "ns",
) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"u-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kai.scheduler/queue": "q", **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": scheduler,
            "nodeName": node or None,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1m", **(requests or {})}}}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def reservation(group: str, node: str = "n") -> Manifest:
    labels = {"app": "kai-resource-reservation", "runai-gpu-group": group}
    return pod(
        f"r-{group}",
        node=node,
        scheduler="",
        labels=labels,
        requests={GPU: "1"},
        namespace="kai-resource-reservation",
    )


def whole(name: str = "v", gpus: int = 2, resource: str = GPU) -> Manifest:
    return pod(name, requests={resource: str(gpus)})


def part(name: str = "a", fraction: str = "0.5", group: str = "", **more: Any) -> Manifest:
    labels = {"runai-gpu-group": group} if group else {}
    return pod(name, annotations={"gpu-fraction": fraction, **more.pop("also", {})}, labels=labels, **more)


def cycle(
    config: Config, *pods: Manifest, hints: SchedulingHints | None = None, resource: str = GPU, **labels: str
) -> CycleResult:
    """A cycle with one node that has two devices."""
    amounts = {"cpu": "100", "memory": "100Gi", "pods": "110", resource: "2"}
    ready = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    unlimited = {name: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "memory", "gpu")}
    objects = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": ready},
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "q", "uid": "q"},
            "spec": {"resources": unlimited},
        },
        *pods,
    ]
    reader, store = Reader(config), Store()
    for each in objects:
        store.put(reader.read((each["apiVersion"], each["kind"]), json.dumps(each).encode(), lambda *_: None))
    return run_cycle(
        store.cluster(), config, 1_800_000_000_000_000_000, Cache(), lambda: 0.0, hints or SchedulingHints()
    )


def bound(result: CycleResult) -> list[str]:
    return [effect.pod for effect in result.effects if isinstance(effect, Bind)]


FORGED = {
    "another scheduler": part("e", node="n", scheduler=OTHER),
    "another scheduler, labelled": part("e", node="n", scheduler=OTHER, group="f"),
    "another scheduler, memory": pod("e", node="n", scheduler=OTHER, annotations={"gpu-memory": "1"}),
    "another scheduler, several devices": part("e", node="n", scheduler=OTHER, also={"gpu-fraction-num-devices": "2"}),
    "another scheduler, more devices than its containers have": part(
        "e", node="n", scheduler=OTHER, also={"gpu-fraction-num-devices": "1024"}, requests={GPU: "0"}
    ),
    "ours by name, placed by its owner": part("e", node="n"),
}
LABELLED = {
    "ours by name, with a label": part("e", node="n", group="f"),
    "ours by name, in a group": pod("e", node="n", annotations={"gpu-fraction": "0.5", "pod-group-name": "g"}),
}


@pytest.mark.parametrize("config", [OFFLINE, LIVE], ids=["offline", "live"])
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_it_holds_no_device(forged: Manifest, config: Config) -> None:
    assert bound(cycle(config, forged, whole())) == ["ns/v"]


@pytest.mark.parametrize("forged", LABELLED.values(), ids=LABELLED.keys())
def test_in_a_cluster_labels_and_groups_prove_nothing(forged: Manifest) -> None:
    assert bound(cycle(LIVE, forged, whole())) == ["ns/v"]
    assert bound(cycle(OFFLINE, forged, whole())) == []


@pytest.mark.parametrize("config", [OFFLINE, LIVE], ids=["offline", "live"])
def test_containers_hold_what_they_request_beside_annotations(config: Config) -> None:
    more = part("e", node="n", scheduler=OTHER, also={"gpu-fraction-num-devices": "8"}, requests={GPU: "1"})
    assert bound(cycle(config, more, whole(gpus=1))) == ["ns/v"]
    assert bound(cycle(config, more, whole(gpus=2))) == []


@pytest.mark.parametrize("scheduler", [OURS, OTHER])
def test_mig_devices_are_held_by_containers_alone(scheduler: str) -> None:
    mig = "nvidia.com/mig-1g.5gb"
    labels = {"node-role.kubernetes.io/mig-enabled": "true", "nvidia.com/mig.strategy": "mixed"}
    forged = pod("e", node="n", scheduler=scheduler, annotations={mig: "2"})
    zero = pod("z", node="n", scheduler=scheduler, requests={GPU: "0"})
    assert bound(cycle(LIVE, whole(resource=mig), resource=mig, **labels)) == ["ns/v"]
    assert bound(cycle(LIVE, forged, zero, whole(resource=mig), resource=mig, **labels)) == ["ns/v"]
    real = pod("e", node="n", scheduler=scheduler, requests={mig: "1"}, annotations={mig: "2"})
    assert bound(cycle(LIVE, real, whole(gpus=1, resource=mig), resource=mig, **labels)) == ["ns/v"]
    assert bound(cycle(LIVE, real, whole(gpus=2, resource=mig), resource=mig, **labels)) == []


@pytest.mark.parametrize("config", [OFFLINE, LIVE], ids=["offline", "live"])
def test_a_share_that_a_reservation_pod_proves_holds_its_device(config: Config) -> None:
    honest = part(node="n", group="g"), reservation("g")
    assert bound(cycle(config, *honest, whole())) == []
    assert bound(cycle(config, *honest, whole(gpus=1), part("w", "0.6"))) == ["ns/v"]
    assert bound(cycle(config, *honest, part("b"))) == ["ns/b"]


def test_a_reservation_elsewhere_proves_nothing() -> None:
    far = reservation("g", node="other")
    near = {**reservation("g"), "metadata": {**reservation("g")["metadata"], "namespace": "ns"}}
    for other in (far, {**near, "spec": {**near["spec"], "containers": []}}, reservation("h")):
        held = 1 if other["metadata"]["name"] == "r-h" else 0
        assert bound(cycle(LIVE, part(node="n", group="g"), other, whole(gpus=2 - held))) == ["ns/v"]


def test_sharing_that_was_turned_off_leaves_the_pods_that_share() -> None:
    off = replace(LIVE, gpu_sharing=False)
    assert bound(cycle(off, part(node="n", group="g"), reservation("g"), whole())) == []
    assert bound(cycle(off, part(node="n", group="g"), reservation("g"), whole(gpus=1))) == ["ns/v"]


def test_a_pod_has_as_many_devices_as_are_proven() -> None:
    wide = part(node="n", group="g", also={"gpu-fraction-num-devices": "2"})
    assert bound(cycle(LIVE, wide, reservation("g"), whole(gpus=1))) == ["ns/v"]
    assert bound(cycle(LIVE, wide, reservation("g"), whole(gpus=2))) == []


def test_a_device_whose_reservation_is_about_to_be_made_is_held() -> None:
    hints = SchedulingHints(awaited_devices=frozenset({("n", "g")}))
    assert bound(cycle(LIVE, part(node="n", group="g"), whole(), hints=hints)) == []
    assert bound(cycle(LIVE, part(node="n", group="f"), whole(), hints=hints)) == ["ns/v"]


def test_nobody_is_kept_from_joining_by_another_scheduler() -> None:
    forged = part("e", "0.9", node="n", scheduler=OTHER, group="g")
    honest = part(node="n", group="g"), reservation("g"), pod("w", node="n", requests={GPU: "1"})
    assert bound(cycle(LIVE, *honest, part("b"))) == ["ns/b"]
    assert bound(cycle(LIVE, *honest, forged, part("b"))) == ["ns/b"]
