"""Random clusters where pods have to leave for others: full nodes, queues above and below their share, priorities.

Running pods fit on their nodes, so that whatever follows is the scheduler's doing. Amounts are whole, as in
``clusters``. Without ``spice`` there are no times: no minimum runtimes, delays or torn gangs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from kai_sched.model import objects as o
from kai_sched.model.constraints import HostPort, PodTerm, Requirement, Taint, Toleration
from tests.properties.clusters import MINUTE_NS, NOW_NS, TREES, G, past_usage
from tests.properties.marks import with_unsafe_pods
from tests.properties.shares import Rooms, Sharing, label_node, share_of
from tests.properties.topologies import with_topologies

HOST = "kubernetes.io/hostname"
SIZES = (1, 1, 1, 1, 2, 2, 4)
UNLIMITED = o.Share(-1.0, -1.0, 1.0)


@dataclass(frozen=True)
class Crowd:
    """What a generated cluster may contain beyond jobs, queues and priorities."""

    times: bool = False
    sub_groups: bool = False
    picky: bool = False  # node selectors, taints, host ports, pods without GPUs
    limits: bool = False
    torn: bool = False
    flat: bool = False  # no departments
    deep: bool = False  # queues above departments, too
    movable: bool = False  # no fixed work, no priorities, and gaps on the nodes
    social: bool = False  # groups that must be near others, or apart from them
    tight: bool = False  # departments that deserve less than their queues, and get little more
    gangs: bool = False  # many gangs of more pods than a node has GPUs, some of them elastic
    sharing: Sharing | None = None  # pods that share devices
    topology: bool = False  # topologies, and groups and sub-groups with constraints


FULL = Crowd(times=True, sub_groups=True, picky=True, limits=True, torn=True)


Bounds = tuple[int, int]


def crowds(
    crowd: Crowd = FULL, n_nodes: Bounds = (1, 5), n_queues: Bounds = (1, 6), n_groups: Bounds = (1, 14)
) -> st.SearchStrategy[list[o.Object]]:
    """Lists of objects, each one cluster. Sizes are drawn, the rest follows from a drawn seed: it shrinks to few."""
    sizes = st.tuples(st.integers(*n_nodes), st.integers(*n_queues), st.integers(*n_groups), st.integers(0, 2**32))
    return sizes.map(lambda drawn: make_crowd(drawn[0], drawn[1], drawn[2], random.Random(drawn[3]), crowd))


def make_crowd(n_nodes: int, n_queues: int, n_groups: int, rng: random.Random, crowd: Crowd) -> list[o.Object]:
    nodes = [_node(rng, k, crowd) for k in range(n_nodes)]
    if crowd.sharing:
        nodes = [label_node(rng, node, crowd.sharing) for node in nodes]
    queues = _queues(rng, n_queues, crowd)
    parents = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in parents]
    found: list[o.Object] = [*nodes, *queues]
    found += [o.PriorityClass(f"p{value}", value) for value in (40, 60, 125)]
    rooms = Rooms(nodes)
    for k in range(n_groups):
        terms = _terms(rng, n_groups) if crowd.social else {}
        group = _group(rng, k, rng.choice(leaves), rooms, crowd)
        found += [_social(item, terms) if isinstance(item, o.Pod) else item for item in group] if terms else group
    found = with_unsafe_pods(found + rooms.reservations(rng))
    return with_topologies(rng, found) if crowd.topology else found


def _terms(rng: random.Random, n_groups: int) -> dict[str, tuple[PodTerm, ...]]:
    """What the pods of a group ask of where others are: seldom anything."""
    if rng.random() < 0.6:
        return {"": ()}
    other = Requirement("app", "In", (f"g{rng.randrange(n_groups)}",))
    term = PodTerm(rng.choice(("zone", HOST, HOST)), (other,), ("ns",))
    return {rng.choice(("affinity", "anti_affinity")): (term,)}


def _social(pod: o.Pod, terms: dict[str, tuple[PodTerm, ...]]) -> o.Pod:
    """The pod with the label that others know it by, and with these terms."""
    given = {name: value for name, value in terms.items() if name}
    return replace(pod, labels={"app": pod.group}, shape=replace(pod.shape, **given))


def _node(rng: random.Random, k: int, crowd: Crowd) -> o.Node:
    capacity = {"cpu": 64_000.0, "memory": 256.0 * G, "gpu": float(rng.choice((1, 2, 2, 4, 8))), "pods": 110.0}
    taints = (Taint("only", "others", "NoSchedule"),) if crowd.picky and rng.random() < 0.1 else ()
    return o.Node(f"n{k}", f"uid-{rng.random()}", {"zone": rng.choice("xy"), HOST: f"n{k}"}, capacity, taints)


def _queues(rng: random.Random, n_queues: int, crowd: Crowd) -> list[o.Queue]:
    regions = [f"r{k}" for k in range(rng.choice((0, 1, 2)))] if crowd.deep else []
    counts = (2, 2, 3) if crowd.tight else (0, 0, 1, 2, 3)
    departments = [f"d{k}" for k in range(rng.choice(counts) * (not crowd.flat))]
    queues = [_queue(rng, name, "", crowd) for name in regions]
    queues += [_queue(rng, name, rng.choice(regions) if regions else "", crowd) for name in departments]
    leaves = [_queue(rng, f"q{k}", rng.choice(departments) if departments else "", crowd) for k in range(n_queues)]
    return [replace(queue, usage=past_usage(queue.uid)) for queue in queues + leaves]


def _queue(rng: random.Random, name: str, parent: str, crowd: Crowd) -> o.Queue:
    quotas, weights = (-1, 0, 0, 1, 2, 3, 4, 6), (0, 1, 1, 2)
    if crowd.tight:
        quotas, weights = ((0, 1, 1, 2, 3), (0,)) if name.startswith("d") else ((2, 4, 6, 8), (0, 1))
    quota = float(rng.choice(quotas))
    limit = float(rng.choice((-1, -1, -1, 2, 4, 8))) if crowd.limits else -1.0
    runtimes = [float(rng.choice((0, 100, 1000))) if crowd.times and rng.random() < 0.3 else None for _ in range(2)]
    cpu = o.Share(float(rng.choice((0, 2000, 4000))), -1.0, 1.0) if crowd.picky and rng.random() < 0.2 else UNLIMITED
    return o.Queue(
        name=name,
        uid=f"u{rng.randrange(10**6)}-{name}",
        created_ns=NOW_NS - rng.randrange(3) * MINUTE_NS,
        parent=parent,
        priority=rng.choice((100, 100, 100, 50)),
        cpu=cpu,
        memory=UNLIMITED,
        gpu=o.Share(quota, limit, float(rng.choice(weights))),
        preempt_min_runtime_s=runtimes[0],
        reclaim_min_runtime_s=runtimes[1],
    )


def _group(rng: random.Random, k: int, queue: str, rooms: Rooms, crowd: Crowd) -> list[o.Object]:
    name, size = f"g{k}", rng.choice(SIZES[:5] if crowd.gangs else SIZES)
    tree = rng.choice(TREES[:4]) if crowd.sub_groups and rng.random() < 0.25 else ()
    count = rng.choice((1, 3, 5, 9, 12) if crowd.gangs else (1, 1, 1, 2, 2, 3, 4)) + len(tree)
    runs = rng.random() < 0.65
    pods = [_pod(rng, f"{name}-{n}", name, tree, size, crowd) for n in range(count)]
    if crowd.sharing and rng.random() < 0.7:
        pods = _sharing(rng, pods, crowd.sharing)
    gap = 0.15 if crowd.movable else 0.0
    placed = [pod if gap and rng.random() < gap else _placed(rng, pod, rooms) for pod in pods] if runs else pods
    least = rng.choice((1, (count + 1) // 2, count) if crowd.gangs else (1, 1, count))
    if runs and not tree and not crowd.torn:
        running = sum(bool(pod.node) for pod in placed)
        least = min(least, running) if running else least
    started = rng.choice((10, 500, 5000)) if runs and crowd.times else 0
    group = o.PodGroup(
        namespace="ns",
        name=name,
        uid=f"u{rng.randrange(10**6)}-{name}",
        created_ns=NOW_NS - (k // 2 + 1) * MINUTE_NS,
        queue=queue,
        priority_class="" if crowd.movable else rng.choice(("", "", "p40", "p60", "p125")),
        preemptible=True if crowd.movable else rng.choice((None, None, None, True, False)),
        min_member=None if tree else least,
        min_sub_group=rng.choice((None, 1)) if tree else None,
        sub_groups=tree,
        preemption_delay_s=float(rng.choice((0, 0, 100, 1000))) if crowd.times else 0.0,
        staleness_grace_s=rng.choice((None, None, 0.0, 100.0, -1.0)) if crowd.torn else None,
        stale_since_ns=NOW_NS - rng.choice((30, 200)) * G if crowd.torn and rng.random() < 0.5 else 0,
        last_start_ns=NOW_NS - started * G if started else 0,
    )
    return [group, *placed]


def _pod(rng: random.Random, name: str, group: str, tree: tuple[o.SubGroup, ...], size: int, crowd: Crowd) -> o.Pod:
    inner = {sub.parent for sub in tree}
    leaves = sorted(sub.name for sub in tree if sub.name not in inner)
    gpus = rng.choice((0, size)) if crowd.picky and rng.random() < 0.2 else size
    request = {"cpu": 1000.0, "memory": float(G), "gpu": float(gpus), "pods": 1.0}
    shape = o.Shape(
        request=tuple(sorted((key, amount) for key, amount in request.items() if amount)),
        node_selector=(("zone", rng.choice("xy")),) if crowd.picky and rng.random() < 0.1 else (),
        tolerations=(Toleration("only", "Exists"),) if crowd.picky and rng.random() < 0.5 else (),
        host_ports=(HostPort(80),) if crowd.picky and rng.random() < 0.05 else (),
    )
    return o.Pod(
        namespace="ns",
        name=name,
        shape=shape,
        uid=f"u{rng.randrange(10**6)}-{name}",
        created_ns=NOW_NS - rng.randrange(3) * MINUTE_NS,
        group=group,
        sub_group=rng.choice(leaves) if leaves else "",
        scheduler="kai-scheduler",
    )


def _sharing(rng: random.Random, pods: list[o.Pod], sharing: Sharing) -> list[o.Pod]:
    """The pods with a share instead of their GPUs: all the same, or now and then each its own."""
    if rng.random() < 0.2:
        return [replace(pod, shape=share_of(rng, pod.shape, sharing)) for pod in pods]
    shape = share_of(rng, pods[0].shape, sharing)
    return [replace(pod, shape=shape) for pod in pods]


def _placed(rng: random.Random, pod: o.Pod, rooms: Rooms) -> o.Pod:
    """The pod running somewhere where there is room for its GPUs; waiting where there is none."""
    place = rooms.place(rng, pod)
    if place is None:
        return pod
    node, groups = place
    fields = {name: getattr(pod, name) for name in ("namespace", "name", "shape", "uid", "created_ns", "group")}
    more = {"sub_group": pod.sub_group, "scheduler": pod.scheduler, "gpu_groups": groups}
    more["safe_to_consolidate"] = pod.safe_to_consolidate
    return o.Pod(**fields, **more, node=node, phase=o.Phase.RUNNING)
