"""PodGroups and Workloads of Kubernetes itself in files: their pods are the gangs that they are in a cluster."""

from __future__ import annotations

import copy

import pytest

from kai_sched import run_cycle
from kai_sched.files.load import load
from kai_sched.plan.effects import Bind
from tests.oracle.actions import decide
from tests.scenarios.objects import NOW_NS
from tests.unit.files.inputs import Write, listing, queue, told
from tests.unit.files.workloads import CLASSES, OURS, Thing, described, new, only

VERSION = "scheduling.k8s.io/v1beta1"
GANG: Thing = {"schedulingPolicy": {"gang": {"minCount": 3}}}
ONE: Thing = {"schedulingPolicy": {"gang": {"minCount": 1}}}


def naming(group: str) -> Thing:
    """A pod template that names the PodGroup."""
    found = copy.deepcopy(OURS)
    found["spec"]["schedulingGroup"] = {"podGroupName": group}
    return found


def pod(name: str, group: str) -> Thing:
    return new("v1 Pod", name, naming(group)["spec"])


def test_pods_of_a_job_whose_template_names_a_group(write: Write) -> None:
    job = new("batch/v1 Job", "w", {"parallelism": 4, "template": naming("g")})
    case = only(write, *CLASSES, new(f"{VERSION} PodGroup", "g", GANG), job)
    assert described(case) == ["ml/pg-g-podgroup | 3 | team-a train |  | pods 4"]


def test_bare_pods(write: Write) -> None:
    pods = [pod(f"p{n}", "g") for n in range(3)]
    case = only(write, *CLASSES, new(f"{VERSION} PodGroup", "g", GANG), *pods)
    assert described(case) == ["ml/pg-g-podgroup | 3 | team-a train |  | pods 3"]


def test_the_labels_of_a_workload_count(write: Write) -> None:
    workload = new(f"{VERSION} Workload", "w", {"podGroupTemplates": [{"name": "t", **GANG}]})
    named = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    group = new(f"{VERSION} PodGroup", "g", ONE | named)
    del group["metadata"]["labels"]
    member = pod("p", "g")
    member["metadata"]["labels"] = {"kai.scheduler/queue": "other"}
    case = only(write, *CLASSES, workload, group, member)
    assert described(case) == ["ml/pg-g-podgroup | 1 | team-a train |  | pods 1"]


def shared(write: Write, *order: str) -> tuple[list[str], list[str]]:
    """A PodGroup without labels that pods of two Jobs name, in files in this order: the group, and what is told."""
    group = new(f"{VERSION} PodGroup", "g", ONE)
    del group["metadata"]["labels"]
    jobs = {
        "ja": {"kai.scheduler/queue": "qa", "priorityClassName": "train"},
        "jb": {"kai.scheduler/queue": "qb", "priorityClassName": "inference"},
        "a": {"kai.scheduler/queue": ""},  # without a queue it does not decide, whatever its name
    }
    things = [new("batch/v1 Job", name, {"template": naming("g")}, labels=jobs[name]) for name in order]
    loaded = load([write("in.json", listing(queue("qa"), queue("qb"), *CLASSES, group, *things))])
    return described(loaded.cases[0]), told(loaded)


def test_of_several_owners_the_same_decides_in_any_order(write: Write) -> None:
    groups, texts = shared(write, "ja", "jb")
    assert groups == ["ml/pg-g-podgroup | 1 | qa train |  | pods 2"]
    (text,) = (each for each in texts if "PodGroup ml/g" in each)
    assert text.endswith(
        "PodGroup ml/g: metadata.labels: Job ml/ja and Job ml/jb have pods in it, and the former decides "
        "(priorityClassName: 'train', not 'inference'; queue: 'qa', not 'qb'): put the label or annotation that is to "
        "count on the PodGroup"
    )
    assert shared(write, "jb", "ja")[0] == groups
    assert any(text.partition(" PodGroup")[2] in each for each in shared(write, "jb", "ja")[1])
    assert shared(write, "a", "jb")[0] == ["ml/pg-g-podgroup | 1 | qb inference |  | pods 2"]
    assert shared(write, "jb", "a")[0] == ["ml/pg-g-podgroup | 1 | qb inference |  | pods 2"]


def test_owners_that_agree_are_not_told(write: Write) -> None:
    jobs = [new("batch/v1 Job", name, {"template": naming("g")}) for name in ("ja", "jb")]
    case = only(write, *CLASSES, new(f"{VERSION} PodGroup", "g", ONE), *jobs)
    assert described(case) == ["ml/pg-g-podgroup | 1 | team-a train |  | pods 2"]


def test_a_level_is_that_of_a_topology_in_the_files(write: Write) -> None:
    levels = {"levels": [{"nodeLabel": "example.com/rack"}]}
    topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}, "spec": levels}
    constraint = {"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}}
    case = only(write, *CLASSES, topology, new(f"{VERSION} PodGroup", "g", ONE | constraint), pod("p", "g"))
    (group,) = case.store.cluster().pod_groups.values()
    assert (group.topology.topology, group.topology.required_level) == ("t", "example.com/rack")


def test_a_group_that_is_missing_is_told(write: Write) -> None:
    loaded = load([write("in.json", listing(queue("team-a"), *CLASSES, pod("p", "g")))])
    text = "Pod ml/p: spec.schedulingGroup.podGroupName: there is no PodGroup 'g' of scheduling.k8s.io/v1beta1"
    assert any(text in each for each in told(loaded))
    assert loaded.cases[0].store.cluster().pods["ml/p"].group == "pg-g", "it waits"


@pytest.mark.parametrize(
    ("policy", "bound"),
    [
        ({"gang": {"minCount": 3}}, 0),  # there is room for two of three, so for none
        ({"gang": {"minCount": 2}}, 2),  # two are enough, and the third waits
        ({"basic": {}}, 2),  # each by itself
    ],
)
def test_what_is_decided_follows_the_policy(write: Write, policy: Thing, bound: int) -> None:
    """Worked out by hand; the oracle decides the same."""
    room = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2", "pods": "20"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": room}}
    pods = [pod(f"p{n}", "g") for n in range(3)]
    for each in pods:
        each["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    case = only(write, *CLASSES, node, new(f"{VERSION} PodGroup", "g", {"schedulingPolicy": policy}), *pods)
    cluster = case.store.cluster()
    assert sum(isinstance(each, Bind) for each in run_cycle(cluster, case.config, NOW_NS).effects) == bound
    assert sum(bool(node) for _, node in decide(cluster, case.config, NOW_NS).pods.values()) == bound


@pytest.mark.parametrize(
    ("version", "texts"),
    [
        (VERSION, []),
        (
            "scheduling.k8s.io/v1alpha3",
            ["warning: PodGroup (scheduling.k8s.io/v1alpha3): 1 object ignored: this version reads " + VERSION],
        ),
        (
            "scheduling.volcano.sh/v1beta1",
            [
                "warning: PodGroup (scheduling.volcano.sh/v1beta1): 1 object ignored: this version reads "
                "scheduling.run.ai/v2alpha2"
            ],
        ),
    ],
)
def test_groups_that_no_pod_names(write: Write, version: str, texts: list[str]) -> None:
    """Those of a dump are in use by pods that are grouped already."""
    loaded = load([write("in.json", listing(queue("team-a"), new(f"{version} PodGroup", "g", GANG)))])
    assert told(loaded) == texts
