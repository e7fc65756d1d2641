"""Minimal victims (``Config.victims``): nobody goes in vain, gangs whole or not at all, and an end to all changes.

The clusters go through their cycles as the operator runs them: each one is told who was given room by the last.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.cycle.hint_tracker import HintTracker
from kai_sched.model import objects as o
from tests.properties.clusters import NOW_NS, G
from tests.properties.crowds import FULL, Crowd, crowds
from tests.properties.deciders import Decider, Plan, cycles, plan_of
from tests.properties.plans import check_near
from tests.properties.test_evictions import with_one_waiting

CONFIG = Config(victims="minimal")
CYCLES = 40
PLACED = ("Running", "Bound", "Binding", "Pipelined")
TIMELESS = Crowd(sub_groups=True, picky=True, limits=True)
PLAIN = Crowd(flat=True)
KINDS = {
    "timeless": crowds(TIMELESS),
    "tight": crowds(Crowd(tight=True, movable=True), (1, 3), (2, 5), (6, 14)),
    "plain": crowds(PLAIN),
    "deep": crowds(Crowd(deep=True, limits=True)),
    "movable": crowds(Crowd(movable=True), (2, 5), (1, 4), (6, 14)),
    "social": crowds(Crowd(social=True, sub_groups=True, picky=True, limits=True, deep=True)),
    "gangs": crowds(Crowd(gangs=True, limits=True, deep=True), (2, 5), (1, 4), (3, 9)),
}
ANY = st.one_of(*KINDS.values())
TIMED = st.one_of(
    crowds(FULL),
    crowds(Crowd(times=True, gangs=True, limits=True), (2, 5), (1, 4), (3, 9)),
    crowds(Crowd(times=True, social=True, torn=True, sub_groups=True, limits=True)),
    crowds(Crowd(times=True, tight=True), (1, 3), (2, 5), (6, 14)),
)
STEP_NS, QUIET = 250 * G, 5  # with times: they are over after so many cycles, as none is longer than 1,000 s
MORE = settings(max_examples=2 * settings().max_examples)


def keeping() -> Decider:
    """The scheduler as the operator runs it."""
    tracker = HintTracker()

    def decide(cluster: Cluster, config: Config, now_ns: int) -> Plan:
        result = run_cycle(cluster, config, now_ns, hints=tracker.next_hints())
        tracker.record(cluster, result, config)
        return plan_of(cluster, result)

    return decide


def group_of(plan: Plan, cluster: Cluster) -> dict[str, list[tuple[str, str]]]:
    """The pods of each group, with how they stand."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, (status, _) in plan.stands.items():
        found[cluster.pods[key].group_key].append((key, status))
    return found


def check_cycle(cluster: Cluster, plan: Plan) -> None:
    """What holds after every cycle."""
    groups = group_of(plan, cluster)
    for left in plan.evictions:
        if left.action not in ("stalegangeviction", "backgroundpods"):
            assert any(status in PLACED for _, status in groups[left.cause]), f"{left} is for nobody"
    for key, pods in groups.items():
        group = cluster.pod_groups.get(key)
        if group is None or group.sub_groups or any(cluster.pods[pod].node for pod, _ in pods):
            continue
        placed, need = sum(status in PLACED for _, status in pods), group.min_member or 1
        bound = sum(status == "Binding" for _, status in pods)
        assert placed == 0 or placed >= need, f"{placed} of {need} of {key} have a place"
        assert bound == 0 or bound >= need, f"{bound} of {need} of {key} are bound"
    check_limits(cluster, plan)
    check_near(cluster, plan.stands)


def gpus_of(pod: o.Pod) -> int:
    return int(dict(pod.shape.request).get("gpu", 0.0))


def held(cluster: Cluster, pods: set[str]) -> Counter[str]:
    """The GPUs that these pods hold, by queue and all above it."""
    found: Counter[str] = Counter()
    for key in pods:
        pod = cluster.pods[key]
        queue = cluster.queues.get(cluster.pod_groups[pod.group_key].queue)
        while queue is not None:
            found[queue.name] += gpus_of(pod)
            queue = cluster.queues.get(queue.parent)
    return found


