"""A group whose queue is there but does not count hears why."""

from __future__ import annotations

import pytest

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model.objects import Pod, Queue, Shape

POD = Pod("ml", "p", Shape((("cpu", 1.0), ("pods", 1.0))), uid="u", queue="team", scheduler="kai-scheduler")


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        ((), "queue 'team' does not exist: there is no queue that accepts pods"),
        ((Queue("team", parent="org"),), "queue 'org' above it does not exist; create 'org'"),
        ((Queue("team", parent="unit"), Queue("unit", parent="org")), "queue 'org' above it does not exist"),
        ((Queue("team", parent="unit"), Queue("unit", parent="team")), "its parents form a cycle"),
        ((Queue("team", parent="unit"), Queue("unit", parent="unit")), "its parents form a cycle"),
    ],
)
def test_reason_of_a_queue_that_does_not_count(queues: tuple[Queue, ...], told: str) -> None:
    reason = run_cycle(Cluster.of([POD, *queues]), Config(), 0).groups["ml/p"].reason
    assert reason is not None
    assert reason.code == "QueueDoesNotExist"
    assert told in reason.message
