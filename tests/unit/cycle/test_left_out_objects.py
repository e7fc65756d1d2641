"""What an object holds that cycles leave out is not given away, and who needs it waits and is told so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from kai_sched import Config, Store, run_cycle
from kai_sched.cycle.quarantine import Quarantine
from kai_sched.model import objects as o
from kai_sched.model.claims import objects as c
from kai_sched.model.constraints import PodTerm, Requirement, Taint
from kai_sched.model.store import Change, Cluster
from kai_sched.plan.effects import Bind, Evict
from kai_sched.plan.result import CycleResult

UNLIMITED = o.Share(-1.0, -1.0, 1.0)
NOW_NS = 1_800_000_000 * 10**9
DRIVER = "gpu.example.com"
PLAIN = o.Shape((("cpu", 1000.0), ("pods", 1.0)))
Broken = Callable[[Cluster], bool]


class World:
    """A node with two devices, and cycles that raise while ``broken`` holds of a view."""

    def __init__(self) -> None:
        self.store = Store()
        self.broken: Broken = lambda _: False
        self.put(
            o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),
            o.Node("n", allocatable={"cpu": 64_000.0, "pods": 100.0}),
            c.DeviceClass(DRIVER),
            pool(0, 1),
        )
        self._quarantine = Quarantine(self._run)

    def put(self, *items: o.Object) -> None:
        for item in items:
            self.store.put(item)

    def _run(self, view: Cluster, *arguments: Any) -> CycleResult:
        result = run_cycle(view, *arguments)
        if self.broken(view):
            raise ArithmeticError("by the test")
        return result

    def without(self, *names: Change) -> CycleResult:
        """A cycle that fails while these objects are as they are."""
        view = self.store.cluster()
        items = {name: view.table(name[0])[name[1]] for name in names}
        self.broken = lambda seen: any(seen.table(kind).get(key) is item for (kind, key), item in items.items())
        found = self._quarantine.run_cycle(view, Config(), NOW_NS, lambda: 0.0, read_all=True).result
        assert set(found.left_out) == set(names)
        return found

    def unreadable(self, name: Change) -> CycleResult:
        """A cycle that fails with the object, even if it is reduced to what it holds."""
        self.broken = lambda seen: name[1] in seen.table(name[0])
        return self._quarantine.run_cycle(self.store.cluster(), Config(), NOW_NS, lambda: 0.0, read_all=True).result


def pool(*devices: int, name: str = "n", **fields: Any) -> c.ResourceSlice:
    found = tuple(c.Device(f"gpu-{i}", {f"{DRIVER}/index": i}, node="n") for i in devices)
    return c.ResourceSlice(f"s-{name}-{len(devices)}", DRIVER, name, devices=found, **fields)


def claim(name: str, *devices: int, **fields: Any) -> c.ResourceClaim:
    held = tuple(c.AllocatedDevice("r", DRIVER, "n", f"gpu-{i}") for i in devices)
    asks = c.ClaimRequests((c.DeviceRequest("r", (c.DeviceOption(DRIVER, count=fields.pop("count", 1)),)),))
    allocation = c.Allocation(held) if devices else None
    return c.ResourceClaim("ml", name, asks=asks, allocation=allocation, queue="q", **fields)


def pod(name: str, *, uses: str = "", node: str = "", **fields: Any) -> o.Pod:
    fields.setdefault("shape", replace(PLAIN, n_claims=bool(uses)))
    claims = (c.PodClaim("x", uses, named=True),) if uses else ()
    phase = o.Phase.RUNNING if node else o.Phase.PENDING
    named = {"uid": name, "queue": "q", "scheduler": "kai-scheduler", "claims": claims}
    return o.Pod("ml", name, **{**named, "node": node, "phase": phase, **fields})


def bound(result: CycleResult) -> set[str]:
    return {effect.pod for effect in result.effects if isinstance(effect, Bind)}


def reason(result: CycleResult, group: str) -> str:
    found = result.groups[group].reason
    return f"{found.code}: {found.message}" if found is not None else ""


@pytest.mark.parametrize("user", ["runs", "waits", "nobody"])
@pytest.mark.parametrize("readable", [True, False])
def test_the_devices_of_a_claim_stay_held(user: str, readable: bool) -> None:
    world = World()
    world.put(claim("bad", 0), claim("good"), claim("both", count=2))
    if user != "nobody":
        world.put(pod("user", uses="bad", node="n" if user == "runs" else ""))
    world.put(pod("one", uses="good"), pod("two", uses="both"), pod("free"))
    name = (c.ResourceClaim, "ml/bad")
    result = world.without(name) if readable else world.unreadable(name)
    # Where nobody can say which devices it has, nobody gets any of them.
    assert bound(result) == ({"ml/one", "ml/free"} if readable else {"ml/free"})
    if user == "waits":
        assert "SchedulerError: the scheduler fails on ResourceClaim ml/bad (ArithmeticError" in reason(
            result, "ml/user"
        )
    given = [use.allocation for effect in result.effects if isinstance(effect, Bind) for use in effect.claims]
    assert {device.device for each in given if each is not None for device in each.devices} <= {"gpu-1"}


def test_the_pods_of_a_claim_wait_and_those_of_others_do_not() -> None:
    world = World()
    world.put(claim("bad"), claim("good"), pod("a", uses="bad"), pod("b", uses="good"))
    result = world.without((c.ResourceClaim, "ml/bad"))
    assert bound(result) == {"ml/b"}
    assert "ResourceClaim ml/bad" in reason(result, "ml/a")


def test_the_gpus_of_a_claim_go_on_counting_for_its_queue() -> None:
    world = World()
    limited = o.Share(1.0, 1.0, 1.0)
    world.put(o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=limited))
    world.put(claim("bad", 0), claim("good"), pod("user", uses="bad", node="n"), pod("b", uses="good"))
    result = world.without((c.ResourceClaim, "ml/bad"))
    assert bound(result) == set()
    assert "OverLimit" in reason(result, "ml/b")


def test_a_class_is_unusable_and_its_pods_are_told() -> None:
    world = World()
    world.put(c.DeviceClass("other"), claim("good"))
    asks = c.ClaimRequests((c.DeviceRequest("r", (c.DeviceOption("other"),)),))
    world.put(c.ResourceClaim("ml", "of-other", asks=asks), pod("a", uses="of-other"), pod("b", uses="good"))
    result = world.without((c.DeviceClass, "other"))
    assert bound(result) == {"ml/b"}
    assert "DeviceClass other" in reason(result, "ml/a")


def test_without_a_slice_no_older_one_and_no_other_of_its_pool_is_used() -> None:
    world = World()
    world.store.remove(c.ResourceSlice, "s-n-2")
    counters = (("set", "memory", Fraction(1)),)
    taken = replace(pool(0).devices[0], counters=counters)
    other = replace(pool(1).devices[0], counters=counters)
    newer = {"generation": 2, "count": 3}
    world.put(
        c.ResourceSlice("old", DRIVER, "n", 1, devices=(pool(0).devices[0],)),
        c.ResourceSlice("a", DRIVER, "n", **newer, counters=counters),
        c.ResourceSlice("b", DRIVER, "n", **newer, devices=(taken,)),
        c.ResourceSlice("c", DRIVER, "n", **newer, devices=(other,)),
    )
    world.put(claim("has", 0), pod("user", uses="has", node="n"), claim("good"), pod("b", uses="good"), pod("free"))
    assert bound(world.without((c.ResourceSlice, "b"))) == {"ml/free"}


@pytest.mark.parametrize("bad", ["rule", "class"])
def test_a_taint_rule_that_is_left_out_keeps_away_from_what_it_names(bad: str) -> None:
    world = World()
    world.put(c.DeviceClass("some"))
    rule = c.DeviceTaintRule("rule", Taint("k", "", "NoSchedule"), device="gpu-0", device_class="some")
    world.put(rule, claim("a"), claim("b"), pod("a", uses="a"), pod("b", uses="b", created_ns=1))
    name = (c.DeviceTaintRule, "rule") if bad == "rule" else (c.DeviceClass, "some")
    assert bound(world.without(name)) == {"ml/a"}, "the other device is tainted"


def test_who_depends_on_a_priority_class_waits_and_who_runs_with_it_stays() -> None:
    world = World()
    world.put(o.Node("n", allocatable={"cpu": 2000.0, "pods": 100.0}), o.PriorityClass("high", 200))
    world.put(o.PriorityClass("higher", 90))
    world.put(pod("runs", node="n", priority_class="high"), pod("waits", priority_class="high"))
    world.put(o.PodGroup("ml", "g", queue="q", priority_class="high"), pod("member", node="n", group="g"))
    world.put(pod("urgent", priority_class="higher"), pod("late", group="g"))
    result = world.without((o.PriorityClass, "high"))
    assert [effect for effect in result.effects if isinstance(effect, Evict)] == []
    assert bound(result) == set()
    for group in ("ml/waits", "ml/g"):
        assert "PriorityClass high" in reason(result, group)
    assert "PriorityClass" not in reason(result, "ml/urgent")


def test_who_depends_on_a_namespace_waits() -> None:
    world = World()
    world.put(o.Namespace("ml", {"team": "red"}), o.Namespace("other", {"team": "blue"}))
    by_labels = (PodTerm("kubernetes.io/hostname", (), (), (Requirement("team", "Exists"),)),)
    world.put(pod("waits"), pod("runs", node="n"))
    world.put(replace(pod("apart", shape=replace(PLAIN, anti_affinity=by_labels)), namespace="other"))
    world.put(replace(pod("free"), namespace="other"))
    result = world.without((o.Namespace, "ml"))
    assert bound(result) == {"other/free"}
    for group in ("ml/waits", "other/apart"):
        assert "Namespace ml" in reason(result, group)


@pytest.mark.parametrize("kind", [o.VolumeClaim, o.Volume, o.StorageClass, o.ConfigMap])
def test_who_needs_what_is_left_out_waits_and_is_told(kind: type[o.Object]) -> None:
    world = World()
    world.put(o.VolumeClaim("ml", "data", volume="pv"), o.Volume("pv"), o.StorageClass("fast", True, "x"))
    world.put(o.VolumeClaim("ml", "new", storage_class="fast"), o.ConfigMap("ml", "map"))
    shapes = {
        o.VolumeClaim: replace(PLAIN, claims=("ml/data",)),
        o.Volume: replace(PLAIN, claims=("ml/data",)),
        o.StorageClass: replace(PLAIN, claims=("ml/new",)),
        o.ConfigMap: replace(PLAIN, config_maps=("ml/map",)),
    }
    world.put(pod("waits", shape=shapes[kind]), pod("free"))
    key = {o.VolumeClaim: "ml/data", o.Volume: "pv", o.StorageClass: "fast", o.ConfigMap: "ml/map"}[kind]
    assert bound(world._quarantine.run_cycle(world.store.cluster(), Config(), NOW_NS, lambda: 0.0).result) == {
        "ml/waits",
        "ml/free",
    }
    result = world.without((kind, key))
    assert bound(result) == {"ml/free"}
    assert f"{kind.__name__} {key}" in reason(result, "ml/waits")
