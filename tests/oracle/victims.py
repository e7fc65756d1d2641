"""Who is robbed first (semantics 4.3), how much of it at a time (4.4), and whom its minimum runtime protects (11.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kai_sched import Config
from kai_sched.model.times import parse_duration
from tests.oracle.chunk import held, job_key, member_order, satisfied, task_order
from tests.oracle.order import Branch, JobTree, account_before
from tests.oracle.world import ACTIVE, ALLOCATED, RESOURCES, USED, Account, GroupSet, Job, PodSet, Task, World

# Whether pods that were only promised a place in this cycle may lose it to others. Semantics 0.1 counts them as
# active, and so do the conformance data: of the 192 random clusters 185 hold with it, 176 without.
PROMISES_CAN_BE_TAKEN = True


@dataclass
class Chunk:
    """Pods of one job that leave together."""

    job: Job
    tasks: list[Task]
    emptied: frozenset[str] = frozenset()  # pod sets of which nobody is left without these and what left before


def part_of(job: Job, keep: Callable[[Task], bool]) -> Job:
    """The job as if it had only the tasks that are to be kept; the tasks themselves are the job's own."""
    pod_sets: dict[str, PodSet] = {}

    def rebuilt(member: GroupSet | PodSet) -> GroupSet | PodSet:
        if isinstance(member, GroupSet):
            members = [rebuilt(each) for each in member.members]
            return GroupSet(member.name, member.wanted, members, member.constraint)
        kept = [task for task in member.tasks if keep(task)]
        pod_sets[member.name] = PodSet(member.name, member.minimum, kept, member.constraint)
        return pod_sets[member.name]

    root = rebuilt(job.root)
    assert isinstance(root, GroupSet)
    pod_sets = {name: pod_sets[name] for name in job.pod_sets}
    return Job(job.group, job.name, job.queue, job.priority, job.preemptible, job.age, root, pod_sets)


def may_leave(task: Task) -> bool:
    return task.status in ACTIVE and (PROMISES_CAN_BE_TAKEN or task.status != "Pipelined")


def active_tasks(job: Job) -> list[Task]:
    """The tasks that can be evicted, in task order, pod set by pod set: level by level, siblings by name."""
    found: list[Task] = []
    level: list[GroupSet | PodSet] = [job.root]
    while level:
        found += [task for member in level if isinstance(member, PodSet) for task in _active(member)]
        sets = [member for member in level if isinstance(member, GroupSet)]
        level = [each for member in sets for each in sorted(member.members, key=lambda one: one.name)]
    return found


def can_leave(job: Job) -> bool:
    """Whether it has pods to evict, none of which uses what is not supported: those cannot be placed again here."""
    active = active_tasks(job)
    return bool(active) and not any(task.pod.shape.unsupported for task in active)


def victim_chunk(job: Job) -> Chunk:
    """Surplus pods one by one, then surplus sub-groups whole, then all that is left."""
    tasks, emptied = _surplus(job.root)
    return Chunk(job, tasks, emptied) if tasks else Chunk(job, active_tasks(job), frozenset(job.pod_sets))


def _surplus(group_set: GroupSet) -> tuple[list[Task], frozenset[str]]:
    """The pods, and the names of the pod sets that they leave with nobody."""
    nothing: frozenset[str] = frozenset()
    if not any(map(satisfied, group_set.members)):
        return [], nothing
    members = member_order(group_set.members)[::-1]
    for member in members:
        if isinstance(member, GroupSet):
            found = _surplus(member)
        else:
            found = (_active(member)[-1:] if member.active > member.minimum else [], nothing)
        if found[0]:
            return found
    if held(group_set) > group_set.minimum:
        return next(((_active(each), _names(each)) for each in members if _active(each)), ([], nothing))
    return [], nothing


def _names(member: GroupSet | PodSet) -> frozenset[str]:
    """The pod sets at or below the member."""
    if isinstance(member, PodSet):
        return frozenset({member.name})
    return frozenset(name for each in member.members for name in _names(each))


def _active(member: GroupSet | PodSet) -> list[Task]:
    """The active tasks at or below the member, in task order within each pod set."""
    if isinstance(member, PodSet):
        return task_order([task for task in member.tasks if may_leave(task)])
    return [task for each in member.members for task in _active(each)]


