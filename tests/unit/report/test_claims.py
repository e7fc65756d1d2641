"""Which devices claims hold, and whose pods use them, as tables and JSON show it."""

from __future__ import annotations

from fractions import Fraction

from kai_sched.model.claims.objects import (
    AllocatedDevice,
    Allocation,
    ClaimRequests,
    Device,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
)
from kai_sched.model.config import Config
from kai_sched.model.constraints import NodeSelector, Requirement
from kai_sched.model.objects import BindRequest, Node, Phase, Pod, Shape
from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Bind, ClaimUse, Evict
from kai_sched.plan.result import CycleResult, PodState
from kai_sched.report.claims import claimed_devices
from kai_sched.report.device_text import devices
from kai_sched.report.json import Cycle, cycle_document, to_dict
from tests.unit.report.sample import sample

DRIVER = "gpu.example.com"
GPU = ClaimRequests((DeviceRequest("gpu", (DeviceOption(DRIVER),)),))
NET = ClaimRequests((DeviceRequest("nic", (DeviceOption("rdma.example.com"),)),))


def had(device: str, request: str = "gpu", **more: object) -> AllocatedDevice:
    return AllocatedDevice(request, DRIVER, "n1", device, **more)  # type: ignore[arg-type]


def pod(name: str, *claims: str, node: str = "", **more: object) -> Pod:
    uses = tuple(PodClaim(f"in-pod-{claim}", claim, named=True) for claim in claims)
    return Pod("ml", name, Shape(), node=node, claims=uses, phase=Phase.RUNNING, **more)  # type: ignore[arg-type]


def claim(name: str, *devices: AllocatedDevice, asks: ClaimRequests = GPU, nodes: NodeSelector | None = None) -> object:
    return ResourceClaim("ml", name, asks=asks, allocation=Allocation(devices, nodes) if devices else None)


def world() -> tuple[Cluster, CycleResult]:
    """Claims of one pod and of several, held by nobody, of a network, of parts of one device, and not allocated."""
    part = {"consumed": (("memory", Fraction(10 * 2**30)), ("slots", Fraction(3, 2)))}
    nic = AllocatedDevice("nic", "rdma.example.com", "net", "nic-0")
    everywhere = ResourceSlice("net", "rdma.example.com", "net", devices=(Device("nic-0", everywhere=True),))
    own = ResourceSlice("n1", DRIVER, "n1", devices=tuple(Device(f"gpu-{i}", node="n1") for i in range(6)))
    moved = Evict("ml/moves", "", "n1", "consolidation", "ml/x", "ml/moves", (), "n2", True, ())
    request = BindRequest("ml", "r", "asked", "n1", claims=(("in-pod-asked", Allocation((had("gpu-5"),))),))
    pods = [
        pod("a", "shared", node="n1"),
        pod("b", "shared", "net"),
        pod("c", "part-c", node="n1"),
        pod("d", "part-d"),
        pod("moves", "moves", node="n1"),
        pod("waits", "none"),
        pod("over", "kept", node="n1"),
        pod("asked", "asked"),
        pod("admin", "admin", node="n1"),
    ]
    claims = [
        claim("shared", had("gpu-0"), had("gpu-1")),
        claim("net", asks=NET),
        claim("part-c", had("gpu-2", **part)),
        claim("part-d"),
        claim("moves", had("gpu-3")),
        claim("none"),
        claim("kept", had("gpu-4"), nodes=((Requirement("metadata.name", "In", ("n1",)),),)),
        claim("asked"),
        claim("admin", had("gpu-0", admin=True)),
    ]
    states = {
        "ml/a": PodState("Releasing", "n1"),
        "ml/admin": PodState("Running", "n1"),
        "ml/asked": PodState("Binding", "n1"),
        "ml/b": PodState("Binding", "n1"),
        "ml/c": PodState("Running", "n1"),
        "ml/d": PodState("Binding", "n1"),
        "ml/moves": PodState("Pipelined", "n2"),
        "ml/over": PodState("Succeeded", "n1"),
        "ml/waits": PodState("Pipelined", "n1"),
    }
    shared = ClaimUse("ml/shared", "", Allocation((had("gpu-0"), had("gpu-1"))), False)
    binds = (
        Bind("ml/b", "", "n1", (), (shared, ClaimUse("ml/net", "", Allocation((nic,)), True))),
        Bind("ml/d", "", "n1", (), (ClaimUse("ml/part-d", "", Allocation((had("gpu-2", **part),)), True),)),
    )
    objects = [Node("n1"), Node("n2"), own, everywhere, request, *pods, *claims]
    result = CycleResult((moved, *binds), ("ml/moves",), states, {}, (), {})
    return Cluster.of(objects), result  # type: ignore[arg-type]


