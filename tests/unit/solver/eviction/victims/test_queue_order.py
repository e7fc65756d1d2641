"""Leaves in the order of the queue tree (semantics 3.1, 4.3), against the trees of the oracle, which look anew."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.objects import Pod, PodGroup, Shape
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import GPU, Status
from kai_sched.solver.eviction.allocation import make_job_orders
from kai_sched.solver.eviction.victims import leaf_order, queue_order
from kai_sched.solver.jit import entry
from tests.oracle import chunk as twin
from tests.oracle.order import JobTree, SimulatedTree
from tests.oracle.victims import VictimTree
from tests.oracle.world import GroupSet, Job, PodSet, Task, World
from tests.unit.solver.stands import Stand, book_of
from tests.unit.solver.tables import ALL_ON, UNLIMITED, Member, assemble, node_table, opened, parents, queue_table
from tests.unit.solver.twins import account_of

build_queue_heaps = entry(queue_order.build_queue_heaps)
next_leaf = entry(queue_order.next_leaf)
take_next_job = entry(queue_order.take_next_job)
push_job_back = entry(queue_order.push_job_back)
push_heap = entry(leaf_order.push_heap)

NO_CEILING, CLOCK = 2**62, 3


@dataclass
class Fact:
    """A job: its pods ask for a GPU each."""

    queue: int
    priority: int
    running: int
    pending: int
    minimum: int


class Forest:
    """Queues with jobs, as the kernels have them in order and as the oracle has them."""

    def __init__(self, above: list[int], stands: list[Stand], facts: list[Fact], last_first: int) -> None:
        statuses = [[Status.RUNNING] * fact.running + [Status.PENDING] * fact.pending for fact in facts]
        self.snapshot = assemble(
            [Member(fact.minimum, each) for fact, each in zip(facts, statuses, strict=True)],
            queue_table(above),
            node_table([[99.0] * 5]),
            [[0.0, 0.0, 1.0, 1.0, 0.0]],
            tasks={"node": [0 if status == Status.RUNNING else NULL for each in statuses for status in each]},
            jobs={"queue": [fact.queue for fact in facts], "priority": [fact.priority for fact in facts]},
        )
        self.ctx = opened(self.snapshot, ALL_ON)
        for q, stand in enumerate(stands):
            stand.held = self.ctx.state.book.held[q].tolist()
        for column, values in zip(self.ctx.state.book, book_of(stands, [10.0] * 3)[0], strict=True):
            column[:] = values
        self.accounts = [account_of(q, stand) for q, stand in enumerate(stands)]
        for account, parent, stand in zip(self.accounts, above, stands, strict=True):
            account.allocated = list(stand.held)
            if parent != NULL:
                account.parent = self.accounts[parent]
                account.parent.children.append(account)
        self.twins = [self.job(j, fact, fact.running) for j, fact in enumerate(facts)]
        known = {account.queue.name: account for account in self.accounts}
        self.world = World({}, [], self.twins, known, [10.0] * 3)
        self.facts, self.order = facts, make_job_orders(self.snapshot)[last_first]

    def job(self, j: int, fact: Fact, running: int) -> Job:
        """The oracle's, with so many pods that run."""
        statuses = ["Running"] * running + ["Pending"] * fact.pending
        shape = Shape(request=(("gpu", 1.0),))
        pods = [Pod("ns", f"{t:02}", shape, f"{t:02}") for t in range(len(statuses))]
        tasks = [Task(pod, status, "n", price=1.0) for pod, status in zip(pods, statuses, strict=True)]
        pod_set = PodSet("default", fact.minimum, tasks)
        root = GroupSet("", None, [pod_set])
        group = PodGroup("ns", f"{j}")
        return Job(group, f"{j}", f"{fact.queue}", fact.priority, True, (j, ""), root, {"default": pod_set})

    def measure(self, j: int, gpus: float) -> None:
        self.order.held[j] = [0.0, 0.0, gpus]
        self.order.jobs.stage[j] = twin.job_key(self.twins[j])[1]

    def fill(self, in_heaps: list[int]) -> None:
        """List all jobs in order, but for those that stand in the heaps of their leaves."""
        heap, jobs = self.order.heap, self.order.jobs
        heap.first_by_size[:] = heap.base
        for j in sorted(
            range(len(self.twins)), key=lambda j: twin.job_key(self.twins[j]), reverse=bool(self.order.last_first)
        ):
            q = self.facts[j].queue
            if j in in_heaps:
                jobs.skip[j] = CLOCK
                push_heap(q, j, self.ctx, self.order)
            else:
                jobs.listed[heap.base[q] + heap.end[q]] = j
                heap.end[q] += 1
        build_queue_heaps(NO_CEILING, self.ctx, self.order, CLOCK)

    def pop(self) -> tuple[int, int]:
        q, _ = next_leaf(self.ctx, self.order)
        return (q, NULL) if q == NULL else (q, int(take_next_job(q, NO_CEILING, self.ctx, self.order, CLOCK)))


