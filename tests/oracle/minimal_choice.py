"""Which chunks make room, chosen node by node, and what goes with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kai_sched.model.objects import Shape
from tests.oracle.allocate import accepts, best_node, fits, in_the_way, may_take, may_take_on, move
from tests.oracle.devices import kind_of
from tests.oracle.minimal_scenario import Few, empty, real
from tests.oracle.reclaim import needs
from tests.oracle.topology import Within, by_member, is_constrained, measure
from tests.oracle.trial import come_back, evict, place_or_undo, restore, saved
from tests.oracle.victims import Chunk
from tests.oracle.world import RESOURCES, UNLIMITED, GroupSet, Machine, PodSet, Task
from tests.oracle.zones import holds_of, zones_to_clear

MOST_KINDS = 4
# Whether pending pods of a search have points by the level that their set prefers, as in allocate (10.4, first rule).
PREFERENCES_COUNT = True


def choose(run: Few, nodes: list[str] | None, moves: bool) -> list[Chunk] | None:
    """The chunks that make room, by the cheapest node for each task in turn; nothing is changed."""
    run.pending = list(run.asked)
    for _ in range(MOST_KINDS):
        before = saved(run.session.world)
        chosen, failed = _choose_in_turn(run, nodes, moves)
        restore(before)
        if chosen is not None:
            return chosen
        # the pods of a set with a constraint stay side by side
        if failed is None or failed.pod.shape == run.pending[0].pod.shape or is_constrained(run.job.root):
            return None
        # those like it choose first the next time
        run.pending.sort(key=lambda task: task.pod.shape != failed.pod.shape)
    return None


@dataclass
class Turn:
    """A choice while it is made: what is chosen so far, and the nodes that cannot be cleared for pods of a kind."""

    nodes: list[str] | None
    moves: bool
    chosen: list[Chunk] = field(default_factory=list)
    left: dict[str, list[float]] = field(default_factory=dict)
    barred: set[str] = field(default_factory=set)
    kind: Shape | None = None
    failed: Task | None = None


def _choose_in_turn(run: Few, nodes: list[str] | None, moves: bool) -> tuple[list[Chunk] | None, Task | None]:
    """The chunks, or None and the task that found no node."""
    turn = Turn(nodes, moves)
    if not _relieve(run, turn.chosen, turn.left):
        return None, None
    run.places = {}
    if _choose_for_set(run, turn, run.job.root, run.pending, Within(tuple(run.session.world.machines))):
        return turn.chosen, None
    return None, turn.failed


def _choose_for_set(run: Few, turn: Turn, member: GroupSet | PodSet, tasks: list[Task], within: Within) -> bool:
    """Choose for the tasks of a set in the domain where it costs least (10.4)."""
    if member.constraint is None:
        return _choose_for_members(run, turn, member, tasks, within)
    best: tuple[tuple[int, int], Within] | None = None
    for domain in _domains_that_pay(run, turn, member, tasks, within):
        before, chosen, left = saved(run.session.world), [*turn.chosen], {key: [*v] for key, v in turn.left.items()}
        barred, kind, places = {*turn.barred}, turn.kind, dict(run.places)
        if _choose_for_members(run, turn, member, tasks, domain):
            more = turn.chosen[len(chosen) :]
            last = max((run.potential.index(chunk) for chunk in more), default=-1)
            cost = (sum(len(chunk.tasks) for chunk in more), last)
            best = (cost, domain) if best is None or cost < best[0] else best
        restore(before)
        turn.chosen[:], turn.left, turn.barred, turn.kind, run.places = chosen, left, barred, kind, places
    return best is not None and _choose_for_members(run, turn, member, tasks, best[1])


def _choose_for_members(run: Few, turn: Turn, member: GroupSet | PodSet, tasks: list[Task], within: Within) -> bool:
    if isinstance(member, PodSet):
        return all(_choose_node(run, turn, task, within) for task in tasks)
    return all(_choose_for_set(run, turn, each, its, within) for each, its in by_member(member, tasks))


def _domains_that_pay(
    run: Few, turn: Turn, member: GroupSet | PodSet, tasks: list[Task], within: Within
) -> list[Within]:
    """The domains of the required level that could hold the set, by value; where none is required, the topology."""
    gone = [task for chunk in run.potential if chunk not in turn.chosen for task in chunk.tasks]
    now, then = (
        measure(run.session.world, member, tasks, within),
        measure(run.session.world, member, tasks, within, gone),
    )
    turn.failed = tasks[0]
    if now is None or then is None:
        return []
    kept, points = now.kept(), now.points() if now.preferred and PREFERENCES_COUNT else within.points
    domains = sorted({path[: now.required] for path in now.paths.values()})
    return [
        Within(now.inside(domain), points)
        for domain in domains
        if (kept is None or domain in kept) and then.holds(domain) and (member.name, domain) not in run.refused
    ]


def _choose_node(run: Few, turn: Turn, task: Task, within: Within) -> bool:
    world = run.session.world
    if turn.kind is None or task.pod.shape != turn.kind:
        turn.kind, turn.barred = task.pod.shape, set()
    name = best_node(world, run.session.config, run.job, task, within.nodes, points=within.points)
    name = name or _clear_some(run, task, turn, within)
    if name is None:
        turn.failed = task
        return False
    run.places[task.pod.key], run.within[task.pod.key] = name, within
    move(world, run.job, task, "Pipelined", name)
    return True


def _relieve(run: Few, chosen: list[Chunk], left: dict[str, list[float]]) -> bool:
    """Let chunks go below the queue whose limit is in the way."""
    world, rest, last = run.session.world, iter(run.potential), None
    while (limit := _limit_in_the_way(run)) is not None:
        if run.is_move or limit == ("", 0):
            return False
        if limit != last:
            rest, last = iter(run.potential), limit
        name, r = limit
        for chunk in rest:
            if chunk in chosen:
                continue
            below = any(level.queue.name == name for level in world.accounts[chunk.job.queue].lineage())
            helps = below and any(task.costs(RESOURCES[r]) > 0 for task in chunk.tasks)
            if helps and _take_together(run, chunk, None, False, chosen, left)[0]:
                break
        else:
            return False
    return True


def _limit_in_the_way(run: Few) -> tuple[str, int] | None:
    """The queue and the resource; ("", 0) where it is a quota."""
    world, job, need = run.session.world, run.job, needs(run.pending)
    need[2] = sum(task.least for task in run.pending)
    for account in world.accounts[job.queue].lineage():
        for r in range(3):
            limit = account.share(r).limit
            if need[r] and limit != UNLIMITED and limit < account.allocated[r] + need[r]:
                return account.queue.name, r
    return None if may_take(world, job, run.pending) else ("", 0)


def _counts(run: Few, chunk: Chunk, left: dict[str, list[float]]) -> bool:
    """Whether shares let the chunk go after those before; if so it is counted in ``left``."""
    assert run.fairness
    return chunk not in run.kept and run.fairness.takes(chunk.job, chunk.tasks, left, needs(run.pending))


def _take(run: Few, chunk: Chunk, chosen: list[Chunk]) -> None:
    chosen.append(chunk)
    for task in chunk.tasks:
        evict(run.session.world, task)


def _clear_some(run: Few, task: Task, turn: Turn, within: Within) -> str | None:
    """Clear the cheapest node that can be cleared; its name."""
    chosen, left, barred = turn.chosen, turn.left, turn.barred
    touched = dict.fromkeys(
        home for chunk in run.potential for home in _homes(chunk) if home in run.session.world.machines
    )
    while True:
        offered = [name for name in turn.nodes or touched if name not in barred and name in within.nodes]
        costs = {name: _cost(run, task, name, chosen) for name in offered}
        known = {name: cost for name, cost in costs.items() if cost is not None}
        if not known:
            return None
        name = min(known, key=lambda each: known[each])
        many = len(chosen)
        here = sum(name in _homes(chunk) and chunk not in chosen for chunk in run.potential)
        # In the order of victims; where that is not enough, with those of one NUMA zone alone, zone by zone.
        for zone in (None, *zones_to_clear(task, run.session.world.machines[name])):
            for skipped in range(here + 1):
                before, counted = saved(run.session.world), {key: [*v] for key, v in left.items()}
                cleared = _clear(run, task, name, (skipped, zone), turn, chosen, left)
                if cleared:
                    for chunk in chosen[many:]:
                        barred -= set(_homes(chunk))
                    return name
                restore(before)
                del chosen[many:]
                left.clear()
                left.update(counted)
                if cleared is False:
                    break
        barred.add(name)


def _homes(chunk: Chunk) -> list[str]:
    """Where the tasks of a potential victim were when the search began."""
    return [task.shadow.node if task.shadow else task.node for task in chunk.tasks]


def _cost(run: Few, task: Task, name: str, chosen: list[Chunk]) -> int | None:
    """The place in the order of the last chunk that has to go, or, where all move, how many pods; None: too few."""
    machine = run.session.world.machines[name]
    if not accepts(empty(machine), task):
        return None
    gone: list[Task] = []
    number, last = 0, -1
    first = [chunk for chunk in run.potential if chunk not in chosen and _blocks(run, chunk, task, name)]
    for chunk in first:
        number, last = number + len(chunk.tasks), run.potential.index(chunk)
        gone += [each for each, home in zip(chunk.tasks, _homes(chunk), strict=True) if home == name]
    if first and _fits_without(task, machine, gone):
        return number if run.is_move else last
    for place, chunk in enumerate(run.potential):
        here = [each for each, home in zip(chunk.tasks, _homes(chunk), strict=True) if home == name]
        if chunk in chosen or chunk in first or not here:
            continue
        number += len(chunk.tasks)
        for each in here:
            gone.append(each)
            if _fits_without(task, machine, gone):
                return number if run.is_move else max(place, last)
    return None


def _blocks(run: Few, chunk: Chunk, task: Task, name: str) -> bool:
    """Whether a pod of the chunk has a host port of the task on the node, and the task may not be there for it."""
    machine = run.session.world.machines[name]
    # Pods of different size in number only: what counts is whether the node would be refused for ports.
    taken = any(in_the_way(other, task) and other.status != "Releasing" for other in machine.tasks)
    return taken and any(each.node == name and in_the_way(each, task) for each in chunk.tasks)


def _fits_without(task: Task, machine: Machine, gone: list[Task]) -> bool:
    """By what all of them hold together: on which devices parts of GPUs become free is another matter."""
    names = set(machine.idle) | {name for name, _ in task.pod.shape.request} | {"gpu"}
    return all(
        (task.part if name == "gpu" else task.asks(name))
        <= machine.loose(name, later=True) + sum(each.leaves(name) for each in gone if name in machine.idle)
        for name in names
    )


def _clear(
    run: Few,
    task: Task,
    name: str,
    left_out: tuple[int, int | None],
    turn: Turn,
    chosen: list[Chunk],
    left: dict[str, list[float]],
) -> bool | None:
    """Let the chunks on a node go but for the first few, and those that hold nothing of a certain zone; None where
    there is too little room and shares kept one.
    """
    world, (skipped, zone), moves = run.session.world, left_out, turn.moves
    machine = world.machines[name]
    refused = False
    dear = kind_of(task.pod) == "memory" and not may_take_on(world, run.job, task, name)
    blockers = [each for each in run.potential if each not in chosen and _blocks(run, each, task, name)]
    for chunk in blockers:
        taken, kept = (True, False) if chunk in chosen else _take_together(run, chunk, name, moves, chosen, left)
        if not taken:
            return None if kept and not moves else False
    if blockers and (fits(task, machine, later=True) or not accepts(machine, task)):
        return accepts(machine, task) and not dear
    for chunk in [each for each in run.potential if each not in chosen and name in _homes(each)][skipped:]:
        if chunk in chosen or not (zone is None or any(holds_of(each, name, zone) for each in chunk.tasks)):
            continue
        taken, kept = _take_together(run, chunk, name, moves, chosen, left)
        refused = refused or kept
        if taken and fits(task, machine, later=True):
            dear = kind_of(task.pod) == "memory" and not may_take_on(world, run.job, task, name)
            return accepts(machine, task) and not dear
    return None if refused and not moves else False


def _take_together(
    run: Few, chunk: Chunk, cleared: str | None, moves: bool, chosen: list[Chunk], left: dict[str, list[float]]
) -> tuple[bool, bool]:
    """Choose a chunk and those of its job that must not stay without it; whether shares kept somebody."""
    before, many, counted = saved(run.session.world), len(chosen), {key: [*v] for key, v in left.items()}
    refused = False
    for each in [*(other for other in run.potential if other not in chosen and goes_with(run, chunk, other)), chunk]:
        leaves = not run.is_move and (run.fairness is None or _counts(run, each, left))
        refused = refused or (not leaves and not run.is_move)
        gone = leaves or moves
        if gone:
            _take(run, each, chosen)
            gone = leaves or _move_away(run, each, cleared or "")
        if not gone:
            restore(before)
            del chosen[many:]
            left.clear()
            left.update(counted)
            return False, refused
    return True, refused


def goes_with(run: Few, chunk: Chunk, other: Chunk) -> bool:
    """Whether the other, an earlier chunk of the same job, has pods in a set that has nobody left without the chunk."""
    earlier = run.potential.index(other) < run.potential.index(chunk)
    if not earlier or other.job.group is not chunk.job.group:
        return False
    names = {name for name, pod_set in chunk.job.pod_sets.items() if name in chunk.emptied}
    first = other.tasks[0]
    assert first.job
    return any(first in pod_set.tasks for name, pod_set in first.job.pod_sets.items() if name in names)


def _move_away(run: Few, chunk: Chunk, cleared: str) -> bool:
    """Give the tasks of a chunk that was evicted places: at home, unless that is the node to be cleared."""
    world, config, job = run.session.world, run.session.config, real(run, chunk.job)
    offered = [name for name in world.machines if name != cleared]

    def give_place(task: Task, within: Within) -> bool:
        name = best_node(world, config, job, task, within.nodes, gates=False, points=within.points)
        if name is not None:
            come_back(world, task, name, home=False)
        return name is not None

    if any(task.pod.shape.unsupported for task in chunk.tasks):
        return False
    # Those that stay say in which domains the others may be.
    staying = [task for task in chunk.tasks if task.node and task.node != cleared]
    for task in staying:
        come_back(world, task, task.node, home=True)
    moving = [task for task in chunk.tasks if task not in staying]
    return place_or_undo(world, job, moving, give_place, offered)
