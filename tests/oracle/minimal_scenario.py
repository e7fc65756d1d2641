"""A scenario of the search for few victims: who leaves, where the pending tasks go, and who comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

from tests.oracle.allocate import accepts, best_node, fits, fits_but_devices, may_take, may_take_on, move
from tests.oracle.chunk import next_chunk
from tests.oracle.devices import home_has_room
from tests.oracle.reclaim import Fairness
from tests.oracle.retake import who_retakes
from tests.oracle.search import part_with
from tests.oracle.topology import Domain, Within, may_stay
from tests.oracle.trial import Session, come_back, evict, is_evicted, place_or_undo, restore, saved
from tests.oracle.victims import Chunk
from tests.oracle.world import Account, Job, Machine, Task
from tests.oracle.zones import home_is_free

MOST_KINDS = 4


@dataclass
class Few:
    """What stays the same while victims for one job are looked for.

    ``valid`` judges who leaves or moves; ``fairness`` is there for reclaim; ``moves``: whether those that may not leave
    for good may be moved.
    """

    session: Session
    job: Job
    pool: list[Job]
    valid: Callable[[list[Chunk], Job], bool]
    action: str
    fairness: Fairness | None = None
    moves: bool = False
    asked: list[Task] = field(default_factory=list)
    pending: list[Task] = field(default_factory=list)  # the same, in the order in which places are chosen
    potential: list[Chunk] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)  # the node that was chosen for each pod of the pending tasks
    within: dict[str, Within] = field(default_factory=dict)  # and the domain in which it was
    refused: set[tuple[str, Domain]] = field(default_factory=set)  # sets, and domains that are not to pay for them
    returned: list[Task] = field(default_factory=list)  # the pods that came back in what was simulated last, in turn
    retaken: Account | None = None  # the queue that would take back what the preemptor got in it
    kept: list[Chunk] = field(default_factory=list)  # what is not to be chosen, as its queue would do so

    @property
    def is_move(self) -> bool:
        return self.action == "consolidation"


def empty(machine: Machine) -> Machine:
    """The node with nobody on it: what of its predicates does not depend on others."""
    return replace(machine, idle={**machine.idle, "pods": 1.0}, releasing={}, tasks=[])


def simulate(run: Few, chosen: list[Chunk]) -> bool:
    """Evict the chunks, place the pending tasks, let come back who can, and judge; undone unless all is good."""
    world, before = run.session.world, saved(run.session.world)
    for chunk in chosen:
        for task in chunk.tasks:
            evict(world, task)
    run.returned, run.retaken = [], None
    if _place_wish(run):
        jobs = list(dict.fromkeys(real(run, chunk.job).group.key for chunk in chosen))
        for moving in (False, True):
            for key in reversed(jobs):
                job = next(each for each in world.jobs if each.group.key == key)
                run.returned += come_back_all(run.session, job, moving)
        gone = [Chunk(chunk.job, [task for task in chunk.tasks if is_evicted(task)]) for chunk in chosen]
        good = run.valid([chunk for chunk in gone if chunk.tasks], part_with(run.job, run.pending))
        run.retaken = who_retakes(run.fairness, run.pending) if good and run.fairness else None
        if good and not run.retaken:
            return True
    restore(before)
    return False


def real(run: Few, job: Job) -> Job:
    return next(each for each in run.session.world.jobs if each.group is job.group)


def _place_wish(run: Few) -> bool:
    world = run.session.world
    if not may_take(world, run.job, run.pending):
        return False
    for task in run.pending:
        name: str | None = run.places[task.pod.key]
        machine = world.machines[name or ""]
        if task.pod.shape.unsupported or not fits(task, machine, later=True) or not accepts(machine, task):
            within = run.within[task.pod.key]
            name = best_node(world, run.session.config, run.job, task, within.nodes, points=within.points)
        if name is None or not may_take_on(world, run.job, task, name):
            return False
        move(world, run.job, task, "Pipelined", name)
    return True


def come_back_all(session: Session, job: Job, moving: bool) -> list[Task]:
    """Let the evicted pods of a job come back, chunk by chunk, home or, ``moving``, elsewhere; those who did."""
    returned: list[Task] = []
    away = _without_room(session, job, moving)
    while chunk := _next_evicted(job, away):
        missing = _come_back(session, job, chunk, moving)
        if not missing:
            returned += chunk
            continue
        away.append(missing)
        if moving and missing is chunk[0] and _lacks_room(session, job, missing, moving):
            away += _without_room(session, job, moving)
    return returned


def _without_room(session: Session, job: Job, moving: bool) -> list[Task]:
    """The evicted pods of a job for which there is no room, and will be none while others come back."""
    return [task for task in job.tasks if is_evicted(task) and _lacks_room(session, job, task, moving)]


def _lacks_room(session: Session, job: Job, task: Task, moving: bool) -> bool:
    home = session.world.machines.get(task.node)
    if task.pod.shape.unsupported or not (home and fits_at_home(task, home)):
        elsewhere = moving and not task.pod.shape.unsupported
        return not elsewhere or (not task.pod.shape.host_ports and not _best_node(session, job, task))
    return False


def _best_node(session: Session, job: Job, task: Task) -> str | None:
    return best_node(session.world, session.config, job, task, list(session.world.machines), gates=False)


def _come_back(session: Session, job: Job, chunk: list[Task], moving: bool) -> Task | None:
    """Let a chunk of a victim come back, all of it or nothing; a pod for which there is no room."""
    world = session.world
    if not may_take(world, job, chunk):
        return chunk[0]
    missing: list[Task] = []

    def give_place(task: Task, within: Within) -> bool:
        missing[:] = [task]
        home = world.machines.get(task.node)
        stays = home is not None and may_return(home, task) and may_take_on(world, job, task, task.node)
        name: str | None = task.node
        if not moving:
            stays = stays and may_stay(world, job.root, task, task.node)
        elif not (stays and task.node in within.nodes):
            stays = False
            name = best_node(world, session.config, job, task, within.nodes, gates=False, points=within.points)
        if name is None or not (stays or moving):
            return False
        come_back(world, task, name, stays)
        return True

    if moving:
        return None if place_or_undo(world, job, chunk, give_place, world.machines) else (missing or chunk)[0]
    before = saved(world)
    if all(give_place(task, Within(())) for task in chunk):
        return None
    restore(before)
    return missing[0]


def _next_evicted(job: Job, away: list[Task]) -> list[Task]:
    """What the job would ask for if nothing of it had waited before, and but for those ``away``."""
    hidden = {task: task.status for task in job.tasks if task.status == "Pending" or task in away}
    for task in hidden:
        task.status = ""
    chunk = next_chunk(job)
    for task, status in hidden.items():
        task.status = status
    return chunk


def may_return(home: Machine, task: Task) -> bool:
    return not task.pod.shape.unsupported and fits_at_home(task, home) and _may_stand(home, task)


def fits_at_home(task: Task, home: Machine) -> bool:
    """Whether there is room where it was: also of its NUMA zones, and of a pod with a share on its own devices."""
    has_devices = not task.pod.shape.share or home_has_room(task, home)
    return fits_but_devices(task, home, later=True) and has_devices and home_is_free(task, home)


def _may_stand(machine: Machine, task: Task) -> bool:
    """Host ports; that it may be there by all else it has shown."""
    crowded = replace(machine, idle={"pods": inf}, releasing={})
    return accepts(crowded, task) or not accepts(empty(machine), task)
