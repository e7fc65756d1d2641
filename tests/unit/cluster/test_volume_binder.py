"""Binding volumes: whatever is wrong with one group, it is told and given up, and all others go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kai_sched.cluster import volume_binder
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.cluster.volume_binder import VOLUME_BINDING, VolumeBinder
from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Pod, StorageClass, Volume, VolumeClaim
from kai_sched.model.read.kinds import POD, Reader
from kai_sched.model.store import Store
from kai_sched.plan.effects import Bind
from kai_sched.reconcile.volume_plan import Refusal
from tests.unit.cluster.scripted import ScriptedApi, failure
from tests.unit.operator.worlds import raw

A, B = Bind("ml/a", "a", "n1"), Bind("ml/b", "b", "n1")


class Bench:
    def __init__(self) -> None:
        self.store = Store()
        reader = Reader(Config())
        for name in "ab":
            claims = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
            spec = {"containers": [{"name": "c"}], "volumes": claims}
            found = reader.read(POD, raw(name, 1, "ml", spec=spec), lambda *_: None)
            assert found is not None
            self.store.put(found)
        self.sent: list[str] = []
        self.failed: list[tuple[str, BindFailure]] = []
        self.api = ScriptedApi()
        self.news = asyncio.Event()
        self.binding = VolumeBinder(
            self.api,  # type: ignore[arg-type]
            self.store,
            self.news,
            random.Random(1),
            self._send,
            lambda bind, failure: self.failed.append((bind.pod, failure)),
            lambda _: "1",
        )

    def _send(self, group: Sequence[Bind]) -> None:
        self.sent += [bind.pod for bind in group]


async def test_planning_that_raises_costs_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    plan = volume_binder.plan_volumes

    def raising(book: object, pod: object, *rest: object) -> object:
        if getattr(pod, "name", "") == "a":
            raise ZeroDivisionError("by the test")
        return plan(book, pod, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(volume_binder, "plan_volumes", raising)
    cluster = bench.store.cluster()
    for bind in (A, B, Bind("ml/gone", "g", "n1")):
        bench.binding.submit([bind], cluster)
    async with asyncio.timeout(5.0):
        while len(bench.failed) < 3:  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0.005)
    told = dict(bench.failed)
    assert told["ml/a"] == BindFailure(
        VOLUME_BINDING, "unexpected ZeroDivisionError: by the test (a bug in the scheduler: see its log)"
    )
    assert told["ml/b"].message == "node n1 is gone: the pod is scheduled again"
    assert "KeyError" in told["ml/gone"].message
    assert bench.sent == []


async def test_waiting_that_raises_gives_the_group_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stay assumed for ever else."""
    bench = Bench()
    monkeypatch.setattr(volume_binder, "plan_volumes", lambda *_: Refusal("by the test"))

    def raising(*_: object) -> None:
        raise ZeroDivisionError("by the test")

    working = bench.binding._failed
    bench.binding._failed = raising
    bench.binding.submit([A], bench.store.cluster())
    bench.binding._failed = working
    bench.binding.submit([B], bench.store.cluster())
    async with asyncio.timeout(5.0):
        while not bench.failed:  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0.005)
    assert ("ml/b", BindFailure(VOLUME_BINDING, "by the test")) in bench.failed


