"""Which binds are still valid, and whose failure counts, when pods change under way."""

from __future__ import annotations

from dataclasses import replace
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
        self.time = 0.0
        self.again: list[float | None] = []  # when the group is tried again, after each failure
        self.tracker = self.over(self.overlay)
        self.store.put(Node("n1"))

    def over(self, overlay: Overlay) -> BindTracker:
        quiet: Any = self
        return BindTracker(self.store, overlay, CycleTrigger(overlay), quiet, Clock(lambda: self.time), quiet)

    def assume(self, _: Bind) -> None:
        """No pod of these tests has claims."""

    def release(self, bind: Bind) -> None:
        self.released.append(bind)

    def failed(self, _: Bind, _failure: BindFailure, again: float | None) -> None:
        self.again.append(again)

    async def fails(self, failure: BindFailure) -> None:
        """The bind of the pod fails once its group may be tried again."""
        self.time = self.again[-1] or self.time if self.again else self.time
        bind = Bind("ml/a", "a", "n1")
        assert await self.decide(bind, part(0.5))
        self.tracker.failed(bind, failure)

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


GONE = BindFailure(OBSOLETE, "by the test", 404)
OVERTAKEN = BindFailure(OBSOLETE, "by the test")
REFUSED = BindFailure("Forbidden", "by the test", 403)
LEAVES = {"deleted_ns": 1}
ANEW = {"uid": "another"}


@pytest.mark.parametrize(
    ("failure", "again"),
    [(OVERTAKEN, [None, None, None]), (GONE, [1.0, 2.0, 3.0]), (REFUSED, [1.0, 3.0, 7.0])],
    ids=["overtaken", "gone", "refused"],
)
async def test_what_is_gone_is_no_failure_of_its_group(
    bench: Bench, failure: BindFailure, again: list[float | None]
) -> None:
    """The store may show it only later, so the next cycle is not asked at once, or it would decide the same again."""
    bench.overlay.observe(part(0.5))
    for _ in again:
        await bench.fails(failure)
    assert bench.again == again
    assert bench.tracker.retries.partial == {"ml/a"}


@pytest.mark.parametrize("failure", [GONE, REFUSED], ids=["gone", "refused"])
@pytest.mark.parametrize("change", [None, LEAVES, ANEW], ids=["gone", "leaves", "anew"])
async def test_a_pod_that_goes_while_it_is_bound_is_no_failure_of_its_group(
    bench: Bench, failure: BindFailure, change: dict[str, Any] | None
) -> None:
    bench.overlay.observe(part(0.5))
    bind = Bind("ml/a", "a", "n1")
    assert await bench.decide(bind, part(0.5))
    if change is None:
        bench.overlay.gone("ml/a")
    else:
        bench.overlay.observe(replace(part(0.5), **change))
    bench.tracker.failed(bind, failure)
    assert (bench.again, bench.tracker.retries.timers) == ([None], {})
