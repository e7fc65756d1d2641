"""Claims for devices from files to allocations: templates, pods that share a claim, evictions, and reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from kai_sched import Cache, Config, Store, run_cycle
from kai_sched.cli.main import app
from kai_sched.model.claims.objects import DeviceTaintRule
from kai_sched.model.constraints import Taint
from kai_sched.model.read.kinds import Reader

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
EXACT = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}


def thing(kind: str, name: str, namespace: str = "", **content: Any) -> dict[str, Any]:
    version = "resource.k8s.io/v1" if kind.startswith(("Resource", "DeviceClass")) else "v1"
    version = "scheduling.run.ai/v2" if kind == "Queue" else version
    meta: dict[str, Any] = {"name": name, "uid": name, **content.pop("metadata", {})}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": meta | ({"namespace": namespace} if namespace else {}),
        **content,
    }


def node(name: str, gpus: int) -> list[dict[str, Any]]:
    """A node with so many GPUs of a slice."""
    devices = [{"name": f"gpu-{number}"} for number in range(gpus)]
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": {"name": name, "resourceSliceCount": 1}}
    room = {"cpu": "16", "memory": "64Gi", "pods": "20"}
    return [
        thing("Node", name, status={"allocatable": room}),
        thing("ResourceSlice", name, spec=spec | {"devices": devices}),
    ]


def queue(name: str, gpus: int = -1) -> dict[str, Any]:
    gpu = {"quota": gpus, "limit": -1, "overQuotaWeight": 1}
    return thing("Queue", name, spec={"resources": {"cpu": FREE, "memory": FREE, "gpu": gpu}})


def pod(name: str, claim: str, queue: str = "q", node: str = "", **source: Any) -> dict[str, Any]:
    marks = {"kai.scheduler/queue": queue}
    spec: dict[str, Any] = {"schedulerName": "kai-scheduler", "containers": [{"name": "a"}]}
    spec["resourceClaims"] = [{"name": "c", **(source or {"resourceClaimName": claim})}]
    spec |= {"nodeName": node} if node else {}
    phase = "Running" if node else "Pending"
    return thing("Pod", name, "a", metadata={"labels": marks}, spec=spec, status={"phase": phase})


def claim(
    name: str, requests: list[dict[str, Any]], queue: str = "q", had: list[tuple[str, str]] | None = None
) -> dict[str, Any]:
    status: dict[str, Any] = {}
    if had:
        results = [
            {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device} for pool, device in had
        ]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [had[0][0]]}]}
        status["allocation"] = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
        status["reservedFor"] = [{"resource": "pods", "name": f"p-{name}", "uid": f"p-{name}"}]
    spec = {"devices": {"requests": requests}}
    meta = {"labels": {"kai.scheduler/queue": queue}}
    return thing("ResourceClaim", name, "a", metadata=meta, spec=spec, status=status)


CLASS = thing("DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]})


def simulate(tmp_path: Path, *objects: dict[str, Any], cycles: int = 1) -> list[dict[str, Any]]:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    result = CliRunner().invoke(app, ["simulate", "--output", "json", "--cycles", str(cycles), str(file)])
    assert result.exit_code == 0, result.output
    cycles_found: list[dict[str, Any]] = json.loads(result.stdout.splitlines()[-1])["cycles"]
    return cycles_found


def count(number: int) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", "count": number}}


def test_each_pod_of_a_template_has_a_claim_of_its_own(tmp_path: Path) -> None:
    template = thing("ResourceClaimTemplate", "t", "a", spec={"spec": {"devices": {"requests": [EXACT]}}})
    pods = [pod(f"p{number}", "", resourceClaimTemplateName="t") for number in range(3)]
    (found,) = simulate(tmp_path, *node("n", 2), queue("q"), CLASS, template, *pods)
    names = [found["decided"][f"a/p{number}"].get("resourceClaims", {}) for number in range(3)]
    devices = [
        each["devices"]["results"][0]["device"]
        for number, claims in enumerate(names)
        for key, each in claims.items()
        if key == f"a/p{number}-c"
    ]
    assert devices == ["gpu-0", "gpu-1"]
    assert "1 of 1 nodes lack the 1 GPU it asks for" in found["podGroups"]["a/p2"]["message"]
    assert found["queues"]["q"]["allocated"]["gpu"] == 2


def test_pods_that_share_a_claim_are_on_its_node_and_count_each(tmp_path: Path) -> None:
    objects = [*node("m", 1), *node("n", 1), queue("q"), CLASS, claim("c", [EXACT])]
    first, second = simulate(tmp_path, *objects, pod("x", "c"), pod("y", "c"), pod("z", "c"), cycles=2)
    assert [first["decided"][f"a/{name}"]["node"] for name in "xyz"] == ["m", "m", "m"]
    assert first["nodes"]["m"]["idleGPUs"] == 0.0
    assert first["nodes"]["n"]["idleGPUs"] == 1.0
    assert second["queues"]["q"]["allocated"]["gpu"] == 3


def test_a_reclaim_frees_the_devices_of_its_victims(tmp_path: Path) -> None:
    devices = [("n", "gpu-0"), ("n", "gpu-1")]
    objects = [*node("n", 2), queue("q", 0), queue("mine", 2), CLASS, claim("old", [count(2)], had=devices)]
    objects += [pod("p-old", "old", node="n"), claim("new", [count(2)], "mine"), pod("new", "new", "mine")]
    first, second = simulate(tmp_path, *objects, cycles=2)
    assert (first["evicted"], first["decided"]["a/new"]["status"]) == (["a/p-old"], "Pipelined")
    assert second["decided"]["a/new"]["status"] == "Binding"
    results = second["decided"]["a/new"]["resourceClaims"]["a/new"]["devices"]["results"]
    assert [each["device"] for each in results] == ["gpu-0", "gpu-1"]


def test_an_eviction_says_which_gpus_it_frees(tmp_path: Path) -> None:
    """In the text and the data, and with the CPU; of two pods with one claim the last one frees its devices."""
    devices = [("n", "gpu-0"), ("n", "gpu-1")]
    objects = [*node("n", 2), queue("q", 0), queue("mine", 2), CLASS, claim("old", [count(2)], had=devices)]
    pods = [pod("p-old", "old", node="n"), pod("r-old", "old", node="n"), pod("new", "", "mine")]
    for each, cores in zip(pods, ("8", "8", "16"), strict=True):
        each["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cores}}
    del pods[2]["spec"]["resourceClaims"]
    objects[2]["spec"]["resources"]["cpu"] = {**FREE, "quota": 0}
    (found,) = simulate(tmp_path, *objects, *pods)
    first, second = found["evictions"]
    assert (first["freed"], second["freed"]) == ({"cpu": 8000.0}, {"cpu": 8000.0, "gpu": 2.0})
    assert "(frees 8 CPU cores, 2 GPUs on n)" in second["message"]


def test_gpus_that_others_keep_are_not_freed(tmp_path: Path) -> None:
    """One of the two claims of the victim is reserved for a pod that is no task."""
    kept = claim("kept", [EXACT], had=[("n", "gpu-1")])
    kept["status"]["reservedFor"] += [{"resource": "pods", "name": "other", "uid": "other"}]
    victim = pod("p-old", "old", node="n")
    victim["spec"]["resourceClaims"] += [{"name": "d", "resourceClaimName": "kept"}]
    objects = [*node("n", 2), queue("q", 0), queue("mine", 1), CLASS, claim("old", [EXACT], had=[("n", "gpu-0")])]
    objects += [kept, victim, claim("new", [EXACT], "mine"), pod("new", "new", "mine")]
    (found,) = simulate(tmp_path, *objects)
    assert [each["freed"] for each in found["evictions"]] == [{"gpu": 1.0}]


def test_an_allocated_claim_keeps_its_pod_to_its_node(tmp_path: Path) -> None:
    objects = [*node("m", 1), *node("n", 1), queue("q"), CLASS, claim("c", [EXACT], had=[("n", "gpu-0")])]
    (found,) = simulate(tmp_path, *objects, pod("p-c", "c"))
    assert found["decided"]["a/p-c"]["node"] == "n"


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([], "ResourceClaim a/c does not exist: create it"),
        ([claim("c", [EXACT], "other")], "ResourceClaim a/c is of queue other, not q"),
        ([claim("c", [EXACT], "")], "ResourceClaim a/c is without the label kai.scheduler/queue"),
        (
            [claim("c", [{"name": "r", "exactly": {"deviceClassName": "none"}}])],
            "spec.devices.requests[0].exactly names the DeviceClass none, which does not exist: create it",
        ),
        ([claim("c", [count(33)])], "asks for 33 devices: a claim can have 32 at most"),
        ([claim("c", [{"name": "r"}])], "neither exactly nor firstAvailable is given"),
        (
            [
                claim(
                    "c", [{"name": "r", "exactly": {**EXACT["exactly"], "selectors": [{"cel": {"expression": "1 +"}}]}}]
                )
            ],  # type: ignore[dict-item]
            "ResourceClaim a/c: spec.devices.requests[0].exactly.selectors[0].cel.expression: '1 +' cannot be compiled",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_says_why(tmp_path: Path, objects: list[dict[str, Any]], text: str) -> None:
    (found,) = simulate(tmp_path, *node("n", 2), queue("q"), CLASS, *objects, pod("p", "c"))
    assert text in found["podGroups"]["a/p"]["message"]


@pytest.mark.parametrize(
    ("tolerations", "devices"),
    [([], None), ([{"key": "k", "operator": "Exists"}], ["gpu-0", "gpu-1"])],
)
def test_all_devices_are_had_with_those_that_are_tainted_or_not_at_all(
    tmp_path: Path, tolerations: list[dict[str, str]], devices: list[str] | None
) -> None:
    machine, cards = node("n", 2)
    cards["spec"]["devices"][1]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    asked = {"deviceClassName": "gpu", "allocationMode": "All", "tolerations": tolerations}
    objects = [claim("c", [{"name": "r", "exactly": asked}]), pod("p", "c")]
    (found,) = simulate(tmp_path, machine, cards, queue("q"), CLASS, *objects)
    got = found["decided"]["a/p"].get("resourceClaims")
    assert (got and [each["device"] for each in got["a/c"]["devices"]["results"]]) == devices


def test_a_rule_counts_from_the_next_cycle_on_and_no_longer_than_it_is_there() -> None:
    reader, store, cache = Reader(Config()), Store(), Cache()
    objects = [*node("n", 1), queue("q"), CLASS, claim("c", [EXACT]), pod("p", "c")]
    for each in objects:
        store.put(reader.read((each["apiVersion"], each["kind"]), msgspec.json.encode(each), pytest.fail))

    def status() -> str:
        return run_cycle(store.cluster(), Config(), 0, cache).pods["a/p"].status

    rule = DeviceTaintRule("broken", Taint("k", "", "NoSchedule"), device="gpu-0")
    assert status() == "Binding"
    store.put(rule)
    assert status() == "Pending"
    store.put(replace(rule, device="gpu-1"))
    assert status() == "Binding"
    store.put(rule)
    assert status() == "Pending"
    store.remove(DeviceTaintRule, "broken")
    assert status() == "Binding"


FIRST = "device.attributes['gpu.example.com'].place == 0"


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        ({"device": "gpu-0"}, ["gpu-1", "gpu-2"]),
        ({"driver": "gpu.example.com", "pool": "n", "device": "gpu-1"}, ["gpu-0", "gpu-2"]),
        ({"driver": "other.example.com", "device": "gpu-1"}, ["gpu-0", "gpu-1", "gpu-2"]),
        ({"pool": "m"}, ["gpu-0", "gpu-1", "gpu-2"]),
        ({"deviceClassName": "gpu"}, []),
        ({"deviceClassName": "none"}, ["gpu-0", "gpu-1", "gpu-2"]),
        ({"selectors": [{"cel": {"expression": FIRST}}]}, ["gpu-1", "gpu-2"]),
        ({"deviceClassName": "gpu", "device": "gpu-2"}, ["gpu-0", "gpu-1"]),
        (
            {"selectors": [{"cel": {"expression": FIRST}}, {"cel": {"expression": "false"}}]},
            ["gpu-0", "gpu-1", "gpu-2"],
        ),
        ({}, []),
        (None, ["gpu-0", "gpu-1", "gpu-2"]),
    ],
)
def test_a_rule_taints_the_devices_that_match_all_it_says(
    tmp_path: Path, selector: dict[str, Any] | None, left: list[str]
) -> None:
    taint = {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"}
    rule = thing("DeviceTaintRule", "broken", spec={"taint": taint, "deviceSelector": selector})
    rule["apiVersion"] = "resource.k8s.io/v1alpha3"
    machine, devices = node("n", 3)
    for place, each in enumerate(devices["spec"]["devices"]):
        each["attributes"] = {"place": {"int": place}}
    tolerant = {
        "name": "r",
        "exactly": {**EXACT["exactly"], "tolerations": [{"key": taint["key"], "operator": "Exists"}]},
    }  # type: ignore[dict-item]
    pods = [pod(f"p{number}", f"c{number}") for number in range(4)]
    claims = [claim(f"c{number}", [EXACT if number < 3 else tolerant]) for number in range(4)]
    (found,) = simulate(tmp_path, machine, devices, rule, queue("q"), CLASS, *claims, *pods)
    got = {
        name: each["devices"]["results"][0]["device"]
        for name in ("p0", "p1", "p2", "p3")
        for each in found["decided"][f"a/{name}"].get("resourceClaims", {}).values()
    }
    assert [got[name] for name in ("p0", "p1", "p2") if name in got] == left
    assert ("p3" in got) == (len(left) < 3)


SUBS = [{"name": name, "deviceClassName": "gpu"} for name in "abcdefghi"]


@pytest.mark.parametrize(
    ("requests", "constraints", "text"),
    [
        ([count(0)], [], "requests[0].exactly.count: 0 is no whole number above 0: correct it"),
        ([count(-1)], [], "requests[0].exactly.count: -1 is no whole number above 0: correct it"),
        ([count(1.5)], [], "requests[0].exactly.count: 1.5 is no whole number above 0: correct it"),
        (
            [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All", "count": 2}}],
            [],
            "requests[0].exactly.count: the mode All takes all devices: remove the count, or the mode",
        ),
        ([{"exactly": {"deviceClassName": "gpu"}}], [], "requests[0].name: missing: give it a name"),
        ([EXACT, EXACT], [], "requests[1].name: 'r' is the name of another one: give each its own"),
        ([{**EXACT, "firstAvailable": SUBS[:1]}], [], "requests[0]: exactly and firstAvailable are given: remove one"),
        ([{"name": "r", "firstAvailable": SUBS}], [], "requests[0].firstAvailable: 9 options: give 8 at most"),
        (
            [{"name": "r", "firstAvailable": SUBS[:1] * 2}],
            [],
            "requests[0].firstAvailable[1].name: 'a' is the name of another one: give each its own",
        ),
        (
            [EXACT],
            [{"requests": ["r", "s"], "matchAttribute": "gpu.example.com/model"}],
            "constraints[0].requests[1]: there is no request 's': use the name of one",
        ),
        (
            [{"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "x", "operator": "In"}]}}],
            [],
            "requests[0].exactly.tolerations[0].operator: 'In' is not an operator: use Exists or Equal",
        ),
    ],
)
def test_a_claim_that_the_api_refuses_is_not_read_as_another_one(
    tmp_path: Path, requests: list[dict[str, Any]], constraints: list[dict[str, Any]], text: str
) -> None:
    asked = claim("c", requests)
    asked["spec"]["devices"]["constraints"] = constraints
    (found,) = simulate(tmp_path, *node("n", 2), queue("q"), CLASS, asked, pod("p", "c"))
    assert found["decided"]["a/p"]["status"] == "Pending"
    assert f"ResourceClaim a/c: spec.devices.{text}" in found["podGroups"]["a/p"]["message"]


def test_constraints_may_name_options(tmp_path: Path) -> None:
    asked = claim("c", [{"name": "r", "firstAvailable": SUBS[:2]}])
    asked["spec"]["devices"]["constraints"] = [{"requests": ["r/b"], "matchAttribute": "gpu.example.com/model"}]
    (found,) = simulate(tmp_path, *node("n", 2), queue("q"), CLASS, asked, pod("p", "c"))
    assert found["decided"]["a/p"]["status"] == "Binding"


@pytest.mark.parametrize("gpus", [0, 1])
def test_selectors_are_judged_with_and_without_devices(tmp_path: Path, gpus: int) -> None:
    """Object, field, what is wrong and what helps, before a driver has published a device."""
    broken = thing("DeviceClass", "broken", spec={"selectors": [{"cel": {"expression": "device.driver =="}}]})
    listed = [{"name": "one", "deviceClassName": "gpu"}, {"name": "two", "deviceClassName": "gpu", "selectors": []}]
    listed[1]["selectors"] = [{"cel": {"expression": "device.?driver.hasValue()"}}]  # type: ignore[assignment]
    objects = [
        claim("c", [{"name": "r", "exactly": {"deviceClassName": "broken"}}]),
        claim("d", [{"name": "r", "firstAvailable": listed}]),
        *(pod("p", "c"), pod("q", "d")),
    ]
    (found,) = simulate(tmp_path, *node("n", gpus), queue("q"), CLASS, broken, *objects)
    texts = [found["podGroups"][f"a/{name}"]["message"] for name in "pq"]
    field = "spec.selectors[0].cel.expression of its DeviceClass broken: 'device.driver ==' cannot be compiled"
    assert f"ResourceClaim a/c: {field}" in texts[0]
    assert "correct it" in texts[0]
    field = "spec.devices.requests[0].firstAvailable[1].selectors[0].cel.expression"
    assert f"ResourceClaim a/d: {field}: 'device.?driver.hasValue()' uses optional selection (.?)" in texts[1]


def test_gpus_of_slices_are_for_claims_alone(tmp_path: Path) -> None:
    whole = pod("p", "c")
    whole["spec"]["resourceClaims"] = []
    whole["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1"}}
    (found,) = simulate(tmp_path, *node("n", 2), queue("q"), CLASS, whole)
    assert "its GPUs are devices for ResourceClaims" in found["podGroups"]["a/p"]["message"]


def test_a_pod_is_told_which_request_no_node_can_meet(tmp_path: Path) -> None:
    """Waiting helps where others have the devices; here it does not."""
    objects = node("n", 2)
    devices = objects[1]["spec"]["devices"]
    devices[0]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    devices[1]["capacity"] = {"memory": {"value": "40Gi"}}
    none, model = "false", 'device.driver == "gpu.example.com"'

    def asks(**more: Any) -> dict[str, Any]:
        return {"name": "r", "exactly": {"deviceClassName": "gpu", **more}}

    wanted = {
        "nowhere": [asks(selectors=[{"cel": {"expression": none}}])],
        "tainted": [asks(count=2)],
        "small": [asks(capacity={"requests": {"memory": "80Gi"}})],
        "many": [asks(count=5, selectors=[{"cel": {"expression": model}}])],
        "list": [{"name": "r", "firstAvailable": [{"name": n, "deviceClassName": "gpu", "count": 2} for n in "xy"]}],
    }
    cls = thing("DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": model}}]})
    claims = [claim(name, requests) for name, requests in wanted.items()]
    pods = [pod(f"p-{name}", name) for name in wanted]
    (found,) = simulate(tmp_path, *objects, queue("q"), cls, *claims, *pods)
    told = {name: found["podGroups"][f"a/p-{name}"]["message"] for name in wanted}
    can = "cannot allocate all claims (request r of ResourceClaim a/"
    assert (
        f"{can}nowhere: no node can use a device of a ResourceSlice that it and its DeviceClass gpu select)"
        in told["nowhere"]
    )
    assert (
        f"{can}tainted: it asks for 2 devices, and no node can use more than 1 that it selects and whose"
        in told["tainted"]
    )
    assert f"{can}small: no node can use a device of a ResourceSlice that it selects and that has the" in told["small"]
    assert "cannot allocate all claims (request r/x of ResourceClaim a/list: it asks for 2 devices" in told["list"]
    assert "; request r/y of ResourceClaim a/list: it asks for 2 devices" in told["list"]
