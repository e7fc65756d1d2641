"""Recordings of cycles: objects of each kind, settings and hints come back as they were; bad files are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from fractions import Fraction
from types import MappingProxyType

import msgspec
import pytest

from kai_sched.files.errors import BrokenInput
from kai_sched.files.recording import CycleInputs, CycleRecording, decode_recording, encode_recording
from kai_sched.model import objects as o
from kai_sched.model.claims import objects as c
from kai_sched.model.claims.selectors import SelectorAnswer
from kai_sched.model.config import Config, ReservationSettings, ScalingSettings
from kai_sched.model.constraints import HostPort, PodTerm, Requirement, Taint, Toleration, WeightedPodTerm
from kai_sched.model.hints import ALL_PODS, NO_HINTS, SchedulingHints
from kai_sched.model.numa import Alignment, NodeZone, NodeZones
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from kai_sched.model.store import TABLES, Cluster

NOW_NS = 1_800_000_000_123_456_789
HERE = ((Requirement("zone", "In", ("a", "b")),), (Requirement("gpu", "Exists"),))
ALLOCATION = c.Allocation((c.AllocatedDevice("r/o", "d", "p", "g0", True, (("m", Fraction(1, 3)),), "s"),), HERE)
SHAPE = o.Shape(
    request=(("cpu", 0.1 + 0.2), ("gpu", 2.0), ("pods", 1.0)),
    node_selector=(("zone", "a"),),
    node_affinity=HERE,
    tolerations=(Toleration("k", "Exists"),),
    host_ports=(HostPort(80),),
    affinity=(PodTerm("host", None, ("ns",), ()),),
    anti_affinity=(PodTerm("host", (), ("ns",)),),
    preferred_affinity=(WeightedPodTerm(-3, PodTerm("zone", (Requirement("app", "In", ("web",)),))),),
    claims=("ns/data",),
    config_maps=("ns/settings",),
    unsupported=("spec.x: no",),
    share=o.GpuShare(2, 0.3),
    n_claims=1,
    containers=(("cpu", 0.3),),
)
CONTAINERS = (c.ContainerDevices("main", 0, True, "example.com/gpu", 0, 2),)
ASKS = c.ClaimRequests(
    (c.DeviceRequest("r", (c.DeviceOption("gpu", "o", ("true",), None, True, (), (("m", Fraction(2, 7)),)),), False),),
    (c.DeviceConstraint("d/a", ("r",), True),),
)
DEVICE = c.Device(
    "g0",
    {"d/index": 1, "d/on": True, "d/model": "x", "d/driver": c.Version("1.2.3")},
    {"d/memory": c.Capacity(Fraction(80), Fraction(1, 3), (Fraction(1),), Fraction(1), None, Fraction(1, 2))},
    (("set", "memory", Fraction(5, 3)),),
    (Taint("t", "", "NoSchedule"),),
    selector=HERE,
)
OBJECTS: Mapping[type, o.Object] = {
    o.Queue: o.Queue(
        "q", "u1", 5, "", "Q", 7, o.Share(-1.0, 0.1, 2.0), preempt_min_runtime_s=0.5, labels={"b": "", "a": "ü"}
    ),
    o.Node: o.Node(
        "n", "u2", {"zone": "a"}, {"cpu": 4000.0, "memory": 2.0**53 + 2}, (Taint("k", "v", "e"),), True, ("NotReady",)
    ),
    o.Topology: o.Topology("t", "u9", ("zone", "rack"), ("z", "")),
    o.PodGroup: o.PodGroup(
        "ns",
        "g",
        "u3",
        1,
        "q",
        "train",
        False,
        0,
        None,
        (o.SubGroup("a", "", None, 1, o.TopologyConstraint("t", "rack")),),
    ),
    o.Pod: o.Pod("ns", "p", SHAPE, "u4", 2, {"app": "web"}, "g", phase=o.Phase.RUNNING, node="n", extended=CONTAINERS),
    o.BindRequest: o.BindRequest("ns", "b", "p", "n", False, ("dev",), (("c", ALLOCATION),)),
    o.PriorityClass: o.PriorityClass("train", -50, True),
    o.VolumeClaim: o.VolumeClaim("ns", "data", "Bound", "v", "fast", False, ("ReadWriteOnce",), 1e9, selector=HERE[0]),
    o.Volume: o.Volume("v", HERE, "fast", "ns/data", "Bound", labels={"x": "y"}),
    o.StorageClass: o.StorageClass("fast", True, "made.by", HERE),
    StorageDriver: StorageDriver("made.by", True),
    StorageCapacity: StorageCapacity("ns", "here", "fast", HERE, 1e9, None),
    NodeVolumes: NodeVolumes("n", {"made.by": 16}),
    NodeZones: NodeZones("n", "u6", Alignment.SINGLE, True, (NodeZone("node-0", {"cpu": 4000.0}, {}),)),
    o.ConfigMap: o.ConfigMap("ns", "settings"),
    o.Namespace: o.Namespace("ns", {"team": "a"}),
    c.DeviceClass: c.DeviceClass(
        "gpu", ("device.driver == 'd'",), "example.com/gpu", 3, ({"opaque": {"x": [1, 2.5, None]}},)
    ),
    c.ResourceSlice: c.ResourceSlice("s", "d", "p", 2, 1, (("set", "memory", Fraction(80)),), (DEVICE,)),
    c.ResourceClaim: c.ResourceClaim("ns", "claim", "u5", ASKS, ALLOCATION, (("p", "u4"),), "u4", "q"),
    c.DeviceTaintRule: c.DeviceTaintRule("rule", Taint("k", "v", "NoExecute"), "d", selectors=("true",)),
}
PLAIN = Config()
CONFIG = Config(
    actions=("reclaim", "allocate"),
    plugins={"b": {"x": "1"}, "a": {}},
    queue_depth={"reclaim": 3},
    reservation=ReservationSettings(pod_security_context={"runAsUser": 1}, cdi_enabled=False),
    scaling=ScalingSettings(arguments=("a",), memory_portion=0.1),
    staleness_grace_s=0.1,
)
HINTS = SchedulingHints(
    first={"ns/b": ALL_PODS, "ns/a": 1},
    deferred=frozenset({"ns/x", "ns/y"}),
    pipelined_free=frozenset({"ns/z"}),
    nominated_nodes={"ns/p": "n"},
    searched={"ns/g": (1, 2)},
    may_search=frozenset({"ns/s"}),
    closed_nodes=frozenset({"n"}),
    brief=frozenset({"ns/c"}),
    awaited_devices=frozenset({("n", "dev")}),
    refused_victims=frozenset({"ns/v"}),
)


def recording(*objects: o.Object, config: Config = PLAIN, hints: SchedulingHints = NO_HINTS) -> CycleRecording:
    inputs = CycleInputs(Cluster.of(objects), config, NOW_NS, hints)
    return CycleRecording(inputs, [b'["Rest",{}]'], "", "1.2.3")


def again(written: CycleRecording) -> CycleRecording:
    return decode_recording(encode_recording(written))


def test_there_is_an_example_of_each_kind() -> None:
    assert OBJECTS.keys() == TABLES.keys()


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_an_object_comes_back_as_it_was(kind: type[o.Object]) -> None:
    found = again(recording(OBJECTS[kind])).inputs.cluster.table(kind)
    assert dict(found) == {OBJECTS[kind].key: OBJECTS[kind]}
    for field in fields(OBJECTS[kind]):
        before, after = (getattr(each, field.name) for each in (OBJECTS[kind], found[OBJECTS[kind].key]))
        assert repr(after) == repr(before), "numbers keep their type, mappings their order"


def test_settings_hints_time_and_plan_come_back_as_they_were() -> None:
    found = again(recording(config=CONFIG, hints=HINTS))
    assert (found.inputs.config, found.inputs.hints, found.inputs.now_ns) == (CONFIG, HINTS, NOW_NS)
    assert list(found.inputs.config.plugins) == ["b", "a"]
    assert list(found.inputs.hints.first) == ["ns/b", "ns/a"]
    assert (found.plan, found.error, found.version) == ([b'["Rest",{}]'], "", "1.2.3")


def test_every_field_of_the_hints_has_an_example() -> None:
    assert all(getattr(HINTS, field.name) for field in fields(HINTS))


def test_answers_about_selectors_come_back_as_they_were() -> None:
    answers = MappingProxyType(
        {"true": SelectorAnswer("", {b"\x00\xff": True, b"\x01": "fails"}), "1": SelectorAnswer("no")}
    )
    plain = recording()
    inputs = replace(plain.inputs, cluster=replace(plain.inputs.cluster, selector_answers=answers))
    found = again(replace(plain, inputs=inputs)).inputs.cluster.selector_answers
    assert found == answers


def test_the_order_of_objects_is_kept_and_equal_shapes_are_one_object() -> None:
    pods = [o.Pod("ns", name, o.Shape((("cpu", 1.0),))) for name in ("b", "a", "c")]
    found = again(recording(*pods)).inputs.cluster.pods
    assert list(found) == ["ns/b", "ns/a", "ns/c"]
    assert len({id(pod.shape) for pod in found.values()}) == 1


def test_a_hash_of_another_process_is_neither_written_nor_read() -> None:
    claim = c.ResourceClaim("ns", "claim", asks=ASKS)
    hash(ASKS)
    raw = encode_recording(recording(claim))
    assert b'"_hash":0' in raw
    forged = raw.replace(b'"_hash":0', b'"_hash":12345')
    found = decode_recording(forged).inputs.cluster.resource_claims["ns/claim"].asks
    assert hash(found) == hash(ASKS)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"kind": "ClusterDump"},
            "ClusterDump of kai-sched.io/v1, not a CycleRecording of kai-sched.io/v1: name a file",
        ),
        ({"podShapes": []}, "there is no shape for the pod ns/p"),
        ({"podShapes": [-1]}, "there is no shape for the pod ns/p"),
        ({"nowNs": "soon"}, "nowNs"),
        ({"config": {"actions": ["jump"]}}, "there is no action 'jump'"),
        ({"objects": {"pods": [{"name": 1}]}}, "pods: "),
    ],
)
def test_a_bad_recording_is_refused_with_what_is_wrong(change: dict[str, object], text: str) -> None:
    document = json.loads(encode_recording(recording(OBJECTS[o.Pod])))
    with pytest.raises(BrokenInput) as refused:
        decode_recording(msgspec.json.encode({**document, **change}))
    assert text in str(refused.value)


def test_a_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(BrokenInput, match="the recording: "):
        decode_recording(b"{")
