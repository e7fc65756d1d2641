"""Capacity of storage drivers, attach limits and claims for one pod alone, against the rules of semantics 12.1 and 12.3
said once more, pod by pod and node by node: who gets a node may have it, and who waits may have none.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, CycleResult, Store, run_cycle
from kai_sched.lowering import exclusive_claims
from kai_sched.model import objects as o
from kai_sched.model.constraints import Requirement
from kai_sched.model.selectors import admits
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from kai_sched.plan.effects import Bind
from tests.properties.plans import text_of

UNLIMITED = o.Share(-1.0, -1.0, 1.0)
SEEDS = st.integers(0, 2**32)
HOST, ZONE = "host", "zone"
DRIVERS = ("disk", "net", "free")  # the last one keeps no capacity
ALONE = "ReadWriteOncePod"


def drawn(seed: int) -> list[o.Object]:
    """A few nodes, their drivers, claims of all kinds, and pods of which each is a group of its own."""
    rng = random.Random(seed)
    found: list[o.Object] = [o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED)]
    nodes = [f"n{k}" for k in range(rng.randrange(1, 5))]
    for k, name in enumerate(nodes):
        labels = {HOST: name, ZONE: "xy"[k % 2]}
        found.append(o.Node(name, labels=labels, allocatable={"cpu": 4000.0, "memory": 1e12, "pods": 110.0}))
        if rng.random() < 0.8:
            limited = rng.sample(DRIVERS, rng.randrange(3))
            found.append(NodeVolumes(name, {driver: rng.randrange(4) for driver in sorted(limited)}))
    for driver in DRIVERS:
        found += [StorageDriver(driver, driver != "free"), o.StorageClass(driver, True, driver)]
    found += capacities(rng, nodes)
    found += (made := claims(rng))
    for k in range(rng.randrange(1, 9)):
        keys = tuple(sorted({rng.choice(made).key for _ in range(rng.randrange(1, 4))}))
        cpu = float(rng.choice((500, 1000, 3000)))
        pod = o.Pod("ns", f"p{k}", o.Shape((("cpu", cpu), ("pods", 1.0)), claims=keys), f"p{k}", k, queue="q")
        if rng.random() < 0.3:
            phase = rng.choice((o.Phase.RUNNING, o.Phase.RUNNING, o.Phase.PENDING, o.Phase.SUCCEEDED))
            pod = replace(pod, node=rng.choice(nodes), phase=phase, deleted_ns=rng.choice((0, 0, 1)))
        found.append(replace(pod, scheduler=rng.choice(("kai-scheduler", "kai-scheduler", "other"))))
    return [*found, *volumes(rng, made)]


def capacities(rng: random.Random, nodes: list[str]) -> Iterator[o.Object]:
    """Segments of one node: those of several have their own test."""
    for k in range(rng.randrange(6)):
        where: o.NodeSelector = ((Requirement(HOST, "In", (rng.choice(nodes),)),),) if rng.random() < 0.9 else ()
        sizes = (rng.choice((None, float(rng.randrange(8)))) for _ in range(2))
        yield StorageCapacity("sys", f"c{k}", rng.choice(DRIVERS), where, *sizes)


def claims(rng: random.Random) -> list[o.VolumeClaim]:
    found = []
    for k in range(rng.randrange(1, 9)):
        modes = (ALONE,) if rng.random() < 0.3 else ("ReadWriteMany",)
        volume, size = (f"v{k}" if rng.random() < 0.5 else ""), float(rng.randrange(1, 5))
        kind = rng.choice(DRIVERS)
        found.append(o.VolumeClaim("ns", f"c{k}", "", volume, kind, access_modes=modes, size_bytes=size, uid=f"c{k}"))
    return found


def volumes(rng: random.Random, made: list[o.VolumeClaim]) -> Iterator[o.Object]:
    """The volumes of the claims that are bound; two of them may be the same one to the driver."""
    for claim in made:
        if claim.volume:
            handle = rng.choice(("", "", "same"))
            found = o.Volume(claim.volume, None, claim.storage_class, claim.key, "Bound")
            yield replace(found, driver=claim.storage_class, handle=handle)


@dataclass
class Twin:
    """What is used, and the rules. ``at_start``: by node, the attachments that pods have when the cycle begins."""

    cluster: Cluster
    users: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # pods with a node, by claim
    tasks: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # pods that count, by claim
    sharers: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    at_start: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    own: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))  # not shared, by node
    booked: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))  # by node and class
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        there = [pod for pod in self.cluster.pods.values() if counts(pod)]
        for pod in there:
            for key in pod.shape.claims:
                self.tasks[key] += 1
            for volume in self.volumes(pod):
                self.sharers[volume] += 1
        for pod in there:
            if pod.node and not pod.has_ended:
                self.at_start[pod.node] |= self.volumes(pod)
                self.put(pod, pod.node)

    def volumes(self, pod: o.Pod) -> set[tuple[str, str]]:
        """The driver and the name of each volume of the pod."""
        found = set()
        for key in pod.shape.claims:
            claim = self.cluster.volume_claims[key]
            volume = self.cluster.volumes.get(claim.volume)
            found.add((claim.storage_class, (volume.handle or volume.name) if volume else key))
        return found

    def put(self, pod: o.Pod, node: str) -> None:
        self.cpu[node] += dict(pod.shape.request)["cpu"]
        self.own[node] |= {each for each in self.volumes(pod) if self.sharers[each] == 1}
        for key in pod.shape.claims:
            self.users[key].append(pod.key)
        for claim in self.to_make(pod):
            if self.tasks[claim.key] == 1:
                self.booked[node, claim.storage_class] += claim.size_bytes

    def unbound(self, pod: o.Pod) -> list[o.VolumeClaim]:
        found = [self.cluster.volume_claims[key] for key in pod.shape.claims]
        return [claim for claim in found if not claim.volume]

    def to_make(self, pod: o.Pod) -> list[o.VolumeClaim]:
        """The claims for which the driver has to have capacity."""
        return [claim for claim in self.unbound(pod) if claim.storage_class != "free"]

    def is_shut_out(self, pod: o.Pod) -> bool:
        """Whether another pod has a claim that is for one pod alone."""
        alone = [key for key in pod.shape.claims if ALONE in self.cluster.volume_claims[key].access_modes]
        return any(user != pod.key for key in alone for user in self.users[key])

    def fits(self, pod: o.Pod, node: str) -> bool:
        if self.cpu[node] + dict(pod.shape.request)["cpu"] > self.cluster.nodes[node].allocatable["cpu"]:
            return False
        return self._attaches(pod, node) and self._is_made(pod, node)

    def _attaches(self, pod: o.Pod, node: str) -> bool:
        known = self.cluster.node_volumes.get(node)
        for driver, most in known.most.items() if known else ():
            mine = {each for each in self.volumes(pod) if each[0] == driver}
            shared = {each for each in mine if self.sharers[each] > 1}
            before = {each for each in self.at_start[node] if each[0] == driver}
            held = {each for each in self.own[node] if each[0] == driver}
            held |= {each for each in before if self.sharers[each] > 1}
            if mine - shared and len(held) + len(mine - shared) > most:
                return False
            if shared - before and len(before) + len(mine - before) > most:
                return False
        return True

    def _is_made(self, pod: o.Pod, node: str) -> bool:
        asked: dict[str, float] = defaultdict(float)
        for claim in self.to_make(pod):
            here = self._segments(claim.storage_class, node)
            most = [each.size_bytes or 0.0 if each.largest_bytes is None else each.largest_bytes for each in here]
            if max(most, default=0.0) < claim.size_bytes:
                return False
            if self.tasks[claim.key] == 1:
                asked[claim.storage_class] += claim.size_bytes
        return all(self.booked[node, kind] + size <= self._sum(kind, node) for kind, size in asked.items())

    def _segments(self, kind: str, node: str) -> list[StorageCapacity]:
        every = self.cluster.storage_capacities.values()
        return [each for each in every if each.storage_class == kind and admits(each.nodes, self.cluster.nodes[node])]

    def _sum(self, kind: str, node: str) -> float:
        found = 0.0
        for each in self._segments(kind, node):
            if each.size_bytes is None:
                found += 1e15 if each.largest_bytes is not None else 0.0
            else:
                found += max(each.size_bytes, each.largest_bytes or 0.0)
        return found


def counts(pod: o.Pod) -> bool:
    """Whether it takes part: it waits for this scheduler, or holds room on a node."""
    return pod.scheduler == "kai-scheduler" or (bool(pod.node) and not pod.has_ended)


def check(cluster: Cluster, result: CycleResult) -> None:
    twin = Twin(cluster)
    for bind in (each for each in result.effects if isinstance(each, Bind)):
        pod = cluster.pods[bind.pod]
        assert not twin.is_shut_out(pod), f"{pod.key} shares a claim for one pod alone"
        assert twin.fits(pod, bind.node), f"{pod.key} cannot be on {bind.node}"
        twin.put(pod, bind.node)
    bound = {each.pod for each in result.effects if isinstance(each, Bind)}
    for pod in cluster.pods.values():
        waits = pod.scheduler == "kai-scheduler" and not pod.node and pod.key not in bound
        # A claim of several pods that is made for the first of them draws the others to its node.
        drawn_on = any(twin.tasks[claim.key] > 1 for claim in twin.unbound(pod))
        if waits and not drawn_on and not twin.is_shut_out(pod) and result.pods[pod.key].status == "Pending":
            places = [node for node in cluster.nodes if twin.fits(pod, node)]
            assert not places, f"{pod.key} waits and could be on {places}"


@given(SEEDS)
def test_who_waits_could_not_have_been_placed(seed: int) -> None:
    cluster = Cluster.of(drawn(seed))
    check(cluster, run_cycle(cluster, Config(actions=("allocate",)), 0))


@given(SEEDS)
def test_it_does_not_depend_on_the_order_of_the_input(seed: int) -> None:
    objects = drawn(seed)
    shuffled = list(objects)
    random.Random(seed).shuffle(shuffled)
    plans = [run_cycle(Cluster.of(each), Config(), 0) for each in (objects, shuffled)]
    assert text_of(plans[0]) == text_of(plans[1])


@given(SEEDS)
def test_searches_for_victims_keep_to_limits(seed: int) -> None:
    """With evictions of pods of lower priority: what is bound, and what stays, is within all limits."""
    cluster = Cluster.of(drawn(seed))
    rng = random.Random(seed)
    ranks = [o.PriorityClass("low", 10), o.PriorityClass("high", 60)]
    pods = [replace(pod, priority_class=rng.choice(("low", "high"))) for pod in cluster.pods.values()]
    others = [each for each in Store.of(cluster).everything() if not isinstance(each, o.Pod)]
    config = Config(schedule_csi_storage=rng.random() < 0.5)
    moved = Cluster.of([*others, *ranks, *pods])
    result = run_cycle(moved, config, 0)
    users: dict[str, set[str]] = defaultdict(set)
    for bind in (each for each in result.effects if isinstance(each, Bind)):
        for key in moved.pods[bind.pod].shape.claims:
            if ALONE in moved.volume_claims[key].access_modes:
                users[key].add(bind.pod)
    assert all(len(each) == 1 for each in users.values()), users
    before = Twin(moved)
    assert not any(before.users[key] for key in users), "a claim for one pod alone is given to two"


@given(SEEDS)
def test_too_many_contests_let_the_first_pod_go(seed: int) -> None:
    """Where claims times nodes are too many, no claim is given to two pods either."""
    cells, exclusive_claims.CELLS_MAX = exclusive_claims.CELLS_MAX, 0
    try:
        cluster = Cluster.of(drawn(seed))
        result = run_cycle(cluster, Config(actions=("allocate",)), 0)
    finally:
        exclusive_claims.CELLS_MAX = cells
    twin = Twin(cluster)
    for bind in (each for each in result.effects if isinstance(each, Bind)):
        assert not twin.is_shut_out(cluster.pods[bind.pod])
        twin.put(cluster.pods[bind.pod], bind.node)
