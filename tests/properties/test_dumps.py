"""A dump and a snapshot archive of any cluster: the plan is that of the objects, and no secret is in them."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import zipfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Config, run_cycle
from kai_sched.files.dump import DumpMetadata, dump_chunks, dump_document
from kai_sched.files.dump_settings import config_of, setting_types, settings_of, snapshot_parts
from kai_sched.files.load import SimulationCase, load
from kai_sched.files.snapshot_archive import MEMBER, RAW_OBJECTS, archive_chunks
from kai_sched.model.config import (
    ACTIONS,
    INTERNAL,
    PROMETHEUS,
    ReservationSettings,
    ScalingSettings,
    UsageDatabase,
    UsageSettings,
)
from tests.properties.plans import text_of
from tests.unit.files.inputs import listing, queue, thing, told

SECRET = "hunter2"
NOW_NS = 1_800_000_000_123_456_789
METADATA = DumpMetadata(NOW_NS)
LABEL = "kai.scheduler/queue"
KINDS = {
    "default-priority": "train",
    "types": json.dumps([{"typeName": "Job", "group": "batch", "priorityName": "build"}]),
}


def secretive(rng: random.Random) -> dict[str, Any]:
    """Fields of a container; those with secrets, and those that name ConfigMaps, which may not be there."""
    fields: dict[str, Any] = {
        "command": ["sh", "-c", SECRET],
        "args": [f"--token={SECRET}"],
        "env": [
            {"name": "A", "value": SECRET},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "k"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": rng.choice(["there", "missing"]), "key": "k"}}},
        ],
        "envFrom": [
            {"secretRef": {"name": SECRET}},
            {"prefix": SECRET, "configMapRef": {"name": rng.choice(["there", "missing"]), "optional": True}},
        ],
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
    }
    return {name: value for name, value in fields.items() if rng.random() < 0.3}


def template(rng: random.Random) -> dict[str, Any]:
    amounts = {"cpu": str(rng.randint(1, 4)), "nvidia.com/gpu": str(rng.randint(0, 2))}
    shares = rng.random() < 0.2
    if shares:
        del amounts["nvidia.com/gpu"]
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container | secretive(rng)]}
    notes = {"kubectl.kubernetes.io/last-applied-configuration": SECRET} if rng.random() < 0.3 else {}
    return {"metadata": {"annotations": notes | ({"gpu-fraction": "0.5"} if shares else {})}, "spec": spec}


def pod(rng: random.Random, number: int, nodes: int) -> dict[str, Any]:
    made = template(rng)
    found = thing("Pod", f"p-{number}", made["spec"], "ml")
    found["metadata"] |= {
        "uid": f"uid-{number}",
        "labels": {LABEL: rng.choice(["a", "b"]), "entrypoint": "kept"},
        "annotations": made["metadata"]["annotations"] | {"pod-group-name": f"g-{number % 4}"},
        "creationTimestamp": f"2026-01-01T12:00:{number:02}Z",
        "managedFields": [{"manager": SECRET, "time": "2026-01-02T00:00:00Z"}],
    }
    runs = rng.random() < 0.4 and "gpu-fraction" not in found["metadata"]["annotations"]
    if runs:
        found["spec"]["nodeName"] = f"n-{rng.randrange(nodes)}"
    found["status"] = {"phase": "Running" if runs else "Pending"}
    return found


def cluster(seed: int) -> list[dict[str, Any]]:
    """Nodes, queues, pods in groups, and what else decides; with secrets wherever people put them."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 3)
    room = {"cpu": "32", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}
    labels = {"nvidia.com/gpu.memory": "24576"}
    found = [queue("a"), queue("b"), thing("ConfigMap", "there", None, "ml", data={"k": SECRET})]
    for number in range(nodes):
        node = thing("Node", f"n-{number}", status={"allocatable": room})
        node["metadata"]["labels"] = labels
        found.append(node)
    for number in range(4):
        spec = {"queue": rng.choice(["a", "b"]), "minMember": rng.randint(1, 2)}
        found.append(thing("PodGroup", f"g-{number}", spec, "ml"))
    found += [pod(rng, number, nodes) for number in range(rng.randint(1, 12))]
    found += [thing("Secret", "s", None, "ml", data={"k": SECRET})] * (rng.random() < 0.5)
    if rng.random() < 0.5:
        found.append(thing("SchedulingShard", "default", {"placementStrategy": {"gpu": "spread"}}))
    rng.shuffle(found)
    return found


def more(seed: int) -> list[dict[str, Any]]:
    """Objects that a snapshot archive cannot hold: workloads and settings."""
    rng = random.Random(seed)
    found: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        job = thing("Job", "j", {"template": template(rng), "parallelism": 2}, "ml") | {"apiVersion": "batch/v1"}
        job["metadata"]["labels"] = {LABEL: "a"}
        job["spec"]["template"]["metadata"]["annotations"].pop("gpu-fraction", None)
        found.append(job)
    if rng.random() < 0.6:
        place = {"defaultPrioritiesConfigMapNamespace": "kai", "defaultPrioritiesConfigMapName": "kinds"}
        shared = {"gpuSharing": rng.random() < 0.7}
        found.append(thing("Config", "kai-config", {"global": shared, "podGrouper": {"args": place}}))
        found.append(thing("ConfigMap", "kinds", None, "kai", data=KINDS))
    return found


def read(data: bytes) -> SimulationCase:
    loaded = load(["-"], stdin=io.BytesIO(data))
    assert not loaded.fatal, told(loaded)
    (case,) = loaded.cases
    return case


