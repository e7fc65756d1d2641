"""The search for few victims, the slow and obvious way: chunks that make room, chosen node by node, none in vain.

Bounds that only spare the search what cannot work are left out, but for one: a gang is first tried when the pods of
each of its kinds, counted by itself, would have room with all potential victims gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.oracle.allocate import accepts, best_node, fits, may_take, move
from tests.oracle.chunk import next_chunk
from tests.oracle.reclaim import Fairness, needs
from tests.oracle.search import part_with
from tests.oracle.trial import Session, come_back, commit, evict, is_evicted, restore, saved
from tests.oracle.victims import Chunk, accumulate
from tests.oracle.world import RESOURCES, UNLIMITED, USED, Job, Machine, Task

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
    wish: list[Task] = field(default_factory=list)
    potential: list[Chunk] = field(default_factory=list)
    returned: list[Task] = field(default_factory=list)  # the pods that came back in what was simulated last, in turn

    @property
    def is_move(self) -> bool:
        return self.action == "consolidation"


def search_few(run: Few) -> bool:
    """Find victims for the job's next chunk and give it places; whether that worked."""
    run.wish = next_chunk(run.job)
    if not run.wish:
        return False
    world = run.session.world
    pool = [job for job in run.pool if job not in run.session.settled]
    single = len(run.wish) == 1 and not run.is_move
    due, pause, tried = 0, 1, False
    for steps, step in enumerate(accumulate(world, pool, []), 1):
        run.potential.append(step)
        tried = False
        if run.is_move or steps < due or not _may_suffice(run):
            continue
        last = step.tasks[0].job
        assert last
        hosts = {task.node for task in last.tasks if task.status in USED} & set(world.machines)
        if _attempt(run, sorted(hosts) if single else None):
            return True
        tried = True
        if not single:
            due, pause = steps + pause, 2 * pause
    # Without anybody to evict there is nothing to search.
    return bool(run.potential) and not tried and not single and _may_suffice(run) and _attempt(run, None)


