"""The world between two cycles: every status, and the points in which scenarios and plain clusters differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kai_sched.cycle.world.pods import World, advance, restart_clocks, settled_states
from kai_sched.model.claims.objects import AllocatedDevice, Allocation, PodClaim, ResourceClaim
from kai_sched.model.objects import BindRequest, Phase, Pod, PodGroup, Shape
from kai_sched.model.store import Store
from kai_sched.plan.effects import Bind, ClaimUse, Pipeline
from kai_sched.plan.result import CycleResult, PodState

NOW_NS = 1_000_000_000_000
SECOND_NS = 1_000_000_000
PLAIN = World(revives=False, restarts_clocks=False)
POD = Pod("ml", "train-0", Shape(), "uid-0", 5, group="train")


def decided(pods: Mapping[str, PodState], evicted: tuple[str, ...] = ()) -> CycleResult:
    binds = tuple(Bind(key, "", state.node) for key, state in pods.items() if state.status == "Binding")
    return CycleResult(binds, evicted, pods, {}, (), {}, 0.0)


def move(
    pod: Pod, state: PodState, world: World, evicted: tuple[str, ...] = ()
) -> tuple[Pod | None, dict[str, PodState]]:
    """The one pod of a cluster after the world has moved, and the settled states."""
    store = Store()
    store.put(pod)
    result = decided({pod.key: state}, evicted)
    advance(store, store.cluster(), result, NOW_NS, world)
    return store.cluster().pods.get(pod.key), settled_states(result, store.cluster())


@pytest.mark.parametrize("world", [World(), PLAIN])
def test_a_pod_that_is_bound_runs_on_its_node(world: World) -> None:
    after, settled = move(POD, PodState("Binding", "node-1"), world)
    assert after == replace(POD, node="node-1", phase=Phase.RUNNING)
    assert settled == {"ml/train-0": PodState("Running", "node-1")}


@pytest.mark.parametrize("world", [World(), PLAIN])
def test_a_pipelined_pod_is_pending_again(world: World) -> None:
    after, settled = move(POD, PodState("Pipelined", "node-1"), world)
    assert after == POD
    assert settled == {"ml/train-0": PodState("Pending")}


@pytest.mark.parametrize("status", ["Pending", "Gated", "Running", "Bound", "StuckInReleasing", "Succeeded", "Unknown"])
@pytest.mark.parametrize("world", [World(), PLAIN])
def test_nothing_else_changes(world: World, status: str) -> None:
    pod = replace(POD, node="node-1")
    after, settled = move(pod, PodState(status, "node-1"), world)
    assert after == pod
    assert settled == {"ml/train-0": PodState(status, "node-1")}


@pytest.mark.parametrize("world", [World(), PLAIN])
def test_an_evicted_pod_comes_back_with_name_and_age(world: World) -> None:
    running = replace(POD, node="node-1", phase=Phase.RUNNING, gpu_groups=("a",))
    after, settled = move(running, PodState("Releasing", "node-1"), world, evicted=("ml/train-0",))
    assert after == POD
    assert settled == {"ml/train-0": PodState("Pending")}


def test_a_pod_that_a_user_deletes_comes_back_in_scenarios_only() -> None:
    leaving = replace(POD, node="node-1", phase=Phase.RUNNING, deleted_ns=NOW_NS)
    after, _ = move(leaving, PodState("Releasing", "node-1"), World())
    assert after == POD
    after, settled = move(leaving, PodState("Releasing", "node-1"), PLAIN)
    assert after is None
    assert settled == {}


def test_groups_that_keep_terminating_stay_releasing() -> None:
    running = replace(POD, node="node-1", phase=Phase.RUNNING)
    world = World(keeps_terminating=frozenset({"train"}))
    after, settled = move(running, PodState("Releasing", "node-1"), world, evicted=("ml/train-0",))
    assert after == replace(running, deleted_ns=NOW_NS)
    assert settled == {"ml/train-0": PodState("Releasing", "node-1")}


def test_clocks_restart_for_every_cycle_of_a_scenario() -> None:
    store = Store()
    group = PodGroup("ml", "train", stale_since_ns=7, last_eviction_ns=8)
    store.put(group)
    store.put(PodGroup("ml", "idle", last_start_ns=9))
    store.put(POD)
    world = World(step_ns=30 * SECOND_NS)
    advance(store, store.cluster(), decided({"ml/train-0": PodState("Binding", "node-1")}), NOW_NS, world)
    groups = store.cluster().pod_groups
    assert groups["ml/train"] == replace(group, last_start_ns=NOW_NS - 30 * SECOND_NS, last_eviction_ns=0)
    assert groups["ml/idle"].last_start_ns == 0


def test_pods_that_are_leaving_do_not_count_as_running() -> None:
    store = Store()
    group = PodGroup("ml", "train")
    leaving = replace(POD, phase=Phase.RUNNING, deleted_ns=1)
    restart_clocks(store, {"ml/train": group}, {leaving.key: leaving}, NOW_NS)
    assert store.cluster().pod_groups == {}


@pytest.mark.parametrize(
    ("statuses", "start_ns"),
    [(("Binding", "Binding"), NOW_NS), (("Binding", "Running"), 3), (("Binding", "Bound"), 3), (("Pipelined",) * 2, 3)],
)
def test_a_plain_cluster_keeps_the_start_of_groups_that_start_from_nothing(
    statuses: tuple[str, ...], start_ns: int
) -> None:
    store = Store()
    store.put(PodGroup("ml", "train", last_start_ns=3))
    pods = [
        replace(POD, name=f"train-{number}", node="n" if status in ("Running", "Bound") else "")
        for number, status in enumerate(statuses)
    ]
    for pod in pods:
        store.put(pod)
    states = {pod.key: PodState(status, "n") for pod, status in zip(pods, statuses, strict=True)}
    advance(store, store.cluster(), decided(states), NOW_NS, PLAIN)
    assert store.cluster().pod_groups["ml/train"].last_start_ns == start_ns


def test_a_plain_cluster_keeps_the_time_of_evictions() -> None:
    store = Store()
    store.put(PodGroup("ml", "train"))
    store.put(POD)
    result = decided({"ml/train-0": PodState("Releasing", "node-1")}, ("ml/train-0",))
    advance(store, store.cluster(), result, NOW_NS, PLAIN)
    assert store.cluster().pod_groups["ml/train"].last_eviction_ns == NOW_NS


def test_a_plain_cluster_keeps_since_when_a_gang_is_broken() -> None:
    """One of its two pods runs: after its grace the rest of it is evicted, as in a cluster."""
    store = Store()
    store.put(PodGroup("ml", "train", min_member=2))
    runs, waits = replace(POD, node="node-1", phase=Phase.RUNNING), replace(POD, name="train-1", uid="u1")
    store.put(runs)
    store.put(waits)
    states = {"ml/train-0": PodState("Running", "node-1"), "ml/train-1": PodState("Pending")}
    for now_ns, since_ns in ((NOW_NS, NOW_NS), (NOW_NS + 5, NOW_NS)):
        advance(store, store.cluster(), decided(states), now_ns, PLAIN)
        assert store.cluster().pod_groups["ml/train"].stale_since_ns == since_ns
    states["ml/train-1"] = PodState("Binding", "node-1")
    advance(store, store.cluster(), decided(states), NOW_NS + 9, PLAIN)
    assert store.cluster().pod_groups["ml/train"].stale_since_ns == 0


def test_a_bind_request_ends_when_its_pod_runs() -> None:
    """Else the pod would count as Binding again once it has been evicted."""
    store = Store()
    store.put(POD)
    store.put(BindRequest("ml", "train-0", "train-0", "node-1", is_live=True, gpu_groups=("device",)))
    result = replace(decided({POD.key: PodState("Binding", "node-1")}), effects=())
    advance(store, store.cluster(), result, NOW_NS, PLAIN)
    assert store.cluster().bind_requests == {}
    assert store.cluster().pods[POD.key].gpu_groups == ("device",)


@pytest.mark.parametrize("keeps", [True, False])
def test_promised_devices_stay_with_the_claim_in_scenarios(keeps: bool) -> None:
    allocation = Allocation((AllocatedDevice("r", "gpu.example.com", "n", "gpu-0"),))
    claim = ResourceClaim("ml", "c", "claim-uid")
    store = Store()
    for each in (POD, claim):
        store.put(each)
    waits = Pipeline(POD.key, POD.uid, "n", (ClaimUse(claim.key, claim.uid, allocation, is_new=True),))
    result = replace(decided({POD.key: PodState("Pipelined", "n")}), effects=(waits,))
    advance(store, store.cluster(), result, NOW_NS, World(keeps_devices=keeps))
    after = store.cluster().resource_claims[claim.key]
    assert after == (replace(claim, allocation=allocation) if keeps else claim)


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
@pytest.mark.parametrize("shared", [False, True])
def test_a_claim_loses_its_devices_with_the_last_pod_that_has_not_finished(phase: Phase, shared: bool) -> None:
    """As the claim controller of Kubernetes does. Devices that somebody waits for are not taken a second time."""
    allocation = Allocation((AllocatedDevice("r", "gpu.example.com", "n", "gpu-0"),))
    done = replace(POD, node="n", phase=phase, claims=(PodClaim("c", "c", named=True),))
    runs = replace(done, name="train-1", uid="uid-1", phase=Phase.RUNNING)
    consumers = ((done.name, done.uid), (runs.name, runs.uid))[: 1 + shared]
    claim = ResourceClaim("ml", "c", "claim-uid", allocation=allocation, consumers=consumers)
    store = Store()
    for each in (done, claim, *((runs,) if shared else ())):
        store.put(each)
    states = {done.key: PodState("Succeeded", "n")} if phase == Phase.SUCCEEDED else {}
    states |= {runs.key: PodState("Running", "n")} if shared else {}
    advance(store, store.cluster(), decided(states), NOW_NS, PLAIN)
    after = store.cluster().resource_claims[claim.key]
    assert (after.allocation, after.consumers) == (allocation if shared else None, consumers[1:])
    if not shared and phase == Phase.SUCCEEDED:
        store.put(replace(after, allocation=allocation))
        advance(store, store.cluster(), decided(states), NOW_NS, PLAIN)
        assert store.cluster().resource_claims[claim.key].allocation == allocation
