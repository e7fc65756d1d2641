"""What is compared for claims that wait for volumes is bounded for each namespace, and told where it is too much."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from kai_sched import Config, CycleResult, Store, run_cycle
from kai_sched.lowering.constraints import POD_CLAIMS_MAX
from kai_sched.model import volumes
from kai_sched.model.budgets import OF_NAMESPACE, Budget
from kai_sched.model.constraints import Requirement
from kai_sched.model.objects import Node, Object, Pod, Queue, Shape, Share, StorageClass, Volume, VolumeClaim
from kai_sched.plan.effects import Bind

FREE = Share(math.inf, math.inf, 1.0)
LOCAL = StorageClass("local", True, "kubernetes.io/no-provisioner")
N_VOLUMES = 20


def claims(namespace: str, n: int, alike: bool) -> Iterator[VolumeClaim]:
    """Claims that volumes serve; each has a selector of its own, or all have the same."""
    for i in range(n):
        selector = (Requirement("disk", "NotIn", ("x" if alike else f"{i}",)),)
        yield VolumeClaim(namespace, f"c{i}", "Pending", storage_class="local", selector=selector)


def pods(namespace: str, n: int, each: int) -> Iterator[Pod]:
    """Pods with so many of these claims each."""
    for i in range(n):
        keys = tuple(f"{namespace}/c{k}" for k in range(i * each, (i + 1) * each))
        shape = Shape((("cpu", 1.0), ("pods", 1.0)), claims=keys)
        yield Pod(namespace, f"p{i}", shape, uid=f"{namespace}-{i}", queue="q", scheduler=Config().scheduler_name)


def decide(*objects: Object) -> CycleResult:
    store = Store()
    room = {"cpu": 1e6, "memory": 2.0**40, "pods": 1e5}
    disks = [Volume(f"d{i}", storage_class="local", phase="Available") for i in range(N_VOLUMES)]
    for one in (Queue("q", cpu=FREE, memory=FREE, gpu=FREE), Node("n", allocatable=room), LOCAL, *disks, *objects):
        store.put(one)
    return run_cycle(store.cluster(), Config(), 0)


def bound(result: CycleResult) -> set[str]:
    return {each.pod for each in result.effects if isinstance(each, Bind)}


def test_a_namespace_gets_a_part_of_a_budget() -> None:
    budget = Budget(100)
    assert budget.has("a", 100 // OF_NAMESPACE)
    assert not budget.has("a", 100 // OF_NAMESPACE + 1)
    budget.spend("a", 25)
    assert not budget.has("a", 1)
    for other in ("b", "c", "d"):
        assert budget.has(other, 25)
        budget.spend(other, 25)
    assert not budget.has("e", 1)
    assert budget.has("e", 0)


def test_other_demands_of_one_namespace_do_not_keep_others_from_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a namespace that asks for too many different things some wait and say why; elsewhere all is as ever."""
    monkeypatch.setattr(volumes, "COMPARED_MAX", 2 * N_VOLUMES * OF_NAMESPACE * 5)
    evil, sane = list(claims("evil", 50, alike=False)), list(claims("sane", 3, alike=False))
    result = decide(*evil, *pods("evil", 50, each=1), *sane, *pods("sane", 3, each=1))
    assert {f"sane/p{i}" for i in range(3)} <= bound(result)
    assert len([each for each in bound(result) if each.startswith("evil/")]) == 5
    waiting = next(key for key in result.groups if key.startswith("evil/") and result.groups[key].reason)
    reason = result.groups[waiting].reason
    assert reason is not None
    assert reason.code == "OverWorkLimit"
    assert "too many volumes have to be compared" in reason.message


def test_claims_that_ask_for_the_same_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "COMPARED_MAX", 2 * N_VOLUMES * OF_NAMESPACE)
    found = decide(*claims("ns", N_VOLUMES, alike=True), *pods("ns", N_VOLUMES, each=1))
    assert len(bound(found)) == N_VOLUMES


def test_a_pod_has_so_many_waiting_claims_at_most() -> None:
    n = POD_CLAIMS_MAX + 1
    result = decide(*claims("ns", n, alike=True), *pods("ns", 1, each=n))
    (group,) = result.groups.values()
    assert group.reason is not None
    assert group.reason.code == "OverWorkLimit"
    assert f"more than {POD_CLAIMS_MAX} of its claims wait for volumes" in group.reason.message