def _slots(kind: Task, machine: Machine, gone: list[Task]) -> int:
    if not accepts(_empty(machine), kind):
        return 0
    names = set(machine.idle) | {name for name, _ in kind.pod.shape.request}
    counts = []
    for name in names:
        free = machine.room(name, later=True)
        free += sum(task.asks(name) for task in gone if task.node == machine.node.name and name in machine.idle)
        if kind.asks(name) > 0:
            counts.append(max(0, int(free // kind.asks(name))))
        elif free < 0:
            return 0
    return min(counts, default=0)


def _empty(machine: Machine) -> Machine:
    """The node with nobody on it: what of its predicates does not depend on others."""
    return Machine(machine.node, {**machine.idle, "pods": 1.0}, {}, [])


def _may_suffice(run: Few) -> bool:
    """Whether there would be room for each of the first kinds of the wish, counted by itself, with all gone."""
    gone = [task for chunk in run.potential for task in chunk.tasks]
    kinds: list[tuple[Task, int]] = []
    for task in run.wish:
        same = [k for k, (kind, _count) in enumerate(kinds) if kind.pod.shape == task.pod.shape]
        if same:
            kinds[same[0]] = (kinds[same[0]][0], kinds[same[0]][1] + 1)
        elif len(kinds) < MOST_KINDS:
            kinds.append((task, 1))
    machines = run.session.world.machines.values()
    return all(sum(_slots(kind, machine, gone) for machine in machines) >= count for kind, count in kinds)


def _attempt(run: Few, nodes: list[str] | None) -> bool:
    for moves in (False, True):
        if moves != run.is_move and not (moves and run.moves):
            continue
        chosen = _choose(run, nodes, moves)
        before = saved(run.session.world)
        if chosen is None or not _simulate(run, chosen):
            continue
        restore(before)
        _spare(run, chosen)
        assert _simulate(run, chosen)
        _carry_out(run, chosen)
        return True
    return False


def _carry_out(run: Few, chosen: list[Chunk]) -> None:
    """Whoever has got a place keeps it in this cycle, and the order in which places were given is remembered."""
    session, tasks = run.session, [task for chunk in chosen for task in chunk.tasks]
    places = [*run.wish, *run.returned]
    commit(session, tasks, run.action, run.job.group.key)
    gone = [task.pod.key for task in tasks if task.status in ("Releasing", "Pipelined")]
    new = [task.pod.key for task in places if task.status == "Pipelined"]
    session.placed = [key for key in session.placed if key not in gone and key not in new] + new
    for job in [run.job, *(_real(run, chunk.job) for chunk in chosen)]:
        if any(task.status == "Pipelined" for task in job.tasks) and job not in session.settled:
            session.settled.append(job)


def _choose(run: Few, nodes: list[str] | None, moves: bool) -> list[Chunk] | None:
    """The chunks that make room, by the cheapest node for each task in turn; nothing is changed."""
    world, before = run.session.world, saved(run.session.world)
    chosen: list[Chunk] = []
    left: dict[str, list[float]] = {}
    good = _relieve(run, chosen, left)
    barred: set[str] = set()
    kind = None
    for task in run.wish if good else []:
        if kind is None or task.pod.shape != kind:
            kind, barred = task.pod.shape, set()
        name = best_node(world, run.session.config, run.job, task, list(world.machines))
        name = name or _clear_some(run, task, nodes, moves, chosen, left, barred)
        if name is None:
            good = False
            break
        move(world, run.job, task, "Pipelined", name)
    restore(before)
    return chosen if good else None


def _relieve(run: Few, chosen: list[Chunk], left: dict[str, list[float]]) -> bool:
    """Let chunks go below the queue whose limit is in the way."""
    world, rest = run.session.world, iter(run.potential)
    while (limit := _limit_in_the_way(run)) is not None:
        if run.is_move or limit == ("", 0):
            return False
        name, r = limit
        for chunk in rest:
            below = any(level.queue.name == name for level in world.accounts[chunk.job.queue].lineage())
            helps = below and any(task.asks(RESOURCES[r]) > 0 for task in chunk.tasks)
            if helps and (run.fairness is None or _counts(run, chunk, left)):
                _take(run, chunk, chosen)
                break
        else:
            return False
    return True


def _limit_in_the_way(run: Few) -> tuple[str, int] | None:
    """The queue and the resource; ("", 0) where it is a quota."""
    world, job, need = run.session.world, run.job, needs(run.wish)
    for account in world.accounts[job.queue].lineage():
        for r in range(3):
            limit = account.share(r).limit
            if need[r] and limit != UNLIMITED and limit < account.allocated[r] + need[r]:
                return account.queue.name, r
    return None if may_take(world, job, run.wish) else ("", 0)


def _counts(run: Few, chunk: Chunk, left: dict[str, list[float]]) -> bool:
    """Whether shares let the chunk go after those before; if so it is counted in ``left``."""
    assert run.fairness
    return run.fairness.takes(chunk.job, chunk.tasks, left, needs(run.wish))


def _take(run: Few, chunk: Chunk, chosen: list[Chunk]) -> None:
    chosen.append(chunk)
    for task in chunk.tasks:
        evict(run.session.world, task)


def _clear_some(
    run: Few,
    task: Task,
    nodes: list[str] | None,
    moves: bool,
    chosen: list[Chunk],
    left: dict[str, list[float]],
    barred: set[str],
) -> str | None:
    """Clear the cheapest node that can be cleared; its name."""
    touched = dict.fromkeys(
        home for chunk in run.potential for home in _homes(chunk) if home in run.session.world.machines
    )
    while True:
        costs = [(name, _cost(run, task, name, chosen)) for name in nodes or touched if name not in barred]
        costs = [(name, cost) for name, cost in costs if cost is not None]
        if not costs:
            return None
        name, _ = min(costs, key=lambda each: each[1])
        before, many, counted = saved(run.session.world), len(chosen), {key: [*v] for key, v in left.items()}
        if _clear(run, task, name, moves, chosen, left):
            for chunk in chosen[many:]:
                barred -= set(_homes(chunk))
            return name
        restore(before)
        del chosen[many:]
        left.clear()
        left.update(counted)
        barred.add(name)


def _homes(chunk: Chunk) -> list[str]:
    """Where the tasks of a potential victim were when the search began."""
    return [task.shadow.node if task.shadow else task.node for task in chunk.tasks]


def _cost(run: Few, task: Task, name: str, chosen: list[Chunk]) -> int | None:
    """The place in the order of the last chunk that has to go, or, where all move, how many pods; None: too few."""
    machine = run.session.world.machines[name]
    if not accepts(_empty(machine), task):
        return None
    gone: list[Task] = []
    number = 0
    for place, chunk in enumerate(run.potential):
        here = [each for each, home in zip(chunk.tasks, _homes(chunk), strict=True) if home == name]
        if chunk in chosen or not here:
            continue
        number += len(chunk.tasks)
        for each in here:
            gone.append(each)
            if _fits_without(task, machine, gone):
                return number if run.is_move else place
    return None


def _fits_without(task: Task, machine: Machine, gone: list[Task]) -> bool:
    names = set(machine.idle) | {name for name, _ in task.pod.shape.request}
    return all(
        task.asks(name)
        <= machine.room(name, later=True) + sum(each.asks(name) for each in gone if name in machine.idle)
        for name in names
    )


def _clear(run: Few, task: Task, name: str, moves: bool, chosen: list[Chunk], left: dict[str, list[float]]) -> bool:
    machine = run.session.world.machines[name]
    for chunk in run.potential:
        if chunk in chosen or name not in _homes(chunk):
            continue
        counted = {key: [*v] for key, v in left.items()}
        leaves = not run.is_move and (run.fairness is None or _counts(run, chunk, left))
        if not leaves and not moves:
            continue
        before = saved(run.session.world)
        _take(run, chunk, chosen)
        if not leaves and not _move_away(run, chunk, name):
            restore(before)
            chosen.pop()
            left.clear()
            left.update(counted)
            continue
        if fits(task, machine, later=True):
            return accepts(machine, task)
    return False


def _move_away(run: Few, chunk: Chunk, cleared: str) -> bool:
    """Give the tasks of a chunk that was evicted places: at home, unless that is the node to be cleared."""
    world, config = run.session.world, run.session.config
    for task in chunk.tasks:
        if task.pod.shape.unsupported:
            return False
        if task.node and task.node != cleared:
            come_back(world, task, task.node, False)
            continue
        offered = [name for name in world.machines if name != cleared]
        name = best_node(world, config, chunk.job, task, offered, gates=False)
        if name is None:
            return False
        come_back(world, task, name, False)
    return True


def _simulate(run: Few, chosen: list[Chunk]) -> bool:
    """Evict the chunks, place the wish, let come back who can, and judge; undone unless all is good."""
    world, before = run.session.world, saved(run.session.world)
    for chunk in chosen:
        for task in chunk.tasks:
            evict(world, task)
    run.returned = []
    if _place_wish(run):
        jobs = list(dict.fromkeys(_real(run, chunk.job).group.key for chunk in chosen))
        for moving in (False, True):
            for key in reversed(jobs):
                job = next(each for each in world.jobs if each.group.key == key)
                while _come_back(run, job, moving):
                    pass
        gone = [Chunk(chunk.job, [task for task in chunk.tasks if is_evicted(task)]) for chunk in chosen]
        if run.valid([chunk for chunk in gone if chunk.tasks], part_with(run.job, run.wish)):
            return True
    restore(before)
    return False


def _real(run: Few, job: Job) -> Job:
    return next(each for each in run.session.world.jobs if each.group is job.group)


def _place_wish(run: Few) -> bool:
    world = run.session.world
    if not may_take(world, run.job, run.wish):
        return False
    for task in run.wish:
        name = best_node(world, run.session.config, run.job, task, list(world.machines))
        if name is None:
            return False
        move(world, run.job, task, "Pipelined", name)
    return True


def _come_back(run: Few, job: Job, moving: bool) -> bool:
    """Whether the next chunk of a victim comes back, all of it."""
    world, chunk = run.session.world, next_chunk(job)
    if not chunk or any(task.status != "Releasing" for task in chunk) or not may_take(world, job, chunk):
        return False
    before = saved(world)
    for task in chunk:
        home = world.machines.get(task.node)
        name = None
        if home and not task.pod.shape.unsupported and fits(task, home, later=True) and _may_stand(home, task):
            name = task.node
        elif moving:
            name = best_node(world, run.session.config, job, task, list(world.machines), gates=False)
        if name is None:
            restore(before)
            return False
        come_back(world, task, name, False)
    run.returned += chunk
    return True


def _may_stand(machine: Machine, task: Task) -> bool:
    """Host ports; that it may be there by all else it has shown."""
    return accepts(Machine(machine.node, {"pods": 1.0}, {}, machine.tasks), task) or not accepts(_empty(machine), task)


def _spare(run: Few, chosen: list[Chunk]) -> None:
    """Leave out each chunk without which the rest is good, the most deserving first, until none can be."""
    chosen.sort(key=run.potential.index)
    anybody = True
    while anybody:
        anybody = False
        for chunk in reversed([*chosen]):
            before = saved(run.session.world)
            rest = [each for each in chosen if each is not chunk]
            if _simulate(run, rest):
                restore(before)
                chosen[:] = rest
                anybody = True
