"""What groups of all kinds have in common: owners, labels, queues, priorities (API 3.3 to 4.3)."""

from __future__ import annotations

import json

import pytest

from kai_sched.model.config import Config
from kai_sched.reconcile.grouping.owners import resolve, wants_group
from kai_sched.reconcile.grouping.settings import GroupingSettings, read_kinds
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.workloads import CLASSES, QUEUE, SETTINGS, Thing, World, grouping, job, line, owner, pod, wire

TOLD = "name: rc\nuid: uid-rc\ngroup: ray.io\nversion: v1\nkind: RayCluster\n"
CLASS, POLICY = "priorityClassName", "kai.scheduler/preemptibility"
DELAY, GRACE = "kai.scheduler/preemption-delay", "kai.scheduler/staleness-grace-period"


def spec_of(the_pod: Thing, *things: Thing, settings: GroupingSettings = SETTINGS) -> Thing:
    spec: Thing = grouping(the_pod, World(things), settings).manifest["spec"]
    return spec


# Owners


def test_the_whole_manifest() -> None:
    """Labels and annotations of the owner, those of the pod where it lacks them, and what it is."""
    top = owner("ray.io/v1 RayCluster", "rc", labels={**QUEUE, "team": "x"}, annotations={"note": "n", "user": "ann"})
    top["spec"] = {"headGroupSpec": {}}
    labels = {"user": "bob", "kai.scheduler/node-pool": "h100", "ray.io/group": "headgroup", "other": "y"}
    found = grouping(pod("rc-head", top, labels=labels, annotations={"user": "bob"}), World((top,)))
    assert found.manifest == {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "pg-rc-uid-rc",
            "namespace": "ml",
            "labels": {**QUEUE, "team": "x", "user": "bob", "kai.scheduler/node-pool": "h100"},
            "annotations": {
                "user": "ann",
                "note": "n",
                "kai.scheduler/top-owner-metadata": TOLD,
            },
            "ownerReferences": [{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": "uid-rc"}],
        },
        "spec": {
            "minMember": 1,
            "queue": "team-a",
            "priorityClassName": "train",
            "subGroups": [{"name": "headgroup", "minMember": 1}],
        },
    }


@pytest.mark.parametrize(("name", "text"), [("123", '"123"'), ("null", '"null"'), ("a.b-1", "a.b-1"), ("0e1", '"0e1"')])
def test_the_top_owner_is_told_as_yaml(name: str, text: str) -> None:
    """Names that YAML would read as something else than a text are in quotes, and so is the group of core kinds."""
    found = grouping(pod(name), World())
    told = found.manifest["metadata"]["annotations"]["kai.scheduler/top-owner-metadata"]
    assert told.splitlines()[0] == f"name: {text}"
    assert told.splitlines()[2] == 'group: ""'


def test_owners_are_followed_to_the_top_by_their_metadata() -> None:
    cron = owner("batch/v1 CronJob", "c")
    world = World((job(cron), cron))
    chain = resolve(wire(pod("p", job(cron))), world.fetch)
    assert [each.subject for each in chain.owners] == ["Job ml/train", "CronJob ml/c"]
    assert [each.whole for each in world.asked] == [False, False]


def test_an_owner_that_may_not_be_read_ends_the_chain() -> None:
    """The last readable owner counts, and the pod itself where none is."""
    flow = owner("example.com/v1 Flow", "f")
    the_pod = pod("p", job(flow))
    top = World((job(flow), flow), forbidden=frozenset({"Flow"}))
    assert line(grouping(the_pod, top)).startswith("pg-train-uid-train of Job train")
    none = World((job(flow), flow), forbidden=frozenset({"Flow", "Job"}))
    assert line(grouping(the_pod, none)).startswith("pg-p-uid-p of Pod p")


def test_only_the_first_owner_of_a_pod_counts() -> None:
    the_pod = pod("p", job())
    the_pod["metadata"]["ownerReferences"].append({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"})
    assert line(grouping(the_pod, World((job(),)))).startswith("pg-train-uid-train of Job train")


def test_owners_that_cannot_be_followed() -> None:
    the_pod = wire(pod("p", job()))
    with pytest.raises(GroupingError, match=r"^Pod ml/p: metadata.ownerReferences\[0\]: Job ml/train .* there is none"):
        resolve(the_pod, World().fetch)
    other = job()
    other["metadata"]["uid"] = "new"
    with pytest.raises(GroupingError, match="the one there has the uid 'new'"):
        resolve(the_pod, World((other,)).fetch)
    two = job()
    two["metadata"]["ownerReferences"] = [{"kind": "A", "name": "a"}, {"kind": "B", "name": "b"}]
    with pytest.raises(
        GroupingError, match=r"^Job ml/train: metadata.ownerReferences: several owners \(A ml/a, B ml/b\)"
    ):
        resolve(the_pod, World((two,)).fetch)
    circle = job()
    circle["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train"}
    ]
    with pytest.raises(GroupingError, match="round in a circle"):
        resolve(the_pod, World((circle,)).fetch)


def test_pods_that_are_left_alone() -> None:
    mark, skip = {"pod-group-name": "mine"}, {"kai.scheduler/skip-podgrouper": "true"}
    ours = "kai-scheduler"
    assert wants_group(wire(pod("p")), ours)
    assert not wants_group(wire(pod("p", schedulerName="default-scheduler")), ours)
    assert not wants_group(wire(pod("p", annotations=mark)), ours)
    assert wants_group(wire(pod("p", job(), annotations=mark)), ours)
    assert not wants_group(wire(pod("p", job(), annotations=skip)), ours)
    assert wants_group(wire(pod("p", annotations={"kai.scheduler/skip-podgrouper": "yes"})), ours)
    assert resolve(wire(pod("p", job(annotations=skip))), World((job(annotations=skip),)).fetch).skips
    assert not resolve(wire(pod("p", job())), World((job(),)).fetch).skips


def test_a_whole_object_is_fetched_only_where_a_rule_needs_it() -> None:
    cluster = owner("ray.io/v1 RayCluster", "rc", spec={"headGroupSpec": {}})
    ray, plain = World((cluster,)), World((job(),))
    grouping(pod("p", cluster, labels={"ray.io/group": "headgroup"}), ray)
    grouping(pod("p", job()), plain)
    assert [each.whole for each in ray.asked] == [False, True]
    assert [each.whole for each in plain.asked] == [False]


# Queues


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "queue", "field"),
    [
        ({"kai.scheduler/queue": "o"}, {"kai.scheduler/queue": "p", "project": "x"}, "o", "Job kai.scheduler/queue"),
        ({"project": "x"}, {"kai.scheduler/queue": "p"}, "p", "Pod kai.scheduler/queue"),
        ({"project": "x"}, {"project": "y"}, "x", "Job project"),
        ({"project": "x"}, {"kai.scheduler/node-pool": "h100"}, "x-h100", "Job project"),
        ({"kai.scheduler/node-pool": "h100"}, {"project": "y"}, "y", "Pod project"),
        ({}, {}, "default-queue", "Job "),
        ({"kai.scheduler/queue": ""}, {}, "default-queue", "Job "),
    ],
)
def test_queue(of_owner: dict[str, str], of_pod: dict[str, str], queue: str, field: str) -> None:
    """By label of the owner, of the pod, by project of the owner, of the pod, and where the choice stands."""
    top = job(labels=of_owner)
    found = grouping(pod("p", top, labels=of_pod), World((top,)))
    subject, _, label = field.partition(" ")
    assert found.manifest["spec"]["queue"] == found.queue.name == queue
    assert (found.queue.subject.partition(" ")[0], found.queue.field) == (
        subject,
        f"metadata.labels[{label}]" if label else "",
    )


