"""The cluster in the records of ``records``, as semantics 0.1 to 0.4, 1.4, 2.1 and 2.2 have it before a decision.

Only for clusters without DRA. Nothing here is fast, nothing shared with the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kai_sched import Cluster, Config
from kai_sched.model.objects import Node, Phase, Pod, PodGroup, SubGroup, Topology, TopologyConstraint
from tests.oracle.devices import (
    HUNDREDTHS,
    device_memory,
    knows_memory,
    mig_gpus,
    number_devices,
    part,
    price,
)
from tests.oracle.fair_share import UNLIMITED, Claim, divide
from tests.oracle.records import (
    ACTIVE,
    ALLOCATED,
    RESOURCES,
    USED,
    Account,
    Elsewhere,
    GroupSet,
    Job,
    Machine,
    PodSet,
    Task,
    World,
)
from tests.oracle.zones import give_records, known_zones


def world_of(cluster: Cluster, config: Config, now_ns: int, elsewhere: Sequence[Elsewhere] = ()) -> World:
    """Everything as it stands at the start of a cycle, fair shares included.

    ``elsewhere`` are the other pools that share (2.8): what they have is divided, and counts, as if it were here.
    """
    machines = {
        name: Machine(node, {r: a for r, a in node.allocatable.items() if a}, {})
        for name, node in sorted(cluster.nodes.items())
    }
    for name, machine in machines.items():
        machine.zones = known_zones(cluster, name, config)
    pods = sorted((pod for pod in cluster.pods.values() if pod.phase != Phase.FAILED), key=lambda pod: pod.uid)
    tasks = [Task(pod, status_of(pod, config, now_ns), pod.node) for pod in pods]
    groups = _bind(tasks, cluster, machines)
    for task in tasks:
        _disbelieve(task, config)
    _price(tasks, machines, config)
    _share(tasks, machines, groups)
    for name, machine in machines.items():
        give_records(machine, [task for task in tasks if task.status in USED and task.node == name], config)
    for task in tasks:
        task.start = task.status
        if task.status in USED and task.node in machines:
            put(machines[task.node], task)
    accounts = _accounts(cluster)
    jobs = _jobs(cluster, config, tasks)
    for job in jobs:
        marked = bool(job.tasks) and all(_is_background(each, config) for each in job.tasks)
        job.background = job.preemptible and marked and job.queue in accounts
    for task in tasks:
        if task.job and task.pod.shape.legacy_mig and task.status in USED and task.node in machines:
            machines[task.node].has_legacy = True
    own = _capacity(machines, config)
    total = [sum(amounts) for amounts in zip(own, *(pool.capacity for pool in elsewhere), strict=True)]
    for job in jobs:
        if job.queue in accounts:
            _book(job, accounts[job.queue])
    for pool in elsewhere:
        _count_pool(accounts, pool)
    k_value = float(config.plugins.get("proportion", {}).get("kValue", 1))
    _divide([account for account in accounts.values() if account.parent is None], total, k_value)
    if config.plugins.get("proportion", {}).get("steadyFairShareReclaim") == "true" and config.victims == "minimal":
        divide_steadily(
            [account for account in accounts.values() if account.parent is None], total[2], total[2], k_value
        )
    return World(machines, tasks, jobs, accounts, total, config, cluster.topologies, own)


def status_of(pod: Pod, config: Config, now_ns: int) -> str:
    """Semantics 0.1, bind requests apart."""
    if pod.phase == Phase.RUNNING:
        if not pod.deleted_ns:
            return "Running"
        return "StuckInReleasing" if now_ns - pod.deleted_ns > config.stuck_in_releasing_s * 1e9 else "Releasing"
    if pod.phase == Phase.PENDING:
        if pod.deleted_ns:
            return "Releasing"
        return "Bound" if pod.node else "Gated" if pod.gates else "Pending"
    return "Succeeded" if pod.phase == Phase.SUCCEEDED else "Unknown"


def _bind(tasks: list[Task], cluster: Cluster, machines: dict[str, Machine]) -> dict[Task, tuple[str, ...]]:
    """What a live bind request names counts as bound already (0.1); the groups of devices that pods say they share."""
    groups = {task: task.pod.gpu_groups for task in tasks}
    for request in cluster.bind_requests.values():
        for task in tasks:
            waits = task.status in ("Pending", "Gated") and request.is_live and request.node in machines
            if task.pod.key == request.pod_key and waits:
                task.status, task.node = "Binding", request.node
                groups[task] = request.gpu_groups
    return groups


def _disbelieve(task: Task, config: Config) -> None:
    """A pod on a node that the scheduler did not place has what its containers request (8.2)."""
    pod, shape = task.pod, task.pod.shape
    placed = pod.scheduler == config.scheduler_name and (pod.gpu_groups or pod.group)
    if pod.node and not placed and task.status in USED:
        request = shape.request if shape.containers is None else shape.containers
        task.pod = replace(pod, shape=replace(shape, request=request, share=None, legacy_mig=False))


def _price(tasks: list[Task], machines: dict[str, Machine], config: Config) -> None:
    """What GPUs count for queues (8.1), and which pods only reserve a device for others (0.3)."""
    nodes = [machine.node for machine in machines.values()]
    known = [device_memory(node) for node in nodes if knows_memory(node)]
    for task in tasks:
        labels = task.pod.labels
        task.reserves = (
            labels.get("app") == config.reservation.app_label and task.pod.namespace == config.reservation.namespace
        )
        task.price, task.least = (price(task.pod, memory) for memory in (min(known, default=0), max(known, default=0)))
        task.price_on = {node.name: price(task.pod, device_memory(node)) for node in nodes}
        task.part = part(task.pod, {device_memory(node) for node in nodes})


def _share(tasks: list[Task], machines: dict[str, Machine], groups: dict[Task, tuple[str, ...]]) -> None:
    """Give the pods on each node the devices that they share."""
    for name, machine in machines.items():
        there = [task for task in tasks if task.node == name and task.status in USED]
        sharing = {task: groups[task] for task in there if task.pod.shape.share}
        reserving = [task for task in tasks if task.reserves and task.pod.node == name]
        number_devices(machine, sharing, {group for task in reserving for group in task.pod.gpu_groups})
        for task in sharing:
            task.first_devices = task.devices


def put(machine: Machine, task: Task, sign: int = 1) -> None:
    """Account for the task on its node (0.3); ``sign`` -1 undoes it. What the node does not have is not tracked.

    A promise that was taken back holds nothing and leaves nothing.
    """
    promise = task.status == "Releasing" and task.before == "Pipelined"
    for resource, _ in task.pod.shape.request:
        amount = task.asks(resource)
        if resource not in machine.idle or promise:
            continue
        if task.status == "Releasing":
            machine.releasing[resource] = machine.releasing.get(resource, 0.0) + sign * amount
        if task.status == "Pipelined":
            machine.releasing[resource] = machine.releasing.get(resource, 0.0) - sign * amount
        else:
            machine.idle[resource] -= sign * amount
    if sign > 0:
        machine.tasks.append(task)
    else:
        machine.tasks.remove(task)


def charge(account: Account, task: Task, fixed: bool, sign: int = 1) -> None:
    """Add what the task costs where it is to its queue and every ancestor; ``fixed``: the job cannot be preempted."""
    for level in account.lineage():
        for r, resource in enumerate(RESOURCES):
            level.allocated[r] = round(level.allocated[r] + sign * task.cost_here(resource), HUNDREDTHS)
            if fixed:
                level.fixed[r] = round(level.fixed[r] + sign * task.cost_here(resource), HUNDREDTHS)


def _is_background(task: Task, config: Config) -> bool:
    is_on = "backgroundpods" in config.plugins and config.victims == "minimal"
    ours = task.pod.scheduler == config.scheduler_name and is_on
    return ours and task.pod.labels.get("kai.scheduler/background") == "true"


def _book(job: Job, account: Account) -> None:
    for task in job.tasks:
        if task.status in ALLOCATED:
            charge(account, task, not job.preemptible)
        if not job.background and (task.status in ALLOCATED or task.status == "Pending"):
            for level in account.lineage():
                for r, resource in enumerate(RESOURCES):
                    amount = task.cost_here(resource) if task.status in ALLOCATED else task.costs(resource)
                    level.request[r] = round(level.request[r] + amount, HUNDREDTHS)


def _count_pool(accounts: dict[str, Account], pool: Elsewhere) -> None:
    for name, account in accounts.items():
        for r in range(3):
            held, fixed, request = (table.get(name, [0.0] * 3)[r] for table in (pool.held, pool.fixed, pool.request))
            account.held_elsewhere[r] += held
            account.fixed_elsewhere[r] += fixed
            account.allocated[r] = round(account.allocated[r] + held, HUNDREDTHS)
            account.fixed[r] = round(account.fixed[r] + fixed, HUNDREDTHS)
            account.request[r] = round(account.request[r] + request, HUNDREDTHS)


def _capacity(machines: dict[str, Machine], config: Config) -> list[float]:
    total = [0.0] * 3
    for machine in machines.values():
        if ready(machine.node):
            foreign = [
                task for task in machine.tasks if task.pod.scheduler != config.scheduler_name and not task.reserves
            ]
            migs = sum(mig_gpus(name) * amount for name, amount in machine.node.allocatable.items())
            for r, resource in enumerate(RESOURCES):
                there = machine.node.allocatable.get(resource, 0.0) + migs * (resource == "gpu")
                total[r] += max(there - sum(task.costs(resource) for task in foreign), 0.0)
    return total


def ready(node: Node) -> bool:
    return not node.unschedulable and not node.bad_conditions


def _accounts(cluster: Cluster) -> dict[str, Account]:
    """The queue tree; a queue with an unknown parent is left out with all below it."""
    kept: dict[str, Account] = {}
    ordered = sorted(cluster.queues.values(), key=lambda queue: (queue.created_ns, queue.uid))
    found = True
    while found:
        found = False
        for queue in ordered:
            if queue.name not in kept and (not queue.parent or queue.parent in kept):
                kept[queue.name] = Account(queue, parent=kept.get(queue.parent))
                found = True
    for queue in ordered:
        account = kept.get(queue.name)
        if account and account.parent:
            account.parent.children.append(account)
    return kept


def _divide(siblings: list[Account], amounts: list[float], k_value: float) -> None:
    for r in range(len(RESOURCES)):
        claims = [
            Claim(
                a.share(r).quota,
                a.share(r).limit,
                a.share(r).weight,
                a.request[r],
                a.queue.priority,
                a.age,
                a.queue.usage[r],
            )
            for a in siblings
        ]
        for account, fair in zip(siblings, divide(amounts[r], claims, k_value), strict=True):
            account.fair[r] = fair
    for account in siblings:
        if account.children:
            _divide(account.children, account.fair, k_value)


def divide_steadily(siblings: list[Account], amount: float, capacity: float, k_value: float) -> None:
    """Steady shares of GPUs (4.9): as if each queue with a weight asked for all there are."""
    claims = []
    for a in siblings:
        share, asked = a.share(2), capacity if _asks_for_all(a) else a.request[2]
        claims.append(Claim(share.quota, share.limit, share.weight, asked, a.queue.priority, a.age, a.queue.usage[2]))
    for account, steady in zip(siblings, divide(amount, claims, k_value), strict=True):
        quota, limit = (
            float("inf") if each == UNLIMITED else each for each in (account.share(2).quota, account.share(2).limit)
        )
        account.steady, account.keep = steady, min(max(quota, steady), limit)
        if account.children:
            divide_steadily(account.children, steady, capacity, k_value)


def _asks_for_all(account: Account) -> bool:
    if account.children:
        return any(map(_asks_for_all, account.children))
    return account.share(2).weight > 0 and account.share(2).quota != UNLIMITED


def _jobs(cluster: Cluster, config: Config, tasks: list[Task]) -> list[Job]:
    jobs = {group.key: _job(cluster, group, config) for group in cluster.pod_groups.values()}
    for task in tasks:
        pod = task.pod
        if f"{pod.namespace}/{pod.group}" in jobs:
            job = jobs[f"{pod.namespace}/{pod.group}"]
        elif not pod.group and pod.scheduler == config.scheduler_name:
            job = jobs[f"pod {pod.key}"] = _job(cluster, _lone(pod), config)
        else:
            continue
        pod_set = job.pod_sets.get(pod.sub_group or "default")
        if pod_set:
            task.job = job
            pod_set.tasks.append(task)
            if task.status == "Succeeded":
                pod_set.minimum = max(pod_set.minimum - 1, 0)
    return sorted(jobs.values(), key=lambda job: job.age)


def _lone(pod: Pod) -> PodGroup:
    """The group of a pod that has none."""
    queue = pod.queue or "default-queue"
    return PodGroup(pod.namespace, pod.name, pod.uid, pod.created_ns, queue, pod.priority_class, min_member=1)


def _job(cluster: Cluster, group: PodGroup, config: Config) -> Job:
    priority = _priority(cluster, group.priority_class)
    preemptible = priority < 100 if group.preemptible is None else group.preemptible
    root, pod_sets = _tree(group, cluster.topologies if "topology" in config.plugins else None)
    return Job(group, group.name, group.queue, priority, preemptible, (group.created_ns, group.uid), root, pod_sets)


def _priority(cluster: Cluster, name: str) -> int:
    if name in cluster.priority_classes:
        return cluster.priority_classes[name].value
    return next((c.value for c in cluster.priority_classes.values() if c.global_default), 50)


def _tree(group: PodGroup, topologies: Mapping[str, Topology] | None) -> tuple[GroupSet, dict[str, PodSet]]:
    """Sub-groups as a tree (0.4). Duplicate names or unknown parents: one pod set "default" with minimum 1.

    Constraints count where there are ``topologies``; aliases of levels stand for their labels.
    """

    def constraint(item: PodGroup | SubGroup) -> TopologyConstraint | None:
        found = topologies.get(item.topology.topology) if topologies is not None and item.topology else None
        if found is None or item.topology is None:
            return None if topologies is None else item.topology
        wanted = item.topology.required_level, item.topology.preferred_level
        labels = [found.levels[found.level(name) - 1] if found.level(name) else name for name in wanted]
        return TopologyConstraint(found.name, *labels)

    names = [sub.name for sub in group.sub_groups]
    parents = {sub.parent for sub in group.sub_groups if sub.parent}
    if not names or len(set(names)) < len(names) or not parents <= set(names):
        minimum = 1 if names or group.min_member is None else group.min_member
        default = PodSet("default", minimum)
        return GroupSet("", None, [default], constraint(group)), {"default": default}
    root = GroupSet("", group.min_sub_group, [], constraint(group))
    leaves = [sub for sub in group.sub_groups if sub.name not in parents]
    pod_sets = {sub.name: PodSet(sub.name, sub.min_member or 0, [], constraint(sub)) for sub in leaves}
    inner = [sub for sub in group.sub_groups if sub.name in parents]
    sets = {sub.name: GroupSet(sub.name, sub.min_sub_group, [], constraint(sub)) for sub in inner}
    for sub in group.sub_groups:
        _home(sub, sets, root).members.append(pod_sets[sub.name] if sub.name in pod_sets else sets[sub.name])
    return root, pod_sets


def _home(sub: SubGroup, sets: dict[str, GroupSet], root: GroupSet) -> GroupSet:
    return sets[sub.parent] if sub.parent else root


__all__ = [
    "ACTIVE",
    "ALLOCATED",
    "RESOURCES",
    "UNLIMITED",
    "USED",
    "Account",
    "GroupSet",
    "Job",
    "Machine",
    "PodSet",
    "Task",
    "World",
]