def plan(case: SimulationCase, config: Config | None = None) -> str:
    return text_of(run_cycle(case.store.cluster(), config or case.config, NOW_NS))


def compressed(objects: list[dict[str, Any]], config: Config) -> bytes:
    return b"".join(dump_chunks(dump_document(objects, config, METADATA)))


@given(st.integers(0, 2**32))
def test_the_plan_of_a_dump_is_that_of_the_objects(seed: int) -> None:
    objects = cluster(seed) + more(seed)
    before = copy.deepcopy(objects)
    data = compressed(objects, Config(gpu_sharing=False))
    assert objects == before
    assert SECRET.encode() not in gzip.decompress(data)
    assert compressed(list(reversed(objects)), Config(gpu_sharing=False)) == data
    plain, dumped = read(json.dumps(listing(*objects)).encode()), read(data)
    assert (dumped.now_ns, dumped.config) == (NOW_NS, plain.config)
    assert plan(dumped) == plan(plain)


@given(st.integers(0, 2**32), st.booleans())
def test_the_plan_of_a_snapshot_is_that_of_the_objects(seed: int, shares: bool) -> None:
    objects = cluster(seed)
    plain = read(json.dumps(listing(*objects)).encode())
    config = Config(gpu_sharing=shares, actions=plain.actions, plugins=plain.config.plugins)
    data = b"".join(archive_chunks(objects, config, METADATA))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        inner = archive.read(MEMBER)
    assert SECRET.encode() not in inner
    found = read(data)
    assert (found.now_ns, found.config) == (NOW_NS, config)
    assert plan(found) == plan(plain, config)
    # As the original writes it: no kinds, no metadata, no settings of ours, and null for empty lists.
    content = json.loads(inner)
    content = {"config": content["config"], "schedulerParams": content["schedulerParams"]} | {
        "rawObjects": {
            name: [{k: v for k, v in each.items() if k not in ("apiVersion", "kind")} for each in part] or None
            for name, part in content["rawObjects"].items()
        }
    }
    theirs = read(json.dumps(content).encode())
    assert theirs.config == Config(actions=config.actions, plugins=config.plugins)
    assert plan(theirs, config) == plan(plain, config)


AMOUNTS = st.floats(0, 1e6)
CONFIGS = st.builds(
    Config,
    actions=st.permutations(ACTIONS).map(tuple),
    plugins=st.dictionaries(
        st.sampled_from(["predicates", "proportion"]), st.dictionaries(st.just("kValue"), st.text())
    ),
    queue_depth=st.dictionaries(st.sampled_from(ACTIONS), st.integers(0, 9)),
    scheduler_name=st.text(),
    gpu_sharing=st.booleans(),
    proves_shares=st.booleans(),
    staleness_grace_s=st.floats(0, 1e6),
    max_consolidation_preemptees=st.integers(-1, 99),
    victims=st.sampled_from(["minimal", "original"]),
    reservation=st.builds(ReservationSettings, image=st.text(), limits=st.dictionaries(st.text(), st.text())),
    scaling=st.builds(ScalingSettings, enabled=st.booleans(), arguments=st.lists(st.text()).map(tuple)),
    usage=st.builds(
        UsageSettings,
        source=st.sampled_from(["", INTERNAL, PROMETHEUS]),
        window_s=AMOUNTS,
        tumbling_from_s=st.none() | AMOUNTS,
        cron=st.sampled_from(["", "0 6 1 * *"]),
        database=st.builds(UsageDatabase, url=st.text(), timeout_s=AMOUNTS, capacity=st.tuples(*[st.text()] * 3)),
    ),
    queue_metric_labels=st.lists(st.tuples(*[st.text()] * 3)).map(tuple),
)


@given(CONFIGS)
def test_settings_come_back(config: Config) -> None:
    warnings: list[tuple[str, str]] = []
    again = config_of(json.loads(json.dumps(settings_of(config))), lambda *each: warnings.append(each))
    assert (again, list(again.plugins), warnings) == (config, list(config.plugins), [])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = [*setting_types(), "shard"]
PARAMS = [*snapshot_parts(Config())[1], "maxNumberConsolidationPreemptees"]
PARTS = ["apiVersion", "kind", "metadata", "settings", "items", "config", "schedulerParams", "rawObjects", "discovery"]


@given(
    st.dictionaries(st.sampled_from(PARTS), JSON, max_size=2),
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=2),
    st.dictionaries(st.sampled_from(PARAMS), JSON, max_size=2),
    st.booleans(),
)
def test_parts_of_any_content(parts: dict[str, Any], settings: dict[str, Any], params: Any, is_dump: bool) -> None:
    """It is told, or the cluster is decided."""
    objects = cluster(7)
    dump: dict[str, Any] = dump_document(objects, Config(), METADATA)
    dump["settings"] |= settings
    raw = {name: [each for each in objects if each["kind"] == kind[1]] for name, kind in RAW_OBJECTS.items()}
    snapshot = {"schedulerParams": snapshot_parts(Config())[1] | params, "rawObjects": raw}
    loaded = load(["-"], stdin=io.BytesIO(json.dumps((dump if is_dump else snapshot) | parts).encode()))
    if not loaded.fatal:
        for case in loaded.cases:
            plan(case)


def test_a_secret_would_be_found() -> None:
    """The clusters have secrets, and plans that differ."""
    texts = [json.dumps(cluster(seed)) for seed in range(10)]
    assert all(SECRET in text for text in texts)
    assert len({plan(read(json.dumps(listing(*cluster(seed))).encode())) for seed in range(10)}) > 5
