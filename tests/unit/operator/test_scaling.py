"""When scaling pods are made and deleted (API 13)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.model.config import Config, ScalingSettings
from kai_sched.model.objects import GpuShare, Phase, Pod, Shape
from kai_sched.model.store import Cluster
from kai_sched.operator.clock import Clock
from kai_sched.operator.reporting.observations import Observations
from kai_sched.operator.scaling import COOL_DOWN_S, ScalingPods
from kai_sched.reconcile.status.pod_conditions import PodCondition

SETTINGS = ScalingSettings(enabled=True, image="i")
ON = Config(gpu_sharing=True, scaling=SETTINGS)
WAITS = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


def pod(name: str) -> Pod:
    return Pod("ml", name, Shape((("cpu", 100.0),), share=GpuShare(1, 0.5)), uid=f"u-{name}")


@dataclass
class World:
    """An API server with pods, as the informers show them at once."""

    wire: dict[str, dict[str, Any]] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    pods: dict[str, Pod] = field(default_factory=dict)
    config: Config = ON
    now: float = 1000.0
    asked: list[str] = field(default_factory=list)
    image: str = ""

    def part(self) -> ScalingPods:
        clock = Clock(monotonic=lambda: self.now)
        cluster = lambda: Cluster.of(list(self.pods.values()))  # noqa: E731
        return ScalingPods(cast(Api, self), cluster, self.waiting, lambda: self.config, self.own_image, clock)

    async def own_image(self) -> str:
        return self.image

    def add(self, *names: str, conditions: Any = WAITS) -> None:
        for name in names:
            self.pods[f"ml/{name}"] = pod(name)
            self.waiting.add(f"ml/{name}")
            meta = {"uid": f"u-{name}"}
            self.wire[f"ml/{name}"] = {"metadata": meta, "spec": {}, "status": {"conditions": conditions}}

    @property
    def scaling(self) -> list[str]:
        return sorted(key for key in self.pods if key.startswith("kai-scale-adjust/"))

    async def request(self, method: str, path: str, *, body: bytes = b"{}", **_: Any) -> bytes:
        self.asked.append(f"{method} {path}")
        parts = path.split("/namespaces/")[1].split("/")
        key, content = f"{parts[0]}/{parts[2]}" if len(parts) > 2 else "", json.loads(body)
        if method == "POST":
            meta = content["metadata"]
            key = f"{meta['namespace']}/{meta['name']}"
            self.wire[key] = content
            gpus = float(content["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
            shape = Shape((("gpu", gpus),))
            self.pods[key] = Pod(meta["namespace"], meta["name"], shape, labels=meta["labels"], uid=key)
        elif key not in self.wire:
            raise ApiFailure(method, path, 404, "NotFound", "gone")
        elif method == "PATCH":
            self.wire[key] |= content
        elif method == "DELETE":
            assert content["preconditions"]["uid"] == self.pods[key].uid
            del self.wire[key], self.pods[key]
        return json.dumps(self.wire.get(key, {})).encode()


async def test_one_is_made_and_says_that_it_cannot_be_scheduled() -> None:
    world = World()
    world.add("a", "b")
    part = world.part()
    await part.round()
    await part.round()
    assert world.scaling == ["kai-scale-adjust/ml-a"]
    (condition,) = world.wire["kai-scale-adjust/ml-a"]["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert len(world.asked) == 3


@pytest.mark.parametrize(
    "config", [Config(scaling=SETTINGS, gpu_sharing=False), Config(scaling=replace(SETTINGS, enabled=False))]
)
async def test_none_is_made_unless_sharing_and_the_adjuster_are_on(config: Config) -> None:
    world = World(config=config)
    world.add("a")
    await world.part().round()
    assert world.asked == []


async def test_they_go_when_it_is_turned_off() -> None:
    world = World()
    world.add("a")
    part = world.part()
    await part.round()
    world.config = Config()
    await part.round()
    assert world.scaling == []
    asked = len(world.asked)
    await part.round()
    assert len(world.asked) == asked


@pytest.mark.parametrize(
    "conditions", [[], [{"type": "PodScheduled", "status": "True"}], [{**WAITS[0], "reason": "QueueOverLimit"}]]
)
async def test_none_is_made_for_a_pod_that_has_stopped_waiting(conditions: Any) -> None:
    """The API server is asked again, as the informer may be late."""
    world = World()
    world.add("a", conditions=conditions)
    await world.part().round()
    assert world.scaling == []
    world.wire["ml/a"]["status"]["conditions"] = WAITS
    for change in ({"metadata": {"uid": "other"}}, {"spec": {"nodeName": "n"}}):
        before = dict(world.wire["ml/a"])
        world.wire["ml/a"] |= change
        await world.part().round()
        world.wire["ml/a"] = before
    del world.wire["ml/a"]
    await world.part().round()
    assert world.scaling == []


async def test_after_one_is_deleted_none_is_made_for_a_minute() -> None:
    world = World()
    world.add("a")
    part = world.part()
    await part.round()
    world.pods["kai-scale-adjust/ml-a"] = replace(world.pods["kai-scale-adjust/ml-a"], phase=Phase.SUCCEEDED)
    await part.round()
    assert world.scaling == []
    world.now += COOL_DOWN_S - 1
    await part.round()
    assert world.scaling == []
    world.now += 1
    await part.round()
    assert world.scaling == ["kai-scale-adjust/ml-a"]
    world.waiting.discard("ml/a")
    await part.round()
    assert world.scaling == []


async def test_two_pods_whose_names_are_one_joined() -> None:
    world = World()
    world.add("a")
    part = world.part()
    await part.round()
    other = replace(pod("a"), namespace="kai-scale-adjust", name="ml-a", shape=Shape())
    world.pods["kai-scale-adjust/ml-a"] = other
    await part.round()
    assert len(world.scaling) == 2


async def test_the_image_is_the_schedulers_own_where_none_is_named() -> None:
    world = World(config=Config(scaling=ScalingSettings(enabled=True)))
    world.add("a")
    await world.part().round()
    assert world.scaling == [], "outside of a cluster no image is known"
    world.image = "registry.test/k:1"
    await world.part().round()
    (container,) = world.wire["kai-scale-adjust/ml-a"]["spec"]["containers"]
    assert (container["image"], container["args"]) == ("registry.test/k:1", ["version"])


async def test_failures_do_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of the API server nor those of one pod among others."""
    monkeypatch.setattr("kai_sched.operator.scaling.PERIOD_S", 0.001)
    world = World()
    world.add("a", "b")
    part, request, made, rounds = world.part(), world.request, asyncio.Event(), 0

    async def fails(method: str, path: str, *, body: bytes = b"{}", **more: Any) -> bytes:
        nonlocal rounds
        rounds += 1
        if rounds < 4 or b"ml-a" in body or "/ml/pods/a" in path:
            raise ApiFailure(method, path, 422, "Invalid", "not such a pod")
        answer = await request(method, path, body=body, **more)
        if method == "PATCH":
            made.set()
        return answer

    monkeypatch.setattr(world, "request", fails)
    world.pods["ml/b"] = replace(world.pods["ml/b"], shape=Shape(share=GpuShare(2, 0.9)))
    running = asyncio.create_task(part.run())
    await asyncio.wait_for(made.wait(), 10)
    running.cancel()
    assert world.scaling == ["kai-scale-adjust/ml-b"]


def test_which_pods_wait_is_seen_by_their_condition() -> None:
    seen = Observations()
    seen.observe_pod("ml/a", "u", PodCondition("False", "Unschedulable", ""))
    seen.observe_pod("ml/b", "u", PodCondition("False", "QueueOverLimit", ""))
    seen.observe_pod("ml/c", "u", None)
    assert seen.unschedulable == {"ml/a"}
    seen.observe_pod("ml/b", "u", PodCondition("False", "Unschedulable", ""))
    seen.observe_pod("ml/a", "u", PodCondition("True", "", ""))
    assert seen.unschedulable == {"ml/b"}
    seen.forget_pod("ml/b")
    assert seen.unschedulable == set()
