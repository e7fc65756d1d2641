"""The search for victims that reclaim, preempt and consolidation share (semantics 4.5), without its budgets.

Of the filters (4.6) there is that of topology domains. The others are left out: they only spare the search scenarios
that cannot be solved, except where they refuse what could be (semantics 16), which this project does not copy. Where a
node-local scenario takes more of a job of which pods are recorded, it names those once more, as the original does: for
shares they count twice (4.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from kai_sched.model.objects import Topology
from tests.oracle.chunk import next_chunk, satisfied
from tests.oracle.devices import kind_of, mig_gpus
from tests.oracle.order import SimulatedTree
from tests.oracle.topology import Domain, levels_of, path_of
from tests.oracle.trial import Session, commit, evict, restore, saved, try_to_place
from tests.oracle.victims import Chunk, accumulate, part_of
from tests.oracle.world import ACTIVE, USED, GroupSet, Job, Machine, PodSet, Task

Generator = Callable[["Search", list[Task], list[Chunk], list[Chunk]], Iterator[list[Chunk]]]


@dataclass
class Search:
    """What stays the same while victims for one job are looked for.

    ``valid`` judges a scenario that gives the job its places: its victims, and the part of the job that was placed.
    ``local``: the scenarios are node-local ones now.
    """

    session: Session
    job: Job
    pool: list[Job]
    valid: Callable[[list[Chunk], Job], bool]
    failed: set[tuple[frozenset[str], ...]] = field(default_factory=set)
    local: bool = False


def search(run: Search, action: str) -> bool:
    """Find victims for the job's next chunk and give it places; whether that worked."""
    chunk = next_chunk(run.job)
    if not chunk:
        return False
    plugins = run.session.config.plugins
    for name, generator in (("sg-nodelocalgreedy", node_local_greedy), ("sg-multinodegang", multi_node_gang)):
        if name in plugins and (found := _with_generator(run, generator, chunk)) is not None:
            commit(run.session, [task for each in found for task in each.tasks], action, run.job.group.key)
            return True
    return False


def _with_generator(run: Search, generator: Generator, chunk: list[Task]) -> list[Chunk] | None:
    """The victims for the whole chunk, with all of it in place; None, and nothing changed, where there are none."""
    run.local = generator is node_local_greedy
    recorded: list[Chunk] = []
    low, high, k = 0, None, 1
    while high is None and low < len(chunk):
        found = _discarded(run, generator, chunk[:k], recorded)
        if found is None:
            high = k
        else:
            recorded, low, k = found, k, min(2 * k, len(chunk))
    while high is not None and high - low > 1:
        middle = (low + high) // 2
        found = _discarded(run, generator, chunk[:middle], recorded)
        if found is None:
            high = middle
        else:
            recorded, low = found, middle
    if not low:
        return None
    found = _probe(run, generator, chunk, recorded)
    assert found is None or satisfied(run.job.root)
    return found


def _discarded(run: Search, generator: Generator, tasks: list[Task], recorded: list[Chunk]) -> list[Chunk] | None:
    """A probe whose outcome is only its victims."""
    before = saved(run.session.world)
    found = _probe(run, generator, tasks, recorded)
    if found is None:
        return None
    if generator is node_local_greedy:
        found = _by_job(found)
    found = [chunk for chunk in found if any(task.status in ("Releasing", "Pipelined") for task in chunk.tasks)]
    restore(before)
    return found


def _by_job(chunks: list[Chunk]) -> list[Chunk]:
    """The same victims, those of one job as one group."""
    keys = dict.fromkeys(chunk.job.group.key for chunk in chunks)
    grouped = [[chunk for chunk in chunks if chunk.job.group.key == key] for key in keys]
    return [Chunk(group[0].job, [task for chunk in group for task in chunk.tasks]) for group in grouped]


