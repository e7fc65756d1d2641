"""The reconciler looks at what has changed only, and yet says what one says that looks at everything."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.claims.objects import (
    ClaimRequests,
    ContainerDevices,
    DeviceClass,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
)
from kai_sched.model.objects import Node, Object, Phase, Pod, PodGroup, PriorityClass, Queue, SubGroup
from kai_sched.model.store import Store
from kai_sched.plan import reasons
from kai_sched.plan.effects import Bind, Emit, Evict, Pipeline, Ref
from kai_sched.plan.result import CycleResult
from kai_sched.reconcile.grouping.manifest import QueueChoice
from kai_sched.reconcile.status.owner_reconciler import OwnerIndex
from kai_sched.reconcile.status.reconciler import StatusReconciler
from kai_sched.reconcile.status.usage import QueueUsage, ShapeCounts
from tests.unit.reconcile.cases import CONFIG, NO_ROOM, SECOND_NS, SHAPE, World, decided, pod, pod_group, queue, state

NAMES = [f"n{n}" for n in range(6)]
GROUPS = ["g", "h", "lost"]
OTHER_SHAPE = replace(SHAPE, request=(("cpu", 250.0), ("pods", 1.0)))
ASKS = [
    ClaimRequests(tuple(DeviceRequest(f"r{n}", (DeviceOption(name, count=n + 1),)) for n, name in enumerate(classes)))
    for classes in (["gpu"], ["gpu", "gpu-large"], ["nic"])
]
EXTENDED = (ContainerDevices("main", 0, True, "example.com/card", 0, 2),)
CHOICES = [QueueChoice("team", "Job ml/x", "metadata.labels"), QueueChoice("default-queue", "", "")]
REASONS = [
    *(replace(NO_ROOM, message=f"no node: {n} left") for n in range(6)),
    None,
    NO_ROOM,
    *(replace(NO_ROOM, message=f"no node: {n} free") for n in range(3)),
    reasons.over_limit("team", "gpu", 1, 1, 1),
    reasons.not_ready([]),
    reasons.not_tried(),
    reasons.no_queue("team", ["other"], None),
    replace(NO_ROOM, missing=True),
]
COUNTS = [{"Pending": 1}, {"Pending": 1, "Running": 1}, {"Running": 2}, {"Gated": 1}]


class Twice:
    """Two reconcilers that are told the same; one of them looks at everything each time."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world = World()  # what the API server shows
        self.store = Store()
        self.reconcilers = (StatusReconciler(CONFIG), StatusReconciler(CONFIG))
        self.owners = [OwnerIndex(reconciler.observe_owner) for reconciler in self.reconcilers]
        self.tally: QueueUsage | None = None
        self.result = decided()
        self.seconds = 0.0

    def show(self, item: Object) -> None:
        """Tell both what the API server shows of it."""
        self.world.objects = (item,)
        for reconciler in self.reconcilers:
            self.world.reconciler = reconciler
            self.world.show()

    def change(self) -> None:
        """Something in the cluster becomes another."""
        rng, name = self.rng, self.rng.choice(NAMES)
        made: dict[type, Any] = {
            Node: lambda: Node(f"node-{rng.randint(1, 2)}"),
            Queue: lambda: queue(rng.choice(["team", "default-queue", "top"]), rng.choice(["", "top", "missing"])),
            PriorityClass: lambda: PriorityClass("train", rng.choice([50, 125])),
            PodGroup: lambda: pod_group(
                rng.choice(GROUPS[:2]),
                uid=rng.choice(["uid-1", "uid-2"]),
                queue=rng.choice(["team", "default-queue"]),
                priority_class=rng.choice(["", "train"]),
                mark_unschedulable=rng.random() < 0.8,
                sub_groups=rng.choice([(), (SubGroup("x", min_member=1),)]),
                stale_since_ns=rng.choice([0, 5]),
            ),
            Pod: lambda: pod(
                name,
                rng.choice(["", *GROUPS]),
                rng.choice(["", "", "node-1", "node-2"]),
                uid=rng.choice(["uid-1", "uid-2"]),
                shape=rng.choice([SHAPE, OTHER_SHAPE, replace(OTHER_SHAPE)]),
                sub_group=rng.choice(["", "", "x"]),
                queue=rng.choice(["", "team"]),
                phase=rng.choice([Phase.PENDING, Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED]),
                gates=rng.choice([(), (), ("wait",)]),
                deleted_ns=rng.choice([0, 0, 0, 7]),
                scheduler=rng.choice(["kai-scheduler"] * 4 + ["other"]),
                claims=tuple(PodClaim(claim, claim) for claim in rng.choice([(), (), ("c",), ("c", "d")])),
                extended=rng.choice([(), (), EXTENDED]),
            ),
            DeviceClass: lambda: DeviceClass(rng.choice(["gpu", "nic"]), extended_resource=EXTENDED[0].resource),
            ResourceClaim: lambda: ResourceClaim(
                "ml",
                rng.choice(["c", "d", "e"]),
                asks=rng.choice(ASKS),
                consumers=rng.choice([(), (("n1", "uid-1"),)]),
                owner=rng.choice(["", "uid-1", "uid-2"]),
                extended=rng.random() < 0.3,
            ),
        }
        kind = rng.choice([Node, Queue, PriorityClass, DeviceClass, *[ResourceClaim] * 3, *[PodGroup] * 4, *[Pod] * 8])
        item = made[kind]()
        if rng.random() < 0.2:
            self.store.remove(kind, item.key)
            for reconciler in self.reconcilers:
                forget = {
                    Queue: reconciler.forget_queue,
                    PodGroup: reconciler.forget_pod_group,
                    Pod: reconciler.forget_pod,
                }
                if kind in forget:
                    forget[kind](item.key)
        else:
            self.store.put(item)
            self.show(item)

    def own(self) -> None:
        """A group gets an owner, or loses it."""
        group, uid = f"ml/{self.rng.choice(GROUPS)}", self.rng.choice(["a", "b"])
        choice, gone = self.rng.choice(CHOICES), self.rng.random() < 0.3
        for owners in self.owners:
            if gone:
                owners.forget(group)
            else:
                owners.observe(group, Ref("batch/v1", "Job", "ml", uid, uid), choice)

    def decide(self) -> None:
        """Another cycle; most of what it says is as before."""
        rng = self.rng
        keys = [f"ml/{name}" for name in (*GROUPS, *NAMES)] + [f"pod:ml/{name}" for name in NAMES]
        states = dict(self.result.groups)
        for key in rng.sample(keys, rng.randint(0, 4)):
            states[key] = state(key, rng.choice(COUNTS), rng.choice(REASONS))
        for key in rng.sample(keys, rng.randint(0, 1)):
            states.pop(key, None)
        effects = [rng.choice([Bind, Pipeline])(f"ml/{name}", "uid-1", "node-1") for name in rng.sample(NAMES, 1)]
        chosen: CycleResult = decided(states.values(), (), tuple(effects) if rng.random() < 0.3 else ())
        self.result = chosen

    def ask(self) -> None:
        """Both say the same, of which most is done."""
        view = self.store.cluster()
        now_ns = round(self.seconds * SECOND_NS) + SECOND_NS
        lazy, eager = self.reconcilers
        eager.mark_all()
        found, again = lazy.writes(view, self.result, now_ns, now_ns)
        wanted, again_at_latest = eager.writes(view, self.result, now_ns, now_ns)
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
        assert (again is None) == (again_at_latest is None) or again is not None
        assert lazy.faults == eager.faults == []
        for write in found:
            self.world.apply(write)
        for item in [*view.queues.values(), *view.pod_groups.values(), *view.pods.values()]:
            if any(write.ref.key == item.key and not isinstance(write, Emit) for write in found):
                self.show(item)

    def sum_up(self) -> None:
        """What pods add up to, step by step and at once."""
        view = self.store.cluster()
        if self.tally is None:
            self.tally = QueueUsage(view, CONFIG)
        else:
            self.tally.update(view, view.changes_since(self.view.store_id, self.view.serial) or ())
        self.view = view
        fresh = QueueUsage(view, CONFIG)
        assert self.tally.binding == fresh.binding
        assert self.tally.members == fresh.members
        assert shown(self.tally) == shown(fresh)
        for name in ("team", "default-queue", "top"):
            assert self.tally.queue_amounts(name) == fresh.queue_amounts(name)


