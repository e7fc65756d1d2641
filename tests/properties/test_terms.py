"""Which pods a term counts, kept up to date as pods, terms and namespaces come and go, against the plain definition."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cache, Store
from kai_sched.lowering.cached_rows import PodCell
from kai_sched.lowering.terms import Term, terms_of
from kai_sched.model import objects as o
from kai_sched.model.constraints import PodTerm, Requirement, WeightedPodTerm
from kai_sched.model.selectors import holds
from tests.properties.clusters import NOW_NS
from tests.properties.plans import CONFIG
from tests.properties.snapshots import snapshot_of

KEYS = ("app", "job", "tier")
VALUES = ("1", "2", "3", "x")
SPACES = ("blue", "red")
OPERATORS = ("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Strange")


@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(1, 12))
def test_terms_count_whom_they_should(rng: random.Random, n_cycles: int, n_changes: int) -> None:
    store, cache = Store(), Cache()
    store.put(o.Node("n", labels={"zone": "x"}, allocatable={"cpu": 64_000.0, "pods": 110.0}))
    for _ in range(n_cycles):
        for _ in range(n_changes):
            change(store, rng)
        view = store.cluster()
        cache.sync(view, CONFIG)
        for key, row in cache.pods.row_of.items():
            found = cache.classes[cache.pods.cells[PodCell.CLASS, row]].matches
            terms = {term: number for number, term in enumerate(cache.terms.terms)}
            wanted = {terms[term] for term in every_term(view.pods) if counts(term, view.pods[key], view.namespaces)}
            known = {number for term, number in terms.items() if counts(term, view.pods[key], view.namespaces)}
            assert wanted <= set(found) == known, key
            assert list(found) == sorted(found)
        assert snapshot_of(view, CONFIG, NOW_NS, cache) == snapshot_of(view, CONFIG, NOW_NS)


def every_term(pods: object) -> set[Term]:
    return {term for pod in pods.values() for term, _ in terms_of(pod.shape)}  # type: ignore[attr-defined]


def counts(term: Term, pod: o.Pod, namespaces: object) -> bool:
    """Every selector matches the pod's labels, and its namespace by name or by its labels."""
    for selector in term.selectors:
        space = namespaces.get(pod.namespace)  # type: ignore[attr-defined]
        labels = space.labels if space else {"kubernetes.io/metadata.name": pod.namespace}
        by_label = selector.namespace_selector is not None and all(
            holds(each, labels) for each in selector.namespace_selector
        )
        if selector.selector is None or not (pod.namespace in selector.namespaces or by_label):
            return False
        if not all(holds(each, pod.labels) for each in selector.selector):
            return False
    return True


def change(store: Store, rng: random.Random) -> None:
    luck = rng.random()
    name = f"p{rng.randrange(8)}"
    if luck < 0.15:
        store.remove(o.Pod, f"{rng.choice(SPACES)}/{name}")
    elif luck < 0.3:
        store.put(o.Namespace(rng.choice(SPACES), some_labels(rng)))
    elif luck < 0.35:
        store.remove(o.Namespace, rng.choice(SPACES))
    else:
        shape = o.Shape(
            (("cpu", float(rng.choice((500, 1000)))), ("pods", 1.0)),
            affinity=some_terms(rng, 0.2),
            anti_affinity=some_terms(rng, 0.3),
            preferred_affinity=tuple(WeightedPodTerm(rng.choice((1, -2)), term) for term in some_terms(rng, 0.2)),
        )
        node = rng.choice(("", "n"))
        store.put(o.Pod(rng.choice(SPACES), name, shape, labels=some_labels(rng), node=node, phase=o.Phase.RUNNING))


def some_labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(VALUES) for key in rng.sample(KEYS, rng.randrange(4))}


def some_terms(rng: random.Random, chance: float) -> tuple[PodTerm, ...]:
    return tuple(some_term(rng) for _ in range(rng.choice((1, 1, 2)) if rng.random() < chance else 0))


def some_term(rng: random.Random) -> PodTerm:
    selector = None if rng.random() < 0.05 else some_requirements(rng)
    spaces = tuple(rng.choices(SPACES, k=rng.choice((0, 1, 1, 2))))
    return PodTerm("zone", selector, spaces, some_requirements(rng) if rng.random() < 0.25 else None)


def some_requirements(rng: random.Random) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(rng.choice(KEYS), rng.choice(OPERATORS), tuple(rng.choices(VALUES, k=rng.choice((0, 1, 1, 2)))))
        for _ in range(rng.choice((0, 1, 1, 2)))
    )