def _probe(run: Search, generator: Generator, tasks: list[Task], recorded: list[Chunk]) -> list[Chunk] | None:
    """The first scenario that gives places to these tasks, carried out; its victims."""
    gone = [task for chunk in recorded for task in chunk.tasks]
    potential: list[Chunk] = []
    for step in chain([None], accumulate(run.session.world, run.pool, gone)):
        potential += [step] if step else []
        if not domains_have_gpus(run, tasks, [*gone, *(task for chunk in potential for task in chunk.tasks)]):
            continue
        for chosen in generator(run, tasks, recorded, potential) if step else [[]]:
            mark = tuple(frozenset(map(_key, part)) for part in (tasks, gone, [t for c in chosen for t in c.tasks]))
            if mark in run.failed or not [*recorded, *chosen]:
                continue
            if _simulate(run, tasks, recorded, chosen):
                return [*recorded, *chosen]
            run.failed.add(mark)
    return None


def domains_have_gpus(run: Search, tasks: list[Task], leaving: list[Task]) -> bool:
    """Whether each set that requires a level, no pod set, finds a domain with GPUs enough for all of its pods (4.6).

    The pods that run count, too. The largest set takes the domain with the most GPUs of those that have enough left.
    """
    world = run.session.world
    needs: dict[tuple[Topology, int], list[float]] = {}
    for member in group_sets(run.job.root):
        topology = world.topologies.get(member.constraint.topology) if member.constraint else None
        levels = levels_of(topology, member.constraint) if topology and member.constraint else None
        if topology and levels and levels[0]:
            own = [round(task.part, 2) for task in member.tasks if task in tasks or task.status in ACTIVE]
            needs.setdefault((topology, levels[0]), []).append(sum(own))
    for (topology, level), sizes in needs.items():
        room: dict[Domain, float] = {}
        for name, machine in world.machines.items():
            if path := path_of(topology, machine):
                gone = sum(task.part for task in {id(task): task for task in leaving}.values() if task.node == name)
                free = max(0.0, round(machine.loose("gpu", later=True) + gone, 2))
                room[path[:level]] = room.get(path[:level], 0.0) + free
        left = dict(room)
        for size in sorted(filter(None, sizes), reverse=True):
            fitting = [domain for domain in sorted(room) if left[domain] >= size]
            if not fitting:
                return False
            left[max(fitting, key=room.__getitem__)] -= size
    return True


def group_sets(member: GroupSet | PodSet) -> list[GroupSet]:
    """The set and all sets of sets below it."""
    return [member, *chain(*map(group_sets, member.members))] if isinstance(member, GroupSet) else []


def _key(task: Task) -> str:
    return task.pod.key


def node_local_greedy(
    run: Search, _tasks: list[Task], recorded: list[Chunk], potential: list[Chunk]
) -> Iterator[list[Chunk]]:
    """For each node of the latest victim's job: whoever of the potential victims is there, if any, with all their pods.

    That is with the recorded ones, too.
    """
    gone = [task for chunk in recorded for task in chunk.tasks]
    latest = potential[-1].tasks[0].job
    assert latest
    hosts = {task.node for task in latest.tasks if task.status in USED}
    for name in sorted(hosts & set(run.session.world.machines)):
        there = [chunk for chunk in _by_job(potential) if any(task.node == name for task in chunk.tasks)]
        if there:
            yield [
                Chunk(chunk.job, [*(task for task in gone if task.job is chunk.tasks[0].job), *chunk.tasks])
                for chunk in there
            ]


