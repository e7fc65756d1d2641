"""Would a queue that loses take the same room straight back, by its quota (``eviction.rules.retake``)?"""

from __future__ import annotations

from dataclasses import replace

from tests.oracle.allocate import accepts, fits
from tests.oracle.chunk import next_chunk
from tests.oracle.reclaim import Fairness, needs, plus, quota, within
from tests.oracle.world import Account, Job, Machine, Task


def who_retakes(fairness: Fairness, pending: list[Task]) -> Account | None:
    """A queue of which somebody could, in what is simulated now."""
    world, asks = fairness.session.world, needs(pending)
    by_uid = sorted(world.accounts.values(), key=lambda account: (account.queue.uid, account.queue.name))
    for mine in world.accounts[fairness.job.queue].lineage():
        above = [asks[r] > 0 and mine.allocated[r] > quota(mine)[r] for r in range(3)]
        for theirs in [a for a in by_uid if a.parent is mine.parent and a is not mine]:
            pushed = any(above[r] and _is_pushed_below(fairness, theirs, r) for r in range(3))
            if pushed and any(_may_retake(fairness, job, theirs, above) for job in world.jobs):
                return theirs
    return None


def _is_pushed_below(fairness: Fairness, account: Account, r: int) -> bool:
    held = account.allocated[r]
    return held < fairness.held[account.queue.name][r] and held < quota(account)[r]


def _may_retake(fairness: Fairness, job: Job, theirs: Account, above: list[bool]) -> bool:
    """Whether the job waits for some of what is above a quota, and has quota for it."""
    world = fairness.session.world
    leaf, chunk = world.accounts.get(job.queue), next_chunk(job)
    if not leaf or leaf.children or theirs not in leaf.lineage() or job.queue == fairness.job.queue:
        return False
    asks = needs(chunk)
    if not within(plus(theirs.allocated, asks), quota(theirs)) or not within(plus(leaf.allocated, asks), leaf.fair):
        return False
    if not any(above[r] and asks[r] > 0 for r in range(3)):
        return False
    machines = world.machines.values()
    rooms = [[_could_be_there(task, machine) for machine in machines] for task in chunk]
    return all(map(any, rooms)) and not all(any(_has_room(task, machine) for machine in machines) for task in chunk)


def _could_be_there(task: Task, machine: Machine) -> bool:
    """With nobody on the node."""
    total = machine.node.allocatable
    idle = {**total, **dict.fromkeys(machine.idle.keys() - total.keys(), 0.0)}
    bare = replace(machine, idle=idle, releasing={}, tasks=[])
    return not task.pod.shape.unsupported and accepts(bare, task) and fits(task, bare, later=False)


def _has_room(task: Task, machine: Machine) -> bool:
    bare = replace(machine, idle={"pods": 1.0}, releasing={}, tasks=[])
    return not task.pod.shape.unsupported and accepts(bare, task) and fits(task, machine, later=True)
