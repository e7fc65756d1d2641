"""The work of inter-pod terms: who is over a limit, whatever the order of the pods, and that all others go on."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from kai_sched import Cache, Config, Store
from kai_sched.lowering import term_work
from kai_sched.lowering.cache import Cache as LoweringCache
from kai_sched.lowering.lower import lower
from kai_sched.lowering.terms import TermBook
from kai_sched.model.constraints import PodTerm, Requirement
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.objects import GpuShare, Node, Object, Phase, Pod, Shape
from kai_sched.snapshot.verdicts import Verdict
from tests.properties.snapshots import snapshot_of

REQUEST = (("cpu", 1.0), ("pods", 1.0))


def pod(name: str, terms: Iterable[PodTerm] = (), namespace: str = "evil", node: str = "") -> Pod:
    labels = {"app": "x", "name": name}
    phase = Phase.RUNNING if node else Phase.PENDING
    shape = Shape(REQUEST, anti_affinity=tuple(terms))
    mine = Config().scheduler_name
    return Pod(namespace, name, shape, uid=name, queue="q", labels=labels, scheduler=mine, node=node, phase=phase)


def term(number: int, namespace: str = "evil", topology: str = "zone") -> PodTerm:
    """A term of its own that matches every pod of the namespace."""
    selector = (Requirement("app", "Exists"), Requirement("name", "NotIn", (f"no-{number}",)))
    return PodTerm(topology, selector, (namespace,))


def crowd(count: int, each: int, namespace: str = "evil", node: str = "") -> list[Pod]:
    return [
        pod(f"{namespace}{i}{node}", [term(i * each + k, namespace) for k in range(each)], namespace, node)
        for i in range(count)
    ]


NODE = Node("n0", allocatable={"cpu": 1e6, "memory": 2.0**40, "pods": 1e4}, labels={"zone": "a"})


def store_of(objects: Iterable[Object]) -> Store:
    store = Store()
    for each in objects:
        store.put(each)
    return store


def refused(store: Store, cache: Cache | None = None) -> set[str]:
    """The pods that are over a limit of work."""
    lowered = lower(store.cluster(), Config(), 0, cache or Cache())
    classes = lowered.snapshot.classes.refused[lowered.snapshot.tasks.cls]
    return {each.key for each, code in zip(lowered.pods, classes, strict=True) if code == Verdict.OVER_WORK}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that few pods reach."""
    for name, most in (("POD_WORK_MAX", 1000), ("NAMESPACE_WORK_MAX", 2000), ("CYCLE_WORK_MAX", 3000)):
        monkeypatch.setattr(term_work, name, most)
    monkeypatch.setattr("kai_sched.lowering.cache.POD_WORK_MAX", 1000)


def test_many_terms_that_match_many_pods_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real limits: 300 pods with 100 terms each, which match all 300."""
    calls: list[int] = []
    original = TermBook._counts
    monkeypatch.setattr(TermBook, "_counts", lambda *arguments: calls.append(1) or original(*arguments))
    store = store_of([NODE, *crowd(300, 100), pod("other", [term(0, "sane")], "sane")])
    assert refused(store) == {f"evil/evil{i}" for i in range(300)}
    assert len(calls) * 3 <= term_work.POD_WORK_MAX


def test_a_pod_with_too_many_requirements_is_refused_by_itself() -> None:
    large = pod("large", [term(k) for k in range(6000)])
    assert refused(store_of([NODE, large, pod("small", [term(0)])])) == {"evil/large"}


@pytest.mark.usefixtures("small")
def test_whoever_waits_goes_before_whoever_runs() -> None:
    running, waiting = crowd(2, 10, node="n0"), crowd(10, 10)[2:]
    assert refused(store_of([NODE, *running, *waiting])) == {each.key for each in waiting}


@pytest.mark.usefixtures("small")
def test_a_pod_that_others_terms_match_is_not_to_blame() -> None:
    selector = (Requirement("app", "Exists"),)
    broad = [PodTerm("zone", (*selector, Requirement("n", "NotIn", (str(k),))), ("sane",)) for k in range(150)]
    victims = [pod(f"v{i}", namespace="sane") for i in range(5)]
    assert refused(store_of([NODE, *victims, pod("broad", broad)])) == {"evil/broad"}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_pods_and_the_history_of_the_cache_do_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    pods = [each for name in ("a", "b", "c") for each in crowd(rng.randrange(2, 12), rng.randrange(1, 14), name)]
    store, cache = store_of([NODE]), LoweringCache()
    for _ in range(6):
        for each in rng.sample(pods, len(pods) // 2):
            if store.get(Pod, each.key) is None:
                store.put(each)
            else:
                store.remove(Pod, each.key)
        view = store.cluster()
        shuffled = store_of([NODE, *rng.sample(list(view.pods.values()), len(view.pods))]).cluster()
        warm = snapshot_of(view, Config(), 0, cache)
        assert warm == snapshot_of(view, Config(), 0) == snapshot_of(shuffled, Config(), 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("fraction", [None, 0.5])
def test_what_is_known_of_a_pod_on_a_node_does_not_bring_its_terms_back(fraction: float | None) -> None:
    """Its eviction is refused, or it says that it has a part of a GPU, which nothing shows."""
    pods = crowd(40, 30, node="n0")
    if fraction is not None:
        pods = [replace(each, shape=replace(each.shape, share=GpuShare(1, fraction))) for each in pods]
    cache, hints = Cache(), SchedulingHints(refused_victims=frozenset(each.key for each in pods))
    snapshots = [
        lower(store_of([NODE, *pods]).cluster(), Config(proves_shares=True), 0, used, hints).snapshot
        for used in (cache, cache, Cache())
    ]
    assert [each.terms.domain.shape[0] for each in snapshots] == [0, 0, 0]
