"""Trying things out: evictions that can be taken back, and attempts where everybody only waits (semantics 3.5, 3.6).

Taking back is done the obvious way: all that can change is copied before, and copied back after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace

from kai_sched import Config
from tests.oracle.allocate import best_node, may_take, move
from tests.oracle.chunk import next_chunk
from tests.oracle.devices import chooses_home
from tests.oracle.topology import Placing, Within, place_set
from tests.oracle.world import Account, Job, Machine, Task, World, charge, put
from tests.oracle.zones import gets_home


@dataclass(frozen=True)
class Eviction:
    pod: str
    action: str
    cause: str  # the job that it is for, "" where it is for none
    moves: bool = False  # it has a place elsewhere to come back to


@dataclass
class Session:
    """A cycle while it is decided."""

    world: World
    config: Config
    now_ns: int
    evictions: list[Eviction] = field(default_factory=list)
    settled: list[Job] = field(default_factory=list)  # jobs that keep what a search of this cycle gave them
    placed: list[str] = field(default_factory=list)  # pods in the order in which they got the places that they have


@dataclass(frozen=True)
class Copy:
    """All that a trial may change."""

    tasks: list[tuple[Task, Task]]
    machines: list[tuple[Machine, Machine]]
    accounts: list[tuple[Account, Account]]


def saved(world: World) -> Copy:
    return Copy(
        [(task, copy(task)) for task in world.tasks],
        [
            (
                machine,
                replace(machine, idle=dict(machine.idle), releasing=dict(machine.releasing), tasks=[*machine.tasks]),
            )
            for machine in world.machines.values()
        ],
        [
            (account, replace(account, allocated=[*account.allocated], fixed=[*account.fixed]))
            for account in world.accounts.values()
        ],
    )


def restore(before: Copy) -> None:
    """Everything as it was when it was saved; a copy serves once."""
    for task, was in before.tasks:
        task.status, task.node, task.virtual, task.shadow = was.status, was.node, was.virtual, was.shadow
        task.before, task.devices, task.zones = was.before, was.devices, was.zones
    for machine, was_machine in before.machines:
        machine.idle, machine.releasing, machine.tasks = was_machine.idle, was_machine.releasing, was_machine.tasks
    for account, was_account in before.accounts:
        account.allocated, account.fixed = was_account.allocated, was_account.fixed


def evict(world: World, task: Task) -> None:
    """The task leaves: its queue no longer pays for it, its node counts it as releasing.

    Evicted once more in the same scenario, all that happens is that the queue pays even less (4.5).
    """
    assert task.job is not None
    if task.virtual and task.status == "Releasing":
        charge(world.accounts[task.job.queue], task, not task.job.preemptible, -1)
        return
    task.before, task.virtual = task.status, True
    move(world, task.job, task, "Releasing", task.node)


def come_back(world: World, task: Task, node: str, home: bool) -> None:
    """Give an evicted task a place: at ``home`` the eviction is taken back; elsewhere it waits, and still leaves."""
    assert task.job is not None
    if home:
        task.virtual = False
        move(world, task.job, task, task.before, task.node)
        return
    machine = world.machines.get(task.node)
    if machine:
        task.shadow = copy(task)
        put(machine, task, -1)
        put(machine, task.shadow)
    task.status, task.node = "Pending", ""
    move(world, task.job, task, "Pipelined", node)


def is_home(world: World, task: Task, node: str, local: bool) -> bool:
    """Whether an evicted task that would be placed on this node is at home there, by the search of the original.

    Where a pod that was moved before in this cycle still runs it is known, too: there, in node-local scenarios, the
    eviction is taken back as well, which gives it the place that it had been promised, free or not (3.6). With a share
    home is the devices.
    """
    if node == task.node and not gets_home(task, world.machines[node]):
        return False
    if task.pod.shape.share:
        return node == task.node and chooses_home(task, world.machines[node], world.config)
    return node in (task.node, task.shadow.node if task.shadow and local else "")


def try_to_place(session: Session, job: Job, offered: list[str], local: bool) -> bool:
    """One attempt at the next chunk where nobody is bound, only promised a place (3.3, 3.5)."""
    world = session.world
    chunk = next_chunk(job)
    if not chunk or not may_take(world, job, chunk):
        return False

    def put_on_best(task: Task, within: Within) -> bool:
        node = best_node(world, session.config, job, task, within.nodes, points=within.points)
        if node is None:
            return False
        if task.status == "Releasing":
            come_back(world, task, node, is_home(world, task, node, local))
        else:
            move(world, job, task, "Pipelined", node)
        return True

    return place_or_undo(world, job, chunk, put_on_best, offered)


def place_or_undo(
    world: World, job: Job, chunk: list[Task], place: Callable[[Task, Within], bool], offered: Iterable[str]
) -> bool:
    """Place a chunk within the domains of its sets (10); as before if that fails."""
    before = saved(world)

    def mark() -> Callable[[], None]:
        at = saved(world)
        return lambda: restore(at)

    placed = place_set(Placing(world, place, mark), job.root, chunk, Within(tuple(offered)))
    if not placed:
        restore(before)
    return placed


def is_evicted(task: Task) -> bool:
    """Whether the task has to leave in what is being tried, with a place elsewhere or without."""
    return task.virtual and task.status in ("Releasing", "Pipelined")


def commit(session: Session, victims: list[Task], action: str, cause: str) -> None:
    """Make the evictions real, in this order, and forget that they were a trial.

    Queues keep what they were paid back for who was evicted more than once, but only once (4.5).
    """
    for task in {id(task): task for task in victims}.values():
        home = task.shadow if task.virtual and task.status == "Pipelined" and task.shadow else task
        for _ in range(sum(each is task for each in victims) - 2):
            assert task.job is not None
            charge(session.world.accounts[task.job.queue], home, not task.job.preemptible)
    for task in victims:
        known = any(each.pod == task.pod.key for each in session.evictions)
        if is_evicted(task) and is_there(task) and not known:
            session.evictions.append(Eviction(task.pod.key, action, cause, task.status == "Pipelined"))
    for task in session.world.tasks:
        task.virtual = False


def is_there(task: Task) -> bool:
    """Whether there is a pod on a node to evict; a place that was promised in this cycle is only taken back."""
    return bool(task.pod.node) or task.start == "Binding"
