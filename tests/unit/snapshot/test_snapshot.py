"""The schema is the truth about the tables: snapshots keep it."""

from __future__ import annotations

import numpy as np
import pytest

from kai_sched import Cache, Cluster, Config
from kai_sched.lowering.lower import lower
from kai_sched.model.objects import Node, Pod, PodGroup, Queue, Shape, Share
from kai_sched.snapshot.tables import Snapshot
from tests.validate import SnapshotError, validate

UNLIMITED = Share(-1.0, -1.0, 1.0)


@pytest.fixture
def snapshot() -> Snapshot:
    """One queue, one node, one pod of a group, and one pod that is a group of its own."""
    shape = Shape(request=(("cpu", 1000.0), ("gpu", 1.0), ("pods", 1.0)))
    cluster = Cluster.of(
        [
            Queue("a", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),
            Node("n", allocatable={"cpu": 4000.0, "memory": 1e9, "gpu": 2.0, "pods": 10.0}),
            PodGroup("ns", "g", queue="a"),
            Pod("ns", "p", shape, group="g"),
            Pod("ns", "q", shape, queue="a", scheduler="kai-scheduler"),
        ]
    )
    return lower(cluster, Config(), 0, Cache()).snapshot


def test_a_snapshot_keeps_its_schema(snapshot: Snapshot) -> None:
    validate(snapshot)


def test_a_wrong_type_is_named(snapshot: Snapshot) -> None:
    wrong = snapshot._replace(jobs=snapshot.jobs._replace(priority=snapshot.jobs.priority.astype(np.int32)))
    with pytest.raises(SnapshotError, match=r"Jobs\.priority: int32 instead of i8"):
        validate(wrong)


def test_a_row_that_is_not_there_is_named(snapshot: Snapshot) -> None:
    queue = snapshot.jobs.queue + 7
    queue.flags.writeable = False
    with pytest.raises(SnapshotError, match=r"Jobs\.queue: a row that axis q does not have"):
        validate(snapshot._replace(jobs=snapshot.jobs._replace(queue=queue)))


def test_a_table_that_could_be_written_to_is_named(snapshot: Snapshot) -> None:
    with pytest.raises(SnapshotError, match=r"Jobs\.queue: not frozen"):
        validate(snapshot._replace(jobs=snapshot.jobs._replace(queue=snapshot.jobs.queue.copy())))
