"""The search for few victims, the slow and obvious way: chunks that make room, chosen node by node, none in vain.

Bounds that only spare the search what cannot work are left out, but for one: a gang is first tried when the pods of
each of its kinds, counted by itself, would have room with all potential victims gone.
"""

from __future__ import annotations

from tests.oracle.allocate import accepts
from tests.oracle.chunk import next_chunk
from tests.oracle.minimal_choice import choose, goes_with
from tests.oracle.minimal_scenario import Few, empty, real, simulate
from tests.oracle.reclaim import needs
from tests.oracle.topology import is_constrained, levels_of, path_of
from tests.oracle.trial import commit, restore, saved
from tests.oracle.victims import Chunk, accumulate
from tests.oracle.world import USED, GroupSet, Job, Machine, PodSet, Task

MOST_KINDS = 4


def search_few(run: Few) -> bool:
    """Find victims for the job's next chunk and give it places; whether that worked."""
    run.pending = run.asked = next_chunk(run.job)
    if not run.pending:
        return False
    pool = [job for job in run.pool if job not in run.session.settled]
    if run.fairness is None:
        return _search_among(run, pool, run.is_move)
    # Moves are evictions, too: at first only those take part who may leave. Who moves needs room that is free now.
    need = needs(run.pending)
    free, lacks = _free(run), sum(task.part for task in run.pending)
    if free < lacks:
        givers = [job for job in pool if run.fairness.may_take(job, {}, need)]
        alone = [job for job in givers if run.fairness.may_leave_alone(job, [0.0, 0.0, 1.0], need)]
        for among in [alone] * (len(run.pending) == 1) + [givers]:
            if _search_among(run, among, False):
                return True
        if not run.moves or (free == 0 and lacks > 0):
            return False
    return _search_among(run, pool, run.moves)


def _free(run: Few) -> float:
    """The GPUs of all nodes that nobody holds later, parts included."""
    return sum(max(0.0, machine.loose("gpu", later=True)) for machine in run.session.world.machines.values())


def _search_among(run: Few, pool: list[Job], moves: bool) -> bool:
    """Find victims among these jobs; with ``moves`` those that may not leave for good go elsewhere."""
    world, run.potential, run.kept = run.session.world, [], []
    # Who has host ports may find them taken on nodes with room, so the victim that came last says little. So it does
    # where the cheapest domain is looked for.
    single = len(run.pending) == 1 and not run.is_move and not run.pending[0].pod.shape.host_ports
    single = single and not is_constrained(run.job.root)
    due, pause, tried = 0, 1, False
    # GPUs that all nodes together lack with those gone who may leave by themselves: else a move makes no room
    lacking = sum(task.part for task in run.pending) - _free(run)
    for steps, step in enumerate(accumulate(world, pool, []), 1):
        run.potential.append(step)
        tried = False
        gives = run.fairness is None or run.fairness.takes(step.job, step.tasks, {}, needs(run.pending))
        lacking -= sum(task.part for task in step.tasks) if gives else 0.0
        if run.is_move or steps < due or not _may_suffice(run):
            continue
        last = step.tasks[0].job
        assert last
        hosts = {task.node for task in last.tasks if task.status in USED} & set(world.machines)
        if _attempt(
            run, sorted(hosts) if single else None, gives or not single, moves and (not single or lacking <= 0)
        ):
            return True
        tried = not single
        if not single:
            due, pause = steps + pause, 2 * pause
    # Without anybody to evict there is nothing to search.
    return bool(run.potential) and not tried and _may_suffice(run) and _attempt(run, None, not run.is_move, moves)