def test_the_queue_label_has_the_configured_name() -> None:
    top = job(labels={"kai.scheduler/queue": "no", "example.com/queue": "yes"})
    settings = GroupingSettings(Config(queue_label="example.com/queue"), CLASSES)
    assert spec_of(pod("p", top), top, settings=settings)["queue"] == "yes"


# Priorities


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "of_spec", "chosen"),
    [
        ("build", "inference", "build-preemptible", "build"),
        ("", "inference", "build-preemptible", "inference"),
        ("", "", "build-preemptible", "build-preemptible"),
        ("", "", "", "train"),
        # What the nearest one names counts, or nothing; then the default holds.
        ("no-such", "inference", "", "train"),
        ("", "", "no-such", "train"),
    ],
)
def test_priority_class(of_owner: str, of_pod: str, of_spec: str, chosen: str) -> None:
    top = job(labels={CLASS: of_owner} if of_owner else {})
    the_pod = pod("p", top, labels={CLASS: of_pod} if of_pod else {}, priorityClassName=of_spec)
    assert spec_of(the_pod, top)["priorityClassName"] == chosen


def test_a_class_that_is_not_there_is_told() -> None:
    top = job(labels={CLASS: "no-such"})
    (note,) = grouping(pod("p", top), World((top,))).notes
    assert (note.subject, note.field) == ("Job ml/train", "metadata.labels[priorityClassName]")
    assert "no priority class 'no-such'" in note.message


