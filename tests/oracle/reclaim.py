"""Reclaim: who may take from whom (semantics 4.1, 4.2), and whether a scenario is fair (4.7)."""

from __future__ import annotations

import math

from tests.oracle.chunk import next_chunk
from tests.oracle.devices import HUNDREDTHS, has_devices, held, holds, size
from tests.oracle.order import lacks_steady_share, share_of
from tests.oracle.trial import Session
from tests.oracle.victims import Chunk, Protection, can_leave
from tests.oracle.world import ACTIVE, RESOURCES, UNLIMITED, Account, Job, Task, World, ready

Vector = list[float]


def may_reclaim(world: World, job: Job, steady: bool = False) -> bool:
    """The gate: with what it asks for the queue stays within its fair share, and fixed work within the quota.

    ``steady``: instead of the first it asks for GPUs, of which its queue lacks some of its steady share (4.9).
    """
    account, asks = world.accounts[job.queue], needs(next_chunk(job))
    if steady and not lacks_steady_share(account, asks[2]):
        return False
    if not steady and not within(plus(account.allocated, asks), account.fair):
        return False
    return job.preemptible or within(plus(account.fixed, asks), quota(account))


def reclaim_pool(session: Session, job: Job, protection: Protection, steady: bool) -> list[Job]:
    world = session.world
    return [
        victim
        for victim in world.jobs
        if victim.queue in world.accounts
        and victim.queue != job.queue
        and not world.accounts[victim.queue].children
        and victim.preemptible
        and can_leave(victim)
        and not protection.spares(victim, job)
        and _has_surplus(world, victim, job, steady)
    ]


def _has_surplus(world: World, victim: Job, job: Job, steady: bool) -> bool:
    """The share filter: whether anything may be taken from the victim's queue at all."""
    mine, theirs = diverge(world, job, victim)
    if steady:
        return lacks_steady_share(mine, needs(next_chunk(job))[2]) and theirs.allocated[2] > theirs.keep
    asks = needs(next_chunk(job))
    if not within(plus(mine.allocated, asks), quota(mine)):
        return not within(theirs.allocated, entitled(theirs))
    looked_at = [r for r in range(3) if asks[r] > 0 and theirs.share(r).quota != UNLIMITED]
    above = any(theirs.allocated[r] > theirs.share(r).quota for r in looked_at)
    if asks[2] > 0 and world.config.victims == "minimal":
        due = mine.allocated[2] + blocked(world, mine) + devices(next_chunk(job)) <= quota(mine)[2] + 1e-6
        above = above or (due and theirs.allocated[2] + blocked(world, theirs) > quota(theirs)[2] + 1e-6)
    below = any(theirs.allocated[r] < theirs.share(r).quota for r in looked_at)
    return above or not below


def diverge(world: World, job: Job, victim: Job) -> tuple[Account, Account]:
    """The queues, at or above those of the two jobs, in which their paths from the root first differ."""
    paths = [world.accounts[each.queue].lineage()[::-1] for each in (job, victim)]
    return next((mine, theirs) for mine, theirs in zip(*paths, strict=False) if mine is not theirs)


