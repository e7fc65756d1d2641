"""The whole allocate action (semantics 3.1 to 3.5, 9, 12) on model objects, the slow and obvious way.

Twin of the scheduler for clusters without DRA, volumes and pod affinity: every node is scored for
every pod by the formulas of semantics 9, sorted, and tried in turn. A job with nothing to ask for is not enlisted, and
what is not supported fits nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kai_sched import Cluster, Config
from kai_sched.model.constraints import HostPort, Requirement, Taint, Toleration
from kai_sched.model.objects import Node
from tests.oracle.chunk import next_chunk, reachable
from tests.oracle.devices import HUNDREDTHS, allows, choose, has_devices, has_mig, kind_of, may_join
from tests.oracle.order import JobTree
from tests.oracle.topology import Placing, Within, place_set
from tests.oracle.world import (
    ACTIVE,
    RESOURCES,
    UNLIMITED,
    USED,
    Job,
    Machine,
    Task,
    World,
    charge,
    put,
    ready,
    world_of,
)
from tests.oracle.zones import fits_zones, taken, zone_points

NO_POINTS: Mapping[str, float] = {}


@dataclass(frozen=True)
class Outcome:
    """``pods``: key to (status, node); ``order``: the keys of the pods that got a place, first decision first."""

    pods: dict[str, tuple[str, str]]
    order: tuple[str, ...]
    world: World


def allocate(cluster: Cluster, config: Config, now_ns: int) -> Outcome:
    world = world_of(cluster, config, now_ns)
    order = allocate_in(world, config)
    for task in world.tasks:
        if task.status == "Allocated":
            task.status = "Binding"
    return Outcome({task.pod.key: (task.status, task.node) for task in world.tasks}, tuple(order), world)


def allocate_in(world: World, config: Config, background: bool = False) -> list[str]:
    """The allocate action; the keys of the pods that got a place, first decision first."""
    jobs = [job for job in world.jobs if may_run(world, job) and job.background == background]
    tree = JobTree(world, jobs, config.queue_depth.get("allocate"))
    order: list[str] = []
    while (job := tree.pop()) is not None:
        placed = attempt(world, config, job)
        order += [task.pod.key for task in placed]
        if placed and any(task.status == "Pending" for task in job.tasks):
            tree.push(job)
    return order


def may_run(world: World, job: Job) -> bool:
    account = world.accounts.get(job.queue)
    pending = any(task.status == "Pending" for task in job.tasks)
    return bool(account and not account.children and pending and reachable(job.root) and next_chunk(job))


def attempt(world: World, config: Config, job: Job) -> list[Task]:
    """Place the next chunk as a whole, or nothing of it (3.3); the tasks that got a place."""
    chunk = next_chunk(job)
    if not chunk or not may_take(world, job, chunk):
        return []

    def mark() -> Callable[[], None]:
        waiting = [task for task in chunk if task.status == "Pending"]
        return lambda: _take_off(world, job, [task for task in waiting if task.status != "Pending"])

    placing, undo = Placing(world, lambda task, within: place(world, config, job, task, within), mark), mark()
    if not place_set(placing, job.root, chunk, Within(tuple(world.machines))):
        undo()
        return []
    waits = waits_for_minimum(job)
    for task in chunk:
        if waits and task.status == "Allocated":
            move(world, job, task, "Pipelined", task.node)
    for task in chunk:
        if task.status == "Allocated":
            task.status = "Binding"
    return chunk


def _take_off(world: World, job: Job, tasks: list[Task]) -> None:
    for task in tasks:
        move(world, job, task, "Pending", "")


def waits_for_minimum(job: Job) -> bool:
    """Whether some pod that a set needs for its minimum has to wait for its room."""
    return any(
        any(task.status == "Pipelined" for task in pod_set.tasks)
        and sum(task.status in ACTIVE - {"Pipelined"} for task in pod_set.tasks) < pod_set.minimum
        for pod_set in job.pod_sets.values()
    )


def move(world: World, job: Job, task: Task, status: str, node: str) -> None:
    """Give the task another status and place, with all accounts kept; who comes to a node gets devices there."""
    account = world.accounts.get(job.queue)
    if task.status in USED and task.node in world.machines:
        put(world.machines[task.node], task, -1)
    if task.status in ACTIVE and account:
        charge(account, task, not job.preemptible, -1)
    comes = task.status == "Pending" and status in ACTIVE
    if comes and node in world.machines:
        task.zones = taken(task, world.machines[node], waits=status == "Pipelined")
    task.status, task.node = status, node
    if comes and task.pod.shape.share:
        task.devices = tuple(choose(task, world.machines[node], world.config)[0])
    if status in USED and node in world.machines:
        put(world.machines[node], task)
    if status in ACTIVE and account:
        charge(account, task, not job.preemptible)


def may_take(world: World, job: Job, tasks: list[Task]) -> bool:
    """The capacity gates (3.4) for these tasks together, at the job's queue and every ancestor, at the least price."""
    amounts = [[task.least if resource == "gpu" else task.costs(resource) for resource in RESOURCES] for task in tasks]
    return within_gates(world, job, [round(sum(column), HUNDREDTHS) for column in zip(*amounts, strict=True)])


