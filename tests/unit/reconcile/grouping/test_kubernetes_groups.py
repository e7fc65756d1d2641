"""Pods that name a PodGroup of Kubernetes itself: what its fields mean, and what is said of those without effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kai_sched.reconcile.grouping.manifest import Grouping
from kai_sched.reconcile.grouping.owners import resolve, wants_group
from kai_sched.reconcile.grouping.registry import gets_group
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.workloads import QUEUE, SETTINGS, Thing, World, grouping, job, line, owner, pod, wire

VERSION = "scheduling.k8s.io/v1beta1"
GANG = {"schedulingPolicy": {"gang": {"minCount": 4}}}
NAMES_IT = {"schedulingGroup": {"podGroupName": "g"}}
RACK = "example.com/rack"
TOPOLOGIES = replace(SETTINGS, topologies={"zones": ("example.com/zone", RACK), "racks": (RACK,)})


def group(spec: Thing | None = None, **meta: Any) -> Thing:
    return owner(f"{VERSION} PodGroup", "g", **{"labels": QUEUE, **meta}, spec=GANG | (spec or {}))


def found(spec: Thing | None = None, *above: Thing, by: Thing | None = None, **meta: Any) -> Grouping:
    return grouping(pod("p", by, **NAMES_IT), World([group(spec, **meta), *above]), TOPOLOGIES)


def fault(spec: Thing) -> str:
    with pytest.raises(GroupingError) as caught:
        found(spec)
    return str(caught.value)


def test_the_minimum_of_a_gang_counts() -> None:
    assert line(found()) == "pg-g-uid-g of PodGroup g (uid-g) | 4 | team-a train |  | "


def test_pods_with_the_policy_basic_start_one_by_one() -> None:
    assert found({"schedulingPolicy": {"basic": {}}}).manifest["spec"]["minMember"] == 1


def test_a_job_may_ask_for_a_minimum_by_annotation() -> None:
    """Its controller makes a group with the policy basic for each Job, and a gang of ours stays one."""
    top = job(annotations={"kai.scheduler/batch-min-member": "3"})
    basic = {"schedulingPolicy": {"basic": {}}}
    assert found(basic, top, by=top).manifest["spec"]["minMember"] == 3
    assert found({}, top, by=top).manifest["spec"]["minMember"] == 4, "the policy gang says it itself"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({}, "PodGroup ml/g: spec.schedulingPolicy: neither basic nor gang: give one of basic and gang"),
        (
            {"basic": {}, "gang": {"minCount": 1}},
            "PodGroup ml/g: spec.schedulingPolicy: both basic and gang: give one of basic and gang",
        ),
        (
            {"gang": {}},
            "PodGroup ml/g: spec.schedulingPolicy.gang.minCount: missing or 0: give the number of pods that start "
            "together",
        ),
    ],
)
def test_a_policy_that_says_nothing_is_an_error(policy: Thing, text: str) -> None:
    assert fault({"schedulingPolicy": policy}) == text


def test_a_pod_waits_for_its_group() -> None:
    with pytest.raises(GroupingError) as caught:
        grouping(pod("p", **NAMES_IT), World())
    assert str(caught.value) == (
        "Pod ml/p: spec.schedulingGroup.podGroupName: there is no PodGroup 'g' of scheduling.k8s.io/v1beta1 that can "
        "be read: create it"
    )


def test_it_comes_before_what_owns_the_pod() -> None:
    """A Job would be a group of one pod each; its labels count where the PodGroup has none."""
    top = job(labels={"kai.scheduler/queue": "of-job", "priorityClassName": "build"})
    assert line(found({}, top, by=top, labels={})) == "pg-g-uid-g of PodGroup g (uid-g) | 4 | of-job build |  | "
    assert line(found({}, top, by=top)) == "pg-g-uid-g of PodGroup g (uid-g) | 4 | team-a build |  | "


def test_labels_of_its_workload_come_before_those_of_the_owner() -> None:
    top = job(labels={"kai.scheduler/queue": "of-job"})
    workload = owner(f"{VERSION} Workload", "w", labels={"kai.scheduler/queue": "of-workload"})
    named = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    assert found(named, top, workload, by=top, labels={}).queue.name == "of-workload"
    assert found(named, top, by=top, labels={}).queue.name == "of-job", "the Workload is gone"


def test_the_queue_of_the_pod_is_the_last_choice() -> None:
    member = pod("p", labels={"kai.scheduler/queue": "of-pod"}, **NAMES_IT)
    assert grouping(member, World([group(labels={})])).queue.name == "of-pod"


def test_its_class_comes_before_labels() -> None:
    spec = found({"priorityClassName": "inference"}, labels={**QUEUE, "priorityClassName": "build"}).manifest["spec"]
    assert spec["priorityClassName"] == "inference"


def test_pods_share_a_domain_of_the_key() -> None:
    """Two Topologies have the level: the first by name, unless an annotation names one."""
    key = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    assert found(key).manifest["spec"]["topologyConstraint"] == {"topology": "racks", "requiredTopologyLevel": RACK}
    named = {"kai.scheduler/topology": "zones", "kai.scheduler/topology-preferred-placement": "example.com/host"}
    assert found(key, annotations=named).manifest["spec"]["topologyConstraint"] == {
        "topology": "zones",
        "requiredTopologyLevel": RACK,
        "preferredTopologyLevel": "example.com/host",
    }


def test_annotations_alone_make_a_constraint() -> None:
    named = {"kai.scheduler/topology": "zones", "kai.scheduler/topology-preferred-placement": RACK}
    wanted = {"topology": "zones", "preferredTopologyLevel": RACK}
    assert found(annotations=named).manifest["spec"]["topologyConstraint"] == wanted


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (
            [{"key": "other"}],
            "PodGroup ml/g: spec.schedulingConstraints.topology[0].key: no Topology has the level 'other': create one "
            "(kai.scheduler/v1alpha1), or correct the key",
        ),
        (
            [{}],
            "PodGroup ml/g: spec.schedulingConstraints.topology[0].key: missing: give the label of nodes whose value "
            "names the domain",
        ),
        (
            [{"key": RACK}, {"key": RACK}],
            "PodGroup ml/g: spec.schedulingConstraints.topology: 2 constraints, and a group can have one: leave one of "
            "them",
        ),
    ],
)
def test_a_constraint_that_cannot_be_kept_is_an_error(topology: list[Thing], text: str) -> None:
    assert fault({"schedulingConstraints": {"topology": topology}}) == text


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parentCompositePodGroupName": "top"}, "spec.parentCompositePodGroupName"),
        ({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}, "spec.disruptionMode.all"),
        ({"preemptionPolicy": "Never"}, "spec.preemptionPolicy"),
        ({"priority": 7}, "spec.priority"),
    ],
)
def test_what_has_no_effect_is_told(spec: Thing, field: str) -> None:
    (note,) = found(spec).notes
    assert (note.subject, note.field) == ("PodGroup ml/g", field)
    assert ":" in note.message, "what to do"


def test_what_the_api_server_fills_in_is_no_news() -> None:
    """Defaults, and the priority of the class."""
    filled = {"disruptionMode": {"single": {}}, "preemptionPolicy": "PreemptLowerPriority", "priority": 0}
    assert found(filled).notes == ()
    assert found({"priorityClassName": "build", "priority": 100}).notes == ()
    assert found({"disruptionMode": {"all": {}}}).notes == ()


def test_without_the_api_the_owner_decides() -> None:
    old = replace(SETTINGS, kubernetes_groups=False)
    top = job(labels=QUEUE)
    found = grouping(pod("p", top, **NAMES_IT), World([top]), old)
    assert line(found) == "pg-train-uid-train of Job train (uid-train) | 1 | team-a train |  | "
    assert [str(note.field) for note in found.notes] == ["spec.schedulingGroup"]
    alone = wire(pod("p", **NAMES_IT))
    assert not gets_group(alone, resolve(alone, World().fetch), old)
    assert gets_group(alone, resolve(alone, World().fetch), SETTINGS)


def test_a_bare_pod_that_was_grouped_is_grouped_again() -> None:
    """Its annotation is ours, as it names a PodGroup of Kubernetes."""
    marked = pod("p", annotations={"pod-group-name": "pg-g-uid-g"}, **NAMES_IT)
    assert wants_group(wire(marked), "kai-scheduler")
    assert not wants_group(wire(pod("p", annotations={"pod-group-name": "mine"})), "kai-scheduler")
    skipped = pod("p", annotations={"kai.scheduler/skip-podgrouper": "true"}, **NAMES_IT)
    assert not wants_group(wire(skipped), "kai-scheduler")


def test_one_in_a_file_has_no_uid() -> None:
    bare = group()
    del bare["metadata"]["uid"]
    assert grouping(pod("p", **NAMES_IT), World([bare])).name == "pg-g-podgroup"
