"""The sample admission policies on a real API server: who may use which queue and which priority class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.installed import dry_run
from tests.cluster.processes import wait_until
from tests.tree import ROOT

SAMPLES = ROOT / "manifests" / "samples"
QUEUES, CLASSES = "kai.scheduler/queues", "kai.scheduler/priority-classes"


def install(cluster: Cluster, sample: str, probe: Object, **namespaces: dict[str, str]) -> None:
    """Install a sample, and namespaces with these annotations, and wait until the API server goes by it."""
    for name, notes in namespaces.items():
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": objects.meta(name, annotations=notes)}
        cluster.create(space)
        cluster.add_namespace(name)
    cluster.create_all(list(yaml.safe_load_all((SAMPLES / sample).read_text())))

    def goes_by_it() -> bool:
        said = dry_run(cluster, probe)
        assert "ValidatingAdmissionPolicy 'kai-" in said, said
        return True

    wait_until(goes_by_it, "the API server going by the policy", timeout_s=60)


def goes(cluster: Cluster, allowed: Sequence[Object]) -> bool:
    """Whether all of these are let in; the API server may know a namespace before its annotations."""
    said = [text for each in allowed if (text := dry_run(cluster, each))]
    assert not said, "\n".join(said)
    return True


def job(namespace: str, **labels: str) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/main:1"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": objects.meta("train", namespace, labels=labels),
        "spec": {"template": template},
    }


@pytest.fixture(scope="module")
def _samples_are_there() -> None:
    # tests/test_samples.py has the role of readers.
    known = ["priority-classes.yaml", "queues.yaml", "reader.yaml"]
    assert sorted(path.name for path in SAMPLES.glob("*.yaml")) == known


@pytest.mark.usefixtures("_samples_are_there")
def test_queues_are_for_the_namespaces_that_name_them(cluster: Cluster) -> None:
    def pod(namespace: str, queue: str | None, **more: Any) -> Object:
        return objects.pod("p", queue, namespace=namespace, **more)

    def group(namespace: str, queue: str) -> Object:
        return objects.pod_group("g", queue, namespace=namespace)

    install(cluster, "queues.yaml", pod("none", "team-a"), ml={QUEUES: "team-a, team-b"}, all={QUEUES: "*"}, none={})
    allowed = [
        *(pod("ml", "team-b"), pod("all", "anything"), group("ml", "team-a")),
        *(job("ml", **{names.QUEUE_LABEL: "team-a"}), job("ml"), job("none")),
        pod("none", "team-a", schedulerName="default-scheduler"),
    ]
    wait_until(lambda: goes(cluster, allowed), "all that is allowed to pass")
    refused = [
        *(pod("ml", "team-c"), pod("none", "team-a"), pod("ml", None), group("ml", "team-c"), group("none", "team-a")),
        job("ml", **{names.QUEUE_LABEL: "team-c"}),
        job("ml", **{names.PROJECT_LABEL: "team", names.NODE_POOL_LABEL: "c"}),
    ]
    for each in refused:
        assert "is not for namespace" in dry_run(cluster, each), each
    said = dry_run(cluster, pod("ml", "team-c"))
    assert "queue team-c is not for namespace ml, which may use team-a, team-b: name one of these" in said
    # An update is judged, too; one of something else passes.
    cluster.create(pod("ml", "team-a"))
    cluster.kubectl("--namespace=ml", "label", "pod", "p", "colour=blue")
    said = cluster.kubectl("--namespace=ml", "label", "--overwrite", "pod", "p", "kai.scheduler/queue=x", check=False)
    assert "queue x is not for namespace ml" in said


@pytest.mark.usefixtures("_samples_are_there")
def test_priority_classes_are_for_the_namespaces_that_name_them(cluster: Cluster) -> None:
    label = names.PRIORITY_CLASS_LABEL

    def pod(namespace: str, **labels: str) -> Object:
        return objects.pod("p", namespace=namespace, labels=labels)

    def group(namespace: str, name: str) -> Object:
        return objects.pod_group("g", namespace=namespace, priorityClassName=name)

    probe = pod("none", **{label: "build"})
    install(cluster, "priority-classes.yaml", probe, ml={CLASSES: "train,build"}, all={CLASSES: "*"}, none={})
    allowed = [
        *(pod("none"), pod("none", **{label: "train"}), pod("ml", **{label: "build"}), group("ml", "build")),
        *(job("all", **{label: "inference"}), group("all", "inference"), job("none")),
        pod("ml", **{names.PREEMPTIBILITY_LABEL: "non-preemptible"}),
    ]
    wait_until(lambda: goes(cluster, allowed), "all that is allowed to pass")
    refused = [
        *(pod("none", **{label: "build"}), pod("ml", **{label: "inference"}), group("none", "build")),
        *(job("ml", **{label: "inference"}), job("none", **{names.RAY_PRIORITY_CLASS_LABEL: "build"})),
    ]
    for each in refused:
        assert "is not for namespace" in dry_run(cluster, each), each
    said = dry_run(cluster, pod("none", **{label: "build"}))
    assert "priority class build is not for namespace none, which may use train, build-preemptible" in said
    said = dry_run(cluster, pod("none", **{names.PREEMPTIBILITY_LABEL: "non-preemptible"}))
    assert "may not have work that cannot be preempted" in said
