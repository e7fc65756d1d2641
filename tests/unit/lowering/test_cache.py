"""What the cache keeps, and when it lets go of it."""

from __future__ import annotations

import pytest

from kai_sched import Cache, Config, Store, run_cycle
from kai_sched.lowering import crowding
from kai_sched.model.constraints import PodTerm, Requirement
from kai_sched.model.objects import GpuShare, Namespace, Node, Phase, Pod, PodGroup, Queue, Shape, Share

UNLIMITED = Share(-1.0, -1.0, 1.0)
REQUEST = (("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0))


def store_with_a_node(gpus: float = 1.0) -> Store:
    store = Store()
    store.put(Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    allocatable = {"cpu": 64_000.0, "memory": 1e12, "gpu": gpus, "pods": 110.0}
    store.put(Node("a", labels={"zone": "x"}, allocatable=allocatable))
    return store


def spare(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowding, "SPARE_NUMBERS", numbers)


def test_numbers_of_what_is_gone_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workloads come and go for months: the cache must not remember all of them."""
    spare(5, monkeypatch)
    store, cache = store_with_a_node(), Cache()
    for turn in range(50):
        store.put(PodGroup("ml", f"g{turn}", queue="q", min_member=turn))
        store.put(Pod("ml", f"p{turn}", Shape(REQUEST), group=f"g{turn}", scheduler="kai-scheduler"))
        store.remove(PodGroup, f"ml/g{turn - 1}")
        store.remove(Pod, f"ml/p{turn - 1}")
        warm = run_cycle(store.cluster(), Config(), 0, cache)
        cold = run_cycle(store.cluster(), Config(), 0)
        assert (warm.effects, dict(warm.groups)) == (cold.effects, dict(cold.groups))
        assert max(len(cache.group_ids), len(cache.layouts), len(cache.classes)) <= 4 * 2 + 5 + 2


def test_labels_of_a_namespace_decide_anew_whom_a_term_matches() -> None:
    """A term with a namespace selector matches pods of a namespace once that gets the label."""
    term = PodTerm("zone", (Requirement("app", "In", ("web",)),), (), (Requirement("team", "In", ("blue",)),))
    store, cache = store_with_a_node(gpus=4.0), Cache()
    store.put(Namespace("other", {"team": "red"}))
    web = Pod("other", "w", Shape(REQUEST), labels={"app": "web"}, node="a", phase=Phase.RUNNING)
    store.put(web)
    store.put(Pod("ml", "p", Shape(REQUEST, anti_affinity=(term,)), queue="q", scheduler="kai-scheduler"))
    assert [effect.pod for effect in run_cycle(store.cluster(), Config(), 0, cache).effects] == ["ml/p"]
    store.put(Namespace("other", {"team": "blue"}))
    assert run_cycle(store.cluster(), Config(), 0, cache).effects == ()


def test_nothing_is_read_again_where_nothing_changed() -> None:
    """The second cycle on the same store takes the rows of the first."""
    store, cache = store_with_a_node(), Cache()
    store.put(PodGroup("ml", "g", queue="q"))
    store.put(Pod("ml", "p", Shape(REQUEST), group="g"))
    run_cycle(store.cluster(), Config(), 0, cache)
    pods = cache.pods
    run_cycle(store.cluster(), Config(), 0, cache)
    assert cache.pods is pods
    run_cycle(store.cluster(), Config(scheduler_name="other"), 0, cache)
    assert cache.pods is not pods, "other settings read everything again"


def test_names_labels_and_terms_of_what_is_gone_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    spare(5, monkeypatch)
    store, cache = store_with_a_node(), Cache()
    for turn in range(100):
        term = PodTerm("zone", (Requirement("job", "In", (f"j{turn}",)),), ("ml",))
        shape = Shape((("cpu", 1000.0 + turn), ("pods", 1.0)), anti_affinity=(term,), claims=(f"ml/c{turn}",))
        labels = {"job": f"j{turn}"}
        store.put(PodGroup("ml", f"g{turn}", queue=f"q{turn}", priority_class=f"c{turn}"))
        store.put(Pod("ml", f"p{turn}", shape, labels=labels, group=f"g{turn}", sub_group=f"s{turn}"))
        store.remove(PodGroup, f"ml/g{turn - 1}")
        store.remove(Pod, f"ml/p{turn - 1}")
        run_cycle(store.cluster(), Config(), 0, cache)
        numbered = (
            *(cache.queue_names, cache.sub_groups, cache.priority_classes, cache.shapes, cache.classes),
            *(cache.terms, cache.terms.label_sets, cache.terms.matches, cache._quick, cache.places),
        )
        assert max(map(len, numbered)) <= 4 * 2 + 5 + 2


def test_names_of_other_pools_do_not_make_it_read_everything_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool may be a small part of its cluster, whose pods are on nodes and in groups that the pool does not have."""
    spare(5, monkeypatch)
    store, cache, pool = store_with_a_node(), Cache(), Config(node_pool="blue")
    store.put(Node("b", labels={pool.node_pool_label: "blue"}, allocatable={"cpu": 1000.0, "pods": 9.0}))
    for number in range(40):
        name = f"{number}"
        store.put(Node(name, allocatable={"cpu": 1000.0, "pods": 9.0}))
        store.put(PodGroup("ml", name, queue="q"))
        store.put(Pod("ml", name, Shape((("pods", 1.0),)), group=name, node=name, phase=Phase.RUNNING))
    run_cycle(store.cluster(), pool, 0, cache)
    pods = cache.pods
    for number in range(4):
        store.put(Pod("ml", f"new-{number}", Shape((("pods", 1.0),)), group=f"{number}", scheduler="kai-scheduler"))
        run_cycle(store.cluster(), pool, 0, cache)
        assert cache.pods is pods


GPUS = Shape((("gpu", 8.0), ("pods", 1.0)))
FORGED = {"app": "kai-resource-reservation"}


@pytest.mark.parametrize(
    ("namespace", "labels", "placed"),
    [
        ("team", FORGED, False),
        ("team", {}, False),
        ("kai-resource-reservation", FORGED, True),
        ("kai-resource-reservation", {}, False),
    ],
)
def test_only_reservations_in_their_namespace_hold_no_devices(
    namespace: str, labels: dict[str, str], placed: bool
) -> None:
    """Anybody can write the label; who may write into the namespace is the cluster's choice."""
    store = store_with_a_node(gpus=8.0)
    store.put(Pod(namespace, "holder", GPUS, labels=labels, node="a", phase=Phase.RUNNING))
    store.put(Pod("ml", "p", GPUS, queue="q", scheduler="kai-scheduler"))
    assert bool(run_cycle(store.cluster(), Config(), 0).effects) == placed


def test_pods_that_say_they_are_reservations_do_not_get_the_same_devices() -> None:
    store = store_with_a_node(gpus=8.0)
    for name in "ab":
        store.put(Pod("ml", name, GPUS, labels=FORGED, queue="q", scheduler="kai-scheduler"))
    assert len(run_cycle(store.cluster(), Config(), 0).effects) == 1


def test_devices_that_containers_hold_count_beside_a_share() -> None:
    store = store_with_a_node(gpus=8.0)
    shape = Shape((("gpu", 8.0), ("pods", 1.0)), share=GpuShare(1, 0.1))
    store.put(Pod("team", "holder", shape, scheduler="other", node="a", phase=Phase.RUNNING))
    store.put(Pod("ml", "p", Shape(REQUEST), queue="q", scheduler="kai-scheduler"))
    assert run_cycle(store.cluster(), Config(), 0).effects == ()
