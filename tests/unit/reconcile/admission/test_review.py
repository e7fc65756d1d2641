"""Reviews of our own kinds and of pods: the tables of API 5.2, 6.2 and 8, as bytes in and out."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from kai_sched.reconcile.admission.review import AdmissionSettings, review

SUFFIX = "abc1234"
QUEUE = "/validate-scheduling-run-ai-v2-queue"
POD_GROUP = "/validate-scheduling-run-ai-v2alpha2-podgroup"
TOPOLOGY = "/validate-kai-scheduler-v1alpha1-topology"
MUTATE = "/mutate--v1-pod"
POD = "/validate--v1-pod"
SHARING = AdmissionSettings(gpu_sharing=True)
BLOCKING = AdmissionSettings(gpu_sharing=True, block_visible_devices=True)


def ask(path: str, obj: Any, settings: AdmissionSettings = SHARING, operation: str = "CREATE", **more: Any) -> Any:
    namespace = "" if path in (QUEUE, TOPOLOGY) else "ml"
    request = {"uid": "u1", "operation": operation, "namespace": namespace, "object": obj, **more}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = msgspec.json.decode(review(path, msgspec.json.encode(body), settings, SUFFIX))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u1"
    return answer["response"]


def refusal(response: Any) -> str:
    assert response["allowed"] == ("status" not in response)
    return "" if response["allowed"] else response["status"]["message"]


def queue(**spec: Any) -> Any:
    return {"kind": "Queue", "metadata": {"name": "team"}, "spec": spec}


OPEN = {"cpu": {"quota": -1, "limit": -1}}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"resources": OPEN}, ()),
        ({"resources": OPEN, "parentQueue": "not-there-yet"}, ()),
        ({"resources": {}}, ()),
        ({}, ("Queue team", "spec.resources", "specified")),
        ({"resources": None}, ("spec.resources",)),
        ({"resources": OPEN, "parentQueue": "team"}, ("spec.parentQueue", "own parent")),
        ({"resources": {"gpu": {"quota": -3}}}, ("spec.resources.gpu.quota", "-3")),
        ({"resources": OPEN, "preemptMinRuntime": "soon"}, ("spec.preemptMinRuntime", "'soon'")),
        ({"resources": "much"}, ("spec.resources", "expected a mapping")),
    ],
)
def test_queues(operation: str, spec: Any, words: tuple[str, ...]) -> None:
    text = refusal(ask(QUEUE, queue(**spec), operation=operation))
    assert bool(text) == bool(words)
    assert [word for word in words if word not in text] == []


def test_a_queue_without_resources_is_told_as_a_warning_too() -> None:
    response = ask(QUEUE, queue())
    assert response["warnings"] == [response["status"]["message"]]


def test_deletions_and_what_is_leaving_pass() -> None:
    assert refusal(ask(QUEUE, None, operation="DELETE")) == ""
    leaving = {**queue(), "metadata": {"name": "team", "deletionTimestamp": "2026-01-01T12:00:00Z"}}
    assert refusal(ask(QUEUE, leaving, operation="UPDATE")) == ""


def group(*sub_groups: Any, **spec: Any) -> Any:
    if sub_groups:
        spec["subGroups"] = list(sub_groups)
    return {"kind": "PodGroup", "metadata": {"name": "train", "namespace": "ml"}, "spec": spec}


def part(name: str, parent: str = "", **more: Any) -> Any:
    return {"name": name, **({"parent": parent} if parent else {}), **more}


LEAF = {"minMember": 1}


@pytest.mark.parametrize(
    ("obj", "created", "updated", "words"),
    [
        (group(minMember=4), "", "", ()),
        (group(part("a", **LEAF), part("b", **LEAF), minSubGroup=1), "", "", ()),
        (group(part("a"), part("b", "a", **LEAF)), "", "", ()),
        (group(minMember=1, minSubGroup=1), "no", "no", ("spec.minMember", "exclude")),
        (group(part("a", minMember=1, minSubGroup=1)), "no", "no", ("subGroups[0].minMember", "'a'")),
        (group(part("a", **LEAF), part("a", **LEAF)), "no", "no", ("subGroups[1].name", "'a'")),
        (group(part("a", "z", **LEAF)), "no", "no", ("subGroups[0].parent", "'z'")),
        (group(part("b", "a"), part("a", "b")), "no", "no", ("own ancestor (a -> b -> a)", "own ancestor (b -> a")),
        (group(part("a", minSubGroup=1)), "no", "no", ("subGroups[0].minSubGroup",)),
        (group(part("a")), "no", "no", ("subGroups[0].minMember", "missing")),
        (group(part("a", minMember=2), part("b", "a", **LEAF)), "no", "warn", ("subGroups[0].minMember", "'a'")),
        (group(part("a", **LEAF), minSubGroup=2), "warn", "warn", ("spec.minSubGroup", "wants 2", "has 1")),
        (group(part("a", minSubGroup=3), part("b", "a", **LEAF)), "warn", "warn", ("'a' wants 3", "has 1")),
        (group(preemptionDelay="soon"), "no", "no", ("spec.preemptionDelay",)),
        (group(minMember="four"), "no", "no", ("spec.minMember", "a whole number")),
        (group("a"), "no", "no", ("another type",)),
    ],
)
def test_pod_groups(obj: Any, created: str, updated: str, words: tuple[str, ...]) -> None:
    for operation, outcome in (("CREATE", created), ("UPDATE", updated)):
        response = ask(POD_GROUP, obj, operation=operation)
        text = refusal(response) if outcome == "no" else " ".join(response.get("warnings", []))
        assert response["allowed"] == (outcome != "no")
        assert bool(text) == bool(outcome)
        assert [word for word in words if word not in text] == []


def test_refusals_of_a_pod_group_are_told_together_in_name_order() -> None:
    text = refusal(ask(POD_GROUP, group(part("b"), part("a"))))
    assert text.index("subGroups[1]") < text.index("subGroups[0]")
    assert text.startswith("PodGroup ml/train: ")


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([("block", "b"), ("rack", "r"), ("host", None)], ()),
        ([("block", "b"), ("rack", "b")], ("must be unique", "b")),
        ([("block", "rack"), ("rack", None)], ("nodeLabel", "rack")),
        ([("block", "x"), ("rack", "x"), ("x", None)], ("must be unique", "nodeLabel")),
    ],
)
def test_topologies(levels: list[tuple[str, str | None]], words: tuple[str, ...]) -> None:
    entries = [{"nodeLabel": label} | ({"alias": alias} if alias else {}) for label, alias in levels]
    text = refusal(ask(TOPOLOGY, {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": entries}}))
    assert bool(text) == bool(words)
    assert [word for word in words if word not in text] == []


def pod(annotations: Any = None, limits: Any = None, env: Any = None, **more: Any) -> Any:
    container: dict[str, Any] = {"name": "main"}
    if limits:
        container["resources"] = {"limits": limits}
    if env:
        container["env"] = env
    spec = {"schedulerName": "kai-scheduler", "containers": [container], **more}
    meta: dict[str, Any] = {"name": "train-0", "namespace": "ml"}
    if annotations is not None:
        meta["annotations"] = annotations
    return {"kind": "Pod", "metadata": meta, "spec": spec}


HALF = {"gpu-fraction": "0.5"}
OWN = "nvidia.com/container.main.gpu-memory"
GPU = {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (pod(), ()),
        (pod(HALF), ()),
        (pod({"gpu-memory": "2000", "gpu-fraction-num-devices": "2", "mps": "true"}), ()),
        (pod({"gpu-fraction": "5e-1"}), ()),
        (pod({"mps": "false"}, GPU), ()),
        (pod({"mps": "true"}), ("mps", "gpu-fraction")),
        (pod(HALF, GPU), ("gpu-fraction", "whole GPUs")),
        (pod({"gpu-memory": "2000"}, GPU), ("gpu-memory", "both GPU and GPU memory", "limit nvidia.com/gpu")),
        (pod({"gpu-memory": "2000", **HALF}), ("gpu-memory", "both GPU and GPU memory")),
        (pod({"gpu-fraction-num-devices": "2"}), ("gpu-fraction-num-devices", "needs")),
        (pod({"gpu-memory": "2Gi"}), ("gpu-memory", "positive integer", "'2Gi'")),
        (pod({"gpu-memory": "0"}), ("positive integer",)),
        (pod({"gpu-fraction": "1"}), ("below 1.0", "'1'")),
        (pod({"gpu-fraction": "0"}), ("below 1.0",)),
        (pod({"gpu-fraction": "half"}), ("below 1.0", "'half'")),
        (pod({"gpu-fraction": "NaN"}), ("plain decimal", "'NaN'")),
        (pod({"gpu-fraction": "0x1p-1"}), ("gpu-fraction", "'0x1p-1'")),
        (pod({**HALF, "gpu-fraction-num-devices": "0"}), ("gpu-fraction-num-devices", "positive integer")),
        (pod({**HALF, "gpu-fraction-num-devices": "1025"}), ("gpu-fraction-num-devices", "up to 1024")),
        (pod({"gpu-memory": "1234567890"}), ("gpu-memory", "at most 9 digits")),
        (pod({"gpu-memory": "+5"}), ("gpu-memory", "positive integer", "'+5'")),
        (pod({"gpu-fraction": "+0.5"}), ("gpu-fraction", "without a sign", "'+0.5'")),
        (pod({"gpu-fraction": "0." + "5" * 80}), ("gpu-fraction", "at most 64 characters")),
        (pod({**HALF, "gpu-fraction-container-name": "x"}), ("gpu-fraction-container-name", "'x'", "use one of main")),
        (pod({**HALF, "runai/shared-gpu-configmap": "My Map"}), ("runai/shared-gpu-configmap", "'My Map'", "remove")),
        (pod({f"{OWN}.request": "4Gi", f"{OWN}.limit": "8Gi", "gpu-fraction-num-devices": "2", "mps": "true"}), ()),
        (pod({f"{OWN}.request": "4Gi"}, GPU), (f"{OWN}.request", "whole GPUs", "limit nvidia.com/gpu")),
        (pod({f"{OWN}.request": "4096"}), (f"{OWN}.request", "'4096'", "less than one MiB")),
        (pod({f"{OWN}.request": "8Gi", f"{OWN}.limit": "4Gi"}), (f"{OWN}.request", "above the limit", "lower")),
        (pod({f"{OWN}.request": "4Gi", **HALF}), (f"{OWN}.request", "by gpu-fraction as well: remove one")),
        (pod({f"{OWN}.limit": "4Gi", "gpu-memory": "4096"}), (f"{OWN}.limit", "by gpu-memory as well: remove one")),
        (pod({OWN.replace("main", "x") + ".limit": "4Gi"}), ("container.x.gpu-memory.limit", "'x'", "use one of main")),
        (
            pod({f"{OWN}.limit": "4Gi", OWN.replace("main", "x") + ".limit": "4Gi"}),
            ("not 'main' and 'x'", "all but one"),
        ),
        (pod(HALF, initContainers=[{"name": "i", "resources": {"limits": GPU}}]), ("whole GPUs",)),
        (pod({"gpu-fraction": "7", "gpu-memory": "x"}, schedulerName="default-scheduler"), ()),
    ],
)
def test_pods(operation: str, obj: Any, words: tuple[str, ...]) -> None:
    text = refusal(ask(POD, obj, operation=operation))
    assert bool(text) == bool(words)
    assert [word for word in words if word not in text] == []
    assert not text or text.startswith("Pod ml/train-0: ")


@pytest.mark.parametrize("annotations", [HALF, {"gpu-memory": "2000"}, {f"{OWN}.limit": "1Gi"}])
def test_parts_are_refused_while_sharing_is_off(annotations: Any) -> None:
    assert "GPU sharing is off unless the Config kai-config turns it on" in refusal(
        ask(POD, pod(annotations), AdmissionSettings())
    )


def devices(**more: Any) -> list[Any]:
    return [{"name": "NVIDIA_VISIBLE_DEVICES", **more}]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (devices(value="void"), ()),
        (devices(value="none"), ()),
        (devices(value="all"), ("'main'", "'all'", "void and none")),
        (devices(valueFrom={"fieldRef": {}}), ("'main'", "valueFrom")),
        ([{"name": "OTHER", "value": "all"}], ()),
    ],
)
def test_visible_devices(env: Any, words: tuple[str, ...]) -> None:
    text = refusal(ask(POD, pod(env=env), BLOCKING))
    assert bool(text) == bool(words)
    assert [word for word in words if word not in text] == []
    assert refusal(ask(POD, pod(env=env), SHARING)) == ""
    assert refusal(ask(POD, pod(HALF, env=env), BLOCKING)) == ""


def mutated(obj: Any, settings: AdmissionSettings = SHARING, **more: Any) -> Any:
    """The pod after the patch."""
    response = ask(MUTATE, obj, settings, **more)
    assert response["allowed"]
    after = msgspec.json.decode(msgspec.json.encode(obj))
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        for operation in msgspec.json.decode(base64.b64decode(response["patch"])):
            _, top, field = operation["path"].split("/")
            assert operation["op"] == "add"
            after[top][field] = operation["value"]
    return after


def test_a_part_of_a_gpu_gets_its_environment() -> None:
    after = mutated(pod(HALF, env=[{"name": "GPU_PORTION", "value": "mine"}, {"name": "A", "value": "1"}]))
    prefix = "train-0-abc1234-shared-gpu"
    assert after["metadata"]["annotations"] == {**HALF, "runai/shared-gpu-configmap": prefix}
    container = after["spec"]["containers"][0]
    assert container["env"] == [
        {"name": "A", "value": "1"},
        *(
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": f"{prefix}-0", "key": name}}}
            for name in ("NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION")
        ),
    ]
    assert container["envFrom"] == [{"configMapRef": {"name": f"{prefix}-0-evar", "optional": False}}]
    assert after["spec"]["volumes"] == [{"name": f"{prefix}-0-vol", "configMap": {"name": f"{prefix}-0"}}]
    assert after["spec"]["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize("settings", [SHARING, BLOCKING, AdmissionSettings(hami_core=True)])
def test_a_second_review_asks_for_nothing(settings: AdmissionSettings) -> None:
    once = mutated(pod(HALF, initContainers=[{"name": "i"}]), settings)
    assert "patch" not in ask(MUTATE, once, settings)


def test_the_container_that_is_named_gets_it() -> None:
    obj = pod({**HALF, "gpu-fraction-container-name": "i"}, initContainers=[{"name": "h"}, {"name": "i"}])
    after = mutated(obj)
    source = after["spec"]["initContainers"][1]["env"][0]["valueFrom"]["configMapKeyRef"]
    assert source["name"] == "train-0-abc1234-shared-gpu-i1"
    assert "env" not in after["spec"]["containers"][0]


def test_an_unknown_container_is_refused() -> None:
    text = refusal(ask(MUTATE, pod({**HALF, "gpu-fraction-container-name": "x"})))
    assert "'x'" in text
    assert "use one of main" in text


def test_another_namespace_than_the_requests_is_refused() -> None:
    assert "'ml'" in refusal(ask(MUTATE, pod(HALF), namespace="other"))


@pytest.mark.parametrize(
    ("meta", "base"),
    [
        ({"generateName": "job-"}, "job"),
        ({"name": "p", "ownerReferences": [{"name": "owner"}]}, "owner"),
        ({"name": "a" * 60}, "a" * 33),
        ({"name": "a" * 32 + ".-b"}, "a" * 32),
        ({"name": "p", "ownerReferences": [{"name": "System:Node 1"}]}, "system-node-1"),
        ({"name": "p", "ownerReferences": [{"name": "-.a._b"}]}, "a-b"),
    ],
)
def test_names_of_config_maps(meta: Any, base: str) -> None:
    obj = pod(HALF)
    obj["metadata"] = {"annotations": HALF, **meta}
    found = mutated(obj)["metadata"]["annotations"]["runai/shared-gpu-configmap"]
    assert found == f"{base}-abc1234-shared-gpu"


def test_a_given_prefix_is_kept_and_its_volume_is_a_label() -> None:
    after = mutated(pod({**HALF, "runai/shared-gpu-configmap": "My.Map"}))
    assert after["metadata"]["annotations"]["runai/shared-gpu-configmap"] == "My.Map"
    assert after["spec"]["volumes"] == [{"name": "my-map-0-vol", "configMap": {"name": "My.Map-0"}}]


def test_hami_adds_an_optional_limit() -> None:
    env = mutated(pod(HALF), AdmissionSettings(hami_core=True))["spec"]["containers"][0]["env"]
    assert env[-1]["name"] == "CUDA_DEVICE_MEMORY_LIMIT"
    assert env[-1]["valueFrom"]["configMapKeyRef"]["optional"] is True


def test_devices_are_hidden_from_containers_without_gpus() -> None:
    others = [
        {"name": "main", "resources": {"limits": GPU}},
        {"name": "mig", "resources": {"requests": {"nvidia.com/mig-1g.5gb": 1}}},
        {"name": "none", "resources": {"requests": {"nvidia.com/gpu": "0"}}},
        {"name": "set", "env": devices(value="all")},
        {"name": "reference", "env": devices(valueFrom={"fieldRef": {}})},
    ]
    after = mutated(pod(containers=others), BLOCKING)
    found = {each["name"]: each.get("env") for each in after["spec"]["containers"]}
    void = devices(value="void")
    reference = devices(valueFrom={"fieldRef": {}})
    assert found == {"main": None, "mig": None, "none": void, "set": void, "reference": reference}


@pytest.mark.parametrize(
    ("obj", "settings"),
    [
        (pod(), SHARING),
        (pod(limits=GPU), SHARING),
        (pod(limits=GPU), BLOCKING),
        (pod(HALF, schedulerName="default-scheduler"), BLOCKING),
    ],
)
def test_other_pods_are_left_alone(obj: Any, settings: AdmissionSettings) -> None:
    assert "patch" not in ask(MUTATE, obj, settings)


def test_a_runtime_class_is_kept_or_not_wanted() -> None:
    assert mutated(pod(HALF, runtimeClassName="own"))["spec"]["runtimeClassName"] == "own"
    without = AdmissionSettings(gpu_sharing=True, runtime_class="")
    assert "runtimeClassName" not in mutated(pod(HALF), without)["spec"]
    assert "runtimeClassName" not in mutated(pod(HALF), AdmissionSettings())["spec"]


REVIEW = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":%s}'
OBJECTLESS = REVIEW % b'{"uid":"u","operation":"CREATE"}'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (QUEUE, b""),
        (QUEUE, b"[]"),
        (QUEUE, b"{}"),
        (QUEUE, b'{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{"uid":"u","operation":"CREATE"}}'),
        (
            QUEUE,
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE"}}',
        ),
        ("/elsewhere", b"{}"),
    ],
)
def test_what_is_no_review_is_an_error(path: str, body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        review(path, body, SHARING, SUFFIX)
