"""Workloads beyond what a PodGroup can hold, and what they may not ask for: each is told with what holds instead."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.workloads import Thing, World, grouping, job, owner, pod

LABEL = "priorityClassName"
RAY, JOBSET = "ray.io/v1 RayCluster", "jobset.x-k8s.io/v1alpha2 JobSet"
IN_JOB = {"jobset.sigs.k8s.io/replicatedjob-name": "a", "jobset.sigs.k8s.io/job-index": "0"}


def notes(the_pod: Thing, *things: Thing) -> tuple[Thing, list[str]]:
    """The spec of the group, and what was passed over."""
    found = grouping(the_pod, World(things))
    return found.manifest["spec"], [": ".join(note) for note in found.notes]


def fault(the_pod: Thing, *things: Thing) -> str:
    with pytest.raises(GroupingError) as caught:
        grouping(the_pod, World(things))
    return str(caught.value)


class TestClasses:
    @pytest.mark.parametrize(
        ("named", "said"),
        [
            ("urgent", "there is no priority class 'urgent', so 'train' holds: correct the name"),
            ("system-node-critical", "counts in namespace kube-system only, so 'train' holds: correct the name"),
        ],
    )
    def test_what_holds_instead_is_named(self, named: str, said: str) -> None:
        top = job(labels={LABEL: named})
        spec, (told,) = notes(pod("p", top), top)
        assert spec["priorityClassName"] == "train"
        assert told.startswith(f"Job ml/train: metadata.labels[{LABEL}]: ")
        assert told.endswith(said)

    def test_the_class_of_the_pod_itself_is_no_way_round(self) -> None:
        top = job()
        spec, (told,) = notes(pod("p", top, priorityClassName="system-cluster-critical"), top)
        assert spec["priorityClassName"] == "train"
        assert "Pod ml/p: spec.priorityClassName" in told

    def test_nor_is_that_of_ray(self) -> None:
        top = owner(RAY, "w", labels={"ray.io/priority-class-name": "system-x"}, spec={"headGroupSpec": {}})
        spec, told = notes(pod("p", top, labels={"ray.io/group": "headgroup"}), top)
        assert spec["priorityClassName"] == "train"
        assert any("'system-x'" in each and "'train' holds" in each for each in told)


def test_notes_about_another_object_are_not_copied() -> None:
    copied = {"example.com/team": "a"}
    own = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kai.scheduler/last-start-timestamp": "2199-01-01T00:00:00Z",
        "kai.scheduler/stale-podgroup-timestamp": "2199-01-01T00:00:00Z",
        "kai.scheduler/last-eviction-timestamp": "2199-01-01T00:00:00Z",
    }
    top = job(annotations={**copied, **own})
    found = grouping(pod("p", top), World([top])).manifest["metadata"]["annotations"]
    assert copied.items() <= found.items()
    assert found.keys() & own.keys() == set()


@pytest.mark.parametrize("field", ["preemption-delay", "staleness-grace-period"])
@pytest.mark.parametrize("text", ["87601h", "1" * 100_000])
def test_durations_that_are_too_long_are_passed_over(field: str, text: str) -> None:
    top = job(annotations={f"kai.scheduler/{field}": text})
    spec, (told,) = notes(pod("p", top), top)
    assert {"preemptionDelay", "stalenessGracePeriod"} & spec.keys() == set()
    assert f"metadata.annotations[kai.scheduler/{field}]" in told
    assert len(told) < 500


class TestSizes:
    def test_sums_have_32_bits(self) -> None:
        workers = [{"groupName": f"w{i}", "replicas": 2**31 - 1} for i in range(3)]
        top = owner(RAY, "w", spec={"headGroupSpec": {}, "workerGroupSpecs": workers})
        told = fault(pod("p", top, labels={"ray.io/group": "headgroup"}), top)
        assert told.startswith(
            "RayCluster ml/w: 6,442,450,942 pods are to start together, and 2,147,483,647 are the most"
        )

    def test_annotated_minima_have_32_bits(self) -> None:
        top = job(annotations={"kai.scheduler/batch-min-member": "2147483648"})
        assert "'2147483648' is more than 2147483647: give less" in fault(pod("p", top), top)

    def test_all_jobs_of_a_set_together(self) -> None:
        jobs = [{"name": name, "replicas": 6000} for name in "ab"]
        top = owner(JOBSET, "w", spec={"replicatedJobs": jobs})
        told = fault(pod("p", top, labels=IN_JOB), top)
        assert "spec.replicatedJobs[1].replicas: more than 10,000 jobs" in told

    def test_names_of_groups(self) -> None:
        top = owner("batch/v1 Job", "x" * 250)
        assert "its PodGroup cannot have the name that follows from the owner's" in fault(pod("p", top), top)

    @pytest.mark.parametrize("key", ["topology", "topology-required-placement"])
    def test_names_of_levels(self, key: str) -> None:
        top = job(annotations={"kai.scheduler/topology": "t", f"kai.scheduler/{key}": "x" * 400})
        assert "of a Topology" in fault(pod("p", top), top) or "no Topology has" in fault(pod("p", top), top)


@pytest.mark.parametrize(
    ("part", "value", "field"),
    [
        ("name", "a\nb", "name"),
        ("name", "../x", "name"),
        ("name", "..", "name"),
        ("kind", "Job/../x", "kind"),
        ("kind", "J\u0000b", "kind"),
        ("apiVersion", "batch/v1/../../api", "apiVersion"),
        ("apiVersion", "v1?watch=1", "apiVersion"),
    ],
)
def test_owners_that_cannot_be_are_not_looked_up(part: str, value: Any, field: str) -> None:
    """Kubernetes takes any text in an owner reference; it must not become part of a path."""
    top = job()
    orphan = pod("p", top)
    orphan["metadata"]["ownerReferences"][0][part] = value
    world = World([top])
    with pytest.raises(GroupingError) as caught:
        grouping(orphan, world)
    assert str(caught.value).startswith(f"Pod ml/p: metadata.ownerReferences[0].{field}")
    assert str(caught.value).isprintable()
    assert world.asked == []


@pytest.mark.parametrize("name", ["a/b", "x" * 300, "a\nb"])
def test_names_in_fields_are_not_looked_up_either(name: str) -> None:
    top = owner("ray.io/v1 RayJob", "w", spec={}, status={"rayClusterName": name})
    world = World([top])
    with pytest.raises(GroupingError, match="there is no RayCluster"):
        grouping(pod("p", top), world)
    assert {reference.kind for reference in world.asked} == {"RayJob"}
