"""Which binds are still valid, and whose failure counts, when pods change under way."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import GpuShare, Node, Pod, Shape
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.delivery.bind_tracker import BindTracker
from kai_sched.plan.effects import Bind


def part(portion: float) -> Pod:
    return Pod("ml", "a", Shape(share=GpuShare(1, portion)), uid="a")


class Bench:
    """A tracker over a store with one node."""

    def __init__(self) -> None:
        self.store = Store()
        self.overlay = Overlay(self.store)
        self.released: list[Bind] = []
        quiet: Any = self
        trigger = CycleTrigger(self.overlay)
        self.tracker = BindTracker(self.store, self.overlay, trigger, quiet, Clock(), quiet)
        self.store.put(Node("n1"))

    def assume(self, _: Bind) -> None:
        """No pod of these tests has claims."""

    def release(self, bind: Bind) -> None:
        self.released.append(bind)

    def failed(self, *_: object) -> None:
        """Nobody is told."""

    async def decide(self, bind: Bind, pod: Pod) -> bool:
        return await self.tracker.assume("ml/a", [bind], {"ml/a": pod}, TimeSlice())


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_pod_that_asked_for_more_during_the_cycle_is_not_bound(bench: Bench) -> None:
    bench.overlay.observe(part(0.9))
    assert not await bench.decide(Bind("ml/a", "a", "n1", ("g",)), part(0.5))
    assert bench.overlay.assumed == {}


async def test_a_pod_that_asks_for_more_after_the_cycle_is_not_bound(bench: Bench) -> None:
    bench.overlay.observe(part(0.5))
    bind = Bind("ml/a", "a", "n1", ("g",))
    assert await bench.decide(bind, part(0.5))
    assert bench.tracker.check(bind) == ""
    bench.overlay.observe(part(0.9))
    assert "asks for something else" in bench.tracker.check(bind)
