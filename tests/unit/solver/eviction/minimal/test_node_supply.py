"""That no node can be cleared (semantics 4.6): never said where some order of victims would clear one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from kai_sched import Cluster, Config
from kai_sched.model import objects as o
from kai_sched.model.constraints import PodTerm, Requirement
from kai_sched.snapshot.tables import GPU
from tests.afresh import afresh
from tests.unit.solver.eviction.minimal.test_bounds import RECLAIMS, Reclaim

bounds, node_supply, run = afresh("solver.eviction.minimal.bounds", "solver.eviction.minimal.node_supply", "cycle.run")
UNBOUNDED = o.Share(-1.0, -1.0, 1.0)


def is_hopeless(case: Reclaim) -> bool:
    preemptor = case.preemptor(float(case.asks))
    bounds.note_who_gives(bounds.TOGETHER, preemptor, case.ctx, case.search)
    found = node_supply.can_clear_no_node(preemptor, case.ctx, case.search)
    assert not case.search.minimal.supply.side_holds.any(), "nothing is left for the next side"
    assert not case.search.minimal.supply.level_loses.any()
    return bool(found)


@given(RECLAIMS)
def test_a_node_that_the_rules_let_clear_is_never_called_hopeless(case: Reclaim) -> None:
    free = float(case.ctx.state.idle[0, GPU] + case.ctx.state.releasing[0, GPU])
    if is_hopeless(case):
        assert free + case.most() < case.asks


@pytest.mark.parametrize(("share", "hopeless"), [(2.0, False), (4.0, True)])
def test_a_queue_gives_what_it_has_above_its_share(share: float, hopeless: bool) -> None:
    """It holds 4 GPUs in pods of one, and 2 are asked for."""
    case = Reclaim([(1, 1)] * 4, 2, [9.0, share, 0.0], [0.0, 0.0, 0.0], 1.0)
    assert is_hopeless(case) == (case.most() < 2) == hopeless


def test_who_asks_for_no_gpu_is_not_judged_by_them() -> None:
    case = Reclaim([(1, 1)], 1, [9.0, 9.0, 9.0], [0.0, 0.0, 0.0], 1.0)
    assert is_hopeless(case)
    case.ctx.snapshot.classes.request.flags.writeable = True
    case.ctx.snapshot.classes.request[:, GPU] = 0.0
    assert not is_hopeless(case)


def queue(name: str, parent: str = "") -> o.Queue:
    gpus = o.Share(0.0, -1.0, 1.0)
    return o.Queue(name, name, parent=parent, cpu=UNBOUNDED, memory=UNBOUNDED, gpu=gpus)


def pod(name: str, leaf: str, gpus: float, on: str = "", fixed: bool = False, **shape: Any) -> list[o.Object]:
    """A job of one pod, which runs if it is on a node; ``shape``: what else it asks for."""
    request = (("cpu", 1000.0), ("gpu", gpus), ("pods", 1.0))
    phase = o.Phase.RUNNING if on else o.Phase.PENDING
    fields = {"group": name, "scheduler": "kai-scheduler", "node": on, "phase": phase, "labels": {"app": name}}
    return [
        o.PodGroup("ns", name, name, ord(name[0]), leaf, "", not fixed, 1),
        o.Pod("ns", name, o.Shape(request, **shape), name, **fields),
    ]


def test_a_pod_that_others_block_elsewhere_still_gets_its_node() -> None:
    """Its own department is above its share until the pod that blocks it leaves, which runs on the other node."""
    room = {"cpu": 64_000.0, "memory": 1e12, "pods": 110.0}
    objects: list[o.Object] = [o.Node("n1", "n1", {"at": "n1", "zone": "z"}, {**room, "gpu": 5.0})]
    objects += [o.Node("n2", "n2", {"at": "n2", "zone": "z"}, {**room, "gpu": 7.0})]
    objects += [queue("d1"), queue("d2"), queue("d3"), queue("a", "d1"), queue("b", "d1"), queue("c", "d2")]
    objects += [queue("e", "d3"), *pod("blocker", "b", 2.0, "n2"), *pod("stays", "b", 3.0, "n2", fixed=True)]
    for number in range(5):
        objects += pod(f"victim{number}", "c", 1.0, "n1")
    objects += pod("small", "e", 2.0, "n2") + pod("never", "e", 2.0, node_selector=(("at", "nowhere"),))
    apart = PodTerm("zone", (Requirement("app", "In", ("blocker",)),), ("ns",))
    objects += pod("wants", "a", 1.0, node_selector=(("at", "n1"),), anti_affinity=(apart,))
    result = run.run_cycle(Cluster.of(objects), Config(actions=("allocate", "reclaim")), 1_800_000_000 * 10**9)
    gone = {key: state.node for key, state in result.pods.items() if state.status in ("Releasing", "Pipelined")}
    assert gone == {"ns/blocker": "n2", "ns/victim4": "n2", "ns/wants": "n1"}, (
        "victim4 moves to the room of the blocker"
    )
