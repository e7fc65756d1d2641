"""The line of jobs that wait, against a twin that takes them out of the tree of an action that places nothing."""

from __future__ import annotations

from hypothesis import given

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model import objects as o
from kai_sched.snapshot.tables import Snapshot, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.pipeline import solve
from tests.properties.clusters import NOW_NS, clusters
from tests.scenarios.table import cluster_of
from tests.unit.solver.tables import ALL_ON, snapshots


@given(snapshots(most_nodes=6))
def test_jobs_in_it_wait_and_stand_once(snapshot: Snapshot) -> None:
    solution = solve(snapshot, ALL_ON, ("allocate",))
    line, ptr = solution.line(), snapshot.jobs.task_ptr
    assert len(line) == len(set(line))
    for j in line:
        assert Status.PENDING in solution.status[ptr[j] : ptr[j + 1]].tolist()
        assert solution.outcome(j).verdict not in (Verdict.NO_QUEUE, Verdict.QUEUE_NOT_LEAF)


@given(snapshots(most_nodes=6))
def test_asking_changes_no_outcome(snapshot: Snapshot) -> None:
    for actions in (("allocate",), ("reclaim",), ()):
        solution = solve(snapshot, ALL_ON, actions)
        before = [solution.outcome(j) for j in range(snapshot.jobs.queue.size)]
        solution.line()
        assert [solution.outcome(j) for j in range(snapshot.jobs.queue.size)] == before


@given(snapshots(most_nodes=6))
def test_asking_twice_gives_the_same(snapshot: Snapshot) -> None:
    solution = solve(snapshot, ALL_ON, ("allocate", "reclaim"))
    assert solution.line() == solution.line()


@given(clusters())
def test_asking_changes_nothing_of_the_result(objects: list[o.Object]) -> None:
    """What is decided is read when it is asked for, and the line may be asked for first."""
    cluster = Cluster.of(objects)
    plain, asked = (run_cycle(cluster, Config(), NOW_NS) for _ in range(2))
    assert list(asked.line) == list(plain.line)
    again = run_cycle(cluster, Config(), NOW_NS)
    assert dict(asked.groups) == dict(again.groups)


@given(clusters())
def test_within_a_queue_it_is_by_priority_and_age(objects: list[o.Object]) -> None:
    cluster = Cluster.of(objects)
    result = run_cycle(cluster, Config(), NOW_NS)
    places: dict[str, list[str]] = {}
    for key in result.line:
        places.setdefault(result.groups[key].queue, []).append(key)
    for keys in places.values():
        priorities = [result.groups[key].priority for key in keys]
        assert priorities == sorted(priorities, reverse=True)


def test_the_queue_with_less_goes_first() -> None:
    result = run_cycle(
        cluster_of(
            """
            node a gpu=8
            queue full gpu=4
            queue starved gpu=4
            group runs owner=Job/runs queue=full min=1
            pod runs-0 gpu=8 on=a
            group one owner=Job/one queue=full min=1 age=900
            pod one-0 gpu=8 age=900
            group two owner=Job/two queue=starved min=1 age=60
            pod two-0 gpu=8 age=60
            group three owner=Job/three queue=starved min=1 age=600
            pod three-0 gpu=8 age=600
            """
        ),
        Config(actions=("allocate",)),
        NOW_NS,
    )
    assert list(result.line) == ["ns/three", "ns/two", "ns/one"]