class VictimTree(JobTree):
    """The tree of jobs (3.1) with both comparisons turned round."""

    def __init__(self, world: World, jobs: list[Job]) -> None:
        self.popped: dict[str, list[list[float]]] = {}
        super().__init__(world, jobs)

    def _joins_for(self, *_jobs: list[Job]) -> Job | None:
        return None

    def pop(self) -> Job | None:
        job = super().pop()
        if job:
            self.popped.setdefault(job.queue, []).append(_holds(job))
        return job

    def _before(self, left: Branch | Job, right: Branch | Job) -> bool:
        if isinstance(left, Job) and isinstance(right, Job):
            return bool(job_key(left) > job_key(right))
        assert isinstance(left, Branch)
        assert isinstance(right, Branch)
        assert left.account is not None
        assert right.account is not None
        nothing = [0.0] * 3
        changes = [(nothing, self._leaving(right)), (nothing, self._leaving(left))]
        return account_before(right.account, left.account, changes, self.total)

    def _leaving(self, branch: Branch) -> list[float]:
        """What has been popped of the branch's best leaf, and its head, as a change of the share (2.6, step 5)."""
        head = branch.best()
        gone = [*self.popped.get(head.queue, []), _holds(head)]
        return [-sum(amounts[r] for amounts in gone) for r in range(3)]


def _holds(job: Job) -> list[float]:
    return [sum(task.costs(resource) for task in job.tasks if task.status in ALLOCATED) for resource in RESOURCES]


def accumulate(world: World, pool: list[Job], recorded: list[Task]) -> Iterator[Chunk]:
    """Victim chunks in their order."""
    tree = VictimTree(world, pool)
    while (job := tree.pop()) is not None:
        chunk = victim_chunk(job)
        spent = recorded if any(task in recorded for task in chunk.tasks) else chunk.tasks
        left = part_of(job, lambda task, spent=spent: task not in spent)  # type: ignore[misc]
        if active_tasks(left):
            tree.push(left)
        if spent is chunk.tasks:
            yield chunk


def is_elastic(job: Job) -> bool:
    return any(pod_set.minimum < len(pod_set.tasks) for pod_set in job.pod_sets.values())


class Protection:
    """Minimum runtimes (11.1), for victims of one action."""

    def __init__(self, world: World, config: Config, now_ns: int, action: str) -> None:
        self.world, self.now_ns, self.action = world, now_ns, action
        arguments = config.plugins.get("minruntime")
        self.on = arguments is not None
        given = arguments or {}
        self.default_s = _seconds(given.get(f"default{action.capitalize()}MinRuntime", ""))
        self.by_queue = given.get("reclaimResolveMethod") == "queue"

    def holds(self, victim: Job, pending: Job) -> bool:
        """Whether the victim started too recently to be robbed for the pending job."""
        if not self.on or not victim.group.last_start_ns:
            return False
        return self.now_ns < victim.group.last_start_ns + self._value_s(victim, pending) * 1e9

    def spares(self, victim: Job, pending: Job) -> bool:
        """Whether the victim is not even offered."""
        return self.holds(victim, pending) and not is_elastic(victim)

    def allows(self, victims: list[Chunk], pending: Job) -> bool:
        """Whether every protected victim keeps its minimums."""
        for name in dict.fromkeys(chunk.job.group.key for chunk in victims):
            tasks = [task for chunk in victims if chunk.job.group.key == name for task in chunk.tasks]
            job = tasks[0].job
            assert job
            if not self.holds(job, pending):
                continue
            for pod_set in job.pod_sets.values():
                taken = sum(task in tasks for task in pod_set.tasks)
                if taken and sum(task.status in USED for task in pod_set.tasks) - taken < pod_set.minimum:
                    return False
        return True

    def _value_s(self, victim: Job, pending: Job) -> float:
        accounts = self.world.accounts
        path = accounts[victim.queue].lineage()
        if self.action == "reclaim" and not self.by_queue:
            path = self._below_common(path, accounts[pending.queue].lineage())
        for account in path:
            queue = account.queue
            value = queue.preempt_min_runtime_s if self.action == "preempt" else queue.reclaim_min_runtime_s
            if value is not None:
                return value
        return self.default_s

    def _below_common(self, path: list[Account], other: list[Account]) -> list[Account]:
        """From one step below the lowest common ancestor upwards; of queues with different roots, the victim's root."""
        if path[-1] is not other[-1]:
            return path[-1:]
        below = [account for account in path if account not in other]
        return path[len(below) - 1 :]


def _seconds(text: str) -> float:
    try:
        return max(0.0, parse_duration(text, long_units=True)) if text else 0.0
    except ValueError:
        return 0.0
