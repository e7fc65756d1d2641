"""Claims are written and released by an executor whose requests fail, get lost and come late, and which may be killed:
no device is ever in two claims, and in the end every pod is bound or nothing of it is left.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.cluster.claim_requests import ClaimWriter
from kai_sched.cluster.failure import ApiFailure
from kai_sched.cluster.pod_binder import BindFailure
from kai_sched.model.claims.inflight import ClaimOverlay
from kai_sched.model.claims.objects import (
    AllocatedDevice,
    Allocation,
    DeviceOption,
    DeviceRequest,
    ExtendedRequests,
    ResourceClaim,
)
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import RESOURCE_CLAIM, Reader
from kai_sched.model.store import Store
from kai_sched.operator.delivery.claims.binder import ClaimBinder
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.plan.effects import Bind, ClaimUse
from tests.properties.sharing_world import VirtualLoop
from tests.unit.cluster.claim_server import ClaimServer, Object

DEVICES = ("dev-0", "dev-1")
CLAIMS = ("c0", "c1", "c2", "c3")
MADE = "p4-made"  # the claim that is made for extended resources of a pod
PODS = {"p0": ("c0",), "p1": ("c1",), "p2": ("c2", "c3"), "p3": ("c3",), "p4": (MADE,)}  # two pods share a claim
ASKED = ExtendedRequests((DeviceRequest("gpu", (DeviceOption("gpus"),), resource="example.com/gpu"),))
LATE_S = 2.0
STEPS = 300


class LateServer(ClaimServer):
    """Requests, answers and events take up to two seconds; a part of the requests fails, half of them carried out."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.faults = 0.4
        self.wrong: list[str] = []  # an exception would count as a fault of the request

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        await asyncio.sleep(self.chance.uniform(0.0, LATE_S))
        if self.chance.random() < self.faults / 2:
            raise ApiFailure(method, path, self.chance.choice((0, 429, 500)), "Lost", "not carried out")
        answer = await super().request(method, path, **more)
        held = [device for key in self.claims for device in self.devices(key.removeprefix("ml/"))]
        if len(held) != len(set(held)):
            self.wrong.append(f"one device twice: {self.claims}")
        if self.chance.random() < self.faults / 2:
            raise ApiFailure(method, path, 0, "Timeout", "carried out, but nobody heard of it")
        await asyncio.sleep(self.chance.uniform(0.0, LATE_S))
        return answer


class Scheduler:
    """Decides by the store alone, as a cycle does: a claim keeps what it has, else it gets a device that none has."""

    def __init__(self, server: LateServer) -> None:
        self.server = server
        self.store = Store()
        self.overlay = ClaimOverlay(self.store)
        self._reader = Reader(Config())
        self._events: asyncio.Queue[Object | None] = asyncio.Queue()
        for claim in server.claims.values():
            self._observe(claim)
        server.watch = lambda _, claim: self._events.put_nowait(claim)
        server.watch_deleted = lambda _: self._events.put_nowait(None)
        api: Any = server
        writer = ClaimWriter(api, lambda _: (), server.chance)
        self.reservations = ClaimReservations(writer, self.overlay, lambda: None)
        self.binder = ClaimBinder(self.reservations, self._bind, self)
        self.under_way: set[str] = set()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def kill(self) -> None:
        self._watching.cancel()
        await self.binder.stop()
        await self.reservations.stop()

    def decide(self, group: Sequence[str]) -> None:
        binds = []
        taken = {each.device for claim in self._claims() if claim.allocation for each in claim.allocation.devices}
        for pod in group:
            uses = []
            for name in PODS[pod]:
                claim = self.store.get(ResourceClaim, f"ml/{name}") or ResourceClaim("ml", name)
                known = claim.allocation or next((u.allocation for b in binds for u in b.claims if u.uid == name), None)
                if known is None:
                    free = next((device for device in DEVICES if device not in taken), None)
                    if free is None:
                        return
                    taken.add(free)
                    known = Allocation((AllocatedDevice("gpu", "d", "n1", free),))
                made = ASKED if name == MADE else None
                uses.append(ClaimUse(claim.key, claim.uid, known, claim.allocation is None, made))
            binds.append(Bind(f"ml/{pod}", pod, "n1", claims=tuple(uses)))
        self.under_way |= set(group)
        for bind in binds:
            self.reservations.assume(bind)
        self.binder.submit(binds)

    def check(self, _: Bind) -> str:
        return ""

    def failed(self, bind: Bind, _: BindFailure) -> None:
        self.under_way.discard(bind.uid)
        self.reservations.release(bind)

    def _bind(self, group: Sequence[Bind]) -> None:
        for bind in group:
            if self.server.chance.random() < 1.5 * self.server.faults:
                self.failed(bind, BindFailure("Forbidden", "by the test"))
                continue
            self.under_way.discard(bind.uid)
            for use in bind.claims:  # the kubelet would refuse it else
                if bind.uid not in self.server.reserved(use.claim.removeprefix("ml/")):
                    self.server.wrong.append(f"bound without its claim: {bind}, {self.server.claims}")
            self.server.pods[bind.pod]["spec"] = {"nodeName": bind.node}

    def _claims(self) -> Sequence[ResourceClaim]:
        return list(self.store.all(ResourceClaim).values())

    def _observe(self, content: Object) -> None:
        claim = self._reader.read(RESOURCE_CLAIM, json.dumps(content).encode(), lambda *_: None)
        assert isinstance(claim, ResourceClaim)
        self.overlay.observe(replace(claim), int(content["metadata"]["resourceVersion"]))

    async def _watch(self) -> None:
        while True:
            content = await self._events.get()
            await asyncio.sleep(self.server.chance.uniform(0.0, LATE_S))
            if content is not None:
                self._observe(content)
            else:
                self.overlay.gone(f"ml/{MADE}")


