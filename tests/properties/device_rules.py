"""What holds of every cycle of a cluster with shared GPUs, MIG devices and claims, counted anew from its pods.

Each rule is written from docs/semantics.md, whose section is named, and imports nothing that decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from math import ceil

from kai_sched import Cluster, Config, CycleResult, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.claims.objects import AllocatedDevice, Allocation, Device, DeviceOption, ResourceClaim
from kai_sched.plan.effects import Evict
from tests.properties.device_life import DRIVER, LARGE, LATE, NETWORK, bound
from tests.properties.shares import MEMORY_LABEL, MIG_LARGE, MIG_SMALL, RESERVATION, device_memory, size_on

HOLD = frozenset(("Binding", "Bound", "Running", "Releasing", "StuckInReleasing"))
COUNTED = frozenset(("Binding", "Pipelined", "Bound", "Running"))  # semantics 2.2
MIG_GPUS = {MIG_SMALL: 1, MIG_LARGE: 3}
EPSILON = 1e-6


def check(cluster: Cluster, result: CycleResult) -> None:
    """All rules of one cycle; AssertionError names the object that breaks one."""
    check_rooms(cluster, result)
    check_shares(cluster, result)
    check_claims(cluster, result)
    check_gangs(cluster, result)
    check_queues(cluster, result)
    check_evictions(cluster, result)


def is_reservation(pod: o.Pod) -> bool:
    return pod.labels.get("app") == RESERVATION == pod.namespace


def groups_of(pod: o.Pod, result: CycleResult) -> tuple[str, ...]:
    """The devices that the pod shares; made-up ones where nobody knows which these are."""
    bind = bound(result).get(pod.key)
    listed = bind.gpu_groups if bind else pod.gpu_groups
    share = pod.shape.share
    return listed or tuple(f"{pod.key} {k}" for k in range(share.devices if share else 0))


def check_rooms(cluster: Cluster, result: CycleResult) -> None:
    """Semantics 0.3, 8.2: a node to which a pod is bound has room for all who are there, leaving ones included."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    devices: dict[str, set[str]] = defaultdict(set)
    reserved: dict[str, set[str]] = defaultdict(set)
    for key, pod in cluster.pods.items():
        state = result.pods[key]
        if state.status not in HOLD:
            continue
        if is_reservation(pod):
            held[state.node]["pods"] += 1
            reserved[state.node].update(pod.gpu_groups)
            continue
        for name, amount in pod.shape.request:
            held[state.node][name] += amount  # type: ignore[assignment]
        devices[state.node].update(groups_of(pod, result) if pod.shape.share else ())
    for node in {each.node for each in bound(result).values()}:
        capacity = cluster.nodes[node].allocatable
        whole = held[node]["gpu"] + len(devices[node])
        assert whole <= capacity.get("gpu", 0.0) or not held[node]["gpu"] + len(devices[node]), f"{node}: {whole} GPUs"
        slots = held[node]["pods"] + len(devices[node] - reserved[node])
        assert slots <= capacity["pods"], f"{node}: {slots} pods"
        for name, amount in held[node].items():
            assert name in ("gpu", "pods") or amount <= capacity.get(name, 0.0), f"{node}: {amount} {name}"


def check_shares(cluster: Cluster, result: CycleResult) -> None:
    """Semantics 8.1 to 8.3: each share is on different devices of one node, and no device has more than its memory."""
    used: dict[tuple[str, str], int] = defaultdict(int)
    homes: dict[str, set[str]] = defaultdict(set)
    binds = bound(result)
    for key, pod in cluster.pods.items():
        state, share = result.pods[key], pod.shape.share
        if share is None or state.status not in HOLD:
            continue
        groups = groups_of(pod, result)
        assert len(groups) == len(set(groups)) == share.devices, f"{key} has the devices {groups}"
        for group in groups:
            used[state.node, group] += size_on(share, cluster.nodes[state.node])
            homes[group].add(state.node)
    assert all(len(nodes) == 1 for nodes in homes.values()), f"devices on two nodes: {dict(homes)}"
    busy = {each.node for each in binds.values()}
    for (node, group), amount in used.items():
        assert node not in busy or amount <= device_memory(cluster.nodes[node]), f"{group} of {node} has {amount} MiB"


