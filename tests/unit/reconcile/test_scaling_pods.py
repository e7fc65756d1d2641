"""Scaling pods: for whom they are, how many GPUs they ask for, when they go, and what is copied (API 13)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.config import ScalingSettings
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, Shape
from kai_sched.model.store import Cluster
from kai_sched.reconcile.scaling_pods import (
    ScalingPlan,
    devices_needed,
    hundredths,
    name_of,
    plan_scaling,
    scaling_pod,
    smallest_memory,
)

ON = ScalingSettings(enabled=True, image="registry.test/kai-sched:1", arguments=("version",))
LONG = "a" * 70


def pod(name: str, portion: float = 0.5, devices: int = 1, **more: Any) -> Pod:
    share = GpuShare(devices, portion)
    return Pod("ml", name, Shape((("cpu", 250.0), ("memory", 2.0**30)), share=share), uid=f"u-{name}", **more)


def scaling(
    name: str, gpus: int = 1, namespace: str = "kai-scale-adjust", app: str = "scaling-pod", **more: Any
) -> Pod:
    labels = {"app": app, "shared-gpu-pod-namespace": "ml", "shared-gpu-pod-name": name}
    return Pod(namespace, f"ml-{name}", Shape((("gpu", float(gpus)),)), labels=labels | more.pop("labels", {}), **more)


def plan(*objects: Any, waiting: tuple[str, ...], settings: ScalingSettings = ON) -> ScalingPlan:
    return plan_scaling(Cluster.of(list(objects)), [f"ml/{name}" for name in waiting], settings)


class TestWho:
    def test_one_whole_gpu_for_two_halves(self) -> None:
        assert plan(pod("a"), pod("b"), waiting=("a", "b")) == ScalingPlan((), ("ml/a",))

    def test_parts_that_do_not_go_together_get_a_gpu_each(self) -> None:
        """Their sum is 1.8, and two GPUs hold two of them."""
        found = plan(pod("a", 0.6), pod("b", 0.6), pod("c", 0.6), waiting=("a", "b", "c"))
        assert found.create == ("ml/a", "ml/b", "ml/c")

    def test_several_devices_are_asked_for_at_once(self) -> None:
        found = plan(pod("a"), pod("b", 0.3, devices=4), waiting=("a", "b"))
        assert found.create == ("ml/b",)
        assert plan(pod("a"), pod("b", 0.3, devices=4), scaling("a"), waiting=("a", "b")).create == ("ml/b",)

    def test_only_pods_that_another_node_could_help(self) -> None:
        whole = Pod("ml", "whole", Shape((("gpu", 1.0),)))
        others = [pod("bound", node="n"), pod("leaving", deleted_ns=1), pod("done", phase=Phase.SUCCEEDED), whole]
        names = tuple(each.name for each in others)
        assert plan(*others, pod("other"), waiting=(*names, "gone")) == ScalingPlan((), ())

    def test_what_is_asked_for_is_enough(self) -> None:
        assert plan(pod("a"), pod("b"), scaling("b"), waiting=("a", "b")) == ScalingPlan((), ())


class TestRemoval:
    @pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
    def test_one_that_has_ended(self, phase: Phase) -> None:
        found = plan(pod("a"), scaling("a", phase=phase), waiting=("a",))
        assert found == ScalingPlan(("kai-scale-adjust/ml-a",), ("ml/a",))

    def test_one_whose_pod_is_gone_or_waits_no_more(self) -> None:
        found = plan(pod("a", node="n"), pod("b"), scaling("a"), scaling("b"), scaling("c"), waiting=("a",))
        assert found == ScalingPlan(tuple(f"kai-scale-adjust/ml-{name}" for name in "abc"), ())

    def test_a_second_one_of_a_pod(self) -> None:
        second = scaling("a", labels={"shared-gpu-pod-name": "a"})
        twin = Pod(second.namespace, "other", second.shape, labels=second.labels)
        found = plan(pod("a"), scaling("a"), twin, waiting=("a",))
        assert found == ScalingPlan(("kai-scale-adjust/other",), ())

    def test_pods_of_users_are_left_alone(self) -> None:
        found = plan(scaling("a", namespace="ml"), scaling("b", app="web"), waiting=())
        assert found == ScalingPlan((), ())

    def test_while_it_is_off_only_our_own_go(self) -> None:
        ours = scaling("a", labels={"app.kubernetes.io/managed-by": "kai-sched"})
        found = plan(ours, scaling("b"), pod("b"), waiting=(), settings=ScalingSettings())
        assert found == ScalingPlan(("kai-scale-adjust/ml-a",), ())

    def test_names_that_are_longer_than_labels(self) -> None:
        long = pod(LONG)
        made = scaling_pod(long, {}, name_of(long.key), ON)["metadata"]
        assert len(made["labels"]["shared-gpu-pod-name"]) == 63
        there = Pod(made["namespace"], made["name"], Shape((("gpu", 1.0),)), labels=made["labels"])
        assert plan(long, there, waiting=(LONG,)) == ScalingPlan((), ())


class TestAmounts:
    @pytest.mark.parametrize(
        ("shares", "devices"),
        [
            ([], 0),
            ([(50, 1)] * 3, 2),
            ([(60, 1)] * 3, 3),
            ([(100, 1)], 1),
            ([(30, 2), (70, 1), (70, 1)], 2),
            ([(1, 5)], 5),
        ],
    )
    def test_devices(self, shares: list[tuple[int, int]], devices: int) -> None:
        assert devices_needed(shares) == devices

    @pytest.mark.parametrize(
        ("share", "memory", "part"),
        [
            (GpuShare(1, 0.5), 0, 50),
            (GpuShare(1, 0.501), 0, 51),
            (GpuShare(1, 0.001), 0, 1),
            (GpuShare(1, 0.0, 4000), 0, 10),
            (GpuShare(1, 0.0, 4000), 16000, 25),
            (GpuShare(1, 0.0, 99999), 16000, 100),
        ],
    )
    def test_parts(self, share: GpuShare, memory: int, part: int) -> None:
        assert hundredths(share, memory, ON) == part

    def test_memory_is_its_part_of_the_smallest_gpu(self) -> None:
        nodes = [
            Node(f"n{i}", labels={"nvidia.com/gpu.memory": text}) for i, text in enumerate(["80000", "x", "16000"])
        ]
        assert smallest_memory(nodes) == 16000
        assert smallest_memory([]) == 0


class TestPod:
    def test_it_asks_for_what_the_pod_asks_for_and_goes_where_it_may_go(self) -> None:
        term = {"topologyKey": "zone", "labelSelector": {}}
        elsewhere = {**term, "namespaces": ["x"]}
        everywhere = {**term, "namespaceSelector": {}}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        affinity = {
            "nodeAffinity": {"a": 1},
            "podAffinity": {required: [term, elsewhere, everywhere]},
            "podAntiAffinity": {preferred: [{"weight": 1, "podAffinityTerm": term}]},
        }
        spec = {"nodeSelector": {"pool": "a"}, "tolerations": [{"operator": "Exists"}], "affinity": affinity}
        made = scaling_pod(pod("a", devices=2), {"spec": {**spec, "volumes": ["x"]}}, "ml-a", ON)
        assert made["metadata"] == {
            "name": "ml-a",
            "namespace": "kai-scale-adjust",
            "labels": {
                "app": "scaling-pod",
                "shared-gpu-pod-namespace": "ml",
                "shared-gpu-pod-name": "a",
                "app.kubernetes.io/managed-by": "kai-sched",
            },
        }
        own = {**term, "namespaces": ["ml"]}
        found = made["spec"]
        assert "schedulerName" not in found
        assert "volumes" not in found
        assert (found["nodeSelector"], found["tolerations"]) == (spec["nodeSelector"], spec["tolerations"])
        assert found["affinity"]["podAffinity"][required] == [own, elsewhere, everywhere]
        assert found["affinity"]["podAntiAffinity"][preferred] == [{"weight": 1, "podAffinityTerm": own}]
        assert found["affinity"]["nodeAffinity"] == {"a": 1}
        assert affinity["podAffinity"] == {required: [term, elsewhere, everywhere]}, "the pod itself is not changed"
        (container,) = found["containers"]
        gpus = {"nvidia.com/gpu": "2"}
        assert container["resources"] == {"requests": {"cpu": "250m", "memory": str(2**30)} | gpus, "limits": gpus}
        assert (container["image"], container["args"]) == (ON.image, ["version"])
        assert (found["serviceAccountName"], found["restartPolicy"]) == ("kai-scale-adjust", "OnFailure")

    def test_its_name_is_that_of_the_pod_unless_another_has_it(self) -> None:
        assert name_of("a/b-c") == name_of("a-b/c") == "a-b-c"
        other = name_of("a/b-c", {"a-b-c"})
        assert other.startswith("a-b-c-")
        assert other != name_of("a-b/c", {"a-b-c"})
        assert len(name_of(f"ns/{'x' * 253}")) == 253
