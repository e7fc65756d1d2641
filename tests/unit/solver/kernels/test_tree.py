"""The tree of heaps that hands out jobs (semantics 3.1), beside the oracle's and beside a naive scan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.objects import Pod, PodGroup, Shape
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Snapshot
from kai_sched.solver.allocation import make_tree
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import order
from kai_sched.solver.kernels.gang import ABOVE_MINIMUM, BELOW_MINIMUM
from kai_sched.solver.state import Tree
from tests.oracle.order import JobTree
from tests.oracle.world import GroupSet, Job, PodSet, Task, World
from tests.unit.solver.stands import AMOUNTS, Stand, book_of, twin_before
from tests.unit.solver.tables import ALL_ON, UNLIMITED, Member, assemble, opened, parents, queue_table
from tests.unit.solver.twins import account_of

build_job_tree = entry(order.build_job_tree)
pop_job = entry(order.pop_job)
push_job = entry(order.push_job)


class Pool:
    """Queues and jobs, in the kernel's tree, in the oracle's, and as a plain list of what is in the trees."""

    def __init__(self, snapshot: Snapshot, stands: list[Stand], total: list[float]) -> None:
        self.snapshot, self.stands, self.total = snapshot, stands, total
        self.ctx = opened(snapshot)
        self.book = self.ctx.state.book
        for column, values in zip(self.book, book_of(stands, total)[0], strict=True):
            column[:] = values
        self.tree: Tree = make_tree(snapshot)
        self.inside: list[int] = []
        self.accounts = [account_of(q, stand) for q, stand in enumerate(stands)]
        for account, above in zip(self.accounts, snapshot.queues.parent.tolist(), strict=True):
            if above != NULL:
                account.parent = self.accounts[above]
                account.parent.children.append(account)
        known = {account.queue.name: account for account in self.accounts}
        self.world = World({}, [], [], known, total)
        self.oracle = JobTree(self.world, [])
        self.twins: list[Job] = []

    def add(self, gpus: float, stage: int) -> None:
        """One more job of the snapshot: what its next pod asks for, and its stage."""
        j = len(self.twins)
        self.tree.request[j], self.tree.stage[j] = [0.0, 0.0, gpus], stage
        pods = [Task(Pod("ns", "next", Shape(request=(("gpu", gpus),)), "b"), "Pending", "", price=gpus)]
        if stage == ABOVE_MINIMUM:
            pods.append(Task(Pod("ns", "there", Shape(), "a"), "Running", ""))
        pod_set = PodSet("default", 1 if stage == BELOW_MINIMUM else 0, pods)
        queue, priority = int(self.snapshot.jobs.queue[j]), int(self.snapshot.jobs.priority[j])
        root = GroupSet("", None, [pod_set])
        self.twins.append(
            Job(PodGroup("ns", f"{j}"), f"{j}", f"{queue}", priority, True, (j, ""), root, {"default": pod_set})
        )

    def push(self, j: int) -> None:
        push_job(j, ALL_ON.allocate_depth, self.ctx, self.tree)
        self.oracle.push(self.twins[j])
        self.inside.append(j)

    def build_job_tree(self, order: list[int], depth: int) -> None:
        """Fill the empty tree with all jobs at once; ``order`` is that in which they lie in their leaves."""
        for j in order:
            q = self.snapshot.jobs.queue[j]
            self.tree.job_heap[self.tree.job_ptr[q] + self.tree.job_size[q]] = j
            self.tree.job_size[q] += 1
        build_job_tree(depth, self.ctx, self.tree)
        leaves = [[j for j in order if self.snapshot.jobs.queue[j] == q] for q in range(len(self.accounts))]
        self.inside = [j for leaf in leaves for j in sorted(leaf, key=self.key)[:depth]]
        self.oracle = JobTree(self.world, [self.twins[j] for j in self.inside])

    def pop(self) -> tuple[int, int]:
        """What the kernel and the oracle hand out."""
        twin = self.oracle.pop()
        j = int(pop_job(self.ctx, self.tree))
        if j in self.inside:
            self.inside.remove(j)
        return j, int(twin.name) if twin else NULL

    def charge(self, j: int) -> None:
        """The job got what it asks for."""
        q = int(self.snapshot.jobs.queue[j])
        self.book.held[q] += self.tree.request[j]
        while self.snapshot.queues.parent[q] != NULL:
            q = int(self.snapshot.queues.parent[q])
            self.book.held[q] += self.tree.request[j]
        for account in self.accounts[int(self.snapshot.jobs.queue[j])].lineage():
            account.allocated[2] += float(self.tree.request[j, 2])

    def key(self, j: int) -> tuple[int, int, int]:
        return -int(self.snapshot.jobs.priority[j]), int(self.tree.stage[j]), j

    def head(self, q: int) -> int:
        """The job on top below ``q`` when everything is compared anew; NULL where nothing waits."""
        if q != NULL and not self.children(q):
            return min((j for j in self.inside if self.snapshot.jobs.queue[j] == q), key=self.key, default=NULL)
        waiting = [child for child in self.children(q) if self.head(child) != NULL]
        return self.head(self.first(waiting)) if waiting else NULL

    def children(self, q: int) -> list[int]:
        queues = self.snapshot.queues
        row = q if q != NULL else queues.parent.size
        return [int(child) for child in queues.child[queues.child_ptr[row] : queues.child_ptr[row + 1]]]

    def first(self, siblings: list[int]) -> int:
        """The sibling that goes before all others."""
        for q in siblings:
            self.stands[q].held = self.book.held[q].tolist()
            self.stands[q].head = self.tree.request[self.head(q)].tolist()
        return next(a for a in siblings if all(a == b or twin_before(self.stands, a, b, self.total) for b in siblings))


@st.composite
def pools(draw: st.DrawFn, parents: st.SearchStrategy[list[int]]) -> Pool:
    """Queues with GPU quotas and fair shares, and jobs in their leaves. Nothing is pushed yet."""
    above = draw(parents)
    leaves = [q for q in range(len(above)) if q not in above]
    stands = []
    for _ in above:
        quota, fair = draw(AMOUNTS), draw(AMOUNTS)
        unlimited, priority = [UNLIMITED] * 2, draw(st.sampled_from([50, 100]))
        share = [*unlimited, max(quota, fair)]
        stands.append(Stand([*unlimited, quota], [0.0, 0.0, fair], share, [0.0] * 3, [0.0] * 3, priority))
    facts = st.tuples(
        st.sampled_from(leaves), st.sampled_from([50, 100]), st.sampled_from([1.0, 2.0, 4.0]), st.integers(0, 2)
    )
    jobs = draw(st.lists(facts, min_size=1, max_size=8))
    columns = {"queue": [q for q, *_ in jobs], "priority": [priority for _, priority, *_ in jobs]}
    pool = Pool(assemble([Member(1, [])] * len(jobs), queue_table(above), jobs=columns), stands, [10.0] * 3)
    for _, _, gpus, stage in jobs:
        pool.add(gpus, stage)
    return pool


CHAINS = st.integers(1, 5).flatmap(
    lambda roots: st.integers(0, roots).map(lambda leaves: [NULL] * roots + list(range(leaves)))
)


@given(pools(CHAINS), st.data())
def test_pops_are_those_of_the_naive_scan(pool: Pool, data: st.DataObject) -> None:
    """With one leaf below each root queue no comparison goes stale: each pop is the best by comparing all anew."""
    for j in sorted(range(len(pool.twins)), key=pool.key):
        pool.push(j)
    for _ in range(20):
        expected = pool.head(NULL)
        assert pool.pop() == (expected, expected)
        if expected == NULL:
            break
        if data.draw(st.booleans()):
            pool.charge(expected)
        if data.draw(st.integers(0, 3)) == 0:
            pool.push(expected)


@given(pools(parents()), st.data())
def test_pops_are_those_of_the_lazy_twin(pool: Pool, data: st.DataObject) -> None:
    """In any tree, pushed in any order: heaps go stale exactly as those of the twin do, which looks at heads live."""
    for j in data.draw(st.permutations(range(len(pool.twins)))):
        pool.push(j)
    for _ in range(20):
        found, expected = pool.pop()
        assert found == expected
        if found == NULL:
            break
        if data.draw(st.booleans()):
            pool.charge(found)
        if data.draw(st.integers(0, 3)) == 0:
            pool.push(found)


@given(pools(parents()), st.sampled_from([1, 2, 99]), st.data())
def test_a_planted_tree_gives_the_fairest_first(pool: Pool, depth: int, data: st.DataObject) -> None:
    """At the start nothing is stale in any tree; after that it goes on as the twin that was planted likewise."""
    pool.build_job_tree(data.draw(st.permutations(range(len(pool.twins)))), depth)
    fairest = pool.head(NULL)
    for turn in range(20):
        found, expected = pool.pop()
        assert found == expected
        assert turn > 0 or found == fairest
        if found == NULL:
            break
        if data.draw(st.booleans()):
            pool.charge(found)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=9), st.integers(1, 4), st.data())
def test_a_bounded_leaf_keeps_its_best_jobs(facts: list[tuple[int, int]], depth: int, data: st.DataObject) -> None:
    """(priority, stage) of jobs, pushed in any order."""
    n_jobs = len(facts)
    snapshot = assemble([Member(1, [])] * n_jobs, jobs={"priority": [priority for priority, _ in facts]})
    tree, ctx = make_tree(snapshot), opened(snapshot)
    ctx.state.book.share[-1] = 9.0
    tree.stage[:] = [stage for _, stage in facts]
    for j in data.draw(st.permutations(range(n_jobs))):
        push_job(j, depth, ctx, tree)
    popped = [int(pop_job(ctx, tree)) for _ in range(depth + 1)]
    best = sorted(range(n_jobs), key=lambda j: (-facts[j][0], facts[j][1], j))[:depth]
    assert [j for j in popped if j != NULL] == best
