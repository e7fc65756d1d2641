"""Pods that share GPUs come and go before an executor that is killed, misled and made to wait: no device ever has more
than one GPU's worth, nothing that could run waits for ever, and no reservation pod is left."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kai_sched.api import names
from kai_sched.cycle.run import run_cycle
from kai_sched.plan.effects import Bind
from tests.properties.sharing_world import (
    CONFIG,
    NAMESPACE,
    NODES,
    Object,
    Replica,
    Server,
    VirtualLoop,
    pod,
)

STEP_S = 0.25
SETTLE_S = 3000.0  # longer than all that is put off
PODS_MAX = 14


class Sharing(RuleBasedStateMachine):
    """Each rule is something that happens in a cluster; ``time_passes`` lets all parts go on."""

    @initialize(seed=st.integers(0, 2**32 - 1))
    def start(self, seed: int) -> None:
        self.loop = VirtualLoop()
        self.server = Server(seed)
        self.number = 0
        self.hands = False  # somebody has deleted a reservation pod
        self.replica = Replica(self.server, self.loop)
        self.run(self.replica.start())

    def run(self, what: object) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(what)  # type: ignore[arg-type]

    @precondition(lambda self: len(self.server.pods) < PODS_MAX)
    @rule(fraction=st.sampled_from(["0.5", "0.5", "0.25", "0.3", "0.7", "1"]), devices=st.sampled_from([1, 1, 1, 2]))
    def pod_comes(self, fraction: str, devices: int) -> None:
        self.server.put(pod(f"pod-{self.number}", fraction, devices))
        self.number += 1

    @rule(data=st.data())
    def pod_ends(self, data: st.DataObject) -> None:
        there = sorted(key for key in self.server.pods if not key.startswith(NAMESPACE))
        if there:
            self.server.end(data.draw(st.sampled_from(there)))

    @rule(data=st.data())
    def reservation_is_deleted_by_hand(self, data: st.DataObject) -> None:
        there = sorted(key for key in self.server.pods if key.startswith(NAMESPACE))
        if there:
            self.hands = True
            self.server.end(data.draw(st.sampled_from(there)))

    @rule(faults=st.sampled_from([0.0, 0.1, 0.5]))
    def the_network_changes(self, faults: float) -> None:
        self.server.faults = faults

    @rule(nodes=st.sets(st.sampled_from([f"node-{n}" for n in range(NODES)])))
    def kubelets_hang(self, nodes: set[str]) -> None:
        self.server.mute = nodes

    @rule(number=st.integers(0, NODES - 1))
    def a_node_dies_or_comes_back(self, number: int) -> None:
        node = f"node-{number}"
        if node in self.server.nodes:
            self.server.die(node)
        else:
            self.server.join(node)

    @rule()
    def the_replica_is_killed(self) -> None:
        self.run(self.replica.kill())
        self.replica = Replica(self.server, self.loop)
        self.run(self.replica.start())

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(self._pass(seconds))

    async def _pass(self, seconds: float) -> None:
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            before = self.server.version
            self.server.kubelets()
            await asyncio.sleep(STEP_S if seconds < SETTLE_S else 5.0)
            if self.server.version != before:
                self.no_device_is_overfull()
        self.replica.check()

    @invariant()
    def no_device_is_overfull(self) -> None:
        shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        for each in self.server.pods.values():
            node = each["spec"].get("nodeName")
            if node and each["status"]["phase"] != "Failed" and each["metadata"]["namespace"] != NAMESPACE:
                for group in groups_of(each):
                    shares[node, group] += Fraction(each["metadata"]["annotations"][names.GPU_FRACTION_ANNOTATION])
        assert all(share <= 1 for share in shares.values()), shares
        if not self.hands:  # the pods whose device somebody else got are deleted, but not in the same moment
            self.each_pod_has_the_devices_of_its_groups()

    def each_pod_has_the_devices_of_its_groups(self) -> None:
        """And nobody else has them."""

        pods = [pod for pod in self.server.pods.values() if pod["status"]["phase"] == "Running"]
        of_group: dict[str, str] = {}
        held: dict[str, str] = {}
        for each in pods:
            for device in filter(None, each["metadata"]["annotations"]["devices"].split(",")):
                assert device not in held, (device, each["metadata"]["name"], held[device])
                held[device] = each["metadata"]["name"]
                if each["metadata"]["namespace"] == NAMESPACE:
                    of_group[groups_of(each)[0]] = device
        for each in pods:
            if groups_of(each) and each["metadata"]["namespace"] != NAMESPACE:
                told = self.server.maps[f"ml/{each['metadata']['name']}-maps-0"]["data"][names.VISIBLE_DEVICES_ENV]
                assert told == ",".join(of_group.get(group, "?") for group in groups_of(each)), each

    def teardown(self) -> None:
        if not hasattr(self, "server"):
            return
        try:
            self.server.faults, self.server.mute = 0.0, set()
            for key in [key for key, each in self.server.pods.items() if each["status"]["phase"] == "Failed"]:
                if not key.startswith(NAMESPACE):
                    self.server.end(key)
            self.run(self._pass(SETTLE_S))
            self.all_that_could_run_does()
            self.each_pod_has_the_devices_of_its_groups()
            for key in [key for key in self.server.pods if not key.startswith(NAMESPACE)]:
                self.server.end(key)
            self.run(self._pass(120.0))
            assert self.server.pods == {}
        finally:
            self.run(self.replica.kill())
            self.loop.close()

    def all_that_could_run_does(self) -> None:
        """A scheduler without a past finds nothing to bind."""
        view = self.replica.store.cluster()
        result = run_cycle(view, CONFIG, int(self.loop.time() * 1e9))
        assert [effect for effect in result.effects if isinstance(effect, Bind)] == []
        shown = {key: each["spec"].get("nodeName", "") for key, each in self.server.pods.items()}
        assert {key: each.node for key, each in view.pods.items()} == shown


def groups_of(each: Object) -> list[str]:
    labels = each["metadata"].get("labels") or {}
    return sorted(
        value
        for key, value in labels.items()
        if key == names.GPU_GROUP_LABEL or key.startswith(names.GPU_GROUPS_PREFIX)
    )


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


async def served(server: Server, replica: Replica, loop: VirtualLoop, life_s: float) -> int:
    """How many moments it took until all pods have run for ``life_s`` and gone, each looked at."""
    since: dict[str, float] = {}
    moments = 0
    while any(not key.startswith(NAMESPACE) for key in server.pods):
        assert loop.time() < 50_000.0, sorted(server.pods)
        server.kubelets()
        shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        for key, each in list(server.pods.items()):
            if key.startswith(NAMESPACE) or each["status"]["phase"] != "Running":
                continue
            for group in groups_of(each):
                part = each["metadata"]["annotations"][names.GPU_FRACTION_ANNOTATION]
                shares[each["spec"]["nodeName"], group] += Fraction(part)
            if loop.time() - since.setdefault(key, loop.time()) > life_s:
                server.end(key)
        assert all(share <= 1 for share in shares.values()), shares
        moments += 1
        await asyncio.sleep(0.25)
    replica.check()
    return moments


def burst(seed: int, nodes: int, gpus: int, pods: list[Object], faults: float) -> Server:
    """All pods come at once; returns the cluster after the last one has gone, and all reservations.

    Where nothing fails no bind is given up, however often a device goes from one group of pods to the next.
    """
    loop, server = VirtualLoop(), Server(seed, nodes, gpus)
    asyncio.set_event_loop(loop)
    server.faults = faults
    for each in pods:
        server.put(each)
    replica = Replica(server, loop)

    async def run() -> None:
        await replica.start()
        await served(server, replica, loop, 20.0)
        server.faults = 0.0
        for _ in range(200):
            server.kubelets()
            await asyncio.sleep(0.5)
        await replica.kill()
        assert faults or not replica.reports.failures, replica.reports.failures

    loop.run_until_complete(run())
    loop.close()
    return server


@pytest.mark.slow
@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_sixteen_halves_on_eight_devices_run_at_once_whatever_happens(faults: float) -> None:
    for seed in range(100):
        server = burst(seed, 1, 8, [pod(f"half-{n}", "0.5") for n in range(16)], faults)
        assert (server.pods, server.refused) == ({}, [])


@pytest.mark.slow
def test_five_hundred_parts_of_all_sizes_are_served_by_twenty_devices() -> None:
    sizes = [f"0.{n % 9 + 1}" for n in range(450)] + ["0.5"] * 50
    pods = [pod(f"part-{n}", size, 2 if n >= 450 else 1) for n, size in enumerate(sizes)]
    server = burst(1, 5, 4, pods, 0.0)
    assert (server.pods, server.refused) == ({}, [])


@pytest.mark.slow
def test_groups_on_four_nodes_are_served_while_the_watch_is_late() -> None:
    for seed in range(10):
        pods = [pod(f"pair-{n}-{side}", "0.5") for n in range(32) for side in "ab"]
        server = burst(seed, 4, 4, pods, 0.3)
        assert (server.pods, server.refused) == ({}, [])


@pytest.mark.slow
def test_no_pod_is_refused_whenever_others_are_deleted() -> None:
    """Also while their GPU is being reserved, so that nobody but the scheduler knows who is about to hold it."""
    for seed in range(15):
        loop, server = VirtualLoop(), Server(seed, 2, 1 + seed % 3)
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_deletions(server, Replica(server, loop), random.Random(seed)))
        loop.close()
        assert server.refused == [], seed


async def _deletions(server: Server, replica: Replica, rng: random.Random) -> None:
    """Pods come, and go again at any moment, by the hand of their users."""
    await replica.start()
    for number in range(200):
        there = [key for key in server.pods if not key.startswith(NAMESPACE)]
        if len(there) < 3 * server.gpus:
            server.put(pod(f"pod-{number}", rng.choice(["0.5", "0.6", "1"])))
        if there and rng.random() < 0.5:
            server.end(rng.choice(there))
        if rng.random() < 0.3:
            server.kubelets()
        await asyncio.sleep(rng.choice([0.005, 0.02, 0.1, 0.5]))
    replica.check()
    await replica.kill()
