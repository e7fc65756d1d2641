"""A cycle as the properties of evictions see it, whoever decided: the scheduler, or its slow twin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kai_sched import Cluster, Config, CycleResult, run_cycle
from kai_sched.model.objects import Object
from kai_sched.plan.effects import Bind
from tests.oracle.actions import decide
from tests.oracle.allocate import Outcome
from tests.oracle.between import moved_on, stale_noted, stamped
from tests.oracle.records import RESOURCES
from tests.properties.clusters import NOW_NS


@dataclass(frozen=True)
class Left:
    """One eviction. ``cause``: the group that it was for, "" for none; keys are "namespace/name"."""

    pod: str
    action: str
    cause: str


@dataclass(frozen=True)
class Plan:
    """``stands``: status and node of each pod at the end; a promised place that was taken back leaves it Pending.

    ``devices``: the groups of the devices that bound pods share, where the decider names them.
    """

    stands: dict[str, tuple[str, str]]
    evictions: tuple[Left, ...]
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    def places(self, group: str) -> list[str]:
        """The pods of the group that got a place in this cycle."""
        new = ("Binding", "Pipelined")
        return [key for key, (status, _) in self.stands.items() if status in new and key.rpartition("-")[0] == group]


Decider = Callable[[Cluster, Config, int], Plan]


def check_allocated(result: CycleResult, expected: Outcome) -> None:
    """The same pods on the same nodes, decided in the same order, with the same shares of queues and room of nodes."""
    assert {key: (state.status, state.node) for key, state in result.pods.items()} == expected.pods
    assert tuple(effect.pod for effect in result.effects) == expected.order
    for queue in result.queues:
        account = expected.world.accounts[queue.name]
        assert (queue.fair_share, queue.requested) == (tuple(account.fair), tuple(account.request))
        assert (queue.allocated, queue.allocated_non_preemptible) == (tuple(account.allocated), tuple(account.fixed))
    for name, machine in expected.world.machines.items():
        for resource in RESOURCES:
            now, later = machine.room(resource, later=False), machine.room(resource, later=True)
            assert result.nodes[name].idle[resource] == now
            assert result.nodes[name].releasing[resource] == later - now


def by_scheduler(cluster: Cluster, config: Config, now_ns: int) -> Plan:
    return plan_of(cluster, run_cycle(cluster, config, now_ns))


def plan_of(cluster: Cluster, result: CycleResult) -> Plan:
    lefts: list[Any] = [effect for effect in result.effects if hasattr(effect, "cause")]
    stands = {key: (state.status, state.node) for key, state in result.pods.items()}
    devices = {effect.pod: effect.gpu_groups for effect in result.effects if isinstance(effect, Bind)}
    evictions = tuple(Left(each.pod, each.action, each.cause or "") for each in lefts)
    return Plan(_settled(cluster, stands), evictions, devices)


def by_twin(cluster: Cluster, config: Config, now_ns: int) -> Plan:
    found = decide(cluster, config, now_ns)
    lefts = tuple(Left(each.pod, each.action, each.cause) for each in found.evictions)
    return Plan(_settled(cluster, found.pods), lefts)


def _settled(cluster: Cluster, stands: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """A pod that is on no node cannot be leaving one: what was promised it was given to another."""
    return {
        key: ("Pending", "") if status == "Releasing" and not cluster.pods[key].node else (status, node)
        for key, (status, node) in stands.items()
    }


def cycles(
    objects: Iterable[Object], decider: Decider, config: Config, count: int, step_ns: int = 10**10
) -> Iterator[tuple[Cluster, Plan]]:
    """Cycle after cycle: bound pods run, evicted ones come back and wait, and the clock moves on."""
    cluster, now_ns = Cluster.of(objects), NOW_NS
    for _ in range(count):
        plan = decider(cluster, config, now_ns)
        yield cluster, plan
        victims = {each.pod: each.action for each in plan.evictions}
        found = moved_on(cluster, plan.stands, victims, now_ns, devices=plan.devices)
        found = stamped(cluster, found, plan.stands, victims, now_ns)
        cluster = Cluster.of(stale_noted(found, now_ns))
        now_ns += step_ns