class Fairness:
    """The validator. ``held`` is what the queues held before anything was tried, by name, and the GPUs besides that
    their parts kept from others.
    """

    def __init__(self, session: Session, job: Job, steady: bool = False) -> None:
        self.session, self.job, self.steady = session, job, steady
        accounts = session.world.accounts
        self.minimal = session.config.victims == "minimal"
        self.blocked = blocked_by_pods(session.world) if self.minimal else {}
        self.held = {
            name: [*account.allocated, blocked(session.world, account) if self.minimal else 0.0]
            for name, account in accounts.items()
        }
        self.fixed = {name: [*account.fixed] for name, account in accounts.items()}
        shares = any(task.pod.shape.share for task in next_chunk(job)[:1])
        self.free = [
            [machine.loose(r, later=True) if shares else machine.room(r, later=True) for r in RESOURCES]
            for machine in session.world.machines.values()
            if ready(machine.node)
        ]
        self.lacks_devices = shares and any(
            not has_devices(next_chunk(job)[0], machine, later=True)
            for machine in session.world.machines.values()
            if ready(machine.node)
        )
        arguments = session.config.plugins.get("proportion", {})
        try:
            self.multiplier = max(1.0, float(arguments.get("relcaimerSaturationMultiplier", "1")))
        except ValueError:
            self.multiplier = 1.0

    def allows(self, victims: list[Chunk], part: Job) -> bool:
        asks = needs(part.chunk or [])
        left: dict[str, Vector] = {}
        taken: dict[str, Vector] = {}
        accounts = self.session.world.accounts
        tasks = [task for chunk in victims for task in chunk.tasks]
        if self.session.config.allow_consolidating_reclaim:
            tasks = [task for task in tasks if task.status not in ACTIVE]
        queues = {task.job.queue for task in tasks if task.job}
        for queue in sorted(queues, key=lambda name: (accounts[name].queue.uid, name)):
            for job, chunk in _portions(tasks, queue):
                if not self.may_take(job, left, asks):
                    return False
                for level in accounts[queue].lineage():
                    name = level.queue.name
                    left[name] = plus(left.get(name, self.held[name]), self._all_of(chunk), -1)
                    taken[name] = plus(taken.get(name, [0.0] * 3), needs(chunk))
                if not self._leaves_enough(job, left):
                    return False
        return all(self._fair_at(u, left, taken, asks) for u in accounts[part.queue].lineage())

    def takes(self, victim: Job, tasks: list[Task], left: dict[str, Vector], asks: Vector) -> bool:
        """Whether these may go after what is counted in ``left``; if so they are counted, too."""
        if not self.may_take(victim, left, asks):
            return False
        after = self._without(victim, self._all_of(tasks), left)
        if not self._leaves_enough(victim, after) or not self._stays_behind(victim, needs(tasks), after, asks):
            return False
        left.update(after)
        return True

    def may_leave_alone(self, victim: Job, amount: Vector, asks: Vector) -> bool:
        """Whether the queue of the victim could lose so much with nobody else gone, by what both sides then have."""
        return self._stays_behind(victim, amount, self._without(victim, [*amount, 0.0], {}), asks)

    def _leaves_enough(self, victim: Job, after: dict[str, Vector]) -> bool:
        """Whether, by steady shares, the queue that loses has at least what it may keep."""
        theirs = diverge(self.session.world, self.job, victim)[1]
        return not self.steady or after[theirs.queue.name][2] >= theirs.keep - 1e-6

    def _all_of(self, tasks: list[Task]) -> Vector:
        return [*needs(tasks), sum(self.blocked.get(task, 0.0) for task in tasks)]

    def _without(self, victim: Job, amount: Vector, left: dict[str, Vector]) -> dict[str, Vector]:
        after = dict(left)
        for level in self.session.world.accounts[victim.queue].lineage():
            after[level.queue.name] = plus(left.get(level.queue.name, self.held[level.queue.name]), amount, -1)
        return after

    def _stays_behind(self, victim: Job, amount: Vector, after: dict[str, Vector], asks: Vector) -> bool:
        mine, theirs = diverge(self.session.world, self.job, victim)
        return not any(self._passes(mine, theirs, after, asks, r) for r in range(3) if asks[r] > 0 or amount[r] > 0)

    def _passes(self, u: Account, sibling: Account, left: dict[str, Vector], asks: Vector, r: int) -> bool:
        """Whether ``u`` ends above its share, and with no less of it than a sibling from which it takes."""
        if self.steady:
            has = left.get(u.queue.name, self.held[u.queue.name])[2] + asks[2]
            theirs = ratio(left[sibling.queue.name][2], sibling.steady)
            return r == 2 and has > u.keep and ratio(has, u.steady) * self.multiplier >= theirs
        mine = ratio(left.get(u.queue.name, self.held[u.queue.name])[r] + asks[r], u.fair[r])
        shared = sibling.fair[r] > 0 or (self.minimal and u.fair[r] <= 0)
        return mine > 1 and shared and mine * self.multiplier >= ratio(left[sibling.queue.name][r], sibling.fair[r])

    def may_take(self, victim: Job, left: dict[str, Vector], asks: Vector) -> bool:
        """Whether one more chunk may go: from above its fair share, or, for a queue within quota, from above quota."""
        mine, theirs = diverge(self.session.world, self.job, victim)
        remains = left.get(theirs.queue.name, self.held[theirs.queue.name])
        if self.steady:
            return lacks_steady_share(mine, asks[2], self.held[mine.queue.name][2]) and remains[2] > theirs.keep
        if not within(remains[:3], entitled(theirs)):
            return True
        starved = within(plus(self.held[mine.queue.name][:3], asks), quota(mine))
        above = [remains[r] > quota(theirs)[r] and (not self.minimal or self._is_short(r, asks)) for r in range(3)]
        counts_for = sum(self.held[mine.queue.name][2:]) + devices(next_chunk(self.job))
        keeps = remains[2] + remains[3] > quota(theirs)[2] + 1e-6 and self._is_short(2, asks)
        keeps = keeps and counts_for <= quota(mine)[2] + 1e-6
        return starved and (any(above) or keeps)

    def _is_short(self, r: int, asks: Vector) -> bool:
        """Whether it asks for the resource, and some node had less when the search began."""
        lacks = any(free[r] < asks[r] for free in self.free) or (r == 2 and self.lacks_devices)
        return asks[r] > 0 and lacks

    def _fair_at(self, u: Account, left: dict[str, Vector], taken: dict[str, Vector], asks: Vector) -> bool:
        """Whether ``u`` ends with no more of its share than each sibling that it took from, once above its share."""
        for sibling in [a for a in self.session.world.accounts.values() if a.parent is u.parent and a is not u]:
            name = sibling.queue.name
            if name not in left:
                continue
            for r in range(3):
                if asks[r] <= 0 and taken[name][r] <= 0:
                    continue
                if self._passes(u, sibling, left, asks, r):
                    return False
        return self.job.preemptible or within(plus(self.fixed[u.queue.name], asks), quota(u))


