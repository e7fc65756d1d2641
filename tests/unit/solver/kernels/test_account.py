"""The books as a cycle opens them (semantics 0.3, 2.1, 2.2, 12.2), counted pod by pod."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot, Status, TermKind, TermRole
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import account
from tests.unit.solver.tables import assemble, node_table, opened, snapshots

open_nodes = entry(account.open_nodes)

HOLDING = {Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING}
HERE = HOLDING | {Status.RELEASING, Status.STUCK_IN_RELEASING}


@given(snapshots())
def test_room_is_what_pods_on_nodes_leave(snapshot: Snapshot) -> None:
    """What is releasing is taken from idle and comes back; what a node does not have is not tracked there."""
    idle = snapshot.nodes.allocatable.copy()
    releasing = np.zeros_like(idle)
    for t, n in enumerate(snapshot.tasks.node):
        if n != NULL and snapshot.tasks.status[t] in HERE:
            asked = np.where(snapshot.nodes.allocatable[n] > 0.0, snapshot.classes.request[snapshot.tasks.cls[t]], 0.0)
            idle[n] -= asked
            releasing[n] += asked if snapshot.tasks.status[t] == Status.RELEASING else 0.0
    state = opened(snapshot).state
    assert state.idle.tolist() == idle.tolist()
    assert state.releasing.tolist() == releasing.tolist()


@given(snapshots(tied=False), st.data())
def test_room_is_counted_for_any_statuses(snapshot: Snapshot, data: st.DataObject) -> None:
    """Those that are given, not those of the state, which does not change."""
    ctx = opened(snapshot)
    before = (ctx.state.floats.tobytes(), ctx.state.integers.tobytes())
    n_tasks = snapshot.tasks.job.size
    status = data.draw(st.lists(st.sampled_from([*HERE, Status.PENDING]), min_size=n_tasks, max_size=n_tasks))
    idle, releasing = np.zeros((2, *ctx.state.idle.shape))
    open_nodes(np.array(status, np.int8), idle, releasing, ctx)
    assert (ctx.state.floats.tobytes(), ctx.state.integers.tobytes()) == before
    expected = snapshot.nodes.allocatable.copy()
    for t, n in enumerate(snapshot.tasks.node):
        if n != NULL and status[t] in HERE - {Status.RELEASING}:
            has = snapshot.nodes.allocatable[n] > 0.0
            expected[n] -= np.where(has, snapshot.classes.request[snapshot.tasks.cls[t]], 0.0)
    assert (idle + releasing).tolist() == expected.tolist()
    leaving = [n for t, n in enumerate(snapshot.tasks.node) if n != NULL and status[t] == Status.RELEASING]
    assert not releasing[[n for n in range(len(releasing)) if n not in leaving]].any()


@given(snapshots())
def test_queues_hold_and_ask_for_what_their_pods_do(snapshot: Snapshot) -> None:
    """At the leaf and at all above it; pods that are going, gated or done count for nothing."""
    tasks, jobs, parent = snapshot.tasks, snapshot.jobs, snapshot.queues.parent
    asked, held, fixed = np.zeros((3, parent.size, 3))
    for t, j in enumerate(tasks.job):
        price = snapshot.classes.quota[tasks.cls[t]]
        q = NULL if j == NULL else jobs.queue[j]
        while q != NULL:
            holds = tasks.status[t] in HOLDING
            asked[q] += price if holds or tasks.status[t] == Status.PENDING else 0.0
            held[q] += price if holds else 0.0
            fixed[q] += price if holds and not jobs.preemptible[j] else 0.0
            q = parent[q]
    book = opened(snapshot).state.book
    for column, expected in ((book.asked, asked), (book.held, held), (book.held_fixed, fixed)):
        assert column[:-1].tolist() == expected.tolist()


@given(snapshots())
def test_the_cluster_is_its_ready_nodes_less_foreign_pods(snapshot: Snapshot) -> None:
    """A node whose foreign pods ask for more than it has adds nothing, and takes nothing from what others add."""
    tasks, room = snapshot.tasks, snapshot.nodes.allocatable[:, :3].copy()
    for t, n in enumerate(tasks.node):
        if tasks.foreign[t] and n != NULL:
            room[n] -= snapshot.classes.quota[tasks.cls[t]]
    total = np.maximum(room, 0.0)[snapshot.nodes.counted == 1].sum(axis=0)
    assert opened(snapshot).state.book.share[-1].tolist() == total.tolist()


def test_a_foreign_pod_takes_no_more_than_its_node_has() -> None:
    nodes = node_table([[4.0, 8.0, 4.0, 9.0, 0.0], [4.0, 8.0, 0.0, 9.0, 0.0]])
    tasks = {"node": [0], "cls": [0]}
    snapshot = assemble([], nodes=nodes, request=[[1e21, 2.0, 5.0, 1.0, 0.0]], foreign=1, tasks=tasks)
    assert opened(snapshot).state.book.share[-1].tolist() == [4.0, 14.0, 0.0]


@given(snapshots())
def test_sets_and_domains_count_their_pods(snapshot: Snapshot) -> None:
    tasks, term_roles, terms = snapshot.tasks, snapshot.term_roles, snapshot.terms
    sets, state = np.zeros((snapshot.sets.parent.size, 2)), opened(snapshot).state
    domains, ports = np.zeros((2, snapshot.n_domains, 2)), np.zeros((2, *state.ports.shape))
    for t, (status, n, c) in enumerate(zip(tasks.status, tasks.node, tasks.cls, strict=True)):
        if tasks.job[t] != NULL:
            sets[tasks.set[t]] += [status in HOLDING, status == Status.PENDING]
        for role, row, weight in term_roles.entry[term_roles.ptr[c] : term_roles.ptr[c + 1]]:
            # For anti-affinity and host ports leaving pods are counted by themselves.
            leaves = int(status == Status.RELEASING)
            if status in HERE and role == TermRole.PORT:
                ports[leaves, n, row] += 1
            elif status in HERE and role in (TermRole.MATCH, TermRole.CARRY) and terms.domain[row, n] != NULL:
                leaves *= terms.kind[row] == TermKind.ANTI
                domains[leaves, terms.domain[row, n], 0 if role == TermRole.MATCH else 1] += weight
    assert np.stack([state.sets.active, state.sets.pending], 1).tolist() == sets.tolist()
    assert np.stack(state.domains, 1).tolist() == domains[0].tolist()
    assert np.stack(state.leaving_domains, 1).tolist() == domains[1].tolist()
    assert [state.ports.tolist(), state.leaving_ports.tolist()] == ports.tolist()
