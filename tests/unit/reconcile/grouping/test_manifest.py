"""Groups that are there already: what an update keeps, and what pods are told (API 4.1, 4.3)."""

from __future__ import annotations

from kai_sched.model.objects import PodGroup, SubGroup
from kai_sched.reconcile.grouping.manifest import merged, pod_patch
from tests.unit.reconcile.workloads import QUEUE, Thing, World, grouping, job, line, owner, pod, wire


def labels_of(manifest: Thing) -> Thing:
    labels: Thing = manifest["metadata"]["labels"]
    return labels


def test_an_update_keeps_what_people_may_change() -> None:
    top = job(labels=QUEUE)
    new = grouping(pod("p", top, labels={"kai.scheduler/node-pool": "h100"}), World((top,))).manifest
    assert labels_of(new)["kai.scheduler/node-pool"] == "h100"
    spec = {
        "queue": "moved",
        "markUnschedulable": False,
        "schedulingBackoff": 1,
        "minMember": 7,
        "preemptionDelay": "1s",
    }
    spec |= {"priorityClassName": "build", "topologyConstraint": {"topology": "net"}}
    meta = {
        "name": "pg-train-uid-train",
        "resourceVersion": "5",
        "annotations": {"own": "x"},
        "ownerReferences": [{"uid": "u"}],
    }
    old = {
        "metadata": {**meta, "labels": {"kai.scheduler/queue": "moved", "own": "y"}},
        "spec": spec,
        "status": {"s": 1},
    }
    found = merged(old, new, "kai.scheduler/queue", "kai.scheduler/node-pool")
    assert found["spec"] == {
        "queue": "moved",
        "markUnschedulable": False,
        "schedulingBackoff": 1,
        "topologyConstraint": {"topology": "net"},
        "minMember": 1,
        "priorityClassName": "train",
    }
    # the pool's label was not there, and stays so
    assert labels_of(found) == {"kai.scheduler/queue": "moved", "own": "y"}
    assert found["metadata"]["annotations"]["own"] == "x"
    assert found["metadata"]["ownerReferences"] == new["metadata"]["ownerReferences"]
    assert (found["status"], found["metadata"]["resourceVersion"]) == ({"s": 1}, "5")


def test_a_group_that_has_lost_its_owner_gets_none_again() -> None:
    """Somebody deletes the owner and leaves what is below it (`--cascade=orphan`): the group must not end with it."""
    top = job(labels=QUEUE)
    new = grouping(pod("p", top), World((top,))).manifest
    meta = {key: value for key, value in new["metadata"].items() if key != "ownerReferences"}
    assert merged({**new, "metadata": meta}, new, "kai.scheduler/queue", "kai.scheduler/node-pool")["metadata"] == meta


def test_an_update_that_changes_nothing_gives_the_same_object() -> None:
    top = job(labels=QUEUE)
    new = grouping(pod("p", top), World((top,))).manifest
    assert merged(new, new, "kai.scheduler/queue", "kai.scheduler/node-pool") == new
    bare = grouping(pod("p"), World()).manifest
    read = {**bare, "metadata": {key: value for key, value in bare["metadata"].items() if key != "labels"}}
    assert merged(read, bare, "kai.scheduler/queue", "kai.scheduler/node-pool") == read


def test_a_topology_that_the_workload_names_replaces_the_old_one() -> None:
    top = job(annotations={"kai.scheduler/topology": "new"})
    new = grouping(pod("p", top), World((top,))).manifest
    old = {"metadata": {}, "spec": {"topologyConstraint": {"topology": "old"}}}
    assert merged(old, new, "q", "n")["spec"]["topologyConstraint"] == {"topology": "new"}


def test_pods_are_told_their_group() -> None:
    top = owner("ray.io/v1 RayCluster", "rc", spec={"headGroupSpec": {}})
    the_pod = pod("p", top, labels={"ray.io/group": "headgroup"}, annotations={"pod-group-name": "other"})
    found = grouping(the_pod, World((top,)))
    patch = {"annotations": {"pod-group-name": "pg-rc-uid-rc"}, "labels": {"kai.scheduler/subgroup-name": "headgroup"}}
    assert pod_patch(wire(the_pod), found) == {"metadata": patch}
    done = pod("p", top, **patch)
    assert pod_patch(wire(done), found) is None


def test_groups_of_older_versions_stay_as_they_are() -> None:
    """Jobs with a group for each pod, Ray clusters without sub-groups, JobSets with a group for each part."""
    the_job = job(labels=QUEUE)
    old = World((the_job,), {"ml/pg-p-uid-train": PodGroup("ml", "pg-p-uid-train")})
    assert grouping(pod("p", the_job), old).name == "pg-p-uid-train"
    cluster = owner("ray.io/v1 RayCluster", "rc", spec={"headGroupSpec": {}, "workerGroupSpecs": [{"replicas": 2}]})
    the_pod = pod("p", cluster, labels={"ray.io/group": "headgroup"})
    flat = World((cluster,), {"ml/pg-rc-uid-rc": PodGroup("ml", "pg-rc-uid-rc")})
    assert line(grouping(the_pod, flat)).endswith("| 3 | default-queue train |  | ")
    cut = World((cluster,), {"ml/pg-rc-uid-rc": PodGroup("ml", "pg-rc-uid-rc", sub_groups=(SubGroup("headgroup"),))})
    assert line(grouping(the_pod, cut)).endswith("| headgroup 1, worker-group-0 2 | headgroup")
    js = owner("jobset.x-k8s.io/v1alpha2 JobSet", "js", spec={"replicatedJobs": [{"name": "a"}]})
    js["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    world = World((js,), {"ml/pg-js-uid-js-a": PodGroup("ml", "pg-js-uid-js-a")})
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "a", "jobset.sigs.k8s.io/job-index": "0"}
    assert line(grouping(pod("p", js, labels=labels), world)).startswith("pg-js-uid-js-a of JobSet js (uid-js) | 1 |")