def blocked_by_pods(world: World) -> dict[Task, float]:
    """The GPUs that each pod with parts keeps from others beyond their price: its part of what is held of a device."""
    found: dict[Task, float] = {}
    for machine in world.machines.values():
        then = held(machine, later=True)
        for task in machine.tasks:
            if task.pod.shape.share and holds(task, later=True):
                counted = sum(size(task, machine) / then[device] for device in task.devices)
                found[task] = max(0.0, counted - task.cost_here("gpu"))
    return found


def blocked(world: World, account: Account) -> float:
    """The same of all pods below a queue."""
    blocks = blocked_by_pods(world)
    return sum(
        blocks[task]
        for job in world.jobs
        if job.queue in world.accounts and account in world.accounts[job.queue].lineage()
        for task in job.tasks
        if task in blocks
    )


def devices(tasks: list[Task]) -> float:
    """The GPUs that they may keep from others: a part as a whole one."""
    return sum(task.pod.shape.share.devices if task.pod.shape.share else task.costs("gpu") for task in tasks)


def _portions(tasks: list[Task], queue: str) -> list[tuple[Job, list[Task]]]:
    """What leaves the queue, job by job: each pod beyond the first ``minimum`` of its set alone, the others as one.

    A pod that is named more than once counts as often, one time after the other.
    """
    found: list[tuple[Job, list[Task]]] = []
    for job in dict.fromkeys(task.job for task in tasks if task.job and task.job.queue == queue):
        core: list[Task] = []
        own = [task for task in tasks if task.job is job]
        for task in [task for each in dict.fromkeys(own) for task in own.count(each) * [each]]:
            pod_set = next(each for each in job.pod_sets.values() if task in each.tasks)
            if sum(other in pod_set.tasks for other in core) < pod_set.minimum:
                core.append(task)
            else:
                found.append((job, [task]))
        found += [(job, core)] if core else []
    return found


def needs(tasks: list[Task]) -> Vector:
    return [round(sum(task.costs(resource) for task in tasks), HUNDREDTHS) for resource in RESOURCES]


def plus(left: Vector, right: Vector, sign: int = 1) -> Vector:
    return [round(x + sign * y, HUNDREDTHS) for x, y in zip(left, right, strict=True)]


def quota(account: Account) -> Vector:
    return [_bound(account.share(r).quota) for r in range(3)]


def entitled(account: Account) -> Vector:
    return [_bound(share_of(account, r)) for r in range(3)]


def _bound(amount: float) -> float:
    return math.inf if amount == UNLIMITED else amount


def within(amounts: Vector, bounds: Vector) -> bool:
    return all(x <= y for x, y in zip(amounts, bounds, strict=True))


def ratio(amount: float, fair: float) -> float:
    if fair > 0:
        return amount / fair
    return math.inf if amount > 0 else 0.0