def allocations(cluster: Cluster, result: CycleResult) -> dict[str, Allocation]:
    """What each claim has after the binds of the cycle."""
    found = {key: claim.allocation for key, claim in cluster.resource_claims.items() if claim.allocation}
    for bind in bound(result).values():
        for use in bind.claims:
            found[use.claim] = use.allocation
    return found


def check_claims(cluster: Cluster, result: CycleResult) -> None:
    """Semantics 8.6: allocations are complete, usable on the nodes of their pods, and overuse no device."""
    devices = {(each.driver, each.pool, d.name): d for each in cluster.resource_slices.values() for d in each.devices}
    limits = {(each.pool, s, c): amount for each in cluster.resource_slices.values() for s, c, amount in each.counters}
    exclusive: dict[tuple[str, str, str], str] = {}
    consumed: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    found = allocations(cluster, result)
    for key, allocation in found.items():
        claim = cluster.resource_claims[key]
        assert [each.device for each in allocation.devices], f"{key} is allocated and has no device"
        assert is_complete(claim, allocation), f"{key} has {allocation.devices}"
        for each in allocation.devices:
            place = each.driver, each.pool, each.device
            assert fits(claim, each, devices[place]), f"{key} has {place}"
            if devices[place].shared:
                amounts = dict(each.consumed)
                consumed[place] += next(iter(amounts.values()), Fraction(0))
                assert consumed[place] <= devices[place].capacity[f"{DRIVER}/memory"].value, f"{place} is overused"
            else:
                assert place not in exclusive, f"{key} and {exclusive[place]} have {place}"
                exclusive[place] = key
    counters: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for place in exclusive.keys() | consumed.keys():
        for counter_set, counter, amount in devices[place].counters:
            counters[place[1], counter_set, counter] += amount
    for counter_key, amount in counters.items():
        assert amount <= limits[counter_key], f"counter {counter_key}: {amount}"
    for key, pod in cluster.pods.items():
        if result.pods[key].status not in HOLD - {"Releasing", "StuckInReleasing"}:
            continue
        for use in pod.claims:
            allocation = found.get(f"ml/{use.claim}")
            assert allocation is not None, f"{key} runs and its claim has nothing"
            for each in allocation.devices:
                device = devices[each.driver, each.pool, each.device]
                assert device.everywhere or device.node == result.pods[key].node, f"{key} has a device of {device.node}"


def _option(claim: ResourceClaim, name: str) -> DeviceOption:
    request, _, option = name.partition("/")
    options = next(each for each in claim.asks.requests if each.name == request).options
    return next(each for each in options if each.name == option)


def is_complete(claim: ResourceClaim, allocation: Allocation) -> bool:
    """Whether each request has as many devices as it asks for, of one of its options."""
    by_request: dict[str, Counter[str]] = defaultdict(Counter)
    for each in allocation.devices:
        by_request[each.request.partition("/")[0]][each.request] += 1
    return all(
        len(by_request[request.name]) == 1
        and all(_option(claim, name).count == count for name, count in by_request[request.name].items())
        for request in claim.asks.requests
    )


def fits(claim: ResourceClaim, each: AllocatedDevice, device: Device) -> bool:
    """Whether the device is one that its option selects."""
    option = _option(claim, each.request)
    if option.device_class != each.driver or each.driver not in (DRIVER, NETWORK):
        return False
    asked = dict(option.capacity).get("memory", Fraction(0))
    return (
        (LARGE not in option.selectors or device.attributes[f"{DRIVER}/model"] == "large")
        and (LATE not in option.selectors or int(str(device.attributes[f"{DRIVER}/slot"])) > 1)
        and (not asked or asked <= device.capacity[f"{DRIVER}/memory"].value)
    )


def check_gangs(cluster: Cluster, result: CycleResult) -> None:
    """Semantics 0.4, 3.6: nothing of a group is bound while fewer than its minimum are placed."""
    active: Counter[str] = Counter()
    binding = set()
    for key, pod in cluster.pods.items():
        status = result.pods[key].status
        active[pod.group_key] += status in ("Binding", "Bound", "Running")
        binding |= {pod.group_key} if status == "Binding" else set()
    for key in binding:
        least = cluster.pod_groups[key].min_member or 1
        assert active[key] >= least, f"{key} is bound with {active[key]} of {least} pods"


