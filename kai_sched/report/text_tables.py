"""What ``simulate`` prints: the tables of queues, groups, shared GPUs, devices of claims and evictions, with their
columns and words, and the summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction

from kai_sched.model.config import Config
from kai_sched.model.keys import split_key
from kai_sched.model.objects import Phase
from kai_sched.model.store import Cluster
from kai_sched.plan import waits
from kai_sched.plan.allocations import quantity
from kai_sched.plan.effects import Bind, Evict, Pipeline
from kai_sched.plan.reasons import of_shared, show_amount, some_of
from kai_sched.plan.receipts import receipt
from kai_sched.plan.result import QUEUE_RESOURCES, CycleResult, GroupState, QueueState
from kai_sched.report.claims import ClaimedDevice, claimed_devices
from kai_sched.report.devices import Sharer, shared_devices
from kai_sched.report.layout import Cell, Line, fold, lay_out
from kai_sched.report.text import amount, count, plain

MOST_NODES = 8
MOST_DEVICES = 20
MOST_EVICTIONS = 20
INDENT = "    "
UNITS = {"cpu": "CPU cores", "memory": "GB memory", "gpu": "GPUs"}

# Words and styles of the pod statuses, in the order in which the pods of a group are listed.
WORDS = {
    "Running": ("running", "green"),
    "Bound": ("bound", "green"),
    "Binding": ("binding", "bold green"),
    "Pipelined": ("pipelined", "cyan"),
    "Releasing": ("releasing", "magenta"),
    "StuckInReleasing": ("stuck in releasing", "magenta"),
    "Gated": ("gated", "yellow"),
    "Pending": ("pending", "yellow"),
    "Succeeded": ("succeeded", "dim"),
    "Unknown": ("unknown", "red"),
}
LEGEND = {
    "Binding": "binding: gets its node in this cycle",
    "Pipelined": "pipelined: has a place, and is bound in a later cycle",
    "Gated": "gated: held back by scheduling gates",
}


def tables(cluster: Cluster, result: CycleResult, width: int, wide: bool) -> Iterator[Line]:
    """The queues, the pod groups, shared GPUs, devices of claims and the evictions of one cycle, line by line.

    ``width`` is the width of the terminal in columns. Rows of ``wide`` tables are not folded.
    """
    if result.queues:
        yield from _queues(cluster, result, width, wide)
        yield []
    if result.groups:
        yield from _groups(cluster, result, width, wide)
        yield []
    sections = (_devices(cluster, result, width, wide), _claimed(cluster, result, width, wide))
    for section in (*sections, evictions(result, width, wide)):
        if lines := list(section):
            yield from lines
            yield []


def _queues(cluster: Cluster, result: CycleResult, width: int, wide: bool) -> Iterator[Line]:
    resources = ("gpu", "cpu", "memory") if wide else (_main_resource(result),)
    yield [("Queues" if wide else f"Queues, in {UNITS[resources[0]]}", "bold")]
    titles = ["Quota", "Fair share", "Allocated", "Requested"]
    if wide:
        titles = ["Priority", "", "Quota", "Limit", "Weight", "Fair share", "Allocated", "Requested"]
    rows = [[Cell("Queue", "dim"), *(Cell(title, "dim", right=True) for title in titles)]]
    for queue in result.queues:
        for resource in resources:
            first = resource == resources[0]
            name = Cell("  " * queue.depth + plain(queue.name) if first else "")
            rows.append([name, *_queue_cells(cluster, queue, resource, wide, first)])
    for lines in lay_out(rows, None if wide else width):
        yield from lines
    if not wide and (over := _over_quota(result, resources[0])):
        yield from ([(line, "dim")] for line in fold(f"over quota: {over}", width))


def _over_quota(result: CycleResult, resource: str) -> str:
    """The leaf queues that hold more than their quota, and by how much."""
    index = QUEUE_RESOURCES.index(resource)
    parents = {queue.parent for queue in result.queues}
    excess = {
        queue.name: queue.allocated[index] - queue.quota[index] for queue in result.queues if queue.name not in parents
    }
    return some_of([f"{plain(name)} by {amount(resource, more)}" for name, more in excess.items() if more > 0])


def _main_resource(result: CycleResult) -> str:
    """The resource of the narrow tables: GPUs, unless the cluster has none and no pod requests one."""
    gpus = any(node.allocatable.get("gpu", 0.0) > 0 for node in result.nodes.values())
    return "gpu" if gpus or any(queue.requested[2] > 0 for queue in result.queues) else "cpu"


def _queue_cells(cluster: Cluster, queue: QueueState, resource: str, wide: bool, first: bool) -> list[Cell]:
    index = QUEUE_RESOURCES.index(resource)
    quota, limit, fair, allocated, requested = (
        amount(resource, column[index])
        for column in (queue.quota, queue.limit, queue.fair_share, queue.allocated, queue.requested)
    )
    over = "magenta" if queue.allocated[index] > queue.quota[index] else ""
    tail = [Cell(fair, right=True), Cell(allocated, over, right=True), Cell(requested, right=True)]
    if not wide:
        return [Cell(quota, right=True), *tail]
    source = cluster.queues.get(queue.name)
    weight = f"{getattr(source, resource).weight:g}" if source else ""
    return [
        Cell(str(queue.priority) if first else "", right=True),
        Cell(UNITS[resource]),
        *(Cell(text, right=True) for text in (quota, limit, weight)),
        *tail,
    ]


def _groups(cluster: Cluster, result: CycleResult, width: int, wide: bool) -> Iterator[Line]:
    yield [("Pod groups", "bold")]
    titles = [
        "Pod group",
        "Queue",
        *(["Priority", "Preemptible", "Min"] if wide else []),
        "Pods",
        "Nodes, or why it waits",
    ]
    rows = [[Cell(title, "dim") for title in titles], *(_group_cells(group, wide) for group in result.groups.values())]
    laid = lay_out(rows, None if wide else width)
    yield from next(laid)
    places, moved = waits.by_group(result.effects, cluster.pods), waits.moves(result.effects)
    for group, lines in zip(result.groups.values(), laid, strict=True):
        yield from lines
        if group.key in places and "Pipelined" in group.counts:
            text = f"pipelined: {waits.of_group(places[group.key], result.leaving, moved)}"
            yield from ([(INDENT + line, "")] for line in _fold_indented(text, width))
        if group.reason is not None:
            yield from ([(INDENT + line, "")] for line in _fold_indented(group.reason.message, width))
    seen = {status for group in result.groups.values() for status in group.counts}
    for text in [LEGEND[status] for status in LEGEND if status in seen]:
        yield [(line, "dim") for line in fold(text, width)]


def _group_cells(group: GroupState, wide: bool) -> list[Cell]:
    words = [f"{group.counts[status]} {word}" for status, (word, _) in WORDS.items() if status in group.counts]
    worst = [style for status, (_, style) in WORDS.items() if status in group.counts]
    nodes = [f"{plain(name)} ({pods})" for name, pods in group.nodes.items()]
    if not wide and len(nodes) > MOST_NODES:
        nodes = [*nodes[:MOST_NODES], f"and {len(nodes) - MOST_NODES} more"]
    where = [", ".join(nodes)] if nodes else []
    if group.reason is not None:
        where.append(group.reason.code)
    extra = []
    if wide:
        extra = [Cell(str(group.priority)), Cell("yes" if group.preemptible else "no"), Cell(str(group.min_member))]
    return [
        Cell(plain(group.key)),
        Cell(plain(group.queue) or "-"),
        *extra,
        Cell(", ".join(words) or "no pods", worst[-1] if worst else "dim"),
        Cell("; ".join(where)),
    ]


def _devices(cluster: Cluster, result: CycleResult, width: int, wide: bool) -> Iterator[Line]:
    """The GPUs that are shared, and by whom. They are numbered on each node; wide tables show their names as well."""
    found = shared_devices(cluster, result)
    if not found:
        return
    yield [("Shared GPUs", "bold")]
    titles = [Cell("Node", "dim"), Cell("Device", "dim"), Cell("Held", "dim", right=True), Cell("Pods", "dim")]
    rows, number, before = [titles], 0, ""
    for device in found if wide else found[:MOST_DEVICES]:
        number = number + 1 if device.node == before else 1
        node, before = "" if device.node == before else device.node, device.node
        pods = _first([_sharer(sharer) for sharer in device.sharers], wide)
        name = f"{number} {plain(device.group)}".rstrip() if wide else str(number)
        rows.append([Cell(plain(node)), Cell(name), Cell(amount("gpu", device.held), right=True), Cell(pods)])
    yield from _listed(rows, len(found), width, wide)


def _listed(rows: list[list[Cell]], n: int, width: int, wide: bool) -> Iterator[Line]:
    """The table of a header and rows for the first of ``n`` things, and how many more there are."""
    for lines in lay_out(rows, None if wide else width):
        yield from lines
    yield from _more(n - len(rows) + 1)


def _more(n: int) -> Iterator[Line]:
    if n > 0:
        yield [(f"and {n} more: -o wide shows all", "dim")]


def _first(pods: list[str], wide: bool) -> str:
    """The pods of a device; all of them in wide tables only."""
    if wide or len(pods) <= MOST_NODES:
        return ", ".join(pods)
    return ", ".join([*pods[:MOST_NODES], f"and {len(pods) - MOST_NODES} more"])


def _sharer(sharer: Sharer) -> str:
    share = sharer.share
    part = f"{share.memory_mib:,} MiB" if share.memory_mib else f"{share.portion:g}"
    word = "" if sharer.status in ("Running", "Bound") else f", {WORDS[sharer.status][0]}"
    return f"{plain(sharer.pod)} ({part}{word})"


def _claimed(cluster: Cluster, result: CycleResult, width: int, wide: bool) -> Iterator[Line]:
    """The devices that claims hold. A row leaves out what the one above it says, and a pool called like the node."""
    found = claimed_devices(cluster, result)
    if not found:
        return
    yield [("Devices of claims", "bold")]
    rows = [[Cell(title, "dim") for title in ("Node", "Device", "Takes", "Claim", "Pods")]]
    before = ("", "")
    for each in found if wide else found[:MOST_DEVICES]:
        device = "/".join((each.driver, *([each.pool] if each.pool != each.node else []), each.device))
        node = "" if before[0] == each.node and before[1] else each.node or "-"
        name = "" if before == (each.node, device) else device
        before = (each.node, device)
        pods = _first([_user(key, status) for key, status in each.pods.items()], wide)
        texts = (plain(node), plain(name), _taken(each), plain(each.claim), pods or "none")
        rows.append([Cell(text) for text in texts])
    yield from _listed(rows, len(found), width, wide)


def _user(pod: str, status: str) -> str:
    """The name of the pod, which is in the namespace of its claim, and its status unless it runs."""
    name = plain(split_key(pod)[1])
    return name if status in ("Running", "Bound") else f"{name} ({WORDS[status][0]})"


def _taken(device: ClaimedDevice) -> str:
    """What the claim takes of the device: capacities, or the whole; amounts from a mebibyte on are sizes."""
    if device.admin:
        return "admin access"
    if device.consumed:
        sizes = [
            (name, show_amount("memory", float(amount)).split(" ", 1)[0] if amount >= 2**20 else _exact(amount))
            for name, amount in device.consumed
        ]
        return ", ".join(f"{size} {plain(name)}" for name, size in sizes)
    return f"{device.gpus} GPU" if device.gpus else "1 device"


def _exact(amount: Fraction) -> str:
    return f"{float(amount):g}" if (amount * 1000).denominator == 1 else quantity(amount)


def evictions(result: CycleResult, width: int, wide: bool) -> Iterator[Line]:
    """The evictions of the cycle: pod, group that gets the room, rule, freed amounts. Wide tables list all of them."""
    found = [effect for effect in result.effects if isinstance(effect, Evict)]
    if not found:
        return
    yield [("Evictions", "bold")]
    shown = found if wide else found[:MOST_EVICTIONS]
    for effect in shown:
        first, *sides = receipt(effect).splitlines()
        for place, text in enumerate(_fold_indented(first, width)):
            yield [(INDENT * (place > 0) + text, "")]
        for side in sides:
            yield from ([(INDENT + text, "dim")] for text in _fold_indented(side, width))
    yield from _more(len(found) - len(shown))


def _fold_indented(text: str, width: int) -> list[str]:
    """The text in lines that leave room for an indent, of 20 columns at least."""
    return fold(plain(text), max(20, width - len(INDENT)))


def cycle_line(result: CycleResult) -> str:
    """The effects of one cycle and the pending pods, in a sentence."""
    kinds = Counter(type(effect) for effect in result.effects)
    done = f"{count(kinds[Bind], 'pod')} bound, {kinds[Pipeline]} pipelined, {kinds[Evict]} evicted"
    waiting = [group for group in result.groups.values() if group.reason is not None]
    if not waiting:
        return f"{done}; nothing pending"
    pods = sum(group.counts.get("Pending", 0) + group.counts.get("Gated", 0) for group in waiting)
    codes = Counter(group.reason.code for group in waiting if group.reason is not None)
    why = ", ".join(f"{code} {number}" for code, number in sorted(codes.items()))
    return f"{done}; {count(pods, 'pod')} pending in {count(len(waiting), 'group')} ({why})"


def summary(cluster: Cluster, result: CycleResult, config: Config, title: str = "This cycle") -> Iterator[str]:
    """The last lines: effects of the cycle, pods of other schedulers, and the free room on nodes that accept pods."""
    yield f"{title} ({', '.join(config.actions) or 'no action'}): {cycle_line(result)}."
    others = Counter(
        pod.scheduler or "none"
        for pod in cluster.pods.values()
        if pod.scheduler != config.scheduler_name and pod.phase == Phase.PENDING and not pod.node
    )
    if others:
        names = some_of([f"{plain(name)} {number}" for name, number in sorted(others.items())])
        what, ours = f"{count(others.total(), 'pod')} pending for other schedulers", plain(config.scheduler_name)
        yield f"{what} ({names}), ignored: their schedulerName is not {ours}."
    resource = _main_resource(result)
    usable = {name for name, node in cluster.nodes.items() if node.takes_pods}
    total = sum(node.allocatable.get(resource, 0.0) for name, node in result.nodes.items() if name in usable)
    shared = {name: node.shared if resource == "gpu" else 0.0 for name, node in result.nodes.items()}
    free = {name: _room(node.idle, node.releasing, resource) + shared[name] for name, node in result.nodes.items()}
    room = sum(free[name] for name in sorted(free.keys() & usable))
    text = f"{count(len(free), 'node')}; free: {amount(resource, room)} of {amount(resource, total)} {UNITS[resource]}"
    text += of_shared(sum(shared[name] for name in sorted(free.keys() & usable)))
    if apart := len(free.keys() - usable):
        where = f"{count(apart, 'node')} that {'takes' if apart == 1 else 'take'} no pods (cordoned or not ready)"
        text += f"; {amount(resource, sum(free.values()) - room)} more on {where}"
    yield text + "."


def _room(idle: Mapping[str, float], releasing: Mapping[str, float], resource: str) -> float:
    """What is free once leaving pods have left and pipelined pods have taken their room."""
    return max(0.0, idle.get(resource, 0.0) + releasing.get(resource, 0.0))
