"""Background pods (semantics 11.5), the slow and obvious way: absent while others are placed, back where they fit."""

from __future__ import annotations

from tests.oracle.allocate import allocate_in, move, within_gates
from tests.oracle.chunk import task_order
from tests.oracle.minimal_scenario import may_return
from tests.oracle.records import RESOURCES
from tests.oracle.topology import may_stay
from tests.oracle.trial import Eviction, Session, come_back, evict, restore, saved
from tests.oracle.world import ACTIVE, GroupSet, Job, PodSet, Task

ACTION = "backgroundpods"


def set_aside(session: Session) -> None:
    """Evict the pods of background jobs that could return at once; a gang that is torn already is left alone."""
    world = session.world
    for job in world.jobs:
        if not job.background or not _whole(job.root):
            continue
        for task in in_order(job):
            if task.status in ACTIVE and task.node in world.machines:
                evict(world, task)
                if _may_return(session, job, task):
                    session.evictions.append(Eviction(task.pod.key, ACTION, ""))
                    task.virtual = False
                else:
                    come_back(world, task, task.node, home=True)


def let_return(session: Session) -> list[str]:
    """Give back the places that are free, to a gang its minimum or none; then place those that wait, and name them."""
    world = session.world
    away = {each.pod for each in session.evictions if each.action == ACTION}
    for job in [job for job in world.jobs if job.background]:
        before = saved(world)
        for task in in_order(job):
            if task.pod.key in away and _may_return(session, job, task):
                move(world, job, task, task.before, task.node)
        if not _whole(job.root):
            restore(before)
    gone = {task.pod.key for task in world.tasks if task.status == "Releasing"}
    session.evictions = [each for each in session.evictions if each.action != ACTION or each.pod in gone]
    placed = allocate_in(world, session.config, background=True) if "allocate" in session.config.actions else []
    session.placed += placed
    return placed


def in_order(job: Job) -> list[Task]:
    """The tasks of a job, set by set, level by level of its tree."""
    members: list[GroupSet | PodSet] = [job.root]
    found: list[Task] = []
    for member in members:  # grows while it is walked
        if isinstance(member, PodSet):
            found += task_order(member.tasks)
        else:
            members += sorted(member.members, key=lambda each: each.name)
    return found


def _may_return(session: Session, job: Job, task: Task) -> bool:
    world, home = session.world, session.world.machines[task.node]
    price = [task.price_on[task.node] if resource == "gpu" else task.costs(resource) for resource in RESOURCES]
    return may_return(home, task) and may_stay(world, job.root, task, task.node) and within_gates(world, job, price)


def _whole(member: GroupSet | PodSet) -> bool:
    if isinstance(member, PodSet):
        return sum(task.status in ACTIVE for task in member.tasks) >= member.minimum
    return sum(map(_whole, member.members)) >= member.minimum