def price(pod: o.Pod, node: o.Node | None, cluster: Cluster) -> float:
    """Semantics 2.2, 8.1, 8.5, 8.6: the GPUs that count for the queue, once the pod has a node."""
    asked = dict(pod.shape.request)
    gpus = asked.get("gpu", 0.0) + sum(asked.get(name, 0.0) * count for name, count in MIG_GPUS.items())
    share = pod.shape.share
    if share is not None and share.portion:
        gpus += share.quota
    elif share is not None and node is not None:
        gpus += ceil(share.memory_mib * 100 / device_memory(node)) / 100 * share.devices
    for use in pod.claims:
        for request in cluster.resource_claims[f"ml/{use.claim}"].asks.requests:
            gpus += request.options[0].count or 1 if request.exact and request.options[0].device_class == DRIVER else 0
    return gpus


def check_queues(cluster: Cluster, result: CycleResult) -> None:
    """Semantics 2.2, 3.4: the table says what pods hold; nobody gets a place beyond a limit, or a quota if it cannot be
    preempted."""
    held: Counter[str] = Counter()
    fixed: Counter[str] = Counter()
    newly: set[str] = set()
    newly_fixed: set[str] = set()
    for key, pod in cluster.pods.items():
        state = result.pods[key]
        if is_reservation(pod) or state.status not in COUNTED:
            continue
        group = result.groups[pod.group_key]
        gpus = price(pod, cluster.nodes.get(state.node), cluster)
        for queue in _line(cluster, group.queue):
            held[queue] += gpus  # type: ignore[assignment]
            fixed[queue] += 0 if group.preemptible else gpus  # type: ignore[assignment]
            if gpus and state.status in ("Binding", "Pipelined"):
                newly.add(queue)
                newly_fixed |= set() if group.preemptible else {queue}
    for state_of in result.queues:
        name, limit, quota = state_of.name, state_of.limit[2], state_of.quota[2]
        assert abs(held[name] - state_of.allocated[2]) < EPSILON, (
            f"{name}: {held[name]} GPUs are not {state_of.allocated}"
        )
        assert name not in newly or held[name] <= limit + EPSILON, f"{name}: {held[name]} GPUs, limit {limit}"
        over = name in newly_fixed and fixed[name] > quota + EPSILON
        assert not over, f"{name}: {fixed[name]} GPUs of pods that cannot be preempted, quota {quota}"


def _line(cluster: Cluster, queue: str) -> list[str]:
    found = []
    while queue:
        found.append(queue)
        queue = cluster.queues[queue].parent
    return found


def check_evictions(cluster: Cluster, result: CycleResult) -> None:
    """Semantics 4.5: who is evicted made room for somebody who got a place, and is not promised its own place.

    Pods that share devices may move to another device of their node.
    """
    placed = {
        cluster.pods[key].group_key for key, each in result.pods.items() if each.status in ("Binding", "Pipelined")
    }
    waits = {each.node for each in result.pods.values() if each.status == "Pipelined"}
    for effect in result.effects:
        if not isinstance(effect, Evict) or effect.action == "stalegangeviction":
            continue
        before, after = cluster.pods[effect.pod], result.pods[effect.pod]
        assert effect.cause in placed or before.node in waits, f"{effect.pod} left for nobody"
        moves = before.shape.share is not None or before.claims
        back = after.status in ("Pipelined", "Binding") and after.node == before.node and not moves
        assert not back, f"{effect.pod} left {before.node} and was promised a place there"


def check_rest(cluster: Cluster, result: CycleResult, config: Config, now_ns: int) -> None:
    """What holds where nothing changes any more: nobody waits who has room, or who would be helped if no node took
    those of its queue that wait, too (semantics 3.8). What these ask for goes on to count for fair shares (2.3)."""
    waiting = {key for key, each in result.groups.items() if each.counts.get("Pending")}
    for key in sorted(waiting):
        pods = [
            pod for pod in cluster.pods.values() if pod.group_key == key and result.pods[pod.key].status == "Pending"
        ]
        missing = (cluster.pod_groups[key].min_member or 1) - sum(result.groups[key].nodes.values())
        if missing <= 1:
            home = next((node for node in cluster.nodes.values() if has_room(cluster, result, pods[0], node)), None)
            assert home is None, f"{pods[0].key} waits and has room on {home.name if home else ''}"
        queue = cluster.pod_groups[key].queue
        others = {other for other in waiting - {key} if cluster.pod_groups[other].queue == queue}
        alone = Cluster.of([_barred(each, others, result) for each in objects_of(cluster)])
        helped = run_cycle(alone, config, now_ns)
        assert helped.groups[key].counts.get("Pending") == len(pods), f"{key} waits for ever behind {sorted(others)}"


