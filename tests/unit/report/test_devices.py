"""Who shares which GPU, as tables and JSON show it."""

from __future__ import annotations

from kai_sched.model.config import Config
from kai_sched.model.objects import GpuShare, Node, Phase, Pod, Shape
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import CycleResult, PodState
from kai_sched.report.device_text import devices
from kai_sched.report.devices import shared_devices
from kai_sched.report.json import Cycle, cycle_document, to_dict
from tests.unit.report.sample import sample

HALF, FOURTH = Shape(share=GpuShare(1, 0.5)), Shape(share=GpuShare(1, 0.25))


def pod(name: str, shape: Shape, node: str = "n1", groups: tuple[str, ...] = (), **more: object) -> Pod:
    return Pod("ml", name, shape, node=node, gpu_groups=groups, phase=Phase.RUNNING, **more)  # type: ignore[arg-type]


def world() -> tuple[Cluster, CycleResult]:
    """Devices g and h of node n1, one that is not named, and one of a node whose memory nobody knows."""
    memory = Shape(share=GpuShare(2, 0.0, 4000))
    pods = [
        pod("a", HALF, groups=("h",)),
        pod("b", memory, groups=("g", "h")),
        pod("c", FOURTH, node=""),
        pod("d", FOURTH),
        pod("e", Shape(share=GpuShare(1, 0.0, 5)), "n2", ("x",)),
        pod("f", HALF, node=""),
        pod("whole", Shape((("gpu", 1.0),))),
        pod("gone", HALF, groups=("g",)),
        pod("nowhere", HALF, node=""),
    ]
    nodes = [Node("n1", labels={"nvidia.com/gpu.memory": "16000"}), Node("n2")]
    states = {
        "ml/a": PodState("Running", "n1"),
        "ml/b": PodState("Releasing", "n1"),
        "ml/c": PodState("Binding", "n1"),
        "ml/d": PodState("Running", "n1"),
        "ml/e": PodState("Bound", "n2"),
        "ml/f": PodState("Pipelined", "n1"),
        "ml/gone": PodState("Succeeded", "n1"),
        "ml/whole": PodState("Running", "n1"),
        "ml/nowhere": PodState("Pending"),
    }
    result = CycleResult((Bind("ml/c", "", "n1", ("g",)),), (), states, {}, (), {})
    return Cluster.of([*nodes, *pods]), result


def test_each_device_has_the_pods_that_are_on_it() -> None:
    found = [(each.node, each.group, each.held, [s.pod for s in each.sharers]) for each in shared_devices(*world())]
    assert found == [
        ("n1", "h", 0.75, ["ml/a", "ml/b"]),
        ("n1", "g", 0.5, ["ml/b", "ml/c"]),
        ("n1", "", 0.25, ["ml/d"]),
        ("n2", "x", 0.0, ["ml/e"]),
    ]


def drawn(cluster: Cluster, result: CycleResult, width: int | None, named: bool = True) -> list[str]:
    shared, _ = devices(cluster, result, width, named)
    return ["".join(text for text, _ in line) for line in shared]


def test_the_table() -> None:
    assert drawn(*world(), 80) == [
        "SHARED GPUS",
        "  NODE  DEVICE  HELD  PODS",
        "  n1    1 h     0.75  ml/a (0.5), ml/b (4,000 MiB, leaves)",
        "  n1    2 g     0.5   ml/b (4,000 MiB, leaves), ml/c (0.25, starts)",
        "  n1    3       0.25  ml/d (0.25)",
        "  n2    1 x     0     ml/e (5 MiB)",
    ]


def test_names_of_devices_are_left_out_unless_they_are_asked_for() -> None:
    assert drawn(*world(), 80, named=False)[1:4] == [
        "  NODE  DEVICE  HELD  PODS",
        "  n1    1       0.75  ml/a (0.5), ml/b (4,000 MiB, leaves)",
        "  n1    2       0.5   ml/b (4,000 MiB, leaves), ml/c (0.25, starts)",
    ]


def test_all_devices_are_listed_and_pods_beyond_the_eighth_counted() -> None:
    crowd = [pod(f"p{i:03}", Shape(share=GpuShare(1, 0.01)), groups=(f"g{i % 30:02}",)) for i in range(400)]
    states = {each.key: PodState("Running", "n1") for each in crowd}
    cluster, result = Cluster.of([Node("n1"), *crowd]), CycleResult((), (), states, {}, (), {})
    found = drawn(cluster, result, None)
    assert len(found) == 2 + 30
    assert found[2].endswith("ml/p210 (0.01) and 6 more")
    assert found[-1].startswith("  n1    30 g29  0.13  ml/p029 (0.01), ")
    assert found[-1].count("ml/p") == 8


def test_names_are_escaped() -> None:
    evil = pod("a\x1b[2J", HALF, groups=("g\n",))
    cluster = Cluster.of([Node("n1"), evil])
    result = CycleResult((), (), {evil.key: PodState("Running", "n1")}, {}, (), {})
    assert drawn(cluster, result, None)[-1] == "  n1    1 g\\n   0.5   ml/a\\x1b[2J (0.5)"


def test_json_has_them_by_node_and_scenarios_do_not() -> None:
    cluster, result = world()
    document = to_dict(cycle_document(Cycle(cluster, result, {}), Config()))
    assert document["sharedGPUs"]["n1"][0] == {
        "gpuGroup": "h",
        "held": 0.75,
        "pods": {"ml/a": {"fraction": 0.5}, "ml/b": {"memoryMiB": 4000}},
    }
    assert "sharedGPUs" not in to_dict(cycle_document(Cycle(cluster, result, {}), None))


def test_a_cluster_without_shares_has_no_such_table() -> None:
    cluster, result = sample()
    assert shared_devices(cluster, result) == []
    assert drawn(cluster, result, 80) == []
