"""Small clusters with shares of GPU devices on which the solver once decided otherwise than the rules say."""

from __future__ import annotations

from dataclasses import replace

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model import objects as o

NOW_NS = 1_800_000_000 * 10**9
G = 10**9
SCHEDULER = "kai-scheduler"
FREE = o.Share(-1.0, -1.0, 1.0)
EVERYTHING = Config()
MIG = "nvidia.com/mig-1g.5gb"


def node(name: str, gpus: float, memory: int = 16384, **more: float) -> o.Node:
    """A node with so many devices; ``more``: other amounts, as ``pods``."""
    capacity = {"cpu": 64_000.0, "memory": 256.0 * G, "gpu": gpus, "pods": 110.0} | more
    labels = {"nvidia.com/gpu.memory": str(memory)}
    return o.Node(name, name, labels, {key: amount for key, amount in capacity.items() if amount})


def queue(name: str = "q", gpu: o.Share = FREE) -> o.Queue:
    """A queue without bounds but for its GPUs."""
    return o.Queue(name, name, cpu=FREE, memory=FREE, gpu=gpu)


def group(name: str, least: int = 1, priority: str = "", queue: str = "q", preemptible: bool = True) -> o.PodGroup:
    """A group. Those with a name that comes earlier are older."""
    return o.PodGroup("ns", name, name, ord(name[0]), queue, priority, preemptible, least)


def pod(
    name: str, share: o.GpuShare | None = None, gpus: float = 0.0, on: str = "", *groups: str, **more: float
) -> o.Pod:
    """A pod of the group before the dash; it runs if it is on a node. ``more``: what else it asks for."""
    request = {"pods": 1.0, "cpu": 1000.0, "gpu": gpus} | more
    shape = o.Shape(tuple(sorted((key, amount) for key, amount in request.items() if amount)), share=share)
    phase = o.Phase.RUNNING if on else o.Phase.PENDING
    fields = {"group": name.split("-")[0], "scheduler": SCHEDULER, "node": on, "phase": phase, "gpu_groups": groups}
    return o.Pod("ns", name, shape, name, **fields)  # type: ignore[arg-type]


def decide(*objects: o.Object, config: Config = EVERYTHING) -> dict[str, tuple[str, str]]:
    """Status and node of each pod by its name."""
    result = run_cycle(Cluster.of(objects), config, NOW_NS)
    return {key.split("/")[1]: (state.status, state.node) for key, state in result.pods.items()}


def part(portion: float, devices: int = 1) -> o.GpuShare:
    return o.GpuShare(devices, portion)


def mib(memory: int, devices: int = 1) -> o.GpuShare:
    return o.GpuShare(devices, 0.0, memory)


def test_the_books_open_without_jobs() -> None:
    """The undo log has room for the shares of pods that are in no job."""
    foreign = o.Pod("ns", "x", o.Shape((("pods", 1.0),), share=part(0.5)), "x", node="n", phase=o.Phase.RUNNING)
    objects = [node("n", 2), queue(), group("g"), foreign]
    assert decide(*objects, config=Config(("allocate",)))["x"] == ("Running", "n")


def test_a_node_without_gpus_makes_no_memory_cheap() -> None:
    """The label of a node without GPUs counts at the gates, so the price on the node must be asked for, too."""
    objects = [node("a", 0, 32768), node("b", 8), queue(gpu=o.Share(1.0, -1.0, 1.0))]
    found = decide(*objects, group("g", preemptible=False), pod("g-0", mib(8192, 3)))
    assert found["g-0"] == ("Pending", "")


def test_a_dear_pod_leaves_less_for_the_others_of_its_gang() -> None:
    """On the small devices the first costs a whole GPU; with the second the queue would hold more than its limit."""
    objects = [node("a", 3, 10_000), node("b", 1, 20_000), queue(gpu=o.Share(-1.0, 2.0, 1.0))]
    objects += [group("a"), group("g", 2), pod("x-0", part(0.5), 0.0, "b", "d"), pod("a-0", part(0.25), 0.0, "b", "d")]
    found = decide(*objects, pod("g-0", mib(9901)), pod("g-1", None, 1.0))
    assert {found["g-0"], found["g-1"]} == {("Pending", "")}


def test_mig_devices_count_for_no_node_score() -> None:
    """Nodes without whole GPUs get as many points as the one with the most: the name decides."""
    objects = [node("a", 1), node("b", 0, **{MIG: 2}), node("c", 8, **{MIG: 2}), queue(), group("g")]
    assert decide(*objects, pod("g-0", **{MIG: 1}))["g-0"] == ("Binding", "b")


def test_portions_are_rounded_down_to_the_memory_of_devices() -> None:
    """Three times 3,333 of 10,000 MiB fit, though the portions add up to more than 1."""
    found = decide(node("a", 1, 10_000), queue(), group("g", 3), *(pod(f"g-{k}", part(0.33335)) for k in range(3)))
    assert {status for status, _ in found.values()} == {"Binding"}


def test_a_move_can_make_a_device_whole() -> None:
    """All GPUs together have room for the pod before anybody leaves; single devices have not."""
    objects = [node("m", 1), node("n", 3), queue(), group("a"), group("g"), pod("x-0", None, 1.0, "n")]
    objects += [pod("a-0", part(0.5), 0.0, "n", "x"), pod("y-0", part(0.5), 0.0, "n", "y")]
    objects += [pod("z-0", part(0.5), 0.0, "m", "z")]
    for victims in ("minimal", "original"):
        found = decide(*objects, pod("g-0", None, 1.0), config=Config(("consolidation",), victims=victims))
        assert found["g-0"] == ("Pipelined", "n")
        assert found["a-0"][0] == "Pipelined"