@st.composite
def forests(draw: st.DrawFn, last_first: int) -> Forest:
    above = draw(parents(most=6))
    leaves = [q for q in range(len(above)) if q not in above]
    stands = []
    for _ in above:
        quota, fair = (draw(st.sampled_from([0.0, 1.0, 2.0, 4.0])) for _ in range(2))
        priority = draw(st.sampled_from([100, 100, 50]))
        any_amount = [UNLIMITED] * 2
        share = [*any_amount, max(quota, fair)]
        stands.append(Stand([*any_amount, quota], [0.0, 0.0, fair], share, [0.0] * 3, [0.0] * 3, priority))
    facts = [
        Fact(
            draw(st.sampled_from(leaves)),
            draw(st.sampled_from([50, 60])),
            draw(st.integers(1 if last_first else 0, 3)),
            0 if last_first else draw(st.integers(1, 3)),
            draw(st.integers(0, 2)),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]
    return Forest(above, stands, facts, last_first)


def check_pop(forest: Forest, tree: JobTree) -> int:
    """The job that both hand out; NULL: none is left."""
    expected = tree.pop()
    q, j = forest.pop()
    assert j == (int(expected.name) if expected else NULL)
    assert q == (int(expected.queue) if expected else NULL)
    return j


@given(forests(last_first=1), st.data())
def test_victims_come_as_from_the_twin(forest: Forest, data: st.DataObject) -> None:
    """A job that gives one pod goes back with what it has left."""
    for j, fact in enumerate(forest.facts):
        forest.measure(j, fact.running)
    forest.fill(data.draw(st.lists(st.integers(0, len(forest.facts) - 1), unique=True, max_size=2)))
    tree, left = VictimTree(forest.world, list(forest.twins)), [fact.running for fact in forest.facts]
    while (j := check_pop(forest, tree)) != NULL:
        left[j] = data.draw(st.sampled_from([0, left[j] - 1]))
        if left[j]:
            forest.twins[j] = forest.job(j, forest.facts[j], left[j])
            forest.measure(j, left[j])
            tree.push(forest.twins[j])
            push_job_back(forest.facts[j].queue, j, NO_CEILING, forest.ctx, forest.order, CLOCK)


@given(forests(last_first=0), st.data())
def test_contenders_come_as_from_the_twin(forest: Forest, data: st.DataObject) -> None:
    """What they get is charged to their queues, or not."""
    asks = [len(twin.next_chunk(job)) for job in forest.twins]
    for j, gpus in enumerate(asks):
        forest.measure(j, gpus)
    forest.fill(data.draw(st.lists(st.integers(0, len(asks) - 1), unique=True, max_size=2)))
    tree = SimulatedTree(forest.world, list(forest.twins))
    while (j := check_pop(forest, tree)) != NULL:
        if data.draw(st.booleans()):
            for account in forest.accounts[forest.facts[j].queue].lineage():
                account.allocated[2] += asks[j]
                forest.ctx.state.book.held[int(account.queue.name), GPU] += asks[j]


@pytest.mark.parametrize(("last_first", "expected"), [(1, [3, 2, 1, 0]), (0, [0, 1, 2, 3])])
def test_victims_come_from_above_the_share_first(last_first: int, expected: list[int]) -> None:
    """Queue 0 holds 1 of its fair share of 2, queue 1 holds 3; one who competes asks for 1 as well."""
    any_amount = [UNLIMITED] * 2
    stands = [Stand([*any_amount, 2.0], [0.0, 0.0, 2.0], [*any_amount, 2.0], [0.0] * 3, [0.0] * 3) for _ in range(2)]
    facts = [Fact(q, 50, 1, 1 - last_first, 1) for q in (0, 1, 1, 1)]
    forest = Forest([NULL, NULL], stands, facts, last_first)
    for j in range(4):
        forest.measure(j, 1.0)
    forest.fill([])
    assert [forest.pop()[1] for _ in range(5)] == [*expected, NULL]
