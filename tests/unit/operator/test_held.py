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

from kai_sched.cluster.binding import Binder
from kai_sched.cluster.reflector import Reflector, Source
from kai_sched.model.config import Config
from kai_sched.model.read import POD, POD_GROUP, QUEUE
from kai_sched.model.store import Store
from kai_sched.operator.feed import Feed
from kai_sched.operator.garbage import Calm
from kai_sched.operator.loop import Clock, Decided, Loop
from kai_sched.operator.news import News
from kai_sched.operator.observing import Observing
from kai_sched.operator.settings import Settings
from kai_sched.operator.telling import Telling
from kai_sched.telemetry.loop_time import MeasuredLoop
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.worlds import NODE, raw_group, raw_node, raw_pod, raw_queue

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
    """A feed, cycles, binds and what is told, over an API that answers at once."""

    def __init__(self, pods: list[bytes]) -> None:
        self.store, self.news, config, chance = Store(), News(), Config(), random.Random(1)
        observing = Observing(config, Settings(config, "default"), self.news)
        self.feed = Feed(self.store, config, lambda matters: self.loop.wake(matters), observing)
        self.api = QuickApi(pods)
        api: Any = self.api
        clock = Clock()
        self.binder = Binder(api, lambda bind: self.loop.check(bind), self.bound, self.failed, chance, 64)
        busy = lambda: self.binder.pending > 0  # noqa: E731 - as the operator has it
        self.telling = Telling(
            api, self.store, self.feed, self.news, Metrics(), config, busy, lambda: True, clock, chance
        )
        self.loop = Loop(
            self.store,
            self.feed.overlay,
            Config,
            lambda: True,
            self.telling.acted,
            self.telling.failed,
            clock,
        )
        self.loop.send = lambda group, _: self.binder.submit(group)
        self.loop.evict = self.evict
        self.reflector = Reflector(api, Source(POD, "/api/v1/pods"), self.feed, chance)

    def bound(self, bind: Any, seconds: float) -> None:
        self.loop.bound(bind)
        self.telling.bound(bind, seconds)

    def failed(self, *failure: Any) -> None:
        raise AssertionError(failure)

    async def evict(self, decided: Decided) -> None:
        assert not decided.result.evicted


async def until(done: Callable[[], bool]) -> None:
    while not done():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)


async def play(pods: list[bytes], calm: Calm) -> tuple[float, QuickApi]:
    """List, decide that there is no room, tell everybody; then room for half, and bind. The longest callback."""
    world = World(pods)
    for n in range(50):
        world.feed.changed(NODE, raw_node(f"n{n}", gpus=0))
    world.feed.changed(QUEUE, raw_queue("team"))
    for n in range(GROUPS):
        world.feed.changed(POD_GROUP, raw_group(f"g{n}", SIZE))
        await asyncio.sleep(0)
    parts = (world.reflector, world.binder, world.telling, world.telling.writer)
    tasks = [asyncio.create_task(part.run(), name=type(part).__name__) for part in parts]
    await until(lambda: world.reflector.synced)
    calm.settle()
    tasks.append(asyncio.create_task(world.loop.run(), name="Loop"))
    world.loop.wake()
    await until(lambda: world.api.writes >= GROUPS * (SIZE + 1) and not world.telling.writer.pending)
    for n in range(50):
        world.feed.changed(NODE, raw_node(f"n{n}", 2, gpus=GROUPS * SIZE // 100))
        await asyncio.sleep(0)
    await until(lambda: world.api.binds >= BINDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    return loop.longest_s, world.api


@pytest.mark.slow
def test_nothing_holds_the_event_loop_for_long_with_20_000_pods_that_wait() -> None:
    names = [(n, f"p{n}-{m}") for n in range(GROUPS) for m in range(SIZE)]
    pods = [raw_pod(name, 5, annotations={GROUP: f"g{n}"}) for n, name in names]
    calm = Calm()
    calm.start()
    try:
        longest_s, api = uvloop.run(play(pods, calm), loop_factory=MeasuredLoop)
    finally:
        calm.stop()
        gc.unfreeze()
    assert api.binds >= BINDS
    assert longest_s <= MOST_S