def may_take_on(world: World, job: Job, task: Task, node: str) -> bool:
    """The gates for a single task at the price of the node."""
    needs = [task.price_on[node] if resource == "gpu" else task.costs(resource) for resource in RESOURCES]
    return within_gates(world, job, needs)


def within_gates(world: World, job: Job, needs: list[float]) -> bool:
    """Whether limits, and quotas for work that cannot be preempted, allow so much more."""
    for account in world.accounts[job.queue].lineage():
        for r, need in enumerate(needs):
            share = account.share(r)
            if need and share.limit != UNLIMITED and share.limit < round(account.allocated[r] + need, HUNDREDTHS):
                return False
            fixed = round(account.fixed[r] + need, HUNDREDTHS)
            if need and not job.preemptible and share.quota != UNLIMITED and share.quota < fixed:
                return False
    return True


def place(world: World, config: Config, job: Job, task: Task, within: Within) -> bool:
    """Put the task on the best node that takes it: bound on idle room, else waiting for releasing pods (3.5)."""
    name = best_node(world, config, job, task, within.nodes, points=within.points)
    if name is not None:
        machine = world.machines[name]
        idle = fits(task, machine, later=False)
        idle = idle and not waits_for_leaving(machine, task)
        idle = idle and (not task.pod.shape.share or choose(task, machine, config)[1])
        move(world, job, task, "Allocated" if idle else "Pipelined", name)
    return name is not None


def best_node(
    world: World,
    config: Config,
    job: Job,
    task: Task,
    offered: Iterable[str],
    gates: bool = True,
    points: Mapping[str, float] = NO_POINTS,
) -> str | None:
    """The node with the highest score among those offered that take the task, now or later; None if there is none.

    ``points``: those that nodes have by a preferred topology level. Without ``gates`` limits are only asked about GPU
    memory, which may cost more there than where the pod was.
    """
    gates = gates or kind_of(task.pod) == "memory"
    if task.pod.shape.unsupported:
        return None
    machines = [world.machines[name] for name in offered]
    most = max((len(machine.zones.zones) for machine in world.machines.values() if machine.zones), default=1)
    scores = {
        machine.node.name: score(config, task, machine, machines, points.get(machine.node.name, 0.0), most)
        for machine in machines
    }
    for name in sorted(scores, key=lambda name: (-scores[name], name)):
        machine = world.machines[name]
        if (
            fits(task, machine, later=True)
            and accepts(machine, task)
            and (not gates or may_take_on(world, job, task, name))
        ):
            return name
    return None


def fits(task: Task, machine: Machine, later: bool, scored: bool = False) -> bool:
    """A negative entry of the node refuses everyone, a missing one only those that ask for it (0.3).

    Shares ask for devices, all others for whole GPUs. ``scored``: as v0.17.0 has it when it scores the node.
    """
    return (
        fits_but_devices(task, machine, later)
        and (not task.pod.shape.share or has_devices(task, machine, later, scored))
        and fits_zones(task, machine, later)
    )


def fits_but_devices(task: Task, machine: Machine, later: bool) -> bool:
    """The same for all but the devices of a share."""
    names = set(machine.idle) | {name for name, _ in task.pod.shape.request}
    if task.pod.shape.share:
        names.discard("gpu")
    elif not task.asks("gpu") and "gpu" in names:
        names.discard("gpu")
        if machine.loose("gpu", later) < 0:
            return False
    return all(task.asks(name) <= machine.room(name, later) for name in names)


