"""No cycle writes behind the end of the undo log, which has no bounds while it is compiled: whatever is in the cluster,
and whatever pods have left behind."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.store import TABLES
from kai_sched.snapshot.tables import Snapshot
from kai_sched.solver import pipeline
from kai_sched.solver.state import Log
from tests.properties.clusters import NOW_NS
from tests.properties.crowds import Crowd, crowds
from tests.properties.device_life import Life as DeviceLife
from tests.properties.test_volume_cycles import Life as VolumeLife

GUARD = 4096  # entries behind the end of each column
MARK = -77
EVERYTHING = Crowd(sub_groups=True, picky=True, limits=True, movable=True, social=True)
Check = Callable[[Cluster], None]


def guarded(log: Log) -> tuple[Log, list[tuple[np.ndarray, int]]]:
    """The log with marked entries behind the end of its columns, and these columns with their lengths."""
    columns = [np.concatenate([column, np.full(GUARD, MARK, column.dtype)]) for column in log[:-1]]
    return Log(*columns, log.size), [(made, old.size) for made, old in zip(columns, log[:-1], strict=True)]


@pytest.fixture(scope="module")
def check() -> Iterator[Check]:
    """Decides a cycle, and looks at what is behind the log afterwards."""
    columns: list[tuple[np.ndarray, int]] = []
    make_log = pipeline.make_log

    def make_guarded(snapshot: Snapshot, evicting: bool = False) -> Log:
        log, columns[:] = guarded(make_log(snapshot, evicting))
        return log

    def decide(cluster: Cluster) -> None:
        run_cycle(cluster, Config(), NOW_NS)
        for name, (column, length) in zip(Log._fields, columns, strict=False):
            used = int(np.count_nonzero(column[length:] != MARK))
            assert used == 0, f"{name}: {used} entries behind its end at {length}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "make_log", make_guarded)
        yield decide


def without_pods(cluster: Cluster, chance: float, rng: random.Random) -> Cluster:
    """Some pods are gone, with groups that have no other, and nobody has taken their claims and volumes away yet."""
    pods = [pod for pod in cluster.pods.values() if rng.random() > chance]
    groups = [cluster.pod_groups[key] for key in {pod.group_key for pod in pods} & set(cluster.pod_groups)]
    others = TABLES.keys() - {o.Pod, o.PodGroup}
    return Cluster.of([*pods, *groups, *(each for kind in others for each in cluster.table(kind).values())])


def live(seeds: range, check: Check) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        for life in (DeviceLife(seed), VolumeLife(seed)):
            for moment in life.cycles():
                check(moment.cluster)
                for chance in (0.3, 0.8, 1.0):
                    check(without_pods(moment.cluster, chance, rng))


def test_a_few_lives(check: Check) -> None:
    live(range(6), check)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(6, 106, 25))
def test_100_lives(first: int, check: Check) -> None:
    live(range(first, first + 25), check)


@given(crowds(EVERYTHING, (1, 5), (1, 6), (2, 16)), st.floats(0.0, 1.0), st.randoms(use_true_random=False))
def test_crowds(check: Check, crowd: list[o.Object], chance: float, rng: random.Random) -> None:
    check(without_pods(Cluster.of(crowd), chance, rng))