def test_the_slot_of_a_reservation_pod_becomes_free() -> None:
    """With one victim two pod slots are free: its own, and the one of the pod that reserves its device."""
    objects = [node("a", 1), node("b", 4, pods=4.0), node("c", 1), queue(), o.PriorityClass("high", 80)]
    objects += [group("a"), group("g", 2, "high"), pod("x-0", part(1.0), 0.0, "b", "x")]
    objects += [pod(f"a-{k}", part(1.0), 0.0, place, f"a{k}") for k, place in enumerate("cba")]
    found = decide(*objects, pod("g-0", None, 1.0), pod("g-1", None, 1.0), config=Config(("preempt",)))
    assert sum(status == "Releasing" for status, _ in found.values()) == 1


def test_what_was_bound_and_evicted_in_one_cycle_holds_nothing() -> None:
    """The share that is bound, then robbed, then promised elsewhere is bound there, as it never was where it was."""
    objects = [node("a", 4), queue(), o.PriorityClass("high", 80), o.PriorityClass("low", 40)]
    objects += [group("g"), group("b", 1, "low"), group("c", 1, "high"), group("a", 1, "high")]
    objects += [pod("b-0", part(0.5), 0.0, "a", "x"), pod("a-0", part(0.5, 2), 0.0, "a", "y", "z")]
    found = decide(*objects, pod("c-1", None, 1.0), pod("c-2", None, 1.0), pod("g-0", part(0.5, 2)))
    assert found["b-0"][0] == "Releasing"
    assert found["g-0"] == ("Binding", "a")


def test_gangs_keep_their_devices_when_they_have_to_wait() -> None:
    """The second pod is promised a device that is being left, which another pod can join at once."""
    leaving = [pod("a-0", part(0.5), 0.0, "a", "x"), pod("a-1", part(0.5), 0.0, "a", "y")]
    leaving = [replace(each, deleted_ns=NOW_NS) for each in leaving]
    objects = [node("a", 3), queue(), group("g", 2), group("h"), *leaving]
    found = decide(
        *objects, pod("g-0", None, 1.0), pod("g-1", part(0.75)), pod("h-0", part(0.25)), config=Config(("allocate",))
    )
    assert found["g-0"] == found["g-1"] == ("Pipelined", "a")
    assert found["h-0"] == ("Binding", "a")


def test_limits_are_asked_for_the_least_that_gpu_memory_may_cost() -> None:
    """On the large device, once the other pod has left it, the pod costs 0.5; on the small one, 1 (3.4)."""
    objects = [node("a", 1, 10_000), node("b", 1, 20_000), queue(gpu=o.Share(-1.0, 0.75, 1.0)), queue("r", FREE)]
    objects += [o.PriorityClass("high", 80), group("v"), group("g", 1, "high"), group("x", queue="r")]
    objects += [pod("x-0", part(1.0), 0.0, "a", "x"), pod("v-0", part(0.75), 0.0, "b", "v"), pod("g-0", mib(9901))]
    for victims in ("original", "minimal"):
        assert decide(*objects, config=Config(("preempt",), victims=victims))["g-0"] == ("Pipelined", "b")


def test_no_limit_is_exceeded_by_the_price_on_a_node_that_is_cleared() -> None:
    """On the large devices the pod would cost 0.5, but it would get a small one, where it costs 1 (3.4)."""
    objects = [node("a", 1, 10_000), node("b", 1, 20_000), queue(gpu=o.Share(-1.0, 1.4, 1.0)), queue("r")]
    objects += [o.PriorityClass("high", 80), group("x", queue="r", preemptible=False), group("w", preemptible=False)]
    objects += [group("v"), group("g", 1, "high"), pod("x-0", part(0.5), 0.0, "b", "x")]
    objects += [pod("w-0", part(0.5), 0.0, "b", "x"), pod("v-0", part(0.25), 0.0, "a", "v"), pod("g-0", mib(9901))]
    assert decide(*objects, config=Config(("preempt",)))["g-0"] == ("Pending", "")


def test_hundredths_of_gpus_add_up_exactly() -> None:
    """3 + 2 * 0.1 + 4 * 0.2 is 4, the limit, in whatever order they are added."""
    objects = [node("n", 8, 100), queue(gpu=o.Share(-1.0, 4.0, 1.0)), group("a"), group("b"), group("g")]
    objects += [pod(f"a-{k}", None, 1.0, "n") for k in range(3)]
    objects += [*(pod(f"b-{k}", part(0.1)) for k in range(2)), *(pod(f"g-{k}", part(0.2)) for k in range(4))]
    found = decide(*objects, config=Config(("allocate",)))
    assert {status for name, (status, _) in found.items() if name[0] != "a"} == {"Binding"}


def test_legacy_mig_pods_keep_mig_pods_away_and_nobody_else() -> None:
    """A node of whole GPUs (strategy single) takes whole-GPU pods all the same (12.2, step 2)."""
    there = node("n", 4, **{MIG: 2})
    there = replace(there, labels={**there.labels, "nvidia.com/mig.strategy": "single"})
    legacy = pod("a-0", None, 0.0, "n")
    legacy = replace(legacy, shape=replace(legacy.shape, legacy_mig=True))
    assert decide(there, queue(), group("a"), legacy, group("g"), pod("g-0", None, 1.0))["g-0"] == ("Binding", "n")