def multi_node_gang(
    run: Search, tasks: list[Task], recorded: list[Chunk], potential: list[Chunk]
) -> Iterator[list[Chunk]]:
    """The potential victims of 0, 1, 3, 7, ... nodes more than the fewest that could do, tightest nodes first."""
    machines = run.session.world.machines
    gone = [task for chunk in [*recorded, *potential] for task in chunk.tasks]
    asked = [round(task.part, 2) for task in tasks]

    def room(name: str, leaving: list[Task]) -> float:
        """Never less than nothing: a node that holds more than it has takes nothing from what others have."""
        free = machines[name].loose("gpu", later=True) + sum(t.part for t in leaving if t.node == name)
        return max(0.0, round(free, 2))

    names = dict.fromkeys(task.node for chunk in potential for task in chunk.tasks if task.node in machines)
    caps = {name: room(name, gone) for name in names}
    need = sum(asked) - sum(
        room(name, [task for chunk in recorded for task in chunk.tasks])
        for name in feasible(run, recorded)
        if name not in names
    )
    ordered = sorted((name for name in names if caps[name] >= min(asked)), key=lambda name: caps[name])
    size = 0
    while sum(caps[name] for name in ordered[:size]) < need:
        if size == len(ordered):
            return
        size += 1
    jump = 1
    while True:
        yield [chunk for chunk in potential if any(task.node in ordered[:size] for task in chunk.tasks)]
        if size >= len(ordered):
            return
        size, jump = min(size + jump, len(ordered)), 2 * jump


def feasible(run: Search, victims: list[Chunk]) -> list[str]:
    """The nodes on which a scenario may place pods: those with GPUs to give, and those of the victims."""
    world = run.session.world
    leaving = {task.node for chunk in victims for task in chunk.tasks}
    anywhere = any(kind_of(task.pod) in ("none", "legacy") for task in run.job.tasks)

    def may(machine: Machine) -> bool:
        now, then = (
            machine.loose("gpu", later) + sum(mig_gpus(name) * machine.room(name, later) for name in machine.idle)
            for later in (False, True)
        )
        return anywhere or max(now, then - now) > 0 or machine.node.name in leaving

    return [name for name, machine in world.machines.items() if may(machine)]


def _simulate(run: Search, tasks: list[Task], recorded: list[Chunk], chosen: list[Chunk]) -> bool:
    """Evict, and let the victims and the job compete for the room; undone unless the job gets its places validly."""
    session, victims = run.session, [*recorded, *chosen]
    # The original cannot take a pod off a node that it does not see, such as one of another node pool.
    if any(task.node not in session.world.machines for chunk in victims for task in chunk.tasks):
        return False
    before, offered = saved(session.world), feasible(run, victims)
    for task in [task for chunk in victims for task in chunk.tasks]:
        evict(session.world, task)
    pending = part_with(run.job, tasks)
    if _compete(run, pending, [chunk.tasks[0].job for chunk in victims], offered) and run.valid(victims, pending):
        return True
    restore(before)
    return False


def _compete(run: Search, pending: Job, victims: list[Job | None], offered: list[str]) -> bool:
    """One attempt for each victim and for the job, in job order (3.1); whether the job got its places."""
    world = run.session.world
    jobs = [job for job in world.jobs if job in victims or any(task.status == "Pending" for task in job.tasks)]
    tree = SimulatedTree(world, [pending if job is run.job else job for job in jobs])
    placed = False
    while (job := tree.pop()) is not None:
        if job is pending:
            placed = try_to_place(run.session, job, offered, run.local)
            if not placed:
                return False
        elif job in victims:
            try_to_place(run.session, job, offered, run.local)
    return placed


def part_with(job: Job, tasks: list[Task]) -> Job:
    """The job as if these were all that it waits for, with minimums that they can reach."""
    part = part_of(job, lambda task: task in tasks or task.status in ACTIVE)
    part.chunk = tasks

    def lower(member: GroupSet | PodSet) -> bool:
        """Fit the minimum to what is there; whether anything is."""
        if isinstance(member, PodSet):
            member.minimum = min(member.minimum, len(member.tasks)) if member.tasks else member.minimum
            return bool(member.tasks)
        there = sum([lower(each) for each in member.members])
        member.wanted = None if member.wanted is None else min(member.wanted, there)
        return there > 0

    lower(part.root)
    return part
