"""Random clusters: small, crowded and full of ties, because that is where decisions differ.

Amounts are whole millicores, bytes and devices: sums are exact in any order, and plans can be compared to the letter.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from kai_sched.model import objects as o
from kai_sched.model.constraints import HostPort, PodTerm, Requirement, Taint, Toleration, WeightedPodTerm
from tests.properties.marks import with_unsafe_pods
from tests.properties.shares import Rooms, Sharing, label_node, share_of
from tests.properties.topologies import with_topologies

MINUTE_NS = 60 * 10**9
NOW_NS = 1_800_000_000 * 10**9
G = 10**9
FRESH = ("Pending",)
MIXED = ("Pending", "Pending", "Running", "Releasing", "Releasing", "Gated", "Bound")
DEDICATED = Taint("dedicated", "ml", "NoSchedule")
TREES: tuple[tuple[o.SubGroup, ...], ...] = (
    (o.SubGroup("a", "", 1), o.SubGroup("b", "", 2)),
    (o.SubGroup("a", "", 0), o.SubGroup("b", "", 1), o.SubGroup("c", "", 0)),
    (o.SubGroup("top", "", None, 1), o.SubGroup("a", "top", 1), o.SubGroup("b", "top", 1), o.SubGroup("c", "", 1)),
    (
        o.SubGroup("x", "", None, None),
        o.SubGroup("y", "", None, 1),
        o.SubGroup("a", "x", 1),
        o.SubGroup("b", "x", 1),
        o.SubGroup("c", "y", 2),
        o.SubGroup("d", "y", 0),
    ),
    (o.SubGroup("a", "", 1), o.SubGroup("a", "", 1)),
    (o.SubGroup("a", "missing", 1),),
)


@dataclass(frozen=True)
class Spice:
    """What a generated cluster may contain beyond plain pods on plain nodes."""

    pod_affinity: bool = False
    bind_requests: bool = False
    sharing: Sharing | None = None  # pods that share devices; no node holds too much then
    topology: bool = False  # topologies, and groups and sub-groups with constraints


def clusters(spice: Spice = Spice()) -> st.SearchStrategy[list[o.Object]]:
    """Lists of objects, each one cluster. Sizes are drawn, the rest follows from a drawn seed: it shrinks to few."""
    sizes = st.tuples(st.integers(1, 6), st.integers(1, 16), st.integers(1, 16), st.integers(0, 2**32))
    return sizes.map(lambda drawn: make_cluster(drawn[0], drawn[1], drawn[2], random.Random(drawn[3]), spice))


def make_cluster(n_nodes: int, n_queues: int, n_groups: int, rng: random.Random, spice: Spice) -> list[o.Object]:
    nodes = [_node(rng, k) for k in range(n_nodes)]
    if spice.sharing:
        nodes = [label_node(rng, node, spice.sharing) for node in nodes]
    queues = _queues(rng, n_queues)
    parents = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in parents]
    found: list[o.Object] = [*nodes, *queues]
    found += [o.PriorityClass(f"p{value}", value) for value in (40, 75, 100, 125)]
    for k in range(n_groups):
        found += _group(rng, f"g{k}", leaves * 5 + [queues[0].name], nodes, spice)
    for k in range(rng.choice((0, 0, 1, 3))):
        group = "" if rng.random() < 0.7 else "g0"
        found.append(_pod(rng, f"lone{k}", group, "", "Pending", nodes, spice, rng.choice([*leaves, "nowhere"])))
    for k in range(rng.choice((0, 0, 1, 2))):
        status = rng.choice(("Running", "Releasing", "Releasing"))
        found.append(_pod(rng, f"foreign{k}", "", "", status, nodes, spice, "", "default-scheduler"))
    if spice.sharing:
        found = _with_shares(rng, found, nodes, spice.sharing)
    if spice.bind_requests:
        found += [_bind_request(rng, pod, nodes) for pod in found if isinstance(pod, o.Pod) and rng.random() < 0.2]
    found = with_unsafe_pods(found)
    return with_topologies(rng, found) if spice.topology else found


def _with_shares(rng: random.Random, objects: list[o.Object], nodes: list[o.Node], sharing: Sharing) -> list[o.Object]:
    """The objects where many pods share devices. Whoever does not fit where he is waits instead."""
    rooms, found = Rooms(nodes), []
    for item in objects:
        if isinstance(item, o.Pod):
            shares = rng.random() < 0.6
            item = replace(item, shape=share_of(rng, item.shape, sharing)) if shares else item
            place = rooms.place(rng, item) if item.node else None
            node, groups = place or ("", ())
            waits = item.phase == o.Phase.PENDING or not place
            phase = o.Phase.PENDING if waits else item.phase
            item = replace(item, node=node, gpu_groups=groups, phase=phase, deleted_ns=item.deleted_ns if place else 0)
        found.append(item)
    found += rooms.reservations(rng)
    users = Counter(group for item in found if isinstance(item, o.Pod) for group in item.gpu_groups)
    return [_unnamed(rng, item, users) if isinstance(item, o.Pod) else item for item in found]


def _unnamed(rng: random.Random, pod: o.Pod, users: Counter[str]) -> o.Pod:
    """Seldom the pod without the names of its devices, which nobody else uses."""
    alone = all(users[group] == 1 for group in pod.gpu_groups)
    return replace(pod, gpu_groups=()) if alone and pod.shape.share and rng.random() < 0.1 else pod


def _bind_request(rng: random.Random, pod: o.Pod, nodes: list[o.Node]) -> o.BindRequest:
    """Now and then a second one for a pod, one that is dead, or one for a node that is gone."""
    name = rng.choice((pod.name, pod.name, pod.name, "other"))
    node = rng.choice([*nodes, *nodes, o.Node("gone")]).name
    return o.BindRequest("ns", name, pod.name, node, is_live=rng.random() < 0.8)


def _node(rng: random.Random, k: int) -> o.Node:
    capacity = {
        "cpu": float(rng.choice((4000, 8000, 64000))),
        "memory": float(rng.choice((16, 64, 256)) * G),
        "gpu": float(rng.choice((0, 1, 2, 4, 8))),
        "pods": float(rng.choice((3, 110, 110))),
    }
    labels = {"zone": rng.choice("xyz"), "host": f"n{k}"} if rng.random() < 0.9 else {}
    return o.Node(
        f"n{k}",
        f"uid-{rng.random()}",
        labels,
        capacity,
        (DEDICATED,) if rng.random() < 0.15 else (),
        rng.random() < 0.05,
        ("NotReady",) if rng.random() < 0.05 else (),
    )


def _queues(rng: random.Random, n_queues: int) -> list[o.Queue]:
    """A forest up to four levels deep, siblings of equal age among them; sometimes with shares finite throughout."""
    queues: list[o.Queue] = []
    depth: dict[str, int] = {"": 0}
    finite = 1.0 if rng.random() < 0.2 else 0.2
    for k in range(n_queues):
        parent = rng.choice([name for name, level in depth.items() if level < 4])
        depth[f"q{k}"] = depth[parent] + 1
        queues.append(
            o.Queue(
                name=f"q{k}",
                uid=f"u{rng.randrange(10**6)}-{k}",
                created_ns=NOW_NS - rng.randrange(3) * MINUTE_NS,
                parent=parent,
                priority=rng.choice((100, 100, 100, 50, 200)),
                cpu=_share(rng, 1000, finite),
                memory=_share(rng, 8 * G, finite),
                gpu=_share(rng, 1, 0.8),
            )
        )
    return [replace(queue, usage=past_usage(queue.uid)) for queue in queues]


def past_usage(seed: str) -> o.UsedShares:
    """What a queue used: nothing most of the time, in all at most twice the cluster."""
    rng = random.Random(seed)
    return o.UsedShares(*(rng.choice((0.0, 0.1, 0.5, 2.0)) for _ in range(3))) if rng.random() < 0.3 else o.UsedShares()


def _share(rng: random.Random, unit: int, finite: float) -> o.Share:
    """Unlimited, or a few units, with probability ``finite``."""
    weight = float(rng.choice((0, 1, 1, 2, 3)))
    if rng.random() >= finite:
        return o.Share(-1.0, -1.0, weight)
    quota = rng.choice((-1, 0, unit, 2 * unit, 4 * unit, 2.5 * unit if unit == 1 else 3 * unit))
    limit = rng.choice((-1, -1, -1, -1, -1, 2 * unit, 4 * unit, 8 * unit))
    return o.Share(float(quota), float(limit), weight)


def _group(rng: random.Random, name: str, queues: list[str], nodes: list[o.Node], spice: Spice) -> list[o.Object]:
    tree = rng.choice(TREES) if rng.random() < 0.35 else ()
    group = o.PodGroup(
        namespace="ns",
        name=name,
        uid=f"u{rng.randrange(10**6)}-{name}",
        created_ns=NOW_NS - rng.randrange(4) * MINUTE_NS,
        queue=rng.choice(queues),
        priority_class=rng.choice(("", "", "", "p40", "p75", "p100", "p125", "unknown")),
        preemptible=rng.choice((None, None, None, True, False)),
        min_member=rng.choice((None, 0, 1, 1, 2, 3)),
        min_sub_group=rng.choice((None, None, 1, 0)) if tree else None,
        sub_groups=tree,
    )
    names = sorted({sub.name for sub in tree}) or [""]
    statuses = (
        ["Pending"]
        if rng.random() < 0.7
        else ["Pending", "Pending", "Running", "Releasing", "Releasing", "Gated", "Bound"]
    )
    pods: list[o.Object] = []
    for k in range(rng.randrange(6)):
        sub = rng.choice(names) if rng.random() < 0.95 else "nowhere"
        pods.append(_pod(rng, f"{name}-{k}", name, sub, rng.choice(statuses), nodes, spice))
    return [group, *pods]


def _pod(
    rng: random.Random,
    name: str,
    group: str,
    sub: str,
    status: str,
    nodes: list[o.Node],
    spice: Spice,
    queue: str = "",
    scheduler: str = "kai-scheduler",
) -> o.Pod:
    placed = status in ("Running", "Releasing", "Bound")
    gone_s = rng.choice((1, 1, 1000)) if status == "Releasing" else 0
    labels = {"app": rng.choice(("web", "db"))}
    if rng.random() < 0.1:
        labels["kai.scheduler/task-priority"] = rng.choice(("1", "2", "high"))
    return o.Pod(
        namespace="ns",
        name=name,
        shape=_shape(rng, spice),
        uid=f"u{rng.randrange(10**6)}-{name}",
        created_ns=NOW_NS - rng.randrange(3) * MINUTE_NS,
        labels=labels,
        group=group,
        sub_group=sub,
        queue=queue,
        scheduler=scheduler,
        node=rng.choice(nodes).name if placed else "",
        nominated_node=rng.choice(nodes).name if rng.random() < 0.05 else "",
        phase=o.Phase.RUNNING if status in ("Running", "Releasing") else o.Phase.PENDING,
        deleted_ns=NOW_NS - gone_s * G if gone_s else 0,
        gates=("held",) if status == "Gated" else (),
    )


def _shape(rng: random.Random, spice: Spice) -> o.Shape:
    request = {
        "cpu": float(rng.choice((0, 500, 1000, 3000))),
        "memory": float(rng.choice((0, G, 7 * G))),
        "gpu": float(rng.choice((0, 1, 1, 1, 2, 4))),
        "pods": 1.0,
    }
    zone = Requirement("zone", rng.choice(("In", "NotIn")), (rng.choice("xyz"),))
    return o.Shape(
        request=tuple(sorted((name, amount) for name, amount in request.items() if amount)),
        node_selector=(("zone", rng.choice("xyz")),) if rng.random() < 0.08 else (),
        node_affinity=((zone,),) if rng.random() < 0.08 else None,
        tolerations=(Toleration("dedicated", "Exists"),) if rng.random() < 0.3 else (),
        host_ports=(HostPort(80),) if rng.random() < 0.06 else (),
        affinity=_terms(rng, 0.15) if spice.pod_affinity else (),
        anti_affinity=_terms(rng, 0.15) if spice.pod_affinity else (),
        preferred_affinity=_preferences(rng) if spice.pod_affinity else (),
        unsupported=("GPU sharing (annotation gpu-fraction)",) if rng.random() < 0.02 else (),
    )


def _terms(rng: random.Random, chance: float) -> tuple[PodTerm, ...]:
    if rng.random() > chance:
        return ()
    selector = (Requirement("app", "In", (rng.choice(("web", "db")),)),)
    return (PodTerm(rng.choice(("zone", "host")), selector, ("ns",)),)


def _preferences(rng: random.Random) -> tuple[WeightedPodTerm, ...]:
    return tuple(WeightedPodTerm(rng.choice((1, 5, -3)), term) for term in _terms(rng, 0.15))
