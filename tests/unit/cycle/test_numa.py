"""What pods hold of NUMA zones between cycles: records of all kinds, and binds that go on (semantics 12.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kai_sched import Cluster, Config, run_cycle
from kai_sched.answers.changes import AddNodes, changed
from kai_sched.answers.workload_changes import PodGpus
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model.config import OPERATOR_PLUGINS
from kai_sched.model.numa import ContainerRequest, NodeZones, NumaRequest, Placement, ZoneAmounts, at_most
from kai_sched.model.objects import BindRequest, Object, Pod
from kai_sched.model.store import Store
from kai_sched.plan.effects import Bind
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

CONFIG = Config(plugins={**OPERATOR_PLUGINS, "numa": {}})
NODE = """
    node a gpu=4 cpu=16 mem=64
    zones a each=gpu:2
    pod r-0 gpu=2 cpu=1 mem=1 aligned=gpu:2
    pod g-0 gpu=2 cpu=1 mem=1 aligned=gpu:2
"""


def record(zone: int, gpus: float = 2.0) -> Placement:
    return (ZoneAmounts(f"node-{zone}", (("gpu", gpus),)),)


def with_running(*more: Object, **fields: Any) -> Cluster:
    """Pod r-0 runs with these fields, and g-0 waits for two GPUs of one zone."""
    store = Store.of(cluster_of(NODE))
    pod = store.get(Pod, "ns/r-0")
    assert pod is not None
    store.put(replace(pod, **fields))
    for item in more:
        store.put(item)
    return store.cluster()


def zones_of_bind(cluster: Cluster, key: str = "ns/g-0") -> Placement:
    (bind,) = [effect for effect in run_cycle(cluster, CONFIG, NOW_NS).effects if isinstance(effect, Bind)]
    assert bind.pod == key
    return bind.zones


@pytest.mark.parametrize(
    ("observed", "asked", "goes_to"),
    [(False, record(0), 1), (False, (), 0), (True, record(0), 0), (False, record(1), 0)],
)
def test_what_was_observed_counts_then_the_bind_request_then_what_was_predicted(
    observed: bool, asked: Placement, goes_to: int
) -> None:
    """The annotation of the pod, which is bound by a BindRequest, says zone 1."""
    request = BindRequest("ns", "r-0", "r-0", "a", zones=asked)
    cluster = with_running(request, zones=record(1), zones_observed=observed)
    assert zones_of_bind(cluster) == record(goes_to)


def test_what_a_pod_was_bound_with_counts_in_the_next_cycle() -> None:
    store = Store.of(cluster_of(NODE))
    waits = store.get(Pod, "ns/g-0")
    assert waits is not None
    store.put(replace(waits, gates=("later",)))
    cluster = store.cluster()
    advance(store, cluster, run_cycle(cluster, CONFIG, NOW_NS), NOW_NS, World())
    store.put(waits)
    assert store.cluster().pods["ns/r-0"].zones == record(0)
    assert zones_of_bind(store.cluster()) == record(1)


def test_a_node_like_another_has_its_zones() -> None:
    store = changed(cluster_of(NODE), [AddNodes(1, "a")])
    like, made = (store.get(NodeZones, name) for name in ("a", "a-new-1"))
    assert like is not None
    assert made == replace(like, name="a-new-1", uid="a-new-1")


def test_a_smaller_request_takes_less_of_zones() -> None:
    cluster = changed(
        cluster_of(NODE.replace("zones a each=gpu:2", "zones a each=gpu:1")), [PodGpus("ns/g", 1)]
    ).cluster()
    pod = cluster.pods["ns/g-0"]
    assert pod.shape.numa == NumaRequest(True, (("gpu", 1.0),), (ContainerRequest(False, (("gpu", 1.0),)),))
    assert zones_of_bind(cluster) == record(0, 1.0)


def test_the_last_containers_get_less() -> None:
    two = ContainerRequest(False, (("cpu", 1.0), ("gpu", 2.0)))
    only = ContainerRequest(False, (("gpu", 2.0),))
    request = NumaRequest(
        True, (("cpu", 1.0), ("gpu", 6.0)), (ContainerRequest(True, (("gpu", 4.0),)), two, only, only)
    )
    assert at_most(request, "gpu", 3.0) == NumaRequest(
        True,
        (("cpu", 1.0), ("gpu", 3.0)),
        (ContainerRequest(True, (("gpu", 3.0),)), two, ContainerRequest(False, (("gpu", 1.0),))),
    )
