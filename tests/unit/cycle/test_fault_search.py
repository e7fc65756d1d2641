"""The search for objects that make cycles raise without being named: of every kind, and of any number."""

from __future__ import annotations

import pytest

from kai_sched.cycle import quarantine
from kai_sched.cycle.quarantine import RETRY_S
from kai_sched.lowering.claims.refusals import ClaimJudge
from kai_sched.model import objects as o
from kai_sched.model.claims import objects as c
from kai_sched.model.constraints import Taint
from kai_sched.model.storage import StorageCapacity
from kai_sched.model.store import TABLES, Change
from tests.unit.cycle.test_quarantine import GPU, Fragile, broken_by


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("n", [1, 30])
def test_objects_of_every_kind_are_found(kind: type[o.Object], n: int) -> None:
    fragile = Fragile(n_pods=4)
    bad = [one_of(kind, f"bad{i}") for i in range(n)]
    for item in (*bad, one_of(kind, "good")):
        fragile.store.put(item)
    names = {(kind, item.key) for item in bad}
    fragile.breaks = broken_by(*names)
    outcome = fragile.run()
    assert set(outcome.result.left_out) == names
    assert {effect.pod for effect in outcome.result.effects} >= {"ml/p0", "ml/p1", "ml/p2", "ml/p3"}
    fragile.time += RETRY_S + 1.0
    outcome = fragile.run()
    assert set(outcome.result.left_out) == names
    assert fragile.runs <= 33, "a retry costs what it may, however many there are"
    fragile.breaks = lambda _: False
    fragile.time += RETRY_S + 1.0
    assert set(fragile.run().released) == names


def one_of(kind: type[o.Object], name: str) -> o.Object:
    """An object of the kind, in the namespace "evil" if it has one, that is of no use."""
    if kind is o.Pod:
        return o.Pod("evil", name, GPU, name, queue="q", scheduler="kai-scheduler", created_ns=9)
    if kind is o.BindRequest:
        return o.BindRequest("evil", name, name, "n")
    if kind is o.PriorityClass:
        return o.PriorityClass(name, 7)
    if kind is c.ResourceSlice:
        return c.ResourceSlice(name, "driver", name)
    if kind is c.DeviceTaintRule:
        return c.DeviceTaintRule(name, Taint("k", "", "NoSchedule"))
    spaces = (o.PodGroup, o.VolumeClaim, o.ConfigMap, c.ResourceClaim, StorageCapacity)
    return kind("evil", name) if kind in spaces else kind(name)  # type: ignore[call-arg,arg-type]