def test_each_device_has_its_claims_and_each_claim_its_pods() -> None:
    found = [(each.node, each.device, each.claim, dict(each.pods)) for each in claimed_devices(*world())]
    assert found == [
        ("n1", "gpu-0", "ml/admin", {"ml/admin": "Running"}),
        ("n1", "gpu-0", "ml/shared", {"ml/a": "Releasing", "ml/b": "Binding"}),
        ("n1", "gpu-1", "ml/shared", {"ml/a": "Releasing", "ml/b": "Binding"}),
        ("n1", "gpu-2", "ml/part-c", {"ml/c": "Running"}),
        ("n1", "gpu-2", "ml/part-d", {"ml/d": "Binding"}),
        ("n1", "gpu-3", "ml/moves", {"ml/moves": "Releasing"}),
        ("n1", "gpu-4", "ml/kept", {}),
        ("n1", "gpu-5", "ml/asked", {"ml/asked": "Binding"}),
        ("n1", "nic-0", "ml/net", {"ml/b": "Binding"}),
    ]


def drawn(cluster: Cluster, result: CycleResult, width: int | None) -> list[str]:
    _, claimed = devices(cluster, result, width, False)
    return ["".join(text for text, _ in line) for line in claimed]


def test_the_table() -> None:
    assert drawn(*world(), 120) == [
        "DEVICES OF CLAIMS",
        "  NODE  DEVICE                      TAKES                   CLAIM      PODS",
        "  n1    gpu.example.com/gpu-0       admin access            ml/admin   admin",
        "  n1    gpu.example.com/gpu-0       1 GPU                   ml/shared  a (leaves), b (starts)",
        "  n1    gpu.example.com/gpu-1       1 GPU                   ml/shared  a (leaves), b (starts)",
        "  n1    gpu.example.com/gpu-2       10Gi memory, 1.5 slots  ml/part-c  c",
        "  n1    gpu.example.com/gpu-2       10Gi memory, 1.5 slots  ml/part-d  d (starts)",
        "  n1    gpu.example.com/gpu-3       1 GPU                   ml/moves   moves (leaves)",
        "  n1    gpu.example.com/gpu-4       1 GPU                   ml/kept    none",
        "  n1    gpu.example.com/gpu-5       1 GPU                   ml/asked   asked (starts)",
        "  n1    rdma.example.com/net/nic-0  1 device                ml/net     b (starts)",
    ]


def test_on_a_terminal_names_are_elided_in_the_middle() -> None:
    assert all(len(line) <= 90 for line in drawn(*world(), 90))
    assert any("…" in line for line in drawn(*world(), 90))


def test_all_devices_are_listed_and_pods_beyond_the_eighth_counted() -> None:
    crowd = [pod(f"p{i:03}", f"c{i % 30:02}", node="n1") for i in range(400)]
    claims = [claim(f"c{i:02}", had(f"gpu-{i:02}")) for i in range(30)]
    states = {each.key: PodState("Running", "n1") for each in crowd}
    cluster = Cluster.of([Node("n1"), *crowd, *claims])  # type: ignore[list-item]
    found = drawn(cluster, CycleResult((), (), states, {}, (), {}), None)
    assert len(found) == 2 + 30
    assert found[2].endswith(" and 6 more")
    assert found[-1].startswith("  n1    gpu.example.com/gpu-29  1 GPU  ml/c29  p029, p059, ")
    assert found[-1].count(", p") == 7


def test_json_has_them_by_node_and_scenarios_do_not() -> None:
    cluster, result = world()
    document = to_dict(cycle_document(Cycle(cluster, result, {}), Config()))
    assert document["claimedDevices"]["n1"][:2] == [
        {
            "driver": DRIVER,
            "pool": "n1",
            "device": "gpu-0",
            "claim": "ml/admin",
            "gpus": 0,
            "adminAccess": True,
            "pods": {"ml/admin": "Running"},
        },
        {
            "driver": DRIVER,
            "pool": "n1",
            "device": "gpu-0",
            "claim": "ml/shared",
            "gpus": 1,
            "pods": {"ml/a": "Releasing", "ml/b": "Binding"},
        },
    ]
    assert document["claimedDevices"]["n1"][3]["consumedCapacity"] == {"memory": "10737418240", "slots": "1500m"}
    assert "claimedDevices" not in to_dict(cycle_document(Cycle(cluster, result, {}), None))


def test_a_cluster_without_claims_has_no_such_table() -> None:
    cluster, result = sample()
    assert claimed_devices(cluster, result) == []
    assert drawn(cluster, result, 80) == []
