"""How long the event loop is held with 20,000 pods that wait: nothing of ours takes more than 50 ms of its CPU.

The parts are real, the API server is not: it answers at once, and shows nothing of what is written.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import uvloop

from kai_sched.cluster.claim_requests import ClaimWriter
from kai_sched.cluster.pod_binder import PodBinder
from kai_sched.cluster.reflector import Reflector, WatchSource
from kai_sched.cluster.status_writer import StatusWriter
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.cluster.write_queue import WriteQueue
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import POD, POD_GROUP, QUEUE
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.operator.cycle.loop import CycleLoop
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.delivery.bind_tracker import BindTracker
from kai_sched.operator.delivery.claims.reservations import ClaimReservations
from kai_sched.operator.delivery.cycle_executor import CycleExecutor
from kai_sched.operator.delivery.eviction_tracker import EvictionTracker
from kai_sched.operator.garbage_collection import GarbagePolicy
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.operator.reporting.observations import Observations
from kai_sched.operator.reporting.status_reporter import StatusReporter
from kai_sched.operator.selector_service import SelectorService
from kai_sched.telemetry.loop_time import MeasuredLoop
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.builders import Intake, observer_of
from tests.unit.operator.worlds import NODE, OneShard, raw_group, raw_node, raw_pod, raw_queue

GROUPS, SIZE, PAGE = 2_000, 10, 500
BINDS = 3_000  # by the CPU of the nodes
MOST_S = 0.05
GROUP = "pod-group-name"


class QuickApi:
    """Lists what it was given, and says yes to all else."""

    def __init__(self, pods: list[bytes]) -> None:
        self.pods = pods
        self.binds = 0
        self.writes = 0

    async def list_pages(self, *_: Any, **__: Any) -> AsyncIterator[tuple[list[msgspec.Raw], str]]:
        for start in range(0, len(self.pods), PAGE):
            await asyncio.sleep(0)
            yield [msgspec.Raw(raw) for raw in self.pods[start : start + PAGE]], "9"

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        yield b""
        await asyncio.Event().wait()

    async def request(self, _: str, path: str, **__: Any) -> bytes:
        await asyncio.sleep(0)
        if path.endswith("/binding"):
            self.binds += 1
        else:
            self.writes += 1
        return b"{}"


class World:
    """A sink, cycles, binds and what is told, over an API that answers at once."""

    def __init__(self, pods: list[bytes]) -> None:
        self.store, self.news, config, rng = Store(), Observations(), Config(), random.Random(1)
        observing = observer_of(config, LiveSettings(config, "default"), self.news)
        self.intake = Intake(self.store, config, lambda matters: self.trigger.request(matters), observing)
        self.sink, overlay = self.intake.sink, self.intake.overlay
        self.trigger = CycleTrigger(overlay)
        self.api = QuickApi(pods)
        api: Any = self.api
        clock, metrics = Clock(), Metrics()
        binds: FifoQueue[Any] = FifoQueue()
        busy = lambda: binds.pending > 0  # noqa: E731 - as the operator has it
        self.writes = WriteQueue(lambda *_: None)
        version = self.sink.pending_version
        self.writer = StatusWriter(api, self.writes, "kai-scheduler", busy, clock.wall_ns, version, rng)
        self.telling = StatusReporter(self.store, self.news, metrics, config, busy, lambda: True, self.writes, clock)
        claims = ClaimReservations(ClaimWriter(api, lambda _: (), rng), overlay.claims, self.trigger.request)
        tracker = BindTracker(self.store, overlay, self.trigger, self.telling, clock, claims)
        self.binder = PodBinder(api, binds, tracker, rng, 64)
        evicted: FifoQueue[Any] = FifoQueue()
        evictions = EvictionTracker(self.store, overlay, evicted, self.telling, self.trigger, clock)
        send = lambda group, _: self.binder.submit(group)  # noqa: E731
        self.loop = CycleLoop(
            SelectorService(self.store, self.trigger.request, clock.monotonic),
            OneShard(),
            self.trigger,
            lambda: True,
            CycleExecutor(evictions, tracker, send, self.telling.acted),
            CycleHealth(metrics, self.writes.submit, lambda: True, ("", ""), clock.monotonic),
            clock,
        )
        self.reflector = Reflector(api, WatchSource(POD, "/api/v1/pods"), self.sink, rng)


async def until(done: Callable[[], bool]) -> None:
    while not done():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)


async def play(pods: list[bytes], calm: GarbagePolicy) -> tuple[float, QuickApi]:
    """List, decide that there is no room, tell everybody; then room for half, and bind. The longest callback."""
    world = World(pods)
    for n in range(50):
        world.sink.changed(NODE, raw_node(f"n{n}", gpus=0))
    world.sink.changed(QUEUE, raw_queue("team"))
    for n in range(GROUPS):
        world.sink.changed(POD_GROUP, raw_group(f"g{n}", SIZE))
        await asyncio.sleep(0)
    parts = (world.reflector, world.binder, world.telling, world.writer)
    tasks = [asyncio.create_task(part.run(), name=type(part).__name__) for part in parts]
    await until(lambda: world.reflector.synced)
    calm.settle()
    tasks.append(asyncio.create_task(world.loop.run(), name="Loop"))
    world.trigger.request()
    await until(lambda: world.api.writes >= GROUPS * (SIZE + 1) and not world.writes.pending)
    for n in range(50):
        world.sink.changed(NODE, raw_node(f"n{n}", 2, gpus=GROUPS * SIZE // 100))
        await asyncio.sleep(0)
    await until(lambda: world.api.binds >= BINDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    return loop.longest_s, world.api


@pytest.mark.alone
@pytest.mark.slow
def test_nothing_holds_the_event_loop_for_long_with_20_000_pods_that_wait() -> None:
    names = [(n, f"p{n}-{m}") for n in range(GROUPS) for m in range(SIZE)]
    pods = [raw_pod(name, 5, annotations={GROUP: f"g{n}"}) for n, name in names]
    calm = GarbagePolicy()
    calm.start()
    try:
        longest_s, api = uvloop.run(play(pods, calm), loop_factory=MeasuredLoop)
    finally:
        calm.stop()
        gc.unfreeze()
    assert api.binds >= BINDS
    assert longest_s <= MOST_S
