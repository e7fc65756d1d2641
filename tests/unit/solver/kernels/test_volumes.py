"""Which free volumes claims take (semantics 12.2), against a twin that keeps a set of what is taken."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status, Volumes
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import undo, volumes
from kai_sched.solver.state import Context
from tests.unit.solver.tables import ALL_ON, Member, assemble, node_table, opened, table

volumes_fit, take_volumes = entry(volumes.volumes_fit), entry(volumes.take_volumes)
may_have_volumes = entry(volumes.may_have_volumes)
leave_volumes, undo_all = entry(volumes.leave_volumes), entry(undo.undo_all)
N_NODES, N_CLASSES = 3, 4
Holders = dict[int, tuple[int, int]]  # by claim: its volume, or NULL, and the node of the first pod
Facts = dict[str, list[list[list[int]]]]
World = tuple[Snapshot, list[list[int]], Facts]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A snapshot, the claims of each class, and by claim what serves it on each node."""
    n_groups, n_volumes, n_claims = draw(st.integers(1, 2)), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    reach = [draw(st.sets(st.integers(0, N_NODES - 1))) if draw(st.booleans()) else None for _ in range(n_volumes)]
    served = [sorted(draw(st.sets(st.integers(0, n_volumes - 1)))) for _ in range(n_groups)]
    group = [draw(st.integers(0, n_groups - 1)) for _ in range(n_claims)]
    least = [draw(st.sampled_from([0, 0, 1, 3])) for _ in range(n_claims)]
    made = np.array([[draw(st.integers(0, 1)) for _ in range(N_NODES)] for _ in range(2)], np.uint8)
    topology = [draw(st.sampled_from([NULL, NULL, 0, 1])) for _ in range(n_claims)]
    of_class = [sorted(draw(st.sets(st.integers(0, n_claims - 1)))) for _ in range(N_CLASSES)]
    near = [sorted((n, v) for v in each if reach[v] is not None for n in reach[v] or ()) for each in served]
    far = [[v for v in each if reach[v] is None] for each in served]
    columns = table(
        Volumes,
        ptr=np.cumsum([0, *map(len, of_class)]),
        claim=[w for each in of_class for w in each],
        group=group,
        least=least,
        topology=topology,
        near_ptr=np.cumsum([0, *map(len, near)]),
        near_node=[n for each in near for n, _ in each],
        near_volume=[v for each in near for _, v in each],
        far_ptr=np.cumsum([0, *map(len, far)]),
        far_volume=[v for each in far for v in each],
        made=made,
    )
    base = assemble(
        [Member(0, [Status.PENDING] * N_CLASSES)],
        nodes=node_table([[9.0, 9.0, 0.0, 99.0, 0.0]] * N_NODES),
        request=[[0.0, 0.0, 0.0, 1.0, 0.0]] * N_CLASSES,
        tasks={"cls": list(range(N_CLASSES))},
    )
    serves = [
        [
            [
                v
                for v in served[group[w]]
                if v >= least[w] and n in (reach[v] or range(N_NODES if reach[v] is None else 0))
            ]
            for n in range(N_NODES)
        ]
        for w in range(n_claims)
    ]
    can_be_made = [
        [[int(topology[w] != NULL and made[topology[w], n])] for n in range(N_NODES)] for w in range(n_claims)
    ]
    return base._replace(volumes=columns), of_class, {"serves": serves, "made": can_be_made}


def expected(claims: list[int], n: int, has: Holders, facts: dict[str, list[list[int]]]) -> dict[int, int] | None:
    """The volume for each claim on the node, NULL for one that is made; None if one of them finds none."""
    found: dict[int, int] = {}
    for w in claims:
        if w in has:
            v, home = has[w]
            if not (home == n if v == NULL else v in facts["serves"][w][n]):
                return None
            continue
        taken = {v for v, _ in has.values()} | set(found.values())
        free = [v for v in facts["serves"][w][n] if v not in taken]
        if not free and not facts["made"][w][n][0]:
            return None
        found[w] = free[0] if free else NULL
    return found


def check(ctx: Context, has: Holders, users: dict[int, int]) -> None:
    state = ctx.state.volumes
    for w in range(state.users.size):
        v, home = has.get(w, (NULL, NULL))
        assert (state.volume[w] - 1, state.users[w]) == (v, users.get(w, 0))
        assert state.node[w] - 1 == (home if w in has and v == NULL else NULL)
    holders = {v: w for w, (v, _) in has.items() if v != NULL}
    assert [holders.get(v, NULL) for v in range(state.holder.size)] == (state.holder - 1).tolist()


@given(worlds(), st.lists(st.tuples(st.integers(0, N_CLASSES - 1), st.integers(0, N_NODES - 1)), max_size=8))
def test_claims_take_the_first_volume_that_is_free(world: World, moves: list[tuple[int, int]]) -> None:
    """Pods come where they fit, and leave if their class has one; in the end all is undone."""
    snapshot, of_class, facts = world
    ctx = opened(snapshot, ALL_ON)
    ctx.log.size[:] = 0
    has: Holders = {}
    users: dict[int, int] = {}
    placed: set[int] = set()
    for c, n in moves:
        if c in placed:
            leave_volumes(c, ctx)
            placed.remove(c)
            for w in of_class[c]:
                users[w] -= 1
                if not users[w]:
                    del has[w]
        else:
            found = expected(of_class[c], n, has, facts)
            assert volumes_fit(c, n, ctx) == (found is not None)
            if found is None:
                continue
            take_volumes(c, n, ctx)
            placed.add(c)
            has |= {w: (v, n) for w, v in found.items()}
            for w in of_class[c]:
                users[w] = users.get(w, 0) + 1
        check(ctx, has, users)
    undo_all(ctx)
    check(ctx, {}, {})


@given(worlds(), st.lists(st.integers(0, N_NODES - 1), min_size=N_CLASSES, max_size=N_CLASSES), st.data())
def test_pods_that_are_gone_leave_volumes_to_others(world: World, at: list[int], data: st.DataObject) -> None:
    """What a claim may get by itself: never less than what it gets once the others have gone."""
    snapshot, of_class, facts = world
    ctx = opened(snapshot, ALL_ON)
    ctx.log.size[:] = 0
    last = N_CLASSES - 1
    placed = [c for c in range(last) if volumes_fit(c, at[c], ctx) and take_volumes(c, at[c], ctx) is None]
    gone = data.draw(st.sets(st.sampled_from(placed)) if placed else st.just(set()))
    freed = np.zeros(ctx.state.volumes.users.size, np.int64)
    for c in gone:
        freed[of_class[c]] += 1
    users = ctx.state.volumes.users
    kept = {int(ctx.state.volumes.volume[w]) - 1 for w in range(users.size) if users[w] > freed[w]}
    for n in range(N_NODES):
        own = [w for w in of_class[last] if users[w] == 0 and not facts["made"][w][n][0]]
        assert may_have_volumes(last, n, freed, ctx) == all(set(facts["serves"][w][n]) - kept for w in own)
    may = [may_have_volumes(last, n, freed, ctx) for n in range(N_NODES)]
    for c in gone:
        leave_volumes(c, ctx)
    assert all(may[n] for n in range(N_NODES) if volumes_fit(last, n, ctx))
