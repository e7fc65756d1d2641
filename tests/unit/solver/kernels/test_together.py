"""Where the first pod of a group goes that shares a claim: where all of its pods have room (semantics 8.6, 12.2)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status, Volumes
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import together
from tests.unit.solver.searches import MINIMAL
from tests.unit.solver.tables import Member, assemble, node_table, opened, table

best_node_for_all = entry(together.best_node_for_all)
SLOTS = st.lists(st.integers(0, 6), min_size=1, max_size=6)


@given(SLOTS, st.integers(1, 5), st.data())
def test_nodes_with_room_for_more_pods_come_first(slots: list[int], pods: int, data: st.DataObject) -> None:
    """Pods share a claim for which a volume can be made on some nodes; they take a slot each."""
    made = [data.draw(st.integers(0, 1)) for _ in slots]
    barred = [data.draw(st.booleans()) for _ in slots]
    n_nodes = len(slots)
    base = assemble(
        [Member(1, [Status.PENDING] * pods)],
        nodes=node_table([[9.0, 9.0, 0.0, float(count), 0.0] for count in slots]),
        request=[[0.0, 0.0, 0.0, 1.0, 0.0]],
    )
    columns = table(
        Volumes,
        ptr=[0, 1],
        claim=[0],
        group=[0],
        least=[0],
        topology=[0],
        near_ptr=[0, 0],
        near_node=np.zeros(0),
        near_volume=np.zeros(0),
        far_ptr=[0, 0],
        far_volume=np.zeros(0),
        made=np.array([made], np.uint8),
    )
    ctx = opened(base._replace(volumes=columns), MINIMAL)
    ctx.finder.dynamic[:] = 1
    verdicts = np.array([Verdict.TAINT if bar else Verdict.OK for bar in barred], np.uint8)
    rooms = [min(pods, slots[n]) if made[n] and not barred[n] else 0 for n in range(n_nodes)]
    n = best_node_for_all(0, ctx, verdicts)
    if pods < 2 or max(rooms) < 2:
        assert n == NULL
    else:
        assert rooms[n] == max(rooms)
    assert best_node_for_all(0, ctx._replace(settings=MINIMAL._replace(minimal=0)), verdicts) == NULL