def _slots(kind: Task, machine: Machine, gone: list[Task]) -> int:
    if not accepts(empty(machine), kind):
        return 0
    names = set(machine.idle) | {name for name, _ in kind.pod.shape.request}
    counts = []
    for name in names | {"gpu"}:
        asked = kind.part if name == "gpu" else kind.asks(name)
        free = machine.loose(name, later=True)
        here = [task for task in gone if task.node == machine.node.name and name in machine.idle]
        free += sum(task.leaves(name) for task in here)
        if asked > 0:
            counts.append(max(0, int(free // asked)))
        elif free < 0:
            return 0
    return min(counts, default=0)


def _may_suffice(run: Few) -> bool:
    """Whether each of the first kinds of the pending tasks, counted by itself, would have room with all gone."""
    gone = [task for chunk in run.potential for task in chunk.tasks]
    kinds: list[tuple[Task, int]] = []
    for task in run.pending:
        same = [k for k, (kind, _count) in enumerate(kinds) if kind.pod.shape == task.pod.shape]
        if same:
            kinds[same[0]] = (kinds[same[0]][0], kinds[same[0]][1] + 1)
        elif len(kinds) < MOST_KINDS:
            kinds.append((task, 1))
    machines = run.session.world.machines.values()
    return all(sum(_slots(kind, machine, gone) for machine in machines) >= count for kind, count in kinds)


def _attempt(run: Few, nodes: list[str] | None, leaving: bool = True, moving: bool = True) -> bool:
    for moves in (False, True):
        if not (moving if moves else leaving):
            continue
        if moves != run.is_move and not (moves and run.moves):
            continue
        before = saved(run.session.world)
        run.refused = set()
        chosen = choose(run, nodes, moves)
        while chosen is not None and not simulate(run, chosen):
            chosen = choose(run, nodes, moves) if _keep_last(run, chosen) or _refuse_domain(run) else None
        if chosen is None:
            continue
        restore(before)
        _spare(run, chosen)
        assert simulate(run, chosen)
        _carry_out(run, chosen)
        return True
    return False


def _keep_last(run: Few, chosen: list[Chunk]) -> bool:
    """Let one more chunk of the queue that would take the room back, the last, not leave; whether there is one."""
    accounts = run.session.world.accounts
    theirs = [chunk for chunk in chosen if run.retaken and run.retaken in accounts[chunk.job.queue].lineage()]
    theirs = [chunk for chunk in theirs if chunk not in run.kept]
    run.kept += theirs[-1:]
    return bool(theirs)


def _refuse_domain(run: Few) -> bool:
    """Let the next domain pay for the first set with a constraint (10.4); whether there may be one."""
    first = run.pending[0]
    member: GroupSet | PodSet | None = run.job.root
    while member is not None and member.constraint is None:
        members = member.members if isinstance(member, GroupSet) else []
        member = next((each for each in members if first in each.tasks), None)
    if member is None or member.constraint is None:
        return False
    topology = run.session.world.topologies[member.constraint.topology]
    levels = levels_of(topology, member.constraint)
    path = path_of(topology, run.session.world.machines[run.places[first.pod.key]])
    if not levels or not levels[0] or path is None:
        return False
    run.refused.add((member.name, path[: levels[0]]))
    return True


def _carry_out(run: Few, chosen: list[Chunk]) -> None:
    """Whoever has got a place keeps it in this cycle, and the order in which places were given is remembered."""
    session, tasks = run.session, [task for chunk in chosen for task in chunk.tasks]
    places = [*run.pending, *run.returned]
    commit(session, tasks, run.action, run.job.group.key)
    gone = [task.pod.key for task in tasks if task.status in ("Releasing", "Pipelined")]
    new = [task.pod.key for task in places if task.status == "Pipelined"]
    session.placed = [key for key in session.placed if key not in gone and key not in new] + new
    for job in [run.job, *(real(run, chunk.job) for chunk in chosen)]:
        if any(task.status == "Pipelined" for task in job.tasks) and job not in session.settled:
            session.settled.append(job)


def _spare(run: Few, chosen: list[Chunk]) -> None:
    """Leave out each chunk without which the rest is good, the most deserving first, until none can be."""
    anybody = True
    while anybody:
        anybody = False
        for chunk in sorted(chosen, key=run.potential.index, reverse=True):
            if any(goes_with(run, other, chunk) for other in chosen):
                continue
            before = saved(run.session.world)
            rest = [each for each in chosen if each is not chunk]
            if simulate(run, rest):
                restore(before)
                chosen[:] = rest
                anybody = True
