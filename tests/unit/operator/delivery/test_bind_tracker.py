"""Which binds are still valid, and whose failure counts, when pods change under way."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.api import names
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.cluster.time_slice import TimeSlice
from kai_sched.model.claims.objects import Allocation
from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import GpuShare, Node, Pod, Shape
from kai_sched.model.read.kinds import POD
from kai_sched.model.store import Store
from kai_sched.operator.clock import Clock
from kai_sched.operator.cycle_trigger import CycleTrigger
from kai_sched.operator.delivery.bind_tracker import BindTracker
from kai_sched.plan.effects import Bind, ClaimUse
from tests.unit.operator.builders import Intake
from tests.unit.operator.worlds import raw_pod


def part(portion: float) -> Pod:
    return Pod("ml", "a", Shape(share=GpuShare(1, portion)), uid="a")


class Bench:
    """A tracker over a store with one node."""

    def __init__(self) -> None:
        self.store = Store()
        self.overlay = Overlay(self.store)
        self.released: list[Bind] = []
        self.tracker = self.over(self.overlay)
        self.store.put(Node("n1"))

    def over(self, overlay: Overlay) -> BindTracker:
        quiet: Any = self
        return BindTracker(self.store, overlay, CycleTrigger(overlay), quiet, Clock(), quiet)

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


async def test_a_pod_that_was_hidden_and_decided_again_has_one_bind(bench: Bench) -> None:
    """Somebody gave it an owner while its device was reserved, so it was held back until its group was known."""
    intake = Intake(bench.store)
    bare = raw_pod("a", gpus=0, annotations={names.GPU_FRACTION_ANNOTATION: "0.5"})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j"}
    adopted = raw_pod("a", 2, 0, annotations={names.GPU_FRACTION_ANNOTATION: "0.5"}, ownerReferences=[owner])
    bench.overlay, bench.tracker = intake.overlay, bench.over(intake.overlay)
    intake.sink.changed(POD, bare)
    kept, lost = (ClaimUse(f"ml/{name}", name, Allocation(), True) for name in ("kept", "lost"))
    first = Bind("ml/a", "a", "n1", ("g1",), (kept, lost))
    second = Bind("ml/a", "a", "n1", ("g2",), (kept,))
    shown = bench.store.all(Pod)["ml/a"]
    assert await bench.decide(first, shown)
    intake.sink.changed(POD, adopted)
    assert "ml/a" not in bench.store.all(Pod)
    bench.overlay.observe(shown)
    assert await bench.decide(second, shown)
    assert (bench.tracker.check(second), bench.tracker.check(first)) == ("", "pod ml/a is decided again")
    bench.tracker.failed(first, BindFailure(OBSOLETE, "by the test"))
    assert bench.overlay.assumed["ml/a"].gpu_groups == ("g2",)
    assert [each.claims for each in bench.released] == [(lost,)]
    bench.tracker.failed(second, BindFailure(OBSOLETE, "by the test"))
    assert (bench.overlay.assumed, bench.released[1:]) == ({}, [second])
