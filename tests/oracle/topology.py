"""Topology constraints (semantics 10): which domains a set of pods is tried in, and points by preferred levels.

A domain is the values of the labels that its nodes share, from the widest level on; the root is (). Everything is
counted from the nodes whenever somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kai_sched.model.objects import Topology, TopologyConstraint
from tests.oracle.records import ACTIVE, GroupSet, Machine, PodSet, Task, World

Domain = tuple[str, ...]
NOTHING_FREE = 1000.0
POINTS = 100_000.0


@dataclass(frozen=True)
class Within:
    """Where pods may go: these nodes, of which some have points by a level that a set prefers (10.3)."""

    nodes: tuple[str, ...]
    points: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Placing:
    """How a caller places a task within these nodes, and how all since a mark is undone."""

    world: World
    place: Callable[[Task, Within], bool]
    mark: Callable[[], Callable[[], None]]


def place_set(placing: Placing, member: GroupSet | PodSet, tasks: list[Task], within: Within) -> bool:
    """Place the tasks of a set in the first of its domains that takes all of them (10.2); False: nothing is undone."""
    if member.constraint is None or not tasks:
        return _place_members(placing, member, tasks, within)
    for domain in domains_to_try(placing.world, member, tasks, within):
        undo = placing.mark()
        if _place_members(placing, member, tasks, domain):
            return True
        undo()
    return False


def _place_members(placing: Placing, member: GroupSet | PodSet, tasks: list[Task], within: Within) -> bool:
    if isinstance(member, PodSet):
        return all(placing.place(task, within) for task in tasks)
    return all(place_set(placing, each, its, within) for each, its in by_member(member, tasks))


def by_member(member: GroupSet, tasks: list[Task]) -> list[tuple[GroupSet | PodSet, list[Task]]]:
    """The tasks of each member, by the first one."""
    firsts: dict[int, tuple[GroupSet | PodSet, list[Task]]] = {}
    for task in tasks:
        (owner,) = (each for each in member.members if task in each.tasks)
        firsts.setdefault(id(owner), (owner, []))[1].append(task)
    return list(firsts.values())


def may_stay(world: World, member: GroupSet | PodSet, task: Task, home: str) -> bool:
    """Whether an evicted task can stay where it runs with what others of its sets were promised meanwhile.

    It cannot if that would spread a set over domains of a required level in which it was not spread before: if others
    got places in another domain, where none of them was, and none of them is in the domain of its home.
    """
    if isinstance(member, GroupSet):
        inner = (each for each in member.members if task in each.tasks)
        if not all(may_stay(world, each, task, home) for each in inner):
            return False
    topology = world.topologies.get(member.constraint.topology) if member.constraint else None
    levels = levels_of(topology, member.constraint) if topology and member.constraint else None
    if topology is None or levels is None or not levels[0]:
        return True

    def domain(node: str) -> Domain | None:
        path = path_of(topology, world.machines[node]) if node in world.machines else None
        return path[: levels[0]] if path else None

    others = [each for each in member.tasks if each is not task and each.status in ACTIVE]
    came = {domain(each.node) for each in others if each.node != each.pod.node}
    stayed = {domain(each.node) for each in others if each.node == each.pod.node}
    return came <= {domain(home), *stayed} or domain(home) in came | stayed


def pod_sets(member: GroupSet | PodSet) -> list[PodSet]:
    """All pod sets below the set, or itself."""
    return [member] if isinstance(member, PodSet) else [each for part in member.members for each in pod_sets(part)]


def is_constrained(member: GroupSet | PodSet) -> bool:
    """Whether the set or one within it has a constraint."""
    inner = member.members if isinstance(member, GroupSet) else []
    return member.constraint is not None or any(map(is_constrained, inner))


def domains_to_try(world: World, member: GroupSet | PodSet, tasks: list[Task], within: Within) -> list[Within]:
    """Those that can hold the tasks, in the order in which they are tried (10.1)."""
    found = measure(world, member, tasks, within)
    if found is None or (world.config.victims == "original" and not found.holds(found.start)):
        return []
    domains = [
        domain
        for level in range(found.first, found.required - 1, -1)
        for domain in found.at(level)
        if found.holds(domain)
    ]
    kept = found.kept()
    domains = [domain for domain in domains if kept is None or domain[: found.required] in kept]
    if world.config.victims != "original":
        liked = tasks[0].node if tasks[0].status == "Releasing" else tasks[0].pod.nominated_node
        path = path_of(found.topology, world.machines[liked]) if liked in world.machines else None
        first = [domain for domain in domains if path is not None and path[: len(domain)] == domain][:1]
        domains = first + [domain for domain in domains if domain not in first]
    points = found.points() if found.preferred else within.points
    return [Within(found.inside(domain), points) for domain in domains]


def measure(
    world: World, member: GroupSet | PodSet, tasks: list[Task], within: Within, gone: Iterable[Task] = ()
) -> Measured | None:
    """The domains of a set in numbers; None where it cannot be placed at all. ``gone``: who will have left."""
    assert member.constraint
    topology = world.topologies.get(member.constraint.topology)
    levels = levels_of(topology, member.constraint)
    if topology is None or levels is None:
        return None
    paths = {name: path_of(topology, world.machines[name]) for name in within.nodes}
    there = {name: path for name, path in paths.items() if path is not None}
    return Measured(world, member, tasks, there, levels, topology, [*gone]) if there else None


def levels_of(topology: Topology | None, constraint: TopologyConstraint) -> tuple[int, int] | None:
    """The numbers of the required and the preferred level, 0 where none is named; None: pods are not placed."""
    names = (constraint.required_level, constraint.preferred_level)
    if topology is None or not any(names):
        return None
    required, preferred = (topology.level(name) for name in names)
    missing = (names[0] and not required) or (names[1] and not preferred)
    return None if missing or 0 < preferred < required else (required, preferred)


def path_of(topology: Topology, machine: Machine) -> Domain | None:
    """The narrowest domain that the node is in; None: it lacks a label."""
    values = [machine.node.labels.get(label) for label in topology.levels]
    return None if None in values else tuple(value for value in values if value is not None)


@dataclass
class Measured:
    """The domains of the nodes that count (``paths``), as a set sees them before its first task is placed."""

    world: World
    member: GroupSet | PodSet
    tasks: list[Task]
    paths: dict[str, Domain]
    levels: tuple[int, int]
    topology: Topology
    gone: list[Task]

    @property
    def required(self) -> int:
        return self.levels[0]

    @property
    def preferred(self) -> int:
        return self.levels[1]

    @property
    def first(self) -> int:
        """The level that is tried first."""
        return self.preferred or self.required

    @property
    def start(self) -> Domain:
        """The narrowest domain that all nodes share, but none below the first level (step 1)."""
        some = next(iter(self.paths.values()))
        free_fall = self.world.config.victims == "original" and not self.preferred
        deepest = len(some) if free_fall else self.first
        return max(
            (some[:n] for n in range(deepest + 1) if all(p[:n] == some[:n] for p in self.paths.values())), key=len
        )

    def inside(self, domain: Domain) -> tuple[str, ...]:
        return tuple(name for name, path in self.paths.items() if path[: len(domain)] == domain)

    def counted(self, domain: Domain) -> tuple[str, ...]:
        """The nodes of which it counts what is free; as in v0.17.0 all with ``victims: original``, below the start."""
        if self.world.config.victims != "original":
            return self.inside(domain)
        paths = {name: path_of(self.topology, machine) for name, machine in self.world.machines.items()}
        below = max(domain, self.start, key=len)
        return tuple(name for name, path in paths.items() if path is not None and path[: len(below)] == below)

    def at(self, level: int) -> list[Domain]:
        """The domains of the level in their order (step 5); those above the start have its nodes.

        As in v0.17.0 these do not fit with ``victims: original``.
        """
        start = self.start
        if level <= len(start):
            return [] if level < len(start) and self.world.config.victims == "original" else [start[:level]]
        found = {path[:level] for path in self.paths.values()}
        depths = range(len(start) + 1, level + 1)
        return sorted(found, key=lambda domain: [(-self.ratio(domain[:n]), domain[n - 1]) for n in depths])

    def holds(self, domain: Domain) -> bool:
        """Whether the domain can hold the tasks, counted in pods or by the ratio (steps 3 and 4)."""
        if self._in_pods():
            return sum(self._pods_on(name) for name in self.counted(domain)) >= len(self.tasks)
        return self.ratio(domain) <= 1

    def ratio(self, domain: Domain) -> float:
        """The largest part that the tasks request of what is free."""
        parts = [0.0]
        for resource in self._resources():
            asked = sum(asks(task, resource) for task in self.tasks)
            free = sum(self._free(name, resource) for name in self.counted(domain))
            if asked and resource != "pods":
                parts.append(asked / free if free > 0 else NOTHING_FREE)
        return max(parts)

    def kept(self) -> set[Domain] | None:
        """The domains of the required level in which pods of the set have a place; None: anything goes (step 6)."""
        tasks = self.member.tasks
        if self.world.config.victims == "original":
            # As in v0.17.0 pods of sets of which the chunk has no task do not count.
            in_chunk = [each.tasks for each in pod_sets(self.member) if any(task in each.tasks for task in self.tasks)]
            tasks = [task for its in in_chunk for task in its]
        nodes = [task.node for task in tasks if task.status in ACTIVE]
        if not self.required or not nodes:
            return None
        paths = [path_of(self.topology, self.world.machines[node]) for node in nodes if node in self.world.machines]
        return {path[: self.required] for path in paths if path is not None}

    def points(self) -> dict[str, float]:
        """The points of each node by the preferred level (10.3)."""
        ordered = self.at(self.preferred)
        places = {name: i for i, domain in enumerate(ordered, 1) for name in self.inside(domain)}
        return {name: 10 * i // len(ordered) * POINTS for name, i in places.items()}

    def _resources(self) -> list[str]:
        return sorted({"gpu"} | {name for task in self.tasks for name, _ in task.pod.shape.request})

    def _in_pods(self) -> bool:
        """Whether the tasks are alike enough to be counted; for v0.17.0 if all or none ask for each other resource."""
        if self.world.config.victims != "original":
            first = self.tasks[0]
            return all(asks(task, name) == asks(first, name) for task in self.tasks for name in self._resources())
        for resource in self._resources():
            asking = [asks(task, resource) > 0 for task in self.tasks]
            if resource not in ("cpu", "memory") and any(asking) and not all(asking):
                return False
        return True

    def _pods_on(self, name: str) -> int:
        """For how many pods of the largest request of each resource the node has room."""
        counts = [len(self.tasks)]
        for resource in {*self._resources(), *self.world.machines[name].idle}:
            asked, free = max(asks(task, resource) for task in self.tasks), self._free(name, resource)
            if asked:
                counts.append(max(0, int(free // asked)))
            elif free < 0:
                counts.append(0)  # it refuses everybody (0.3)
        return min(counts)

    def _free(self, name: str, resource: str) -> float:
        """Idle plus releasing; of GPUs whole ones, and where parts are asked for what is left of devices in use.

        As in v0.17.0 the latter counts with ``victims: original`` only for pods with less than one GPU.
        """
        machine = self.world.machines[name]
        loose = any(task.pod.shape.share for task in self.tasks)
        if self.world.config.victims == "original":
            loose = loose and 0 < max(asks(task, "gpu") for task in self.tasks) < 1
        room = machine.loose(resource, later=True) if loose else machine.room(resource, later=True)
        here = [task for task in self.gone if task.node == name and resource in machine.idle]
        return room + sum(task.leaves(resource) for task in here)


def asks(task: Task, resource: str) -> float:
    """What the task requests; of GPUs parts, too, in hundredths, but not what is asked for as memory."""
    share = task.pod.shape.share
    if share is None or resource != "gpu":
        return task.asks(resource)
    return int(100 * share.portion + 0.5) * share.devices / 100
