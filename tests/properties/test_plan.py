"""Properties of one cycle on random clusters: what never happens, and that it decides as the slow twin does."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.constraints import Toleration
from tests.oracle.allocate import allocate
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.deciders import check_allocated
from tests.properties.plans import (
    CONFIG,
    after,
    check_domains,
    check_gangs,
    check_nodes,
    check_predicates,
    check_queues,
    text_of,
)

# The two properties that see most of the decisions get more examples than the profile gives the others.
MORE = settings(max_examples=4 * settings().max_examples)
SPICY = clusters(Spice(pod_affinity=True))
IN_DOMAINS = clusters(Spice(topology=True))
VICTIMS = st.sampled_from(["minimal", "original"])


@MORE
@given(clusters())
def test_equals_the_oracle(objects: list[o.Object]) -> None:
    """The same pods on the same nodes, decided in the same order, with the same shares and room left."""
    result = run_cycle(Cluster.of(objects), CONFIG, NOW_NS)
    expected = allocate(Cluster.of(objects), CONFIG, NOW_NS)
    check_allocated(result, expected)


@MORE
@given(IN_DOMAINS, VICTIMS)
def test_equals_the_oracle_in_domains(objects: list[o.Object], victims: str) -> None:
    """With topology constraints, too, which the two searches for victims count in different ways."""
    config = replace(CONFIG, victims=victims)
    result = run_cycle(Cluster.of(objects), config, NOW_NS)
    check_allocated(result, allocate(Cluster.of(objects), config, NOW_NS))


@MORE
@given(st.one_of(SPICY, clusters(Spice(pod_affinity=True, topology=True))))
def test_keeps_its_promises(objects: list[o.Object]) -> None:
    """No gang torn or spread, no node over its capacity, no limit or quota breached, nobody where it may not be."""
    result = run_cycle(Cluster.of(objects), CONFIG, NOW_NS)
    check_domains(Cluster.of(objects), {key: (state.status, state.node) for key, state in result.pods.items()})
    world = after(objects, result)
    check_gangs(world)
    check_nodes(world)
    check_queues(world)
    check_predicates(world)


@given(st.one_of(SPICY, IN_DOMAINS), st.randoms(use_true_random=False))
def test_order_of_the_input_does_not_matter(objects: list[o.Object], rng: random.Random) -> None:
    """The same objects in any order give the same result, byte for byte."""
    first = text_of(run_cycle(Cluster.of(objects), CONFIG, NOW_NS))
    shuffled = objects.copy()
    rng.shuffle(shuffled)
    assert text_of(run_cycle(Cluster.of(shuffled), CONFIG, NOW_NS)) == first


@given(SPICY)
def test_what_cannot_be_used_changes_nothing(objects: list[o.Object]) -> None:
    """A node, a queue and groups that come last in every order and cannot be used leave the plan as it is."""
    last_ns = NOW_NS + 10**9
    asks = o.Shape((("gpu", 1.0), ("pods", 1.0)))
    inert: list[o.Object] = [
        o.Node("zzz", "zzz", {}, {}, unschedulable=True),
        o.Queue("zzz", "zzz", last_ns),
        o.PodGroup("ns", "zzz", "zzz", last_ns, "no such queue"),
        o.Pod("ns", "zzz-0", asks, "zzz-0", last_ns, group="zzz", scheduler="kai-scheduler"),
        o.PodGroup("ns", "zzz-limit", "zzz-limit", last_ns, "zzz"),
        o.Pod("ns", "zzz-limit-0", asks, "zzz-limit-0", last_ns, group="zzz-limit", scheduler="kai-scheduler"),
    ]
    plain = run_cycle(Cluster.of(objects), CONFIG, NOW_NS)
    extended = run_cycle(Cluster.of([*objects, *inert]), CONFIG, NOW_NS)
    assert extended.effects == plain.effects
    assert {key: state for key, state in extended.pods.items() if "/zzz" not in key} == plain.pods
    assert tuple(queue for queue in extended.queues if queue.name != "zzz") == plain.queues
    assert {name: state for name, state in extended.nodes.items() if name != "zzz"} == plain.nodes


@given(clusters(), st.integers(1, 4), st.booleans())
def test_a_failed_attempt_leaves_no_trace(objects: list[o.Object], n_pods: int, releasing: bool) -> None:
    """A gang that fits but for its last pod is undone bit for bit, amounts that do not add back exactly included.

    The twin of the cluster has the same gang turned away by a limit before anything is placed.
    """
    odd = ("example.com/odd", 0.1)
    grown = [_with(item, odd[0], 0.7) if isinstance(item, o.Node) else item for item in objects]
    if releasing:
        shape = o.Shape((odd, ("pods", 1.0)))
        old = o.Pod(
            "ns", "old", shape, "old", 0, scheduler="other", node="n0", phase=o.Phase.RUNNING, deleted_ns=NOW_NS
        )
        grown.append(old)
    endless = o.Share(-1.0, -1.0, 0.0)
    asks = o.Shape((("cpu", 1.0), odd, ("pods", 1.0)), tolerations=(Toleration(operator="Exists"),))
    never = o.Shape(asks.request, node_selector=(("no", "where"),))
    gang: list[o.Object] = [
        o.PodGroup("ns", "doomed", "doomed", 0, "doomed", "top", min_member=n_pods + 1, preemptible=True)
    ]
    for k in range(n_pods + 1):
        shape = never if k == n_pods else asks
        gang.append(o.Pod("ns", f"doomed-{k}", shape, f"{k}", k, group="doomed", scheduler="kai-scheduler"))
    gang.append(o.PriorityClass("top", 1000))
    nothing = o.Share(0.0, -1.0, 0.0)
    tried = o.Queue("doomed", "doomed", 0, "", "", 1000, nothing, endless, endless)
    refused = o.Queue("doomed", "doomed", 0, "", "", 1000, o.Share(0.0, 0.0, 0.0), endless, endless)
    one = run_cycle(Cluster.of([*grown, *gang, tried]), CONFIG, NOW_NS)
    two = run_cycle(Cluster.of([*grown, *gang, refused]), CONFIG, NOW_NS)
    assert one.effects == two.effects
    assert dict(one.nodes) == dict(two.nodes)
    assert [q for q in one.queues if q.name != "doomed"] == [q for q in two.queues if q.name != "doomed"]


def _with(node: o.Node, resource: str, amount: float) -> o.Node:
    capacity = {**node.allocatable, resource: amount}
    return o.Node(node.name, node.uid, node.labels, capacity, node.taints, node.unschedulable, node.bad_conditions)