def check_limits(cluster: Cluster, plan: Plan) -> None:
    """No queue gets beyond its limit by what is bound."""
    before = held(cluster, {key for key, pod in cluster.pods.items() if pod.node})
    after = held(cluster, {key for key, (status, _) in plan.stands.items() if status in ("Running", "Binding")})
    for name, amount in after.items():
        limit = cluster.queues[name].gpu.limit
        assert limit < 0 or amount <= max(limit, before[name]), f"{name} holds {amount} of {limit}"


def check_rest(cluster: Cluster, plan: Plan, now_ns: int) -> None:
    """What holds once nothing changes any more."""
    groups = group_of(plan, cluster)
    waiting = sorted(key for key, (status, _) in plan.stands.items() if status == "Pipelined")
    assert waiting == [], "these wait for room that nobody is leaving"
    for key, pods in groups.items():
        group, runs = cluster.pod_groups[key], sum(status == "Running" for _, status in pods)
        if not group.sub_groups and group.staleness_grace_s != -1.0:  # -1: what is torn stays
            assert runs == 0 or runs >= (group.min_member or 1), f"{key} is torn"
    alone = run_cycle(cluster, Config(("allocate",), victims="minimal"), now_ns)
    assert alone.effects == (), "allocate alone could place these"


def check(objects: list[o.Object], step_ns: int = 10 * G, quiet: int = 1, config: Config = CONFIG) -> None:
    """Each cycle, and the end of all changes: the same once more for ``quiet`` cycles."""
    before, same = None, 0
    for cluster, plan in cycles(objects, keeping(), config, CYCLES, step_ns):
        check_cycle(cluster, plan)
        now = (cluster.pods, plan)
        same = same + 1 if now == before else 0
        if same == quiet:
            check_rest(cluster, plan, NOW_NS + CYCLES * step_ns)
            return
        before = now
    pytest.fail(f"no rest after {CYCLES} cycles")


@MORE
@given(ANY)
def test_all_that_is_to_hold(objects: list[o.Object]) -> None:
    """In each cycle, and at the end of all changes."""
    check(objects)


@pytest.mark.long
@settings(max_examples=3000)
@given(ANY)
def test_all_that_is_to_hold_of_3000(objects: list[o.Object]) -> None:
    """The same for so many."""
    check(objects)


@given(TIMED)
def test_all_that_is_to_hold_with_times(objects: list[o.Object]) -> None:
    """Where delays, minimum runtimes and the graces of torn gangs have a part in it, too."""
    check(objects, STEP_NS, QUIET)


@pytest.mark.long
@settings(max_examples=3000)
@given(TIMED)
def test_all_that_is_to_hold_with_times_of_3000(objects: list[o.Object]) -> None:
    """The same for so many."""
    check(objects, STEP_NS, QUIET)


@MORE
@given(st.one_of(crowds(PLAIN), KINDS["movable"]), st.integers(0, 13))
def test_who_goes_could_not_have_stayed(crowd: list[o.Object], place: int) -> None:
    """Where only room counts and one search is made: with a victim back, its node would hold more than it has."""
    objects, chosen = with_one_waiting(crowd, place)
    cluster = Cluster.of(objects)
    plan = plan_of(cluster, run_cycle(cluster, CONFIG, NOW_NS))
    group = cluster.pod_groups.get(f"ns/{chosen}")
    if group is None or len(plan.places(group.key)) > (group.min_member or 1):
        return  # pods above the minimum are searches of their own
    later: Counter[str] = Counter()
    for key, (status, node) in plan.stands.items():
        if status in PLACED:
            later[node] += gpus_of(cluster.pods[key])
    sizes = Counter(pod.group_key for pod in cluster.pods.values() if pod.node)
    for left in plan.evictions:
        pod = cluster.pods[left.pod]
        if sizes[pod.group_key] == 1:  # else it may have had to go with others of its gang
            room = cluster.nodes[pod.node].allocatable["gpu"]
            assert later[pod.node] + gpus_of(pod) > room, f"{left} went for nothing"
