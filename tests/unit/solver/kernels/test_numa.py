"""Which zones of a node hold a pod, and what is left of them (semantics 12.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.numa import ZONES_MAX, Alignment
from kai_sched.snapshot.numa_tables import NumaRequests, NumaZones
from kai_sched.snapshot.tables import Snapshot, Status, freeze
from tests.afresh import afresh
from tests.oracle.numa import place_pod
from tests.unit.solver.tables import Member, assemble, opened

kernels, devices = afresh("solver.kernels.numa", "solver.kernels.devices")
NOW, LATER, NEVER = (int(getattr(devices, name)) for name in ("NOW", "LATER", "NEVER"))
NAMES = ("cpu", "gpu")
Requests = list[tuple[bool, dict[str, int]]]


def snapshot_of(
    policy: int, allocatable: list[dict[str, int]], requests: Requests, pod_scope: bool = False, **zones: Any
) -> Snapshot:
    """One node with these zones, and a pending task with these requests; the first is that of the pod."""
    snapshot = assemble([Member(1, statuses=[Status.PENDING])])
    n_zones, entries = len(allocatable), [list(need.items()) for _, need in requests]
    size = n_zones * len(NAMES)
    has = np.array([[zone[name] for name in NAMES] for zone in allocatable], float).reshape(n_zones, len(NAMES))
    columns: dict[str, Any] = {
        "ptr": np.array([0, n_zones], np.int32),
        "policy": np.array([policy], np.uint8),
        "pod_scope": np.array([pod_scope], np.uint8),
        "aware": np.ones((1, len(NAMES)), np.uint8),
        "allocatable": has,
        "free": has.copy(),
        "held_ptr": np.array([0, size], np.int32),
        "held": np.zeros(size),
        **zones,
    }
    asked = NumaRequests(
        ptr=np.array([0, len(requests)], np.int32),
        guaranteed=np.ones(1, np.uint8),
        alone=np.array([alone for alone, _ in requests], np.uint8),
        entry_ptr=np.cumsum([0, *map(len, entries)]).astype(np.int32),
        resource=np.array([NAMES.index(name) for each in entries for name, _ in each], np.int32),
        amount=np.array([amount for each in entries for _, amount in each], float),
    )
    return snapshot._replace(numa=freeze(NumaZones(**columns)), numa_requests=freeze(asked))


def drawn(ctx: Any) -> list[dict[str, int]]:
    found = ctx.scratch.zones.draw.reshape(-1, len(NAMES)).tolist()
    return [dict(zip(NAMES, map(int, amounts), strict=True)) for amounts in found]


AMOUNTS = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(0, 4)))
ZONES = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4)


@given(
    st.sampled_from([Alignment.BEST_EFFORT, Alignment.RESTRICTED, Alignment.SINGLE]),
    ZONES,
    st.lists(st.tuples(st.booleans(), AMOUNTS), min_size=1, max_size=3),
    st.booleans(),
)
def test_a_pod_is_placed_as_the_twin_says(
    policy: Alignment, zones: list[tuple[dict[str, int], dict[str, int]]], requests: Requests, pod_scope: bool
) -> None:
    allocatable = [zone for zone, _ in zones]
    free = [{name: zone[name] - min(zone[name], taken[name]) for name in NAMES} for zone, taken in zones]
    requests = [(False, requests[0][1]), *sorted(requests[1:], key=lambda each: not each[0])]
    left = np.array([[zone[name] for name in NAMES] for zone in free], float)
    ctx = opened(snapshot_of(policy, allocatable, requests, pod_scope, free=left))
    span = kernels.choose_zones(0, 0, True, ctx)
    expected = place_pod(policy, requests[:1] if pod_scope else requests[1:], free, allocatable)
    if expected is None:
        assert span == 0
    else:
        assert drawn(ctx) == expected
        assert span == max(1, sum(any(zone.values()) for zone in expected))


def worked(policy: Alignment, *zones: tuple[int, int], **need: int) -> list[tuple[int, int]] | None:
    """What a pod takes of zones with so many cores and GPUs."""
    has = [dict(zip(NAMES, zone, strict=True)) for zone in zones]
    ctx = opened(snapshot_of(policy, has, [(False, need)], True))
    return [(zone["cpu"], zone["gpu"]) for zone in drawn(ctx)] if kernels.choose_zones(0, 0, False, ctx) else None


@pytest.mark.parametrize(
    ("policy", "zones", "need", "taken"),
    [
        (Alignment.SINGLE, [(4, 1), (4, 2)], {"cpu": 4, "gpu": 2}, [(0, 0), (4, 2)]),
        (Alignment.SINGLE, [(4, 1), (2, 2)], {"cpu": 4, "gpu": 2}, None),
        (Alignment.SINGLE, [(4, 1)], {}, [(0, 0)]),
        (Alignment.RESTRICTED, [(4, 1), (4, 1)], {"cpu": 6, "gpu": 2}, [(4, 1), (2, 1)]),
        (Alignment.RESTRICTED, [(4, 1), (4, 1)], {"cpu": 4, "gpu": 2}, None),
        (Alignment.RESTRICTED, [(4, 1), (4, 1)], {"gpu": 3}, None),
        (Alignment.RESTRICTED, [(1, 0), (4, 2)], {"cpu": 4}, [(0, 0), (4, 0)]),
        (Alignment.BEST_EFFORT, [(1, 0), (4, 0), (2, 0)], {"cpu": 5}, [(1, 0), (4, 0), (0, 0)]),
        (Alignment.BEST_EFFORT, [(2, 1), (4, 0)], {"cpu": 4, "gpu": 1}, [(2, 1), (2, 0)]),
        (Alignment.BEST_EFFORT, [(2, 1), (4, 0)], {"cpu": 7}, None),
    ],
)
def test_worked_placements(
    policy: Alignment, zones: list[tuple[int, int]], need: dict[str, int], taken: list[tuple[int, int]] | None
) -> None:
    assert worked(policy, *zones, **need) == taken


def test_the_most_zones_are_tried_in_time() -> None:
    """Half of the most zones: the most combinations there are, all of which have too little."""
    zones = [{"cpu": 4, "gpu": 4} for _ in range(ZONES_MAX)]
    free = np.ones((ZONES_MAX, 2))
    ctx = opened(snapshot_of(Alignment.RESTRICTED, zones, [(False, {"cpu": 2 * ZONES_MAX})], True, free=free))
    assert kernels.survey_zones(0, 0, ctx) == NEVER


def test_what_leaving_pods_hold_is_free_later() -> None:
    zones = [{"cpu": 4, "gpu": 2}]
    held = np.array([0.0, 2.0])
    snapshot = snapshot_of(Alignment.SINGLE, zones, [(False, {"gpu": 1})], True, held=held)
    tasks = snapshot.tasks._replace(status=np.array([Status.RELEASING], np.int8), node=np.zeros(1, np.int32))
    ctx = opened(snapshot._replace(tasks=freeze(tasks)))
    assert kernels.survey_zones(0, 0, ctx) == LATER
    assert kernels.choose_placement(0, 0, False, ctx) == LATER


def test_a_task_takes_what_was_chosen_and_gives_it_back() -> None:
    zones = [{"cpu": 4, "gpu": 1}, {"cpu": 4, "gpu": 2}]
    ctx = opened(snapshot_of(Alignment.SINGLE, zones, [(False, {"gpu": 2})], True))
    before = [column.copy() for column in ctx.state.zones]
    assert kernels.choose_placement(0, 0, False, ctx) == NOW
    kernels.take_zones(0, 0, ctx)
    assert ctx.state.zones.free.tolist() == [4.0, 1.0, 4.0, 0.0]
    assert ctx.state.zones.held.tolist() == [0.0, 0.0, 0.0, 2.0]
    assert kernels.survey_zones(0, 0, ctx) == NEVER
    kernels.change_zones(0, 0, 1.0, True, ctx)
    assert kernels.survey_zones(0, 0, ctx) == LATER
    assert ctx.state.zones.leaving.tolist() == [0.0, 0.0, 0.0, 2.0]
    (undo,) = afresh("solver.kernels.undo")
    undo.rollback(0, 0, ctx)
    for column, was in zip(ctx.state.zones, before, strict=True):
        assert (column == was).all()


@pytest.mark.parametrize(("policy", "points"), [(Alignment.NONE, 50.0), (Alignment.RESTRICTED, 100.0)])
def test_points(policy: Alignment, points: float) -> None:
    zones = [{"cpu": 4, "gpu": 1}, {"cpu": 4, "gpu": 1}]
    ctx = opened(snapshot_of(policy, zones, [(False, {"gpu": 1})], True))
    assert kernels.zone_points(0, 0, ctx) == points
