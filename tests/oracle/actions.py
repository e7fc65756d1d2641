"""All five actions on a cluster (semantics 3 to 7, 11): what a whole cycle decides, the slow and obvious way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kai_sched import Cluster, Config
from tests.oracle.allocate import allocate_in, in_the_way, may_run, move, waits_for_minimum
from tests.oracle.background import let_return, set_aside
from tests.oracle.chunk import next_chunk, task_order
from tests.oracle.devices import device_memory, held
from tests.oracle.minimal import search_few
from tests.oracle.minimal_scenario import Few, come_back_all, fits_at_home, may_return
from tests.oracle.order import JobTree
from tests.oracle.reclaim import Fairness, may_reclaim, needs, reclaim_pool
from tests.oracle.records import Elsewhere
from tests.oracle.search import Search, search
from tests.oracle.signature import Memory
from tests.oracle.topology import may_stay
from tests.oracle.trial import Eviction, Session, is_evicted, restore, saved
from tests.oracle.victims import Chunk, Protection, active_tasks, can_leave
from tests.oracle.world import (
    ACTIVE,
    UNLIMITED,
    USED,
    GroupSet,
    Job,
    Machine,
    PodSet,
    Task,
    World,
    charge,
    put,
    ready,
    world_of,
)
from tests.oracle.zones import meets_leaving

NOT_KEPT = ("stalegangeviction", "backgroundpods")  # by whom evictions are not taken back when there is room


@dataclass(frozen=True)
class Decided:
    """``pods``: key to (status, node) at the end; ``placed``: the pods that allocate placed, in turn."""

    pods: dict[str, tuple[str, str]]
    evictions: tuple[Eviction, ...]
    placed: tuple[str, ...]
    world: World


def decide(cluster: Cluster, config: Config, now_ns: int, elsewhere: Sequence[Elsewhere] = ()) -> Decided:
    session = Session(world_of(cluster, config, now_ns, elsewhere), config, now_ns)
    set_aside(session)
    placed: list[str] = []
    for action in config.actions:
        if action == "allocate":
            found = allocate_in(session.world, config)
            placed += found
            session.placed += found
        else:
            ACTIONS[action](session)
    _take_back(session.world)
    _count_again(session.world)
    background = any(job.background for job in session.world.jobs)
    minimal = config.victims == "minimal" and (background or any(action != "allocate" for action in config.actions))
    if minimal:
        _let_stay(session)
    placed += let_return(session)
    if minimal:
        _mend_torn(session.world)
        _bind_what_is_free(session)
    pods = {task.pod.key: (task.status, _seen_on(task)) for task in session.world.tasks}
    return Decided(pods, tuple(session.evictions), tuple(placed), session.world)


def _seen_on(task: Task) -> str:
    """The node that users see it on: one that leaves is on the node where it runs, wherever it was to move."""
    return task.pod.node or task.node if task.status == "Releasing" else task.node


def _take_back(world: World) -> None:
    """Take back what moved pods were promised on nodes that cannot keep it."""
    for job in world.jobs:
        for name in sorted(job.pod_sets):
            for task in task_order(job.pod_sets[name].tasks):
                machine = world.machines.get(task.node)
                if not task.shadow or task.status != "Pipelined" or not machine:
                    continue
                if any(machine.room(resource, later=True) < 0 for resource in machine.idle):
                    task.before = task.status
                    move(world, job, task, "Releasing", task.node)
                    task.node = task.pod.node or task.node  # where it leaves


def _let_stay(session: Session) -> None:
    """Take evictions back, those decided last first, as long as there is room for somebody where it runs."""
    anybody = True
    while anybody:
        anybody = False
        for eviction in reversed([*session.evictions]):
            task = next(each for each in session.world.tasks if each.pod.key == eviction.pod)
            is_away = task.status in ("Releasing", "Pipelined")
            if is_away and eviction.action not in NOT_KEPT and _stays(session, task):
                anybody = True
    away = {task.pod.key for task in session.world.tasks if task.status in ("Releasing", "Pipelined")}
    session.evictions = [each for each in session.evictions if each.pod in away]


def _stays(session: Session, task: Task) -> bool:
    """Whether the task, or another of its job that was evicted, can stay where it runs."""
    world, job = session.world, task.job
    home = world.machines.get(task.shadow.node if task.shadow else task.node)
    if not job or not home or not fits_at_home(task.shadow or task, home):
        return False
    if task.shadow:
        # as if the place that it was promised were given up
        before, stays = saved(world), task.shadow
        move(world, job, task, "Releasing", "")
        if not may_return(home, stays) or not may_stay(world, job.root, task, home.node.name):
            restore(before)
            return False
        session.placed.remove(task.pod.key)
        put(home, stays, -1)
        task.shadow, task.devices, task.zones = None, stays.devices, stays.zones
        move(world, job, task, task.before, home.node.name)
        return True
    evicted = {each.pod for each in session.evictions if each.action not in NOT_KEPT}
    for each in job.tasks:
        each.virtual = each.pod.key in evicted and each.status == "Releasing"
    stayed = come_back_all(session, job, moving=False)
    for each in job.tasks:
        each.virtual = False
    return bool(stayed)


def _mend_torn(world: World) -> None:
    """A job of whose minimum somebody has to wait waits with all that it got in this cycle."""
    for job in world.jobs:
        torn = waits_for_minimum(job)
        for task in job.tasks:
            if torn and task.start == "Pending" and task.status == "Binding":
                move(world, job, task, "Pipelined", task.node)


def _bind_what_is_free(session: Session) -> None:
    """Bind the jobs for which nobody has to leave, whose places are free already: first promised, first served."""
    world = session.world
    waits_for_others = {each.cause for each in session.evictions}
    gone = {each.pod for each in session.evictions}
    present = {name: _as_it_is(machine, world) for name, machine in world.machines.items()}
    there_before = [task for task in world.tasks if task.start in USED]
    leave = {task.pod.key for task in there_before if task.start == "Releasing" or task.status != task.start}
    for key in session.placed:
        job = next((each for each in world.jobs for task in each.tasks if task.pod.key == key), None)
        if job is None or job.group.key in waits_for_others:
            continue
        waits = [task for task in job.tasks if task.status == "Pipelined"]
        if not waits:
            continue
        waits_for_others.add(job.group.key)
        good = all(task.start == "Pending" and task.pod.key not in gone for task in waits)
        there = [replace(task, status="Running") for task in waits]
        for task in there:
            put(present[task.node], task)
            good = good and _has_enough(present[task.node], task)
            beside = present[task.node].tasks
            good = good and not meets_leaving(task, [other for other in beside if other.pod.key in leave])
            good = good and not any(in_the_way(other, task) for other in beside)
        for task, copy in zip(waits, there, strict=True):
            if good:
                move(world, job, task, "Binding", task.node)
            else:
                put(present[task.node], copy, -1)


def _as_it_is(machine: Machine, world: World) -> Machine:
    """The node with all pods that are there now, whoever is to leave, and those that are to be bound to it."""
    idle = {name: amount for name, amount in machine.node.allocatable.items() if amount}
    present = replace(machine, idle=idle, releasing={}, tasks=[])
    for task in world.tasks:
        if task.start in USED and (task.pod.node or task.node) == machine.node.name:
            first = {"devices": task.first_devices, "zones": task.first_zones}
            put(present, replace(task, status="Running", node=machine.node.name, **first))
        elif task.start == "Pending" and task.status == "Binding" and task.node == machine.node.name:
            put(present, replace(task, status="Running"))
    return present


def _has_enough(present: Machine, task: Task) -> bool:
    """Whether the node has not less than nothing of what the pod takes, and its devices the memory that they hold."""
    asked = [name for name, amount in task.pod.shape.request if amount]
    if not task.pod.shape.share:
        return all(present.room(name, later=False) >= 0 for name in asked)
    now, memory = held(present, later=False), device_memory(present.node)
    return all(now[d] <= memory for d in task.devices) and all(
        present.room(name, later=False) >= 0 for name in [*asked, "gpu"]
    )


def _count_again(world: World) -> None:
    """Let queues hold what their pods do: what was paid back too often while it was tried is not what they end with."""
    for account in world.accounts.values():
        account.allocated, account.fixed = [*account.held_elsewhere], [*account.fixed_elsewhere]
    for job in [job for job in world.jobs if job.queue in world.accounts]:
        for task in [task for task in job.tasks if task.status in ACTIVE]:
            charge(world.accounts[job.queue], task, not job.preemptible)


def candidates(session: Session, action: str) -> Iterator[Job]:
    """The jobs that the action may help, each once, in job order (3.1) as shares stand when it is asked for."""
    world = session.world
    jobs = [job for job in world.jobs if may_run(world, job) and not job.background and not _delayed(session, job)]
    if action == "consolidation":
        jobs = [job for job in jobs if job.preemptible]
    tree = JobTree(world, jobs, session.config.queue_depth.get(action))
    while (job := tree.pop()) is not None:
        if next_chunk(job):  # else a search for another job took it along, or took what it needs
            yield job


def _delayed(session: Session, job: Job) -> bool:
    """Too soon after the job was made, or after it last lost a pod (11.4)."""
    group = job.group
    since_ns = max(group.created_ns, group.last_eviction_ns)
    return group.preemption_delay_s > 0 and session.now_ns < since_ns + group.preemption_delay_s * 1e9


def _helpless(world: World, job: Job) -> bool:
    """The victim-invariant check (12.1): some pod is larger than the largest node, or of a kind that nothing is for."""
    nodes = [machine.node for machine in world.machines.values()]
    return any(
        task.pod.shape.unsupported or amount > max((node.allocatable.get(resource, 0.0) for node in nodes), default=0.0)
        for task in next_chunk(job)
        for resource, amount in [*task.pod.shape.request, ("gpu", task.part)]
    )


def _look(
    session: Session,
    job: Job,
    pool: list[Job],
    valid: Callable[[list[Chunk], Job], bool],
    action: str,
    fairness: Fairness | None = None,
    moves: bool = False,
) -> bool:
    """Look for victims the way that the config names, and carry out what is found."""
    if session.config.victims == "minimal":
        return search_few(Few(session, job, pool, valid, action, fairness, moves))
    return search(Search(session, job, pool, valid), action)


def reclaim(session: Session) -> None:
    """The reclaim action (4.1)."""
    memory = Memory(session.config, by_queue=True)
    protection = Protection(session.world, session.config, session.now_ns, "reclaim")
    for job in candidates(session, "reclaim"):
        by = [steady for steady in (False, True) if may_reclaim(session.world, job, steady)]
        if not by or memory.hopeless(job) or _helpless(session.world, job):
            continue
        if not any(_reclaim_for(session, job, protection, steady) for steady in by):
            memory.note(job)


def _reclaim_for(session: Session, job: Job, protection: Protection, steady: bool) -> bool:
    fairness = Fairness(session, job, steady)

    def valid(victims: list[Chunk], part: Job) -> bool:
        return fairness.allows(victims, part) and protection.allows(victims, job)

    pool, moves = reclaim_pool(session, job, protection, steady), session.config.allow_consolidating_reclaim
    return _look(session, job, pool, valid, "reclaim", fairness, moves)


def preempt(session: Session) -> None:
    """The preempt action (semantics 5)."""
    memory = Memory(session.config, by_queue=True)
    world = session.world
    protection = Protection(world, session.config, session.now_ns, "preempt")
    for job in candidates(session, "preempt"):
        if memory.hopeless(job) or _helpless(world, job) or not _within_quota(world, job):
            continue
        pool = [
            victim
            for victim in world.jobs
            if victim.queue == job.queue
            and victim.preemptible
            and victim.priority < job.priority
            and _can_leave(world, victim)
            and not protection.spares(victim, job)
        ]

        def valid(victims: list[Chunk], _part: Job, job: Job = job) -> bool:
            return protection.allows(victims, job)

        if not _look(session, job, pool, valid, "preempt"):
            memory.note(job)


def _within_quota(world: World, job: Job) -> bool:
    """The quota gate (3.4) for work that cannot be preempted."""
    asks = needs(next_chunk(job))
    return job.preemptible or all(
        not asks[r] or a.share(r).quota == UNLIMITED or a.fixed[r] + asks[r] <= a.share(r).quota
        for a in world.accounts[job.queue].lineage()
        for r in range(3)
    )


def _can_leave(world: World, victim: Job) -> bool:
    """Whether it has pods to evict, of which one is on a node that is known or on none."""
    return can_leave(victim) and any(task.node in world.machines or not task.node for task in active_tasks(victim))


def consolidation(session: Session) -> None:
    """Consolidation (semantics 6). The limit bounds how many jobs one consolidation moves, in whatever order."""
    most = session.config.max_consolidation_preemptees
    if most == 0:
        return
    memory = Memory(session.config, by_queue=False)
    world = session.world
    for job in candidates(session, "consolidation"):
        if memory.hopeless(job) or _helpless(world, job) or not _enough_in_all(world, job):
            continue
        pool = [
            victim
            for victim in world.jobs
            if victim is not job
            and victim.preemptible
            and all(task.pod.safe_to_consolidate for task in victim.tasks)
            and victim.queue in world.accounts
            and not world.accounts[victim.queue].children
            and _can_leave(world, victim)
        ]

        def valid(victims: list[Chunk], _part: Job) -> bool:
            tasks = [task for chunk in victims for task in chunk.tasks]
            moved = {task.job for task in tasks if is_evicted(task) and not _keeps_promise(task)}
            return all(task.status != "Releasing" for task in tasks) and (most < 0 or len(moved) <= most)

        if not _look(session, job, pool, valid, "consolidation"):
            memory.note(job)


def _keeps_promise(task: Task) -> bool:
    """Whether a pod that was promised a place in this cycle is promised one on the same node again."""
    return bool(task.shadow and task.before == task.status and task.node == task.shadow.node)


def _enough_in_all(world: World, job: Job) -> bool:
    """Whether all ready nodes together have the GPUs, now or later."""
    machines = [machine for machine in world.machines.values() if ready(machine.node)]
    asked = sum(task.part for task in next_chunk(job))
    return asked <= 0 or asked <= sum(machine.loose("gpu", later=True) for machine in machines)


def evict_stale_gangs(session: Session) -> None:
    """Stale gangs (semantics 7): the tree of sub-groups says what a job needs (semantics 16)."""
    for job in session.world.jobs:
        if not _is_stale(job):
            continue
        grace_s = job.group.staleness_grace_s
        grace_s = session.config.staleness_grace_s if grace_s is None else grace_s
        first_ns = job.group.stale_since_ns or session.now_ns
        if grace_s >= 0 and session.now_ns - first_ns >= grace_s * 1e9:
            for task in [task for task in job.tasks if task.status in ACTIVE]:
                session.evictions.append(Eviction(task.pod.key, "stalegangeviction", ""))
                move(session.world, job, task, "Releasing", task.node)


def _is_stale(job: Job) -> bool:
    used = any(task.status in USED for task in job.tasks)
    return used and all(task.status != "Succeeded" for task in job.tasks) and not _complete(job.root)


def _complete(member: GroupSet | PodSet) -> bool:
    if isinstance(member, PodSet):
        return sum(task.status in USED for task in member.tasks) >= member.minimum
    return sum(map(_complete, member.members)) >= member.minimum


ACTIONS: dict[str, Callable[[Session], None]] = {
    "consolidation": consolidation,
    "reclaim": reclaim,
    "preempt": preempt,
    "stalegangeviction": evict_stale_gangs,
}