def test_a_plain_kind_asks_all_owners_nearest_first() -> None:
    run = owner("tekton.dev/v1 PipelineRun", "run", labels={CLASS: "build"})
    task = owner("tekton.dev/v1 TaskRun", "task", run)
    assert spec_of(pod("p", task), task, run)["priorityClassName"] == "build"
    near = owner("tekton.dev/v1 TaskRun", "task", run, labels={CLASS: "inference"})
    assert spec_of(pod("p", near), near, run)["priorityClassName"] == "inference"
    bad = owner("tekton.dev/v1 TaskRun", "task", run, labels={CLASS: "no-such"})
    assert spec_of(pod("p", bad), bad, run)["priorityClassName"] == "build"


def kinds(*entries: Thing, key: str = "types") -> GroupingSettings:
    defaults, rules, notes = read_kinds({key: json.dumps(entries)}, "ConfigMap kai/kinds")
    assert notes == []
    return GroupingSettings(priority_classes=CLASSES, defaults=defaults, rules=rules)


def test_defaults_of_kinds() -> None:
    """Labels first, then the entry of the kind with its group, then that of the kind alone, if the class exists."""
    entry = {"typeName": "Job", "group": "batch", "priorityName": "build", "preemptibility": "Preemptible"}
    loose = {"typeName": "Job", "priorityName": "inference"}
    the_pod = pod("p", job())
    found = spec_of(the_pod, job(), settings=kinds(loose, entry))
    assert (found["priorityClassName"], found["preemptibility"]) == ("build", "preemptible")
    assert spec_of(the_pod, job(), settings=kinds(loose))["priorityClassName"] == "inference"
    named = job(labels={CLASS: "build-preemptible"})
    assert spec_of(pod("p", named), named, settings=kinds(entry))["priorityClassName"] == "build-preemptible"
    assert spec_of(the_pod, job(), settings=kinds({**entry, "priorityName": "gone"}))["priorityClassName"] == "train"


def test_defaults_of_a_skipped_kind_reach_the_next() -> None:
    train = owner("trainer.kubeflow.org/v1alpha1 TrainJob", "tj")
    inner = job(train)
    entry = {"typeName": "TrainJob", "group": "trainer.kubeflow.org", "priorityName": "build"}
    assert spec_of(pod("p", inner), inner, train, settings=kinds(entry))["priorityClassName"] == "build"
    own = job(train, labels={CLASS: "inference"})
    assert spec_of(pod("p", own), own, train, settings=kinds(entry))["priorityClassName"] == "inference"


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "chosen"),
    [
        ("non-preemptible", "preemptible", "non-preemptible"),
        (None, "preemptible", "preemptible"),
        ("Preemptible", "preemptible", "preemptible"),
        ("", "preemptible", None),
        (None, None, None),
    ],
)
def test_preemptibility(of_owner: str | None, of_pod: str | None, chosen: str | None) -> None:
    """An empty value ends the search, one that is not known is passed over."""
    top = job(labels={} if of_owner is None else {POLICY: of_owner})
    the_pod = pod("p", top, labels={} if of_pod is None else {POLICY: of_pod})
    assert spec_of(the_pod, top).get("preemptibility") == chosen