def shown(tally: QueueUsage) -> dict[str, Any]:
    """All that is known of the groups; of the shapes that are counted what they add up to."""
    return {
        key: (replace(group, counts=ShapeCounts()), tally.amounts(group.counts.held), tally.amounts(group.counts.asked))
        for key, group in tally.groups.items()
    }


@given(st.integers(0, 2**32), st.integers(20, 80))
def test_looking_at_changes_says_what_looking_at_everything_says(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    twice = Twice(rng)
    for _ in range(steps):
        for _ in range(rng.choice([0, 0, 1, 3])):
            twice.change()
        if rng.random() < 0.3:
            twice.own()
        if rng.random() < 0.5:
            twice.decide()
        twice.seconds += rng.choice([0, 0.2, 1, 5, 31, 70, 2000])
        twice.ask()
        twice.sum_up()


def test_an_eviction_is_no_place() -> None:
    """Its pod is not among those that get a node."""
    reconciler, store = StatusReconciler(CONFIG), Store()
    store.put(pod("a"))
    reconciler.observe_pod("ml/a", "uid-a", None)
    victim = Evict("ml/a", "uid-a", "node-1", "reclaim", "ml/b", "ml/a", (), "", False, ())
    result = decided([state("ml/a", {"Pending": 1}, NO_ROOM)], effects=(victim,))
    assert reconciler.writes(store.cluster(), result, 1, 1)[0]
