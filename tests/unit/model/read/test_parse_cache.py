"""What readers remember: as much as is of use, and no more, however much comes by."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.config import Config
from kai_sched.model.objects import Pod
from kai_sched.model.read.kinds import POD, Reader
from kai_sched.model.read.parse_cache import ENTRIES_MAX, KEY_MAX, SIZE_MAX, Recent, TextPool
from kai_sched.model.store import Store
from tests.unit.resident import resident_bytes


class TestRecent:
    @given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 40)), max_size=200))
    def test_it_is_bounded_and_never_wrong(self, keys: list[tuple[int, int]]) -> None:
        memory: Recent[int, int] = Recent(entries=8, size=100)
        for key, size in keys:
            found = memory.get(key)
            assert found in (None, 10 * key)
            if found is None:
                assert memory.put(key, 10 * key, size) == 10 * key
            assert memory.get(key) == 10 * key
            assert len(memory) <= 8

    def test_the_last_half_is_there(self) -> None:
        memory: Recent[int, int] = Recent(entries=10)
        for key in range(1000):
            memory.put(key, key, 1)
        assert [key for key in range(1000) if memory.get(key) is not None][-5:] == [995, 996, 997, 998, 999]

    def test_what_is_asked_for_stays(self) -> None:
        memory: Recent[str, int] = Recent(entries=10)
        memory.put("often", 1, 1)
        for key in range(1000):
            memory.put(str(key), key, 1)
            assert memory.get("often") == 1

    def test_large_keys_are_not_kept(self) -> None:
        memory: Recent[int, int] = Recent()
        assert memory.put(1, 2, KEY_MAX + 1) == 2
        assert memory.get(1) is None
        for key in range(10 * SIZE_MAX // KEY_MAX):
            memory.put(key, key, KEY_MAX)
        assert len(memory) <= SIZE_MAX // KEY_MAX

    def test_equal_texts_are_one(self) -> None:
        pool = TextPool()
        one, other = "".join(["a", "b"]), "".join(["a", "b"])
        assert one is not other
        assert pool.one(one) is pool.one(other)


def spec(kind: str, i: int) -> dict[str, Any]:
    """What differs from pod to pod: a claim, a volume made for it, a term, a request, a toleration, a selector."""
    if kind == "claim":
        return {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": f"data-job-{i}-a-usual-name"}}]}
    if kind == "scratch":
        return {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}
    if kind == "affinity":
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job-name": f"job-{i}"}}}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    if kind == "toleration":
        return {"tolerations": [{"key": f"key-{i}", "operator": "Exists"}]}
    if kind == "selector":
        return {"nodeSelector": {"kubernetes.io/hostname": f"node-{i}"}}
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{i}m", "memory": f"{i}"}}}]}


KINDS = ("claim", "scratch", "affinity", "toleration", "selector", "request")
ALIVE = 100


def come_and_go(reader: Reader, store: Store, first: int, count: int) -> None:
    """Pods of their own, of which no more than a hundred are there at a time."""
    for i in range(first, first + count):
        meta = {"name": f"p-{i}", "namespace": "ml", "uid": f"u-{i}", "labels": {"kai.scheduler/queue": "q"}}
        raw = msgspec.json.encode({"metadata": meta, "spec": {"schedulerName": "x", **spec(KINDS[i % len(KINDS)], i)}})
        store.put(reader.read(POD, raw, lambda _field, _message: None))
        if i - first >= ALIVE:
            store.remove(Pod, f"ml/p-{i - ALIVE}")
    for i in range(first + count - ALIVE, first + count):
        store.remove(Pod, f"ml/p-{i}")


@pytest.mark.slow
def test_pods_that_are_gone_are_forgotten() -> None:
    reader, store = Reader(Config()), Store()
    come_and_go(reader, store, 0, 20_000)
    gc.collect()
    pods = reader._pods
    assert len(pods._shapes) == 0
    kept = (pods._requests._containers, *vars(pods._constraints).values())
    assert all(0 < len(memory) <= ENTRIES_MAX for memory in kept)


@pytest.mark.long
def test_memory_does_not_grow_with_the_pods_that_ever_were() -> None:
    reader, store = Reader(Config()), Store()
    come_and_go(reader, store, 0, 50_000)
    gc.collect()
    before = resident_bytes()
    come_and_go(reader, store, 50_000, 200_000)
    gc.collect()
    assert resident_bytes() - before < 20 * 2**20