@pytest.mark.parametrize(
    ("key", "field", "of_owner", "of_pod", "chosen"),
    [
        (DELAY, "preemptionDelay", "90s", "10s", "90s"),
        (DELAY, "preemptionDelay", "-1s", "10s", "10s"),
        (DELAY, "preemptionDelay", "soon", "0s", "0s"),
        (DELAY, "preemptionDelay", "soon", "later", None),
        (GRACE, "stalenessGracePeriod", "-1s", "10s", "-1s"),
        (GRACE, "stalenessGracePeriod", "1 h", "1h", "1h"),
    ],
)
def test_durations(key: str, field: str, of_owner: str, of_pod: str, chosen: str | None) -> None:
    top = job(annotations={key: of_owner})
    assert spec_of(pod("p", top, annotations={key: of_pod}), top).get(field) == chosen


def test_topology() -> None:
    prefix = "kai.scheduler/topology"
    texts = {prefix: "net", f"{prefix}-required-placement": "rack", f"{prefix}-preferred-placement": "host"}
    top = job(annotations=texts)
    wanted = {"topology": "net", "requiredTopologyLevel": "rack", "preferredTopologyLevel": "host"}
    assert spec_of(pod("p", top), top)["topologyConstraint"] == wanted
    nameless = job(annotations={f"{prefix}-required-placement": "rack"})
    assert "topologyConstraint" not in spec_of(pod("p", nameless), nameless)
    assert "topologyConstraint" not in spec_of(pod("p", job(), annotations=texts), job())


# Kinds that a ConfigMap tells of


@pytest.mark.parametrize(
    ("rule", "spec", "minimum"),
    [
        ({"minimum": "spec.least", "replicas": "spec.workers"}, {"least": 2, "workers": 5}, 2),
        ({"minimum": "spec.least", "replicas": "spec.workers"}, {"workers": 5}, 5),
        ({"replicas": "spec.roles[*].count"}, {"roles": [{"count": 2}, {"count": 3}, {}]}, 5),
        ({"replicas": "spec.roles[*].count"}, {"roles": {"a": {"count": 2}, "b": {"count": 1}}}, 3),
        ({"replicas": "spec.workers"}, {}, 1),
        ({}, {"workers": 5}, 1),
    ],
)
def test_a_rule_as_data(rule: Thing, spec: Thing, minimum: int) -> None:
    top = owner("example.com/v7 Solver", "s", spec=spec)
    settings = kinds({"kind": "Solver", "group": "example.com", **rule}, key="rules")
    assert spec_of(pod("p", top), top, settings=settings)["minMember"] == minimum


def test_a_rule_as_data_that_meets_something_else() -> None:
    top = owner("example.com/v7 Solver", "s", spec={"workers": "five"})
    settings = kinds({"kind": "Solver", "group": "example.com", "replicas": "spec.workers"}, key="rules")
    with pytest.raises(GroupingError, match=r'^Solver ml/s: spec.workers: expected a whole number, got "five"'):
        spec_of(pod("p", top), top, settings=settings)


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        ({"types": "{}"}, "data.types", "not the JSON list"),
        ({"types": "[{}]"}, "data.types", "missing required field `typeName`"),
        ({"rules": "[nonsense"}, "data.rules", "not the JSON list"),
        ({"rules": '[{"kind": "A", "replicas": "spec..x"}]'}, "data.rules[0]", "'spec..x' is not a path"),
    ],
)
def test_a_config_map_with_a_fault(data: dict[str, str], field: str, words: str) -> None:
    defaults, rules, (note,) = read_kinds(data, "ConfigMap kai/kinds")
    assert (defaults, rules, note.subject, note.field) == ({}, {}, "ConfigMap kai/kinds", field)
    assert words in note.message


@pytest.mark.parametrize(
    ("minimum", "spec", "told"),
    [("2", {}, True), ("2", {"podManagementPolicy": "Parallel"}, False), ("1", {}, False)],
)
def test_a_gang_of_a_stateful_set_needs_all_pods_at_once(minimum: str, spec: dict[str, str], told: bool) -> None:
    top = owner("apps/v1 StatefulSet", "db", spec=spec, annotations={"kai.scheduler/batch-min-member": minimum})
    found = grouping(pod("db-0", top), World((top,)))
    assert found.manifest["spec"]["minMember"] == int(minimum)
    assert [(note.field, "set Parallel" in note.message) for note in found.notes] == [
        ("spec.podManagementPolicy", True)
    ] * told
