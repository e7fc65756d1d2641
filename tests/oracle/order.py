"""The order of queues (semantics 2.6) and the lazily sorted tree of heaps that hands out jobs (3.1).

The original pushes the jobs one by one in no order, so that a queue joins its siblings for any of its jobs; here it
joins for its largest gang. Nothing above is sorted again until it comes up, as all counts as touched. A node that is
emptied is popped from its parent at once; one that gets a job again is pushed anew, leaf first, and flagged with all
its ancestors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.oracle.chunk import job_key, next_chunk
from tests.oracle.devices import HUNDREDTHS
from tests.oracle.fair_share import UNLIMITED, allocatable_share
from tests.oracle.world import RESOURCES, Account, Job, World


@dataclass(eq=False)
class Branch:
    """A queue while it has work: a heap of jobs (leaf) or of branches. The root of all has no account."""

    account: Account | None
    parent: Branch | None
    items: list[Branch | Job] = field(default_factory=list)
    dirty: bool = True
    joins_for: Job | None = None

    @property
    def depth(self) -> int:
        return self.parent.depth + 1 if self.parent else 0

    def best(self) -> Job:
        if self.joins_for:
            return self.joins_for
        head = self.items[0]
        return head if isinstance(head, Job) else head.best()


class JobTree:
    """All jobs that may be tried, handed out one by one."""

    def __init__(self, world: World, jobs: list[Job], depth: int | None = None) -> None:
        self.total = world.total
        self.leaves: dict[str, Branch] = {}
        self.branches: list[Branch] = []
        self.root = Branch(None, None)
        for account in sorted((a for a in world.accounts.values() if a.parent is None), key=lambda a: a.age):
            self._grow(account, self.root)
        self._fill([job for job in jobs if job.queue in self.leaves], depth)

    def _grow(self, account: Account, parent: Branch) -> None:
        branch = Branch(account, parent)
        self.branches.append(branch)
        if not account.children:
            self.leaves[account.queue.name] = branch
        for child in account.children:
            self._grow(child, branch)

    def _fill(self, jobs: list[Job], depth: int | None) -> None:
        for name, leaf in self.leaves.items():
            kept = best_of([job for job in jobs if job.queue == name], depth)
            for job in kept:
                heap_push(leaf.items, job, self._before)
            leaf.joins_for = self._joins_for(kept)
        for branch in sorted(self.branches, key=lambda branch: -branch.depth):
            if branch.items and branch.parent:
                heap_push(branch.parent.items, branch, self._before)
        for leaf in self.leaves.values():
            leaf.joins_for = None

    def _joins_for(self, jobs: list[Job]) -> Job | None:
        """The largest gang."""
        return min(jobs, key=lambda job: (-len(job.tasks), job.age), default=None)

    def pop(self) -> Job | None:
        """The next job, or None when there is none."""
        if not self.root.items:
            return None
        branch = self.root
        while True:
            head = branch.items[0]
            if isinstance(head, Job):
                break
            if head.dirty:
                head.dirty = False
                heap_down(branch.items, 0, len(branch.items), self._before)
            else:
                branch = head
        job = heap_pop(branch.items, self._before)
        assert isinstance(job, Job)
        self._flag(branch)
        while branch.parent and not branch.items:
            heap_pop(branch.parent.items, self._before)
            branch = branch.parent
        return job

    def push(self, job: Job) -> None:
        """Give a job back that has more to place."""
        branch = self.leaves[job.queue]
        empty = not branch.items
        heap_push(branch.items, job, self._before)
        self._flag(branch)
        while branch.parent and empty:
            empty = not branch.parent.items
            heap_push(branch.parent.items, branch, self._before)
            branch = branch.parent

    def _flag(self, branch: Branch | None) -> None:
        while branch:
            branch.dirty = True
            branch = branch.parent

    def _before(self, left: Branch | Job, right: Branch | Job) -> bool:
        if isinstance(left, Job) and isinstance(right, Job):
            return bool(job_key(left) < job_key(right))
        assert isinstance(left, Branch)
        assert isinstance(right, Branch)
        return queue_before(left, right, self.total)


class SimulatedTree(JobTree):
    """The tree of a simulation, where a queue joins for the largest of its gangs of the highest priority."""

    def __init__(self, world: World, jobs: list[Job]) -> None:
        self.pods = {job.name: len(job.tasks) for job in world.jobs}
        super().__init__(world, jobs)

    def _joins_for(self, jobs: list[Job]) -> Job | None:
        return min(jobs, key=lambda job: (-job.priority, -self.pods[job.name], job.age), default=None)


def best_of(jobs: list[Job], depth: int | None) -> list[Job]:
    return sorted(jobs, key=job_key)[:depth]


def lacks_steady_share(account: Account, asks: float, held: float | None = None) -> bool:
    """Whether a queue has fewer GPUs than it may keep, and gets no more than its fair share with what it asks for."""
    has = account.allocated[2] if held is None else held
    return asks > 0 and max(has, 0) < account.keep and has + asks <= account.fair[2] + 1e-6


def queue_before(left: Branch, right: Branch, total: list[float]) -> bool:
    """Whether the left queue goes first, given the job at the top of each side."""
    assert left.account is not None
    assert right.account is not None
    sides = [(left.account, request_of(left.best())), (right.account, request_of(right.best()))]
    short = [lacks_steady_share(account, request[2]) for account, request in sides]
    if short[0] != short[1]:
        return short[0]
    return account_before(sides[0][0], sides[1][0], [(request, request) for _, request in sides], total)


def account_before(a: Account, b: Account, changes: list[tuple[list[float], list[float]]], total: list[float]) -> bool:
    """The eight steps of queue order (2.6) in turn.

    ``changes``: for each side what its next job asks for (steps 2 and 4), and by what its share changes (step 5).
    """
    (asks_a, change_a), (asks_b, change_b) = changes
    steps: list[tuple[object, object]] = [
        (over_used(a), over_used(b)),
        (not starved(a, asks_a), not starved(b, asks_b)),
        (-a.queue.priority, -b.queue.priority),
        (violates(a, asks_a), violates(b, asks_b)),
        (dominant(a, change_a, total), dominant(b, change_b, total)),
        (dominant(a, [0.0] * 3, total), dominant(b, [0.0] * 3, total)),
    ]
    for mine, theirs in steps:
        if mine != theirs:
            return bool(mine < theirs)  # type: ignore[operator]
    mine_all, theirs_all = shares(a), shares(b)
    if mine_all != theirs_all:
        if all(x <= y for x, y in zip(mine_all, theirs_all, strict=True)):
            return True
        if all(x >= y for x, y in zip(mine_all, theirs_all, strict=True)):
            return False
    return a.age < b.age


def request_of(job: Job) -> list[float]:
    chunk = next_chunk(job)
    return [round(sum(task.costs(resource) for task in chunk), HUNDREDTHS) for resource in RESOURCES]


def over_used(a: Account) -> bool:
    return all(a.fair[r] < a.allocated[r] for r in range(3))


def starved(a: Account, request: list[float]) -> bool:
    return all(a.share(r).quota == UNLIMITED or a.allocated[r] + request[r] <= a.share(r).quota for r in range(3))


def violates(a: Account, request: list[float]) -> bool:
    return any(share_of(a, r) == 0 and a.allocated[r] + request[r] > 0 for r in range(3))


def share_of(a: Account, r: int) -> float:
    return allocatable_share(a.share(r).quota, a.share(r).limit, a.fair[r])


def shares(a: Account) -> list[float]:
    """Allocatable shares with infinity for unlimited, for comparisons."""
    return [math.inf if share_of(a, r) == UNLIMITED else share_of(a, r) for r in range(3)]


def dominant(a: Account, request: list[float], total: list[float]) -> float:
    """The largest part that the queue would hold of what it can count on, or of the cluster where that is unlimited."""
    parts = []
    for r in range(3):
        held, share = a.allocated[r] + request[r], share_of(a, r)
        if share == UNLIMITED:
            parts.append(held / total[r] if total[r] > 0 else math.inf if held > 0 else 0.0)
        else:
            parts.append(held / share if share else held * 1000)
    return max(0.0, *parts)


Before = Callable[["Branch | Job", "Branch | Job"], bool]


def heap_push(items: list[Branch | Job], item: Branch | Job, before: Before) -> None:
    items.append(item)
    child = len(items) - 1
    while child > 0 and before(items[child], items[(child - 1) // 2]):
        parent = (child - 1) // 2
        items[child], items[parent] = items[parent], items[child]
        child = parent


def heap_pop(items: list[Branch | Job], before: Before) -> Branch | Job:
    last = len(items) - 1
    items[0], items[last] = items[last], items[0]
    heap_down(items, 0, last, before)
    return items.pop()


def heap_down(items: list[Branch | Job], parent: int, size: int, before: Before) -> None:
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size and before(items[child + 1], items[child]):
            child += 1
        if not before(items[child], items[parent]):
            return
        items[parent], items[child] = items[child], items[parent]
        parent = child
