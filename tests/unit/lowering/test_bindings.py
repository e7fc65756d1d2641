"""What the original's bind requests mean for the devices and rows of a snapshot."""

from __future__ import annotations

from kai_sched import Cache, Config, Store, run_cycle
from kai_sched.model.objects import BindRequest, GpuShare, Node, Phase, Pod, Queue, Shape, Share

UNLIMITED = Share(-1.0, -1.0, 1.0)
HALF = Shape((("pods", 1.0),), share=GpuShare(1, 0.5))


def store_with_halves(*pods: Pod) -> Store:
    store = Store()
    store.put(Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    store.put(Node("a", allocatable={"cpu": 64_000.0, "memory": 1e12, "gpu": 4.0, "pods": 110.0}))
    for pod in pods:
        store.put(pod)
    return store


def half(name: str, node: str = "", groups: tuple[str, ...] = (), phase: Phase = Phase.PENDING) -> Pod:
    scheduler = "kai-scheduler"
    return Pod("ml", name, HALF, queue="q", scheduler=scheduler, node=node, phase=phase, gpu_groups=groups)


def idle(store: Store) -> float:
    return run_cycle(store.cluster(), Config(), 0).nodes["a"].idle["gpu"]


def test_pods_on_one_device_take_it_once() -> None:
    """The device of a group that runs and of one that is being bound is the same."""
    store = store_with_halves(half("p", "a", ("x",), Phase.RUNNING), half("r"), half("s"))
    store.put(BindRequest("ml", "r", "r", "a", gpu_groups=("x",)))
    store.put(BindRequest("ml", "s", "s", "a", gpu_groups=("y",)))
    assert idle(store) == 2.0


def test_a_request_without_groups_takes_a_device_of_its_own() -> None:
    store = store_with_halves(half("p", "a", ("x",), Phase.RUNNING), half("r"))
    store.put(BindRequest("ml", "r", "r", "a"))
    assert idle(store) == 2.0


def test_a_request_of_a_pod_that_is_going_takes_none() -> None:
    store = store_with_halves(Pod("ml", "r", HALF, queue="q", scheduler="kai-scheduler", deleted_ns=1))
    store.put(BindRequest("ml", "r", "r", "a", gpu_groups=("x",)))
    assert idle(store) == 4.0


def test_a_cache_sees_requests_come_change_and_go() -> None:
    """Each change tells on the pod that the request is for, and on the one that it was for."""
    store, cache = store_with_halves(*(Pod("ml", name, HALF, gates=("held",)) for name in "rs")), Cache()

    def standing() -> list[tuple[str, str]]:
        warm, cold = (run_cycle(store.cluster(), Config(), 0, each).pods for each in (cache, None))
        assert dict(warm) == dict(cold)
        return [(warm[f"ml/{name}"].status, warm[f"ml/{name}"].node) for name in "rs"]

    assert standing() == [("Gated", ""), ("Gated", "")]
    store.put(BindRequest("ml", "r", "r", "a"))
    assert standing() == [("Binding", "a"), ("Gated", "")]
    store.put(BindRequest("ml", "r", "s", "a"))
    assert standing() == [("Gated", ""), ("Binding", "a")]
    store.put(BindRequest("ml", "r", "s", "b"))
    assert standing() == [("Gated", ""), ("Gated", "")]
    store.put(Node("b", allocatable={"cpu": 1000.0, "gpu": 1.0, "pods": 110.0}))
    assert standing() == [("Gated", ""), ("Binding", "b")]
    store.put(BindRequest("ml", "r", "s", "b", is_live=False))
    assert standing() == [("Gated", ""), ("Gated", "")]
    store.remove(BindRequest, "ml/r")
    assert standing() == [("Gated", ""), ("Gated", "")]