@pytest.mark.parametrize("kind", [o.Pod, o.PodGroup, c.ResourceClaim, c.DeviceClass])
def test_a_thousand_that_nothing_names_keep_nobody_else_waiting(
    kind: type[o.Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is in another namespace is admitted within one cycle, whoever is still suspected."""
    monkeypatch.setattr(quarantine, "TRIALS_MAX", 24)
    fragile = Fragile(gpus=10_000.0)
    for n in range(20):
        fragile.put_pod("p", namespace=f"team-{n:02}")
    bad = [one_of(kind, f"bad{i}") for i in range(1000)]
    for item in bad:
        fragile.store.put(item)
    names = {(kind, item.key) for item in bad}
    fragile.breaks = broken_by(*names)
    bound = {effect.pod for effect in fragile.run().result.effects}
    assert bound >= {f"team-{n:02}/p" for n in range(20)}
    fragile.put_pod("late", namespace="team-00")
    assert "team-00/late" in {effect.pod for effect in fragile.run().result.effects}


def test_what_fails_with_the_pods_of_all_namespaces_is_an_object_of_the_cluster() -> None:
    fragile = Fragile(gpus=100.0)
    for n in range(5):
        fragile.put_pod("p", namespace=f"team-{n}")
    fragile.store.put(o.Node("bad", allocatable={"gpu": 8.0, "pods": 10.0}))
    fragile.breaks = lambda view: "bad" in view.nodes and bool(view.pods)
    outcome = fragile.run()
    assert set(outcome.result.left_out) == {(o.Node, "bad")}
    assert len(outcome.result.effects) == 5


@pytest.mark.parametrize("kind", [o.Node, c.DeviceClass, c.ResourceSlice, o.StorageClass])
def test_nothing_in_a_namespace_puts_the_blame_on_an_object_of_the_cluster(kind: type[o.Object]) -> None:
    """What fails only together with it is left out itself."""
    fragile = Fragile(n_pods=3, gpus=100.0)
    fragile.store.put(one_of(kind, "good"))
    claim = one_of(c.ResourceClaim, "bad")
    fragile.store.put(claim)
    fragile.breaks = lambda view: "good" in view.table(kind) and claim.key in view.resource_claims
    outcome = fragile.run()
    assert set(outcome.result.left_out) == {(c.ResourceClaim, claim.key)}
    assert len(outcome.result.effects) == 3


def test_a_search_goes_on_in_later_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more at fault than can be found at once each cycle finds some, and none fails."""
    monkeypatch.setattr(quarantine, "TRIALS_MAX", 10)
    fragile = Fragile(n_pods=40, gpus=1000.0)
    names: list[Change] = [(o.Pod, f"ml/p{n}") for n in range(0, 40, 2)]
    fragile.breaks = broken_by(*names)
    sizes = []
    for _ in range(12):
        outcome = fragile.run()
        assert fragile.runs <= 10 + 5
        assert set(names) <= outcome.result.left_out.keys(), "whoever is suspected stays out"
        sizes.append(len(outcome.result.left_out))
        if outcome.retry_at != fragile.time:
            break
    assert set(outcome.result.left_out) == set(names)
    assert sizes == sorted(sizes, reverse=True)
    assert fragile.run().quarantined == ()
    assert fragile.runs == 1


@pytest.mark.parametrize(
    "error", [ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError, KeyError, IndexError]
)
def test_errors_of_any_type_are_searched_for(error: type[Exception]) -> None:
    fragile = Fragile(n_pods=10, gpus=100.0)
    fragile.breaks, fragile.error = broken_by((o.Pod, "ml/p5")), error
    assert fragile.left_out() == {(o.Pod, "ml/p5")}


@pytest.mark.parametrize("error", [ZeroDivisionError, OverflowError, MemoryError, RecursionError, KeyError])
def test_lowering_names_a_thousand_claims_at_once(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised over one claim is the fault of that claim: no search."""
    original = ClaimJudge.refusal

    def refusal(judge: ClaimJudge, pod: o.Pod, use: c.PodClaim, claim: c.ResourceClaim | None, allocated: bool) -> str:
        if claim is not None and claim.name.startswith("bad") and not claim.deleted:
            raise error("by the test")
        return original(judge, pod, use, claim, allocated)

    monkeypatch.setattr(ClaimJudge, "refusal", refusal)
    fragile = Fragile(n_pods=4)
    fragile.store.put(c.DeviceClass("d"))
    fragile.store.put(c.ResourceSlice("s", "d", "n", devices=tuple(c.Device(f"d{i}", node="n") for i in range(4))))
    asks = c.ClaimRequests((c.DeviceRequest("r", (c.DeviceOption("d"),)),))
    for i in range(1001):
        name = f"bad{i}" if i else "good"
        fragile.store.put(c.ResourceClaim("evil", name, asks=asks))
        shape = o.Shape((("pods", 1.0),), n_claims=1)
        fragile.put_pod(name, namespace="evil", shape=shape, claims=(c.PodClaim("x", name, named=True),))
    outcome = fragile.run()
    assert set(outcome.result.left_out) == {(c.ResourceClaim, f"evil/bad{i}") for i in range(1, 1001)}
    assert {effect.pod for effect in outcome.result.effects} == {"ml/p0", "ml/p1", "ml/p2", "ml/p3", "evil/good"}
    assert fragile.runs == 3, "the failure, the same once more, and without the objects"
    reason = outcome.result.groups["evil/bad7"].reason
    assert reason is not None
    assert "ResourceClaim evil/bad7" in reason.message


def test_a_thousand_small_namespaces_that_are_faulty_do_not_keep_a_large_one_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quarantine, "TRIALS_MAX", 24)
    fragile = Fragile(n_pods=40, gpus=10_000.0)
    names: list[Change] = []
    for i in range(1000):
        namespace = f"{'az'[i % 2]}-{i:03}"  # before and after the others, in order
        fragile.put_pod("bad", namespace=namespace)
        names.append((o.Pod, f"{namespace}/bad"))
    fragile.breaks = broken_by(*names)
    bound = {effect.pod for effect in fragile.run().result.effects}
    assert bound == {f"ml/p{n}" for n in range(40)}


def test_a_thousand_faulty_queues_do_not_keep_out_one_that_has_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "TRIALS_MAX", 24)
    fragile = Fragile(n_pods=40, gpus=10_000.0)
    unlimited = fragile.store.cluster().queues["q"].cpu
    fragile.store.put(o.Queue("top", cpu=unlimited, memory=unlimited, gpu=unlimited))
    fragile.store.put(o.Queue("q", parent="top", cpu=unlimited, memory=unlimited, gpu=unlimited))
    names: list[Change] = [(o.Queue, f"{'az'[i % 2]}-{i:03}") for i in range(1000)]
    for _, name in names:
        fragile.store.put(o.Queue(name))
        fragile.put_pod("one", namespace=f"of-{name}", queue=name)
    fragile.breaks = broken_by(*names)
    bound = {effect.pod for effect in fragile.run().result.effects}
    assert bound >= {f"ml/p{n}" for n in range(40)}