async def test_the_next_cycle_sees_what_is_being_written() -> None:
    """A volume that was decided on is kept for its claim before the API server shows it; it is free if that fails."""
    bench = Bench()
    bench.store.put(Node("n1", "n1"))
    bench.store.put(StorageClass("local", True, "kubernetes.io/no-provisioner"))
    for name in ("v1", "v2"):
        bench.store.put(Volume(name, storage_class="local", phase="Available", size_bytes=2.0))
    bench.store.put(VolumeClaim("ml", "a", storage_class="local", size_bytes=1.0, uid="claim-a"))
    bench.api.answers["PATCH"] = [failure(422)]
    bench.binding.submit([A._replace(volumes=(("ml/a", "v2"),))], bench.store.cluster())
    assert [volume.claim for volume in bench.store.all(Volume).values()] == ["", "ml/a"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert [volume.claim for volume in bench.store.all(Volume).values()] == ["", ""]
    assert [pod for pod, _ in bench.failed] == ["ml/a"]


async def test_a_volume_that_an_administrator_keeps_for_a_claim_stays_so() -> None:
    """It has a claim without a uid. A write that fails must not let others have it."""
    bench = Bench()
    bench.store.put(Node("n1", "n1"))
    bench.store.put(StorageClass("local", True, "kubernetes.io/no-provisioner"))
    bench.store.put(Volume("v1", storage_class="local", phase="Available", size_bytes=2.0, claim="ml/a"))
    bench.store.put(VolumeClaim("ml", "a", storage_class="local", size_bytes=1.0, uid="claim-a"))
    bench.api.answers["PATCH"] = [failure(500)]
    bench.binding.submit([A._replace(volumes=(("ml/a", "v1"),))], bench.store.cluster())
    for _ in range(10):
        await asyncio.sleep(0)
    assert [pod for pod, _ in bench.failed] == ["ml/a"]
    assert [volume.claim for volume in bench.store.all(Volume).values()] == ["ml/a"]


async def test_the_next_cycle_sees_where_a_volume_is_made() -> None:
    bench = Bench()
    bench.store.put(Node("n1", "n1"))
    bench.store.put(StorageClass("fast", True, "csi.example.com"))
    bench.store.put(VolumeClaim("ml", "a", storage_class="fast", size_bytes=1.0, uid="claim-a"))
    bench.api.answers["PATCH"] = [failure(422)]
    bench.binding.submit([A], bench.store.cluster())
    assert [claim.selected_node for claim in bench.store.all(VolumeClaim).values()] == ["n1"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert [claim.selected_node for claim in bench.store.all(VolumeClaim).values()] == [""]


async def test_a_volume_that_is_gone_is_told_and_not_replaced() -> None:
    """What the cycle decided is done, or nothing."""
    bench = Bench()
    bench.store.put(Node("n1", "n1"))
    bench.store.put(StorageClass("local", True, "kubernetes.io/no-provisioner"))
    bench.store.put(Volume("v1", storage_class="local", phase="Available", size_bytes=2.0))
    bench.store.put(VolumeClaim("ml", "a", storage_class="local", size_bytes=1.0, uid="claim-a"))
    bench.binding.submit([A._replace(volumes=(("ml/a", "v2"),))], bench.store.cluster())
    for _ in range(10):
        await asyncio.sleep(0)
    assert [pod for pod, _ in bench.failed] == ["ml/a"]
    assert not bench.api.asked


@pytest.mark.parametrize("is_anew", [False, True], ids=["gone", "anew"])
async def test_a_pod_that_goes_while_its_group_waits_is_no_failure_of_the_group(is_anew: bool) -> None:
    """The others are decided again at once, and nobody is told that their volumes could not be bound."""
    bench = Bench()
    bench.store.put(Node("n1", "n1"))
    bench.store.put(StorageClass("fast", True, "csi.example.com"))
    for name in "ab":
        bench.store.put(VolumeClaim("ml", name, storage_class="fast", size_bytes=1.0, uid=f"claim-{name}"))
    bench.binding.submit([A, B], bench.store.cluster())
    await asyncio.sleep(0.01)
    assert not bench.failed
    pod = bench.store.all(Pod)["ml/a"]
    bench.store.remove(Pod, "ml/a")
    if is_anew:
        bench.store.put(replace(pod, uid="another"))
    bench.news.set()
    async with asyncio.timeout(5.0):
        while not bench.failed:  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0.005)
    gone = BindFailure(OBSOLETE, "pod ml/a is gone")
    assert bench.failed == [("ml/a", gone), ("ml/b", gone)]


async def test_groups_that_wait_do_not_all_look_at_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of them nothing else would run. Each sees in the end what concerns it."""
    bench, looks = Bench(), 0
    get = bench.store.get

    def counting(kind: type[Any], key: str) -> Any:
        nonlocal looks
        looks += kind is VolumeClaim
        return get(kind, key)

    bench.store.put(StorageClass("fast", True, "csi.example.com"))
    bench.store.put(Node("n1", "n1"))
    claim = VolumeClaim("ml", "a", storage_class="fast", size_bytes=1.0, uid="claim-a")
    bench.store.put(claim)
    n_groups, n_changes = 300, 20
    for _ in range(n_groups):
        bench.binding.submit([A], bench.store.cluster())
    await asyncio.sleep(0.01)
    monkeypatch.setattr(bench.store, "get", counting)
    for _ in range(n_changes):
        bench.news.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.sleep(0.3)
    assert n_groups <= looks <= 3 * n_groups
    bench.store.remove(VolumeClaim, claim.key)
    bench.news.set()
    async with asyncio.timeout(5.0):
        while len(bench.failed) < n_groups:  # noqa: ASYNC110 - tells nobody
            await asyncio.sleep(0.005)
    await bench.binding.stop()
    assert bench.binding._n_waiting == 0
