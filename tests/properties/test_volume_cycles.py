"""Clusters with claims that wait for volumes live through cycles until nothing changes any more: a volume serves one
claim, gangs start whole, and no single pod waits that could have volumes and room (semantics 12.2)."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest

from kai_sched import Cache, Cluster, Config, CycleResult, HintTracker, Store, run_cycle
from kai_sched.cycle.world.pods import World, advance
from kai_sched.model import objects as o
from kai_sched.model.constraints import Requirement
from kai_sched.model.selectors import admits
from kai_sched.model.volumes import VolumeBook
from kai_sched.plan.effects import Bind
from tests.properties.clusters import NOW_NS
from tests.properties.device_rules import objects_of
from tests.properties.plans import text_of

BLOCK = 50
BUSY_CYCLES, CYCLES_MAX = 4, 30
STEP_NS = 10 * 10**9
FREE = o.Share(-1.0, -1.0, 1.0)
ZONE, HOST = "zone", "kubernetes.io/hostname"
MODES = (("ReadWriteOnce",), ("ReadWriteOnce", "ReadWriteMany"))


class Moment(NamedTuple):
    """A cycle: what it was given, its result, and whether nothing changes any more."""

    cluster: Cluster
    result: CycleResult
    at_rest: bool


@dataclass
class Life:
    """A cluster and all that will happen to it, drawn from one seed."""

    seed: int
    config: Config = field(default_factory=Config)
    store: Store = field(default_factory=Store)
    now_ns: int = NOW_NS
    _made: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        for name in ("q0", "q1"):
            self.store.put(o.Queue(name, name, NOW_NS, cpu=FREE, memory=FREE, gpu=o.Share(1.0, -1.0, 1.0)))
        for name, value in (("train", 50), ("build", 75)):
            self.store.put(o.PriorityClass(name, value))
        zones = (((Requirement(ZONE, "In", ("x",)),),), None)
        for item in (
            o.StorageClass("local", True, "kubernetes.io/no-provisioner"),
            o.StorageClass("zonal", True, "csi.example.com", self.rng.choice(zones)),
            o.StorageClass("now", False, "csi.example.com"),
        ):
            self.store.put(item)
        for k in range(self.rng.randint(1, 5)):
            labels = {ZONE: "xyz"[k % 3], HOST: f"n{k}"}
            capacity = {"cpu": 1000.0 * self.rng.choice((2, 3, 5, 8)), "pods": 110.0, "gpu": 1.0}
            self.store.put(o.Node(f"n{k}", f"n{k}", labels, capacity))
        for _ in range(self.rng.randint(0, 8)):
            self._make_volume()
        for _ in range(self.rng.randint(1, 6)):
            self._make_group()

    def cycles(self) -> Iterator[Moment]:
        """Cycle after cycle; AssertionError without an end."""
        tracker, cache = HintTracker(), Cache()
        for number in range(BUSY_CYCLES + CYCLES_MAX):
            cluster = self.store.cluster()
            result = run_cycle(cluster, self.config, self.now_ns, cache, hints=tracker.next_hints())
            tracker.record(cluster, result, self.config)
            calm = number >= BUSY_CYCLES
            at_rest = calm and not result.effects and not tracker.due
            yield Moment(cluster, result, at_rest)
            if at_rest:
                return
            advance(self.store, cluster, result, self.now_ns, World(STEP_NS, revives=True, restarts_clocks=False))
            self.now_ns += STEP_NS
            if not calm:
                for make in self.rng.choices((self._make_volume, self._make_group), k=self.rng.randint(0, 3)):
                    make()
        raise AssertionError(f"no rest after {CYCLES_MAX} cycles without a change")

    def _make_volume(self) -> None:
        rng = self.rng
        self._made += 1
        label, value = rng.choice(((HOST, f"n{rng.randint(0, 4)}"), (ZONE, rng.choice("xyz")), ("", "")))
        reach = ((Requirement(label, "In", (value,)),),) if label else None
        name, storage = f"v{self._made}", rng.choice(("local", "local", "local", "zonal"))
        size, claims = float(rng.randint(1, 3)), sorted(self.store.cluster().volume_claims)
        holder = rng.choice(claims) if claims and rng.random() < 0.1 else ""
        self.store.put(
            o.Volume(
                name, reach, storage, holder, "Available", rng.choice(MODES), size, uid=name, labels={"n": name[-1]}
            )
        )

    def _make_group(self) -> None:
        rng = self.rng
        self._made += 1
        name, pods, queue = f"g{self._made}", rng.choice((1, 1, 2, 3)), rng.choice(("q0", "q1"))
        least, created = rng.choice((1, pods)), self.now_ns + self._made
        shared, storage = rng.random() < 0.3, rng.choice(("local", "local", "zonal", "now"))
        cpu, gpus = 1000.0 * rng.choice((1, 1, 2, 3)), float(rng.random() < 0.3)
        self.store.put(
            o.PodGroup("ml", name, f"{name}-uid", created, queue, rng.choice(("train", "build")), min_member=least)
        )
        for k in range(pods):
            claims = [f"{name}-all" if shared else f"{name}-{k}-{n}" for n in range(rng.choice((1, 1, 2)))]
            for key in dict.fromkeys(claims):
                if self.store.get(o.VolumeClaim, f"ml/{key}") is None:
                    selector = (Requirement("n", "In", ("1", "3", "5")),) if rng.random() < 0.1 else ()
                    self.store.put(
                        o.VolumeClaim(
                            "ml",
                            key,
                            "Pending",
                            "",
                            storage,
                            False,
                            rng.choice(MODES),
                            float(rng.randint(1, 3)),
                            uid=f"{key}-uid",
                            selector=selector,
                        )
                    )
            request = tuple((r, a) for r, a in (("cpu", cpu), ("gpu", gpus), ("pods", 1.0)) if a)
            shape = o.Shape(request, claims=tuple(f"ml/{key}" for key in sorted(set(claims))))
            pod = o.Pod("ml", f"{name}-{k}", shape, f"{name}-{k}-uid", created, group=name, queue=queue)
            self.store.put(replace(pod, scheduler="kai-scheduler"))


def check(cluster: Cluster, result: CycleResult) -> None:
    """What one cycle decides: each bind by itself, each volume once, and gangs whole."""
    taken: dict[str, str] = {}
    at: dict[str, str] = {}
    for bind in (each for each in result.effects if isinstance(each, Bind)):
        node, book = cluster.nodes[bind.node], VolumeBook(cluster)
        waiting = book.waiting(cluster.pods[bind.pod].shape.claims)
        decided = dict(bind.volumes)
        for claim in waiting:
            name = decided.get(claim.key, "")
            if name:
                volume = cluster.volumes[name]
                assert admits(volume.node_affinity, node), (bind, volume)
                assert volume in book.candidates(claim), (bind, volume)
                assert taken.setdefault(name, claim.key) == claim.key, f"{name} for {claim.key} and {taken[name]}"
            elif claim.key in decided or not book.candidates(claim):
                topologies = book.topologies(claim)
                assert topologies is not None
                assert admits(topologies[0], node), bind
                assert at.setdefault(claim.key, bind.node) == bind.node, f"{claim.key} is made on two nodes"
        chosen = {key: name for key, name in decided.items() if name}
        assert len(set(chosen.values())) == len(chosen), bind
    bound = Counter(cluster.pods[each.pod].group_key for each in result.effects if isinstance(each, Bind))
    for key, count in bound.items():
        running = sum(pod.group_key == key and bool(pod.node) for pod in cluster.pods.values())
        assert running + count >= (cluster.pod_groups[key].min_member or 1), f"{key} starts in part"


def check_rest(cluster: Cluster) -> None:
    """Each claim of a pod on a node has a volume that can be used there, and no single pod waits that has room."""
    held = defaultdict[str, Counter[str]](Counter)
    for pod in cluster.pods.values():
        if pod.node:
            held[pod.node].update(dict(pod.shape.request))
            for key in pod.shape.claims:
                volume = cluster.volumes[cluster.volume_claims[key].volume]
                assert volume.claim == key
                assert admits(volume.node_affinity, cluster.nodes[pod.node]), f"{pod.key} cannot use {volume.name}"
    holders = Counter(claim.volume for claim in cluster.volume_claims.values() if claim.volume)
    assert all(count == 1 for count in holders.values()), holders
    book = VolumeBook(cluster)
    for pod in cluster.pods.values():
        alone = sum(each.group_key == pod.group_key for each in cluster.pods.values()) == 1
        if pod.node or not alone or not usable(pod, book):
            continue
        for node in cluster.nodes.values():
            room = all(node.allocatable.get(r, 0.0) - held[node.name][r] >= a for r, a in pod.shape.request)
            volumes = [cluster.volume_claims[key].volume for key in pod.shape.claims]
            there = all(admits(cluster.volumes[name].node_affinity, node) for name in volumes if name)
            finds = book.place(book.waiting(pod.shape.claims), node).homeless is None
            assert not (room and there and finds), f"{pod.key} waits and has room on {node.name}"


def usable(pod: o.Pod, book: VolumeBook) -> bool:
    """Whether all claims are bound, or wait for the pod."""
    claims = [book.cluster.volume_claims[key] for key in pod.shape.claims]
    return all(claim.volume or book.waits(claim) for claim in claims)


def live(seeds: Iterable[int]) -> None:
    """Whole lives, each from its seed; the message of a failure begins with the seed."""
    for seed in seeds:
        try:
            for moment in Life(seed).cycles():
                check(moment.cluster, moment.result)
                if moment.at_rest:
                    check_rest(moment.cluster)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_few_lives() -> None:
    live(range(20))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 320, BLOCK))
def test_300_lives(first: int) -> None:
    live(range(first, first + BLOCK))


@pytest.mark.long
@pytest.mark.parametrize("first", range(320, 3320, 3 * BLOCK))
def test_3000_lives(first: int) -> None:
    live(range(first, first + 3 * BLOCK))


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_the_input_does_not_matter(seed: int) -> None:
    life = Life(seed)
    for moment in life.cycles():
        shuffled = [*objects_of(moment.cluster)]
        random.Random(seed).shuffle(shuffled)
        plans = [run_cycle(Cluster.of(each), life.config, NOW_NS) for each in (shuffled, shuffled[::-1])]
        assert text_of(plans[0]) == text_of(plans[1])
