"""Properties of background pods (semantics 11.5) on random clusters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.api import names
from kai_sched.model import objects as o
from kai_sched.model.config import ACTIONS, OPERATOR_PLUGINS
from tests.oracle import background as oracle
from tests.oracle.records import Task
from tests.oracle.trial import Session
from tests.oracle.world import world_of
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.crowds import Crowd, crowds
from tests.properties.deciders import by_scheduler, by_twin
from tests.properties.marks import with_background
from tests.properties.shares import Sharing
from tests.properties.test_evictions import CONFIGS, decided
from tests.properties.test_minimal import ANY, check

BUSY = st.one_of(
    crowds(),
    crowds(Crowd(tight=True, movable=True), (1, 3), (2, 5), (6, 14)),
    crowds(Crowd(movable=True, sharing=Sharing()), (1, 4), (1, 5), (1, 12)),
    crowds(Crowd(topology=True, sub_groups=True, picky=True, limits=True), (2, 6)),
).map(with_background)
MORE = settings(max_examples=4 * settings().max_examples)


@MORE
@given(BUSY, CONFIGS)
def test_equals_the_twin(objects: list[o.Object], config: Config) -> None:
    config = replace(config, victims="minimal")  # v0.17.0 knows no background pods
    ours, theirs = (decider(Cluster.of(objects), config, NOW_NS) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


@MORE
@given(clusters(Spice()).map(with_background), CONFIGS)
def test_equals_the_twin_where_much_is_wrong(objects: list[o.Object], config: Config) -> None:
    config = replace(config, victims="minimal")
    ours, theirs = (decider(Cluster.of(objects), config, NOW_NS) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


# Without parts of GPUs: who is absent leaves its reservation pod.
WHOLE = st.one_of(crowds(), crowds(Crowd(tight=True, movable=True), (1, 3), (2, 5), (6, 14))).map(with_background)


@given(WHOLE)
def test_others_are_placed_as_if_it_were_not_there(objects: list[o.Object]) -> None:
    """Where nodes are judged by the room that they will have, all others get the nodes that they get without it.

    Bound to its room they are not, so only then do they wait.
    """
    plugins = {name: arguments for name, arguments in OPERATOR_PLUGINS.items() if name != "nodeavailability"}
    config = Config(actions=("allocate",), plugins=plugins)
    absent = {task.pod.key for task in set_aside(objects, config)}
    with_it = run_cycle(Cluster.of(objects), config, NOW_NS).pods
    without = run_cycle(Cluster.of([each for each in objects if key_of(each) not in absent]), config, NOW_NS).pods
    others = {key for key in without if not in_background(objects, key, config)}
    assert {key: with_it[key].node for key in others} == {key: without[key].node for key in others}


@MORE
@given(BUSY, st.sampled_from([ACTIONS, ("allocate",), ("reclaim", "preempt")]))
def test_who_leaves_has_lost_its_place(objects: list[o.Object], actions: tuple[str, ...]) -> None:
    """With all others at their places there is no room for a job of one pod that is evicted, or a limit forbids it."""
    config = Config(actions=actions)
    cluster = Cluster.of(objects)
    result = run_cycle(cluster, config, NOW_NS)
    limits = {queue.name: queue for queue in result.queues}
    for left in [each for each in by_scheduler(cluster, config, NOW_NS).evictions if each.action == "backgroundpods"]:
        pod = cluster.pods[left.pod]
        members = [
            each for each in cluster.pods.values() if each.group == pod.group and each.namespace == pod.namespace
        ]
        if len(members) > 1 or pod.shape.host_ports or pod.shape.share or pod.shape.anti_affinity:
            continue
        node, queue = result.nodes[pod.node], cluster.pod_groups[f"{pod.namespace}/{pod.group}"].queue
        asked = dict(pod.shape.request)
        lacks = any(node.idle.get(r, 0.0) + node.releasing.get(r, 0.0) < amount for r, amount in asked.items())
        path, forbidden = queue, False
        while path:
            known = limits[path]
            forbidden = forbidden or any(
                0 <= limit < held + asked.get(r, 0.0)
                for r, limit, held in zip(("cpu", "memory", "gpu"), known.limit, known.allocated, strict=True)
            )
            path = known.parent
        assert lacks or forbidden, left


@MORE
@given(ANY.map(with_background))
def test_it_comes_to_rest(objects: list[o.Object]) -> None:
    """Background pods that come back take nobody's place, so there is an end to all changes."""
    check(objects)


def set_aside(objects: list[o.Object], config: Config) -> list[Task]:
    """The running pods of background jobs, by the twin."""
    session = Session(world_of(Cluster.of(objects), config, NOW_NS), config, NOW_NS)
    oracle.set_aside(session)
    away = {each.pod for each in session.evictions}
    return [task for task in session.world.tasks if task.pod.key in away]


def in_background(objects: list[o.Object], key: str, config: Config) -> bool:
    """Whether the pod belongs to a background job, running or not."""
    world = world_of(Cluster.of(objects), config, NOW_NS)
    return any(task.pod.key == key and task.job is not None and task.job.background for task in world.tasks)


def key_of(each: o.Object) -> str:
    return each.key if isinstance(each, o.Pod) else ""


def test_the_label_is_that_of_the_original() -> None:
    assert names.BACKGROUND_LABEL == "kai.scheduler/background"
