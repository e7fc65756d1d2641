"""What queues hold is counted twice: by the solver, for its decisions, and by the statuses. Both give the same sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, CycleResult, Store, run_cycle
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model import objects as o
from kai_sched.model.objects import Queue
from kai_sched.plan.result import QUEUE_RESOURCES
from kai_sched.reconcile.status.usage import Amounts, QueueUsage
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.shares import Sharing
from tests.properties.test_claims import crowds

CONFIG = Config()
BOOKS_ONLY = Config(actions=())  # a cycle without actions opens the books and decides nothing
STEP_NS = 10**9


@given(objects=clusters(Spice(pod_affinity=True, bind_requests=True)))
def test_solver_and_statuses_agree_on_what_queues_hold(objects: list[o.Object]) -> None:
    """Before a cycle and after it, when its binds and evictions have taken effect."""
    store = Store()
    for item in objects:
        store.put(item)
    check(store.cluster(), NOW_NS)
    result = run_cycle(store.cluster(), CONFIG, NOW_NS)
    advance(store, store.cluster(), result, NOW_NS, World(STEP_NS, revives=False, restarts_clocks=False))
    check(store.cluster(), NOW_NS + STEP_NS)


@given(objects=st.one_of(clusters(Spice(sharing=Sharing(mig=True))), clusters(Spice(sharing=Sharing(odd=True)))))
def test_both_agree_on_the_parts_of_gpus_that_queues_hold(objects: list[o.Object]) -> None:
    """Also where they are given as memory, whose price depends on the node. What is requested of it stays memory."""
    store = Store()
    for item in objects:
        store.put(item)
    cluster = store.cluster()
    result = run_cycle(cluster, BOOKS_ONLY, NOW_NS)
    usage, parents = QueueUsage(cluster, CONFIG), {queue.parent for queue in cluster.queues.values()}
    for queue in result.queues:
        if queue.name not in parents:
            held, fixed, _ = usage.queue_amounts(queue.name)
            assert triple_of(held) == pytest.approx(queue.allocated), queue.name
            assert triple_of(fixed) == pytest.approx(queue.allocated_non_preemptible), queue.name


@given(objects=crowds())
def test_both_agree_on_the_gpus_of_claims(objects: list[o.Object]) -> None:
    """Before a cycle and after it, when claims are allocated, and made for extended resources."""
    store = Store()
    for item in objects:
        store.put(item)
    check(store.cluster(), NOW_NS)
    advance(store, store.cluster(), run_cycle(store.cluster(), CONFIG, NOW_NS), NOW_NS, World(STEP_NS))
    check(store.cluster(), NOW_NS + STEP_NS)


def test_a_wrong_sum_is_noticed() -> None:
    share = o.Share(-1.0, -1.0, 1.0)
    queue = Queue("team", cpu=share, memory=share, gpu=share)
    pod = o.Pod("ml", "a", o.Shape((("gpu", 2.0), ("pods", 1.0))), group="g", node="n", phase=o.Phase.RUNNING)
    cluster = Cluster.of(
        [queue, o.Node("n", allocatable={"gpu": 8.0, "pods": 9.0}), o.PodGroup("ml", "g", queue="team"), pod]
    )
    result = run_cycle(cluster, BOOKS_ONLY, NOW_NS)
    assert differences(result, QueueUsage(cluster, CONFIG), cluster) == []
    other = Cluster.of([*(item for item in (queue, *cluster.nodes.values())), o.PodGroup("ml", "g", queue="team")])
    assert differences(result, QueueUsage(other, CONFIG), cluster) != []


def check(cluster: Cluster, now_ns: int) -> None:
    result = run_cycle(cluster, BOOKS_ONLY, now_ns)
    assert differences(result, QueueUsage(cluster, CONFIG), cluster) == []


def differences(result: CycleResult, usage: QueueUsage, cluster: Cluster) -> list[str]:
    """The leaf queues of which both counts differ: what they hold, hold without preemption, and ask for."""
    parents = {queue.parent for queue in cluster.queues.values()}
    found = []
    for queue in result.queues:
        if queue.name in parents:
            continue
        books = (queue.allocated, queue.allocated_non_preemptible, queue.requested)
        for what, triple, amounts in zip(
            ("allocated", "non-preemptible", "requested"), books, usage.queue_amounts(queue.name), strict=True
        ):
            if triple != triple_of(amounts):
                found.append(f"{queue.name} {what}: solver {triple}, statuses {triple_of(amounts)}")
    return found


def triple_of(amounts: Amounts) -> tuple[float, ...]:
    return tuple(amounts.get(resource, 0.0) for resource in QUEUE_RESOURCES)
