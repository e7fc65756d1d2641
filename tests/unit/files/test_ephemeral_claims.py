"""Claims that are made for generic ephemeral volumes of pods in files."""

from __future__ import annotations

from kai_sched.files.load import load
from tests.unit.files.inputs import Write, listing, queue, told
from tests.unit.files.workloads import Thing, new, only


def template(storage: str = "fast") -> Thing:
    claim = {"spec": {"storageClassName": storage, "resources": {"requests": {"storage": "3Gi"}}}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}
    return {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}], "volumes": [volume]}}


def test_each_pod_of_a_workload_has_a_claim_of_its_own(write: Write) -> None:
    spec = {"parallelism": 2, "template": template()}
    cluster = only(write, new("batch/v1 Job", "j", spec)).store.cluster()
    assert sorted(key for pod in cluster.pods.values() for key in pod.shape.claims) == sorted(cluster.volume_claims)
    assert {(claim.storage_class, claim.size_bytes) for claim in cluster.volume_claims.values()} == {
        ("fast", 3 * 2**30)
    }


def test_a_claim_that_is_there_is_kept(write: Write) -> None:
    there = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "p-scratch", "namespace": "ml"},
        "spec": {"storageClassName": "own"},
    }
    cluster = only(write, there, new("v1 Pod", "p", template()["spec"])).store.cluster()
    assert {key: claim.storage_class for key, claim in cluster.volume_claims.items()} == {"ml/p-scratch": "own"}


def test_a_template_that_cannot_be_read_makes_no_claim(write: Write) -> None:
    """No claim is made, and the pod waits for it."""
    volume = {"name": "s", "ephemeral": {"volumeClaimTemplate": 3}}
    pod = new("v1 Pod", "p", {**template()["spec"], "volumes": [volume]})
    (problem,) = told(load([write("in.json", listing(queue("team-a"), pod))]))
    assert "PersistentVolumeClaim" in str(problem)
