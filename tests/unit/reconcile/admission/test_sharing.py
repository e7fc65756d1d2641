"""Reviews of pods with a part of a GPU: what may change, what is taken off, and that nothing passes unread (API 8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.read.sharing import read_gpu_annotations
from kai_sched.reconcile.admission.review import AdmissionSettings
from tests.unit.reconcile.admission.test_review import (
    BLOCKING,
    HALF,
    MUTATE,
    OWN,
    POD,
    SHARING,
    ask,
    devices,
    mutated,
    pod,
    refusal,
)

REQUEST = {f"{OWN}.request": "1Gi"}
SHARED = {"runai/shared-gpu-configmap": "train-0-abc1234-shared-gpu"}


@pytest.mark.parametrize(
    ("before", "after", "node", "words"),
    [
        (HALF, {"gpu-fraction": "0.6"}, "", ()),
        (HALF, {"gpu-fraction": "0.6"}, "n1", ("gpu-fraction", "has its devices", "create another pod")),
        (HALF, {"gpu-memory": "5"}, "", ()),
        (HALF, {"gpu-memory": "5"}, "n1", ("gpu-fraction", "has its devices")),
        (HALF, {**HALF, "gpu-fraction-num-devices": "2"}, "n1", ("gpu-fraction-num-devices", "has its devices")),
        (HALF, {}, "", ("gpu-fraction", "its containers were made")),
        ({}, HALF, "", ("gpu-fraction", "its containers were made")),
        (HALF, HALF | SHARED, "n1", ()),
        (HALF | SHARED, HALF, "", ("runai/shared-gpu-configmap", "its containers were made")),
        (HALF, HALF | {"other": "1"}, "n1", ()),
        (REQUEST, {f"{OWN}.request": "2Gi"}, "", ()),
        (REQUEST, REQUEST | {f"{OWN}.limit": "2Gi"}, "", ()),
        (REQUEST, REQUEST | {f"{OWN}.limit": "2Gi"}, "n1", (f"{OWN}.limit", "has its devices")),
        (REQUEST, {f"{OWN}.request": "2Gi"}, "n1", (f"{OWN}.request", "has its devices", "create another pod")),
        (REQUEST, {}, "", (f"{OWN}.request", "its containers were made")),
        (REQUEST, {OWN.replace("main", "b") + ".request": "1Gi"}, "", ("container.b", "its containers were made")),
        (HALF, REQUEST, "", ("its containers were made",)),
        ({}, {"mps": "true"}, "n1", ("mps",)),
    ],
)
def test_what_containers_were_made_for_stays(before: Any, after: Any, node: str, words: tuple[str, ...]) -> None:
    """What a device has is booked by the annotations, so they may not change under a pod that runs."""
    old, new = pod(before, nodeName=node), pod(after, nodeName=node)
    text = refusal(ask(POD, new, operation="UPDATE", oldObject=old))
    assert bool(text) == bool(words)
    assert [word for word in words if word not in text] == []


def test_a_pod_whose_bind_is_prepared_asks_for_no_more() -> None:
    """It has the labels of its devices, and the rest of them is given to others."""
    old, new = pod(HALF), pod({"gpu-fraction": "0.9"})
    for each in (old, new):
        each["metadata"]["labels"] = {"runai-gpu-group": "g"}
    assert "has its devices" in refusal(ask(POD, new, operation="UPDATE", oldObject=old))


@pytest.mark.parametrize("annotations", [HALF, None])
@pytest.mark.parametrize("labels", [{}, {"runai-gpu-group": "h"}, {"runai-gpu-group": "g", "runai-gpu-group/h": "h"}])
def test_the_labels_of_its_devices_stay_on_a_pod_with_a_node(labels: dict[str, str], annotations: Any) -> None:
    """Its device would be given away while it runs there; the scheduler writes them before the bind."""
    for node, words in (("n1", "has its devices"), ("", "")):
        old, new = pod(annotations, nodeName=node), pod(annotations, nodeName=node)
        old["metadata"]["labels"], new["metadata"]["labels"] = {"runai-gpu-group": "g", "app": "a"}, labels
        text = refusal(ask(POD, new, operation="UPDATE", oldObject=old))
        assert (words in text, bool(text)) == (True, bool(words))
        new["metadata"]["labels"] = {"runai-gpu-group": "g", "app": "b"}
        assert refusal(ask(POD, new, operation="UPDATE", oldObject=old)) == ""


def test_a_pod_that_is_leaving_keeps_its_devices_until_it_is_gone() -> None:
    """Its grace period may be long. All else passes, such as taking off its finalizers."""
    old, freed, smaller, done = (pod(HALF, nodeName="n1") for _ in range(4))
    for each in (old, freed, smaller, done):
        each["metadata"] |= {"labels": {"runai-gpu-group": "g"}, "deletionTimestamp": "2026-01-01T12:00:00Z"}
    old["metadata"]["finalizers"] = ["example.com/held"]
    freed["metadata"]["labels"] = {}
    smaller["metadata"]["annotations"] = {"gpu-fraction": "0.1"}
    done["metadata"]["labels"] |= {"app": "kai-resource-reservation", "priorityClassName": "system-node-critical"}
    for new, words in ((freed, "has its devices"), (smaller, "has its devices"), (done, "")):
        text = refusal(ask(POD, new, AdmissionSettings(), "UPDATE", oldObject=old))
        assert (words in text, bool(text)) == (True, bool(words))


@pytest.mark.parametrize("settings", [AdmissionSettings(), BLOCKING])
def test_an_update_passes_what_was_there_before(settings: AdmissionSettings) -> None:
    """Sharing was turned off, or devices were closed, after the pod was created: it can still be labelled."""
    obj = pod(HALF, containers=[{"name": "main"}, {"name": "b", "env": devices(value="all")}])
    assert refusal(ask(POD, obj, settings))
    assert refusal(ask(POD, obj, settings, "UPDATE", oldObject=obj)) == ""
    worse = pod(HALF, containers=[{"name": "main", "env": devices(value="all")}, {"name": "b"}, {"name": "c"}])
    worse["spec"]["containers"][2]["env"] = devices(value="0")
    assert ("'c'" in refusal(ask(POD, worse, settings, "UPDATE", oldObject=obj))) == settings.block_visible_devices


def test_a_misspelt_key_of_container_memory_is_refused() -> None:
    """It would be a pod without a GPU. A pod that is there already with one can still be changed."""
    obj = pod({f"{OWN}.limits": "1Gi"})
    assert f"annotation {OWN}.limits: the key does not say" in refusal(ask(POD, obj))
    assert refusal(ask(POD, obj, operation="UPDATE", oldObject=obj)) == ""


def test_labels_of_devices_are_the_schedulers_to_set() -> None:
    """A copy of a pod that runs has none yet."""
    copied = {"runai-gpu-group": "g", "runai-gpu-group/h": "h", "runai-gpu-groups": "mine", "app": "web"}
    for asked in (HALF, None):
        obj = pod(asked)
        obj["metadata"]["labels"] = copied
        assert mutated(obj)["metadata"]["labels"] == {"runai-gpu-groups": "mine", "app": "web"}


@given(st.one_of(st.text(max_size=80), st.from_regex(r"\A[+-]?[0-9]{0,12}\.?[0-9]{0,70}([eE][+-]?[0-9]{1,4})?\Z")))
def test_what_is_let_in_is_what_the_scheduler_reads(text: str) -> None:
    """It ignores what it cannot read, and would place such a pod as one without GPUs."""
    keys = ("gpu-fraction", {}), ("gpu-memory", {}), ("gpu-fraction-num-devices", HALF), (f"{OWN}.limit", {})
    for key, more in keys:
        annotations = {**more, key: text}
        if refusal(ask(POD, pod(annotations))) == "":
            found: list[str] = []
            share = read_gpu_annotations(annotations, lambda field, _, found=found: found.append(field)).share
            assert (share is not None, found) == (True, []), annotations


def test_the_container_that_the_annotation_names_gets_the_devices() -> None:
    containers = [{"name": "first"}, {"name": "main"}]
    after = mutated(pod(REQUEST, containers=containers), BLOCKING)
    first, main = ({each["name"]: each for each in container["env"]} for container in after["spec"]["containers"])
    assert first["NVIDIA_VISIBLE_DEVICES"] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    source = main["NVIDIA_VISIBLE_DEVICES"]["valueFrom"]["configMapKeyRef"]["name"]
    assert source == f"{after['metadata']['annotations']['runai/shared-gpu-configmap']}-1"
    assert refusal(ask(POD, after, BLOCKING)) == ""


def with_ephemeral(*containers: Any) -> Any:
    found = pod()
    found["spec"]["ephemeralContainers"] = list(containers)
    return found


def test_ephemeral_containers_see_no_device() -> None:
    """`kubectl debug` adds them to a pod that runs. What is there already cannot be changed, and is not refused."""
    before = with_ephemeral({"name": "old", "env": devices(value="all")})
    new = {"name": "new", "image": "cuda"}, {"name": "all", "env": devices(value="all")}
    asked = with_ephemeral(*before["spec"]["ephemeralContainers"], *new)
    more = {"operation": "UPDATE", "subResource": "ephemeralcontainers", "oldObject": before}
    assert "'all'" in refusal(ask(POD, asked, BLOCKING, **more))
    assert "patch" not in ask(MUTATE, asked, SHARING, **more)
    after = mutated(asked, BLOCKING, **more)["spec"]
    hidden = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert after["ephemeralContainers"] == [
        *before["spec"]["ephemeralContainers"],
        {"name": "new", "image": "cuda", "env": hidden},
        {"name": "all", "env": hidden},
    ]
    changed = with_ephemeral(*after["ephemeralContainers"])
    assert refusal(ask(POD, changed, BLOCKING, **more)) == ""
    assert "patch" not in ask(MUTATE, changed, BLOCKING, **more)


def test_an_ephemeral_container_cannot_refer_to_devices() -> None:
    asked = with_ephemeral({"name": "debug", "env": devices(valueFrom={"fieldRef": {}})})
    more = {"operation": "UPDATE", "oldObject": pod()}
    assert "container 'debug': NVIDIA_VISIBLE_DEVICES must not come from a reference" in refusal(
        ask(POD, asked, BLOCKING, **more)
    )