async def play(seed: int) -> None:
    chance = random.Random(seed)
    server = LateServer(chance)
    for name in CLAIMS:
        server.add(name)
    for pod in PODS:
        server.pods[f"ml/{pod}"] = {"metadata": {"uid": pod}, "spec": {}}
    scheduler = Scheduler(server)
    for _ in range(STEPS):
        if chance.random() < 0.01:
            await scheduler.kill()
            scheduler = Scheduler(server)
        waiting = [pod for pod in PODS if not is_bound(server, pod) and pod not in scheduler.under_way]
        if waiting:
            scheduler.decide(chance.sample(waiting, min(len(waiting), chance.choice((1, 1, 2)))))
        await asyncio.sleep(chance.uniform(0.0, 1.0))
        for pod in [pod for pod in PODS if is_bound(server, pod) and chance.random() < 0.1]:
            _end(server, pod)
    server.faults, ran = 0.0, set[str]()
    for first in range(len(PODS)):  # each pod comes first once, so there are devices for it
        await asyncio.sleep(100.0)
        for pod in (*list(PODS)[first:], *list(PODS)[:first]):
            if not is_bound(server, pod) and pod not in scheduler.under_way:
                scheduler.decide([pod])
        await asyncio.sleep(100.0)
        ran |= {pod for pod in PODS if is_bound(server, pod)}
        for pod in PODS:
            if is_bound(server, pod):
                _end(server, pod)
    assert server.wrong == [], server.wrong[0][:1500]
    assert scheduler.under_way == set()
    assert len(ran) == len(PODS), (ran, server.claims)
    await scheduler.kill()


def is_bound(server: LateServer, pod: str) -> bool:
    return bool(server.pods[f"ml/{pod}"]["spec"])


def _end(server: LateServer, uid: str) -> None:
    """The pod ends, and the controllers of Kubernetes free its claims, and delete the one that was made for it."""
    server.pods[f"ml/{uid}"] = {"metadata": {"uid": uid}, "spec": {}}
    if uid == "p4":
        del server.claims[f"ml/{MADE}"]
        server.watch_deleted(f"ml/{MADE}")
        return
    for name in PODS[uid]:
        status = server.claims[f"ml/{name}"]["status"]
        left = [each for each in status.get("reservedFor") or [] if each["uid"] != uid]
        kept = {part: value for part, value in status.items() if left or part != "allocation"}
        server.change(name, **{**kept, "reservedFor": left})


@given(seed=st.integers(0, 2**32 - 1))
def test_no_device_is_in_two_claims_whatever_fails(seed: int) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play(seed))
