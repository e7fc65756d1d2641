"""What the property tests ask of a plan: its text, byte for byte, and what must hold in it whoever made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kai_sched import Cluster, Config, CycleResult
from kai_sched.model.constraints import PodTerm
from kai_sched.model.objects import Object, Topology
from tests.oracle.allocate import accepts
from tests.oracle.chunk import satisfied
from tests.oracle.topology import Domain, levels_of, path_of
from tests.oracle.world import (
    ACTIVE,
    RESOURCES,
    UNLIMITED,
    USED,
    GroupSet,
    Job,
    Machine,
    PodSet,
    Task,
    World,
    charge,
    world_of,
)
from tests.properties.clusters import NOW_NS

CONFIG = Config(("allocate",))
NEW = ("Binding", "Pipelined")


def text_of(result: CycleResult) -> str:
    """All of the result but the time it took, in the order in which it was given."""
    parts = [
        result.effects,
        result.evicted,
        *map(dict, (result.pods, result.groups)),
        result.queues,
        dict(result.nodes),
    ]
    return "\n".join(map(repr, parts))


def after(objects: Iterable[Object], result: CycleResult) -> World:
    """The cluster with the plan carried out in the accounts: each pod where the plan has it, its queue charged."""
    world = world_of(Cluster.of(objects), CONFIG, NOW_NS)
    for task in world.tasks:
        state = result.pods[task.pod.key]
        if state.status in NEW and task.status == "Pending":
            assert task.job is not None, f"{task.pod.key} is in no job and was placed"
            charge(world.accounts[task.job.queue], task, not task.job.preemptible)
            task.status, task.node = state.status, state.node
    return world


def check_gangs(world: World) -> None:
    """Whoever got a pod has its gang; nothing is bound below a minimum, pods that wait not counted."""
    for job in world.jobs:
        new = [task for task in job.tasks if task.status in NEW]
        if not new:
            continue
        assert satisfied(job.root), f"{job.name} was placed without its gang"
        for pod_set in job.pod_sets.values():
            placed = [task for task in pod_set.tasks if task.status in NEW]
            assert not placed or satisfied(pod_set), f"{job.name}/{pod_set.name} was placed in part"
            bound = sum(task.status in ACTIVE - {"Pipelined"} for task in pod_set.tasks)
            binding = any(task.status == "Binding" for task in pod_set.tasks)
            assert not binding or bound >= pod_set.minimum, f"{job.name}/{pod_set.name} binds while its gang waits"


def check_nodes(world: World) -> None:
    """A node that got pods has room for them: at once for those bound, after the leaving ones for those that wait."""
    for name, machine in world.machines.items():
        there = [task for task in world.tasks if task.node == name and task.status not in ("Succeeded", "Unknown")]
        bound = any(task.status == "Binding" for task in there)
        waiting = any(task.status == "Pipelined" for task in there)
        for resource, capacity in machine.node.allocatable.items():
            if not capacity:
                continue
            now = sum(task.asks(resource) for task in there if task.status != "Pipelined")
            later = sum(task.asks(resource) for task in there if task.status != "Releasing")
            assert not bound or now <= capacity, f"{name} is over its {resource} now"
            assert not (bound or waiting) or later <= capacity, f"{name} is over its {resource} later"


def check_queues(world: World) -> None:
    """No placement took a queue or an ancestor over its limit, or over its quota with work that cannot be preempted."""
    for job in world.jobs:
        new = [task for task in job.tasks if task.status in NEW]
        for r, resource in enumerate(RESOURCES):
            if any(task.asks(resource) for task in new):
                _check_levels(world, job, r)


def _check_levels(world: World, job: Job, r: int) -> None:
    for account in world.accounts[job.queue].lineage():
        share = account.share(r)
        over = share.limit != UNLIMITED and account.allocated[r] > share.limit
        assert not over, f"{job.name} took {account.queue.name} over its limit of {RESOURCES[r]}"
        over = not job.preemptible and share.quota != UNLIMITED and account.fixed[r] > share.quota
        assert not over, f"{job.name} took {account.queue.name} over its quota of {RESOURCES[r]}"


def check_domains(cluster: Cluster, stands: Mapping[str, tuple[str, str]]) -> None:
    """No set with a required topology level has pods in two of its domains but for those that it was in before.

    ``stands``: status and node of each pod after the plan.
    """
    world = world_of(cluster, CONFIG, NOW_NS)
    for member in (member for job in world.jobs for member in sets_of(job.root) if member.constraint):
        assert member.constraint
        topology = cluster.topologies.get(member.constraint.topology)
        required, _ = (topology and levels_of(topology, member.constraint)) or (0, 0)
        if topology is None or not required:
            continue

        def domain(name: str, topology: Topology = topology, required: int = required) -> Domain | None:
            path = path_of(topology, world.machines[name])
            return path[:required] if path else None

        before = {domain(task.node) for task in member.tasks if task.status in ACTIVE}
        ends = [stands[task.pod.key] for task in member.tasks]
        later = {domain(node) for status, node in ends if status in ACTIVE}
        assert len(later) <= 1 or later <= before, f"{member.name or 'a group'} came from {before} to {later}"


def sets_of(member: GroupSet | PodSet) -> list[GroupSet | PodSet]:
    """The set and all within it."""
    inner = member.members if isinstance(member, GroupSet) else []
    return [member, *(found for each in inner for found in sets_of(each))]


def check_predicates(world: World) -> None:
    """Each new pod is where its node lets it be: taints, selectors, node affinity, ports, neighbours."""
    for task in world.tasks:
        if task.status in NEW:
            machine = world.machines[task.node]
            others = [other for other in world.tasks if other.status in USED and other is not task]
            beside = Machine(machine.node, machine.idle, machine.releasing, [o for o in others if o.node == task.node])
            assert accepts(beside, task), f"{task.pod.key} is refused by {task.node}"
            _check_neighbours(world, task, others)


def _check_neighbours(world: World, task: Task, others: list[Task]) -> None:
    # Who is promised a place waits there for those that leave (12.2); who is bound does not.
    stay = [other for other in others if other.status != "Releasing" or task.status == "Binding"]
    for other in stay:
        beside = f"{task.pod.key} is beside {other.pod.key}"
        for term in task.pod.shape.anti_affinity:
            assert not (_together(world, task, other, term) and _selects(term, other)), beside
        for term in other.pod.shape.anti_affinity:
            assert not (_together(world, task, other, term) and _selects(term, task)), beside
    _check_near(world, task, others)


def _check_near(world: World, task: Task, others: list[Task]) -> None:
    for term in task.pod.shape.affinity:
        first = _selects(term, task)
        assert _together(world, task, task, term), f"{task.pod.key} is on a node without {term.topology_key}"
        near = any(_together(world, task, other, term) and _selects(term, other) for other in others)
        assert near or first, f"{task.pod.key} lacks the pod that it has to be near"


def _together(world: World, one: Task, other: Task, term: PodTerm) -> bool:
    here, there = (world.machines[each.node].node.labels.get(term.topology_key) for each in (one, other))
    return here is not None and here == there


def _selects(term: PodTerm, other: Task) -> bool:
    return all(other.pod.labels.get(each.key) in each.values for each in term.selector or ())


def check_near(cluster: Cluster, stands: Mapping[str, tuple[str, str]]) -> None:
    """Whoever gets a place is near the pods that it has to be near, also after all searches of the cycle.

    Pods that were leaving before count, those that a search evicts do not. ``stands``: as for ``check_domains``.
    """
    world = world_of(cluster, CONFIG, NOW_NS)
    there, new = [], []
    for task in world.tasks:
        status, node = stands.get(task.pod.key, (task.status, task.node))
        leaves = status == "Releasing" and task.status != "Releasing"
        if status in NEW:
            new.append(task)
        if status in USED and not leaves and node in world.machines:
            there.append(task)
        task.status, task.node = status, node
    for task in new:
        _check_near(world, task, [other for other in there if other is not task])
