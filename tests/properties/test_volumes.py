"""Where the scheduler sends a pod with claims, its volumes can be: the two sides of volume binding agree."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.constraints import Requirement
from kai_sched.model.volumes import VolumeBook
from kai_sched.plan.effects import ClaimVolume, SelectNode, VolumeWrite
from kai_sched.reconcile.volume_plan import Refusal, VolumePlan, plan_volumes

UNLIMITED = o.Share(-1.0, -1.0, 1.0)
ZONES = "xyz"
SEEDS = st.integers(0, 2**32)
MODES = (("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteMany", "ReadWriteOnce"))


def storage(rng: random.Random) -> list[o.Object]:
    """A few nodes, a pod for each with up to three claims, and volumes of every kind."""
    found: list[o.Object] = [o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED)]
    capacity = {"cpu": 64_000.0, "memory": 1e12, "pods": 110.0}
    found += [o.Node(f"n{k}", labels={"zone": ZONES[k % 3]}, allocatable=capacity) for k in range(rng.randrange(1, 6))]
    found += [
        o.StorageClass("local", True, "kubernetes.io/no-provisioner"),
        o.StorageClass("zonal", True, "csi.example.com", affinity(rng)),
        o.StorageClass("any", True, "csi.example.com"),
        o.StorageClass("now", False, "csi.example.com"),
    ]
    claims = [claim(rng, k) for k in range(rng.randrange(1, 6))]
    found += claims
    found += [volume(rng, k, [each.key for each in claims]) for k in range(rng.randrange(8))]
    for k in range(rng.randrange(1, 4)):
        asked = tuple(sorted({rng.choice(claims).key for _ in range(rng.randrange(1, 4))}))
        shape = o.Shape((("cpu", 100.0), ("pods", 1.0)), claims=asked)
        found.append(o.Pod("ns", f"p{k}", shape, uid=f"p{k}", queue="q", scheduler="kai-scheduler"))
    return found


def affinity(rng: random.Random) -> o.NodeSelector | None:
    chosen = tuple(sorted(rng.sample(ZONES, rng.randrange(1, 3))))
    return ((Requirement("zone", "In", chosen),),) if rng.random() < 0.8 else None


def claim(rng: random.Random, k: int) -> o.VolumeClaim:
    return o.VolumeClaim(
        "ns",
        f"c{k}",
        "Pending",
        rng.choice(("", "", "", "", "v0")),
        rng.choice(("local", "local", "zonal", "any", "now")),
        access_modes=rng.choice(MODES),
        size_bytes=float(rng.randrange(1, 4)),
        uid=f"c{k}",
        selected_node="n0" if rng.random() < 0.1 else "",
    )


def volume(rng: random.Random, k: int, claims: list[str]) -> o.Volume:
    holder = rng.choice(claims) if rng.random() < 0.2 else ""
    return o.Volume(
        f"v{k}",
        affinity(rng),
        rng.choice(("local", "local", "zonal")),
        holder,
        rng.choice(("Available", "Available", "Available", "Released")),
        rng.choice(MODES),
        float(rng.randrange(1, 5)),
        claim_uid=holder.partition("/")[2] if rng.random() < 0.5 else "",
    )


@given(SEEDS)
def test_feasible_nodes_are_those_with_a_plan(seed: int) -> None:
    """A pod alone is bound where there is a plan, and nowhere only where no node has one."""
    objects = storage(random.Random(seed))
    alone = next(item for item in objects if isinstance(item, o.Pod))
    objects = [item for item in objects if not isinstance(item, o.Pod)] + [alone]
    cluster = Cluster.of(objects)
    plans = {name: plan_volumes(VolumeBook(cluster), alone, name) for name in cluster.nodes}
    for name, plan in plans.items():
        others = [item for item in objects if not isinstance(item, o.Node) or item.name == name]
        bound = [effect.node for effect in run_cycle(Cluster.of(others), Config(("allocate",)), 0).effects]
        assert bound == ([] if isinstance(plan, Refusal) else [name])
    effects = run_cycle(cluster, Config(("allocate",)), 0).effects
    assert bool(effects) == any(isinstance(plan, VolumePlan) for plan in plans.values())


@given(SEEDS)
def test_no_volume_is_given_away_twice(seed: int) -> None:
    """Over all pods of a cycle: one claim for a volume, one write for a claim, and all of it fits together."""
    cluster = Cluster.of(storage(random.Random(seed)))
    book, decided = VolumeBook(cluster), dict[str, VolumeWrite]()
    places: dict[str, str] = {}
    for effect in run_cycle(cluster, Config(("allocate",)), 0).effects:
        plan = plan_volumes(book, cluster.pods[effect.pod], effect.node, decided)
        if isinstance(plan, Refusal):
            continue
        places[effect.pod] = effect.node
        for write in plan.writes:
            assert write.claim.key not in decided
            decided[write.claim.key] = write
    volumes = [write.volume.name for write in decided.values() if isinstance(write, ClaimVolume)]
    assert len(set(volumes)) == len(volumes)
    after = carried_out(cluster, decided)
    for pod, node in places.items():
        assert plan_volumes(VolumeBook(after), after.pods[pod], node) == VolumePlan()


def carried_out(cluster: Cluster, decided: dict[str, VolumeWrite]) -> Cluster:
    """The cluster once the controllers of volumes have done their work: every claim of a pod is bound."""
    claims, volumes = dict(cluster.volume_claims), dict(cluster.volumes)
    for key, item in cluster.volume_claims.items():
        write = decided.get(key)
        kept = [each.name for each in volumes.values() if each.claim == key and each.phase == "Available"]
        if isinstance(write, ClaimVolume):
            name = write.volume.name
        elif isinstance(write, SelectNode) or item.selected_node:
            name = f"made-{item.name}"
            node = write.node if isinstance(write, SelectNode) else item.selected_node
            volumes[name] = o.Volume(name, ((Requirement("metadata.name", "In", (node,)),),))
        elif kept and not item.volume:
            name = kept[0]
        else:
            continue
        if not item.volume:
            claims[key] = replace(item, volume=name, phase="Bound")
            volumes[name] = replace(volumes[name], claim=key, claim_uid=item.uid, phase="Bound")
    return replace(cluster, volume_claims=claims, volumes=volumes)
