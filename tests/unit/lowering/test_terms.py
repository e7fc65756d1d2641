"""What a new inter-pod term costs, and what is known of its domains."""

from __future__ import annotations

import pytest

from kai_sched import Cache, Config, Store
from kai_sched.lowering.lower import lower
from kai_sched.lowering.terms import TermBook
from kai_sched.model.constraints import PodTerm, Requirement
from kai_sched.model.objects import Namespace, Node, Phase, Pod, Shape

REQUEST = (("cpu", 100.0), ("pods", 1.0))


def own_term(job: str, namespace_selector: tuple[Requirement, ...] | None = None) -> Shape:
    selector = (Requirement("app", "In", ("web",)), Requirement("job-name", "In", (job,)))
    return Shape(REQUEST, anti_affinity=(PodTerm("kubernetes.io/hostname", selector, ("ml",), namespace_selector),))


def pod(name: str, job: str, shape: Shape) -> Pod:
    return Pod("ml", name, shape, labels={"app": "web", "job-name": job}, node="n", phase=Phase.RUNNING)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that a term is held against a set of labels."""
    calls: list[int] = []
    original = TermBook._counts
    monkeypatch.setattr(TermBook, "_counts", lambda *arguments: calls.append(1) or original(*arguments))
    return calls


def test_a_term_of_ones_own_is_held_against_ones_own_pods_only(compared: list[int]) -> None:
    store, cache = Store(), Cache()
    for n in range(800):
        store.put(pod(f"p{n}", f"job-{n % 400}", own_term(f"job-{n % 400}")))
    cache.sync(store.cluster(), Config())
    assert len(compared) <= 800 + 10, "all at once: each set of labels meets its own term"
    compared.clear()
    store.put(pod("new", "job-new", own_term("job-new")))
    cache.sync(store.cluster(), Config())
    assert len(compared) <= 2, "its own, and the one that all of the application were told by when it was alone"
    assert len(cache.terms) == 401


def test_a_namespace_is_looked_at_again_only_for_terms_that_select_namespaces(compared: list[int]) -> None:
    store, cache = Store(), Cache()
    for n in range(10):
        store.put(pod(f"p{n}", f"job-{n}", own_term(f"job-{n}")))
    cache.sync(store.cluster(), Config())
    compared.clear()
    pods = cache.pods
    store.put(Namespace("ml", {"team": "red"}))
    cache.sync(store.cluster(), Config())
    assert (compared, cache.pods is pods) == ([], True)
    store.put(pod("q", "job-1", own_term("job-1", (Requirement("team", "In", ("red",)),))))
    cache.sync(store.cluster(), Config())
    compared.clear()
    store.put(Namespace("ml", {"team": "blue"}))
    cache.sync(store.cluster(), Config())
    assert compared
    assert cache.pods is pods


@pytest.mark.parametrize(("values", "expected"), [([], 0), (["a"], 0), (["a", "b"], 0), (["a", "b", "b"], 1)])
def test_a_domain_of_several_nodes_is_known(values: list[str], expected: int) -> None:
    store = Store()
    for n, value in enumerate(values):
        store.put(Node(f"n{n}", labels={"zone": value}, allocatable={"cpu": 1000.0, "pods": 9.0}))
    for n in range(2):
        store.put(Node(f"bare{n}", allocatable={"cpu": 1000.0, "pods": 9.0}))
    term = PodTerm("zone", (Requirement("app", "In", ("web",)),), ("ml",))
    store.put(Pod("ml", "p", Shape(REQUEST, anti_affinity=(term,)), labels={"app": "web"}, scheduler="kai-scheduler"))
    assert lower(store.cluster(), Config(), 0, Cache()).snapshot.terms.spans_nodes.tolist() == [expected]
