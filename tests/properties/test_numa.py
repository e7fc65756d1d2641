"""What a cycle decides about NUMA zones holds for the kubelet: no zone is given away twice, and bound pods are aligned
(semantics 12.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.cycle import run
from kai_sched.model.config import ACTIONS, OPERATOR_PLUGINS
from kai_sched.model.numa import Alignment, NodeZones, Placement
from kai_sched.model.objects import Pod
from kai_sched.plan.effects import Bind
from kai_sched.snapshot.tables import Status
from kai_sched.solver.pipeline import solve
from kai_sched.solver.solution import Solution
from tests.oracle.numa import place_pod
from tests.properties.test_evictions import MORE, by_scheduler, by_twin, decide_once, decided
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import read_text

Zone = dict[str, int]
POLICIES = {"none": 0, "best-effort": 1, "restricted": 2, "single": 3}


@dataclass
class Machine:
    """A node with zones, and what is left of them while pods are put there."""

    name: str
    zones: list[Zone]
    policy: str
    pod_scope: bool
    free: list[Zone] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = [dict(zone) for zone in self.zones]

    def line(self) -> str:
        has = " ".join(f"{z}=gpu:{zone['gpu']},cpu:{zone['cpu']}" for z, zone in enumerate(self.zones))
        scope = " pod" if self.pod_scope else ""
        return f"zones {self.name} count={len(self.zones)} policy={self.policy}{scope} {has}"

    def place(self, containers: list[Zone]) -> str | None:
        """Where the pod is, as its annotation says it; None: the kubelet refuses it."""
        whole = {name: sum(each[name] for each in containers) for name in ("cpu", "gpu")}
        if self.policy == "none":
            return ""
        asked = [whole] if self.pod_scope else containers
        taken = place_pod(Alignment(POLICIES[self.policy]), [(False, each) for each in asked], self.free, self.zones)
        if taken is None:
            return None
        for zone, amounts in zip(self.free, taken, strict=True):
            for name, amount in amounts.items():
                zone[name] -= amount
        return " ".join(f"{z}=gpu:{amounts['gpu']},cpu:{amounts['cpu']}" for z, amounts in enumerate(taken))


CONTAINERS = st.lists(
    st.fixed_dictionaries({"cpu": st.integers(0, 2), "gpu": st.integers(0, 2)}), min_size=1, max_size=2
)


@st.composite
def scenes(draw: st.DrawFn) -> str:
    """A cluster in the notation of scenarios, whose pods are where kubelets let them be."""
    machines = []
    lines = ["case numa", "queue q gpu=2/-1/1", "queue r gpu=2/-1/1"]
    for n in range(draw(st.integers(1, 2))):
        zones = draw(
            st.lists(
                st.fixed_dictionaries({"cpu": st.integers(0, 3), "gpu": st.integers(0, 3)}), min_size=1, max_size=3
            )
        )
        machines.append(Machine(f"n{n}", zones, draw(st.sampled_from(list(POLICIES))), draw(st.booleans())))
        more = draw(st.integers(0, 2))  # of the node, and of no zone
        gpus, cpus = (sum(zone[name] for zone in zones) + more for name in ("gpu", "cpu"))
        lines += [f"node n{n} gpu={gpus} cpu={cpus} mem=99", machines[-1].line()]
    for g in range(draw(st.integers(1, 6))):
        size, queue, priority = draw(st.tuples(st.integers(1, 3), st.sampled_from("qr"), st.sampled_from((50, 75))))
        lines.append(f"group g{g} queue={queue} prio={priority} min={draw(st.integers(1, size))}")
        containers = draw(CONTAINERS)
        aligned = " | ".join(f"gpu:{each['gpu']},cpu:{each['cpu']}" for each in containers)
        asked = f"gpu={sum(c['gpu'] for c in containers)} cpu={sum(c['cpu'] for c in containers)} mem=1"
        runs_on = draw(st.sampled_from([None, *machines]))
        for p in range(size):
            line = f'pod g{g}-{p} {asked} aligned="{aligned}"'
            where = runs_on.place(containers) if runs_on is not None else None
            if runs_on is not None and where is not None:
                leaving = " status=Releasing" if draw(st.booleans()) and g == 0 else ""
                line += f' on={runs_on.name} in="{where}"{leaving}'
            lines.append(line)
    return "\n".join([*lines, "=> order"])


def amounts(placement: Placement) -> dict[tuple[str, str], float]:
    return {(each.zone, name): amount for each in placement for name, amount in each.amounts}


def check_node(zones: NodeZones, there: list[Placement]) -> None:
    """Records of all pods that are there, those that leave included, fit the zones together."""
    held: dict[tuple[str, str], float] = {}
    for placement in there:
        for key, amount in amounts(placement).items():
            held[key] = held.get(key, 0.0) + amount
    for zone in zones.zones:
        for name, most in zone.allocatable.items():
            assert held.get((zone.name, name), 0.0) <= most, (zones.name, zone.name, name)


def check_pod(pod: Pod, zones: NodeZones, placement: Placement) -> None:
    """A pod that a kubelet aligns takes all it asks for, as far as zones of the node have the resource."""
    assert pod.shape.numa is not None
    reported = {name for zone in zones.zones for name in zone.allocatable}
    total: dict[str, float] = {}
    for (_, name), amount in amounts(placement).items():
        total[name] = total.get(name, 0.0) + amount
    assert total == {name: amount for name, amount in pod.shape.numa.pod if name in reported and amount}
    if zones.policy == Alignment.SINGLE:
        assert len(placement) <= (1 if zones.pod_scope else len(pod.shape.numa.containers))


def check_ledger(solution: Solution) -> None:
    """What is free of each zone is what can be had, less what the tasks hold that have a place there in the end."""
    snapshot, state = solution._snapshot, solution._ctx.state
    numa, n_columns = snapshot.numa, snapshot.numa.free.shape[1]
    free = numa.allocatable.astype(float).ravel()
    for t in range(snapshot.tasks.job.size):
        held = state.zones.held[numa.held_ptr[t] : numa.held_ptr[t + 1]]
        if Status.PIPELINED <= state.task.status[t] <= Status.RUNNING:
            first = numa.ptr[state.task.node[t]] * n_columns
            for place in np.flatnonzero(held):
                free[first + place] -= held[place]
    assert state.zones.free.tolist() == free.tolist()
    assert (state.zones.leaving >= 0.0).all()


@given(scenes(), st.sampled_from(["minimal", "original"]))
def test_zones_are_given_away_once(text: str, victims: str) -> None:
    (scene,) = read_text(text, "numa")
    cluster = Cluster.of(scene.objects)
    config = Config(ACTIONS, {**OPERATOR_PLUGINS, "numa": {}}, victims=victims)
    solutions: list[Solution] = []

    def kept(*arguments: Any) -> Solution:
        solutions.append(solve(*arguments))
        return solutions[-1]

    with patch.object(run, "solve", kept):
        result = run_cycle(cluster, config, NOW_NS)
    check_ledger(solutions[0])
    binds = [effect for effect in result.effects if isinstance(effect, Bind)]
    for name, zones in cluster.node_zones.items():
        here = [bind for bind in binds if bind.node == name]
        if zones.policy >= Alignment.RESTRICTED:
            for bind in here:
                check_pod(cluster.pods[bind.pod], zones, bind.zones)
        if zones.policy != Alignment.NONE:
            running = [pod.zones for pod in cluster.pods.values() if pod.node == name]
            check_node(zones, running + [bind.zones for bind in here])
        else:
            assert not any(bind.zones for bind in here)


@MORE
@given(scenes(), st.sampled_from([("allocate",), ACTIONS]), st.sampled_from(["minimal", "original"]))
def test_equals_the_twin(text: str, actions: tuple[str, ...], victims: str) -> None:
    """The same pods end in the same places, and the same ones are evicted."""
    (scene,) = read_text(text, "numa")
    config = Config(actions, {**OPERATOR_PLUGINS, "numa": {}}, victims=victims)
    ours, theirs = (decide_once(list(scene.objects), decider, config) for decider in (by_scheduler, by_twin))
    assert decided(ours) == decided(theirs)


@given(scenes())
def test_without_the_plugin_zones_change_nothing(text: str) -> None:
    (scene,) = read_text(text, "numa")
    plain = [item for item in scene.objects if not isinstance(item, NodeZones)]
    results = [run_cycle(Cluster.of(objects), Config(ACTIONS), NOW_NS).effects for objects in (scene.objects, plain)]
    assert results[0] == results[1]