def accepts(machine: Machine, task: Task) -> bool:
    """The predicates that depend on the node (12.2)."""
    node, shape = machine.node, task.pod.shape
    if not ready(node) or machine.room("pods", later=True) <= 0 or not allows(task, machine):
        return False
    if any(in_the_way(other, task) and other.status != "Releasing" for other in machine.tasks):
        return False
    if any(
        taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(t, taint) for t in shape.tolerations)
        for taint in node.taints
    ):
        return False
    if any(node.labels.get(key) != value for key, value in shape.node_selector):
        return False
    terms = shape.node_affinity
    return terms is None or any(term and all(matches(requirement, node) for requirement in term) for term in terms)


def in_the_way(other: Task, task: Task) -> bool:
    """Whether both cannot be on one node at a time: a host port can be used once."""
    ports = ((mine, theirs) for mine in task.pod.shape.host_ports for theirs in other.pod.shape.host_ports)
    return other.pod is not task.pod and any(clash(mine, theirs) for mine, theirs in ports)


def waits_for_leaving(machine: Machine, task: Task) -> bool:
    """Whether a leaving pod has to be gone first (12.2)."""
    return any(in_the_way(other, task) and other.status == "Releasing" for other in machine.tasks)


def clash(a: HostPort, b: HostPort) -> bool:
    everywhere = "0.0.0.0"
    return (a.port, a.protocol) == (b.port, b.protocol) and (
        a.host_ip == b.host_ip or everywhere in (a.host_ip, b.host_ip)
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.key == taint.key and toleration.value == taint.value


def matches(requirement: Requirement, node: Node) -> bool:
    here = node.name if requirement.key == "metadata.name" else node.labels.get(requirement.key)
    match requirement.op:
        case "In":
            return here in requirement.values
        case "NotIn":
            return here not in requirement.values
        case "Exists":
            return here is not None
        case "DoesNotExist":
            return here is None
    try:
        number, bound = int(here or ""), int(requirement.values[0])
    except ValueError:
        return False
    return number > bound if requirement.op == "Gt" else number < bound


def score(
    config: Config, task: Task, machine: Machine, offered: list[Machine], points: float, most_zones: int = 1
) -> float:
    """Node scores (semantics 9), with the points of the topology level."""
    resource = "cpu" if kind_of(task.pod) in ("none", "legacy") else "gpu"
    has_gpus = machine.node.allocatable.get("gpu", 0.0) > 0 or has_mig(machine.node)
    total = 0.0
    if "nominatednode" in config.plugins and task.pod.nominated_node == machine.node.name:
        total += 10_000_000
    total += points
    total += zone_points(task, machine, most_zones)
    if "gpusharingorder" in config.plugins and may_join(task, machine):
        total += 10_000
    now = fits(task, machine, False, config.victims == "original") and not waits_for_leaving(machine, task)
    if "nodeavailability" in config.plugins and now:
        total += 1000
    if "resourcetype" in config.plugins and resource == "cpu" and not has_gpus:
        total += 10
    if "nodeplacement" in config.plugins:
        strategy = config.plugins["nodeplacement"].get(resource, "binpack")
        total += spread(machine, resource) if strategy == "spread" else binpack(offered, machine, resource)
    return total


def binpack(offered: list[Machine], machine: Machine, resource: str) -> float:
    """0 for the roomiest of the nodes offered to 9 for the fullest."""
    if not machine.node.allocatable.get(resource, 0.0):
        return 0.0
    rooms = [m.room(resource, later=True) for m in offered if m.node.allocatable.get(resource, 0.0)]
    low, high = min(rooms), max(rooms)
    if high == 0:
        return 0.0
    return 9.0 if low == high else 9 * (1 - (machine.room(resource, later=True) - low) / (high - low))


def spread(machine: Machine, resource: str) -> float:
    """The free part of the node: 0 for a full node, 1 for an empty one."""
    node = machine.node
    whole = node.allocatable.get(resource, 0.0)
    if resource == "gpu":
        whole = float(node.labels.get("nvidia.com/gpu.count", int(whole)))
    return machine.room(resource, later=True) / whole if whole else 0.0