def objects_of(cluster: Cluster) -> list[o.Object]:
    tables = (
        cluster.queues,
        cluster.nodes,
        cluster.pod_groups,
        cluster.pods,
        cluster.priority_classes,
        cluster.device_classes,
        cluster.resource_slices,
        cluster.resource_claims,
    )
    return [each for table in tables for each in table.values()]


def _barred(each: o.Object, groups: set[str], result: CycleResult) -> o.Object:
    """The object, or a pod that no node takes in place of one that waits in these groups."""
    if isinstance(each, o.Pod) and each.group_key in groups and result.pods[each.key].status == "Pending":
        return replace(each, shape=replace(each.shape, node_selector=(("no-node", "has-this"),)))
    return each


def has_room(cluster: Cluster, result: CycleResult, pod: o.Pod, node: o.Node) -> bool:
    """Whether the pod certainly fits the node and its queues, at a time at which nobody is leaving (semantics 0.3, 3.4,
    8.2, 8.3, 8.6)."""
    there = [each for each in cluster.pods.values() if result.pods[each.key].node == node.name]
    asked, share = dict(pod.shape.request), pod.shape.share
    plain = [each for each in there if not is_reservation(each)]
    used: Counter[str] = Counter()
    for each in plain:
        for group in groups_of(each, result) if each.shape.share else ():
            used[group] += size_on(each.shape.share, node) if each.shape.share else 0
    reserved = {group for each in there if is_reservation(each) for group in each.gpu_groups}
    free = {name: amount - sum(dict(each.shape.request).get(name, 0.0) for each in plain)
            for name, amount in node.allocatable.items()}  # fmt: skip
    free["gpu"] = free.get("gpu", 0.0) - len(used)
    free["pods"] -= len(reserved) + len(used.keys() - reserved)
    if any(amount > free.get(name, 0.0) for name, amount in asked.items()) or not _gates_open(cluster, result, pod):
        return False
    if MIG_SMALL in node.allocatable and (share or "gpu" in asked):
        return False
    if share is not None:
        size, memory = size_on(share, node), device_memory(node)
        if size > memory or (share.memory_mib and MEMORY_LABEL not in node.labels):
            return False
        joined = sum(held + size <= memory for held in used.values())
        opened = max(0, share.devices - joined)
        return opened <= free["gpu"] and 1 + opened <= free["pods"]
    return all(_devices_free(cluster, result, claim, node) for claim in _own_claims(cluster, pod))


def _own_claims(cluster: Cluster, pod: o.Pod) -> list[ResourceClaim]:
    return [cluster.resource_claims[f"ml/{use.claim}"] for use in pod.claims]


def _gates_open(cluster: Cluster, result: CycleResult, pod: o.Pod) -> bool:
    group = result.groups[pod.group_key]
    small = min(cluster.nodes.values(), key=device_memory)
    gpus = price(pod, small, cluster)
    states = {each.name: each for each in result.queues}
    for state in (states[name] for name in _line(cluster, group.queue)):
        if gpus and state.allocated[2] + gpus > state.limit[2]:
            return False
        if gpus and not group.preemptible and state.allocated_non_preemptible[2] + gpus > state.quota[2]:
            return False
    return True


def _devices_free(cluster: Cluster, result: CycleResult, claim: ResourceClaim, node: o.Node) -> bool:
    """Whether one exact request finds enough devices of the node that nobody has; claims with an allocation do not."""
    requests = claim.asks.requests
    if claim.allocation or len(requests) != 1 or not requests[0].exact:
        return False
    taken = {each.device for one in allocations(cluster, result).values() for each in one.devices
             if each.pool == node.name}  # fmt: skip
    option = requests[0].options[0]
    fitting = [
        device
        for each in cluster.resource_slices.values()
        for device in each.devices
        if device.node == node.name
        and device.name not in taken
        and not device.counters
        and fits(claim, AllocatedDevice(requests[0].name, each.driver, each.pool, device.name), device)
    ]
    return option.count is not None and len(fitting) >= option.count
