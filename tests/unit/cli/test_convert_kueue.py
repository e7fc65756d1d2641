"""Queues made of ClusterQueues and Cohorts: quotas, limits, weights, names, and what has no meaning in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kai_sched.cli.migration.convert import Converted, converted
from kai_sched.files.items import Item, read_items
from kai_sched.files.load import load
from kai_sched.files.sources import FilePosition
from kai_sched.model.problems import Problem
from kai_sched.telemetry.pace import Pace
from tests.tree import ROOT
from tests.unit.cli.command import run

EXAMPLE = ROOT / "examples/from-elsewhere/kueue.yaml"
Spec = dict[str, Any]


def thing(kind: str, name: str, spec: Spec, version: str = "v1beta2", **more: Any) -> Item:
    content = {"metadata": {"name": name, **more.pop("metadata", {})}, "spec": spec, **more}
    return Item(FilePosition("a.yaml"), (f"kueue.x-k8s.io/{version}", kind), msgspec.json.encode(content))


def amounts(resource: str = "nvidia.com/gpu", **more: Any) -> Spec:
    """A resource group with one flavor that has this much."""
    return {"coveredResources": [resource], "flavors": [{"name": "f", "resources": [{"name": resource, **more}]}]}


def gpus(number: int, cohort: str = "", **more: Any) -> Spec:
    """The spec of a ClusterQueue with so many GPUs, of which all else is as in kai-sched."""
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    groups = [
        amounts(nominalQuota=number, **more),
        amounts("cpu", nominalQuota=1),
        amounts("memory", nominalQuota="1G"),
    ]
    above = {"cohortName": cohort} if cohort else {}
    return {"namespaceSelector": {}, "preemption": preemption, "resourceGroups": groups, **above}


def shares(found: Converted, resource: str = "gpu") -> dict[str, tuple[str, float, float, float]]:
    """(parent, quota, limit, weight) by Queue."""
    result = {}
    for _, queue in found.queues:
        share = queue["spec"]["resources"][resource]
        parent = queue["spec"].get("parentQueue", "")
        result[queue["metadata"]["name"]] = parent, share["quota"], share["limit"], share["overQuotaWeight"]
    return result


def said(found: Converted) -> list[str]:
    return [f"{each.subject}: {each.field}: {each.message}" for each in found.problems]


class TestQueues:
    def test_one_that_stands_alone_cannot_borrow(self) -> None:
        found = converted([thing("ClusterQueue", "a", gpus(8))])
        assert shares(found) == {"a": ("", 8, 8, 1)}
        assert shares(found, "cpu") == {"a": ("", 1000, 1000, 1)}
        assert shares(found, "memory") == {"a": ("", 1000, 1000, 1)}
        assert said(found) == []

    def test_a_cohort_without_an_object(self) -> None:
        for version, name in (("v1beta1", "cohort"), ("v1beta2", "cohortName")):
            one = thing("ClusterQueue", "a", {**gpus(8, borrowingLimit=2), name: "c"}, version)
            two = thing("ClusterQueue", "b", {**gpus(4), name: "c"}, version)
            found = converted([one, two])
            assert shares(found) == {"c": ("", 12, 12, 1), "a": ("c", 8, 10, 1), "b": ("c", 4, -1, 1)}

    def test_a_tree_of_cohorts(self) -> None:
        top = thing("Cohort", "top", {"resourceGroups": [amounts(nominalQuota=2)]})
        limited = amounts(nominalQuota=1, borrowingLimit=3)
        low = thing(
            "Cohort", "low", {"parentName": "top", "resourceGroups": [limited], "fairSharing": {"weight": "500m"}}
        )
        old = thing("Cohort", "old", {"parent": "top"}, "v1alpha1")
        queues = [thing("ClusterQueue", "a", gpus(8, "low")), thing("ClusterQueue", "b", gpus(4, "old"))]
        found = converted([*queues, low, old, top])
        assert shares(found) == {
            "top": ("", 15, 15, 1),
            "low": ("top", 9, 12, 0.5),
            "a": ("low", 8, -1, 1),
            "old": ("top", 4, -1, 1),
            "b": ("old", 4, -1, 1),
        }
        assert found.queues[0][0] == "Cohort top", "parents come first"

    def test_flavors_are_added_up(self) -> None:
        spec = gpus(8, "c", borrowingLimit=1)
        spec["resourceGroups"][0]["flavors"].append(
            {"name": "g", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4", "borrowingLimit": 2}]}
        )
        found = converted([thing("ClusterQueue", "a", spec)])
        assert shares(found)["a"] == ("c", 12, 15, 1)
        assert "the quotas of gpu of f, g are added up" in said(found)[0]
        del spec["resourceGroups"][0]["flavors"][1]["resources"][0]["borrowingLimit"]
        assert shares(converted([thing("ClusterQueue", "a", spec)]))["a"] == ("c", 12, -1, 1)

    def test_what_is_not_covered(self) -> None:
        found = converted([thing("ClusterQueue", "a", {**gpus(8), "resourceGroups": [amounts(nominalQuota=8)]})])
        assert shares(found, "cpu") == {"a": ("", -1, -1, 1)}
        assert "cpu and memory not covered: unlimited here" in said(found)[0]
        found = converted([thing("ClusterQueue", "a", {**gpus(8), "resourceGroups": []})])
        assert shares(found) == {"a": ("", 0, 0, 1)}

    def test_a_cohort_that_is_called_like_a_queue(self) -> None:
        found = converted([thing("ClusterQueue", "a", gpus(8, "a")), thing("ClusterQueue", "a-cohort", gpus(1, "a"))])
        assert shares(found).keys() == {"a", "a-cohort", "a-cohort-cohort"}
        assert shares(found)["a"][0] == "a-cohort-cohort"


class TestWithoutMeaning:
    @pytest.mark.parametrize(
        ("field", "value", "text"),
        [
            ("queueingStrategy", "StrictFIFO", "StrictFIFO"),
            ("namespaceSelector", {"matchLabels": {"a": "b"}}, "every namespace may use the queue"),
            ("namespaceSelector", None, "missing, so Kueue admits nothing"),
            ("flavorFungibility", {"whenCanBorrow": "TryNextFlavor"}, "no order of flavors"),
            ("admissionChecks", ["a"], "no check is asked"),
            ("admissionChecksStrategy", {"admissionChecks": [{"name": "a"}]}, "no check is asked"),
            ("stopPolicy", "Hold", "Hold: the queue is converted as if it were open"),
            ("admissionScope", {"admissionMode": "UsageBasedAdmissionFairSharing"}, "past usage"),
            ("concurrentAdmissionPolicy", {"migration": {}}, "one try at a time"),
            ("somethingNew", 1, "this version does not know it"),
        ],
    )
    def test_fields(self, field: str, value: Any, text: str) -> None:
        (line,) = said(converted([thing("ClusterQueue", "a", {**gpus(8), field: value})]))
        assert line.startswith(f"ClusterQueue a: spec.{field}: ")
        assert text in line

    def test_what_the_api_server_fills_in_is_not_told(self) -> None:
        defaults = {
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
            "admissionScope": {"admissionMode": "NoAdmissionFairSharing"},
        }
        spec = {**gpus(8), **defaults}
        spec["preemption"]["borrowWithinCohort"] = {"policy": "Never"}
        assert said(converted([thing("ClusterQueue", "a", spec)])) == []

    def test_preemption(self) -> None:
        spec = {**gpus(8), "preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}
        lines = said(converted([thing("ClusterQueue", "a", spec)]))
        fields = ["reclaimWithinCohort", "withinClusterQueue", "borrowWithinCohort"]
        assert [line.split(": ")[1] for line in lines] == [f"spec.preemption.{field}" for field in fields]

    def test_lending_and_other_resources(self) -> None:
        spec = gpus(8, lendingLimit=2)
        spec["resourceGroups"].append(amounts("pods", nominalQuota=5))
        first, second = said(converted([thing("ClusterQueue", "a", spec)]))
        assert first.startswith("ClusterQueue a: spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: ")
        assert second.startswith("ClusterQueue a: spec.resourceGroups[3].coveredResources: pods: ")

    @pytest.mark.parametrize(
        ("item", "text"),
        [
            (thing("ResourceFlavor", "f", {}), ""),
            (thing("ResourceFlavor", "f", {"nodeLabels": {"a": "b"}}), "spec.nodeLabels: pods do not get them"),
            (thing("ResourceFlavor", "f", {"topologyName": "t"}), "spec.topologyName"),
            (thing("LocalQueue", "l", {"clusterQueue": "a"}, metadata={"namespace": "n"}), "queue-name: l: label them"),
            (thing("LocalQueue", "l", {"clusterQueue": "b"}), "there is no ClusterQueue 'b'"),
            (thing("LocalQueue", "l", {"clusterQueue": "a", "stopPolicy": "Hold"}), "spec.stopPolicy"),
            (thing("WorkloadPriorityClass", "p", {}, value=1000), "1000 would not be preemptible"),
            (thing("WorkloadPriorityClass", "p", {}, value=50), "50 will do"),
            (thing("Workload", "w", {}), "PodGroups take their place"),
            (thing("Unheard", "u", {}), "does not know the kind"),
        ],
    )
    def test_other_kinds(self, item: Item, text: str) -> None:
        lines = said(converted([thing("ClusterQueue", "a", gpus(8)), item]))
        assert any(text in line for line in lines) if text else lines == []


class TestBadInput:
    @pytest.mark.parametrize(
        ("items", "text"),
        [
            ([], "no ClusterQueue and no Cohort in the input"),
            ([thing("ClusterQueue", "a", gpus(8), "v1alpha2")], "apiVersion: v1alpha2 is not read"),
            ([thing("ClusterQueue", "", gpus(8))], "metadata.name: missing"),
            ([thing("ClusterQueue", "a", gpus(8)), thing("ClusterQueue", "a", gpus(4))], "already defined in a.yaml"),
            ([thing("ClusterQueue", "a", {**gpus(8), "resourceGroups": [amounts(nominalQuota="x")]})], "nominalQuota"),
            ([thing("ClusterQueue", "a", {**gpus(8), "resourceGroups": [amounts(nominalQuota=-1)]})], "is below 0"),
            (
                [thing("ClusterQueue", "a", {**gpus(8), "resourceGroups": [amounts(nominalQuota="9E")]})],
                "more than a Queue",
            ),
            ([thing("ClusterQueue", "a", {"resourceGroups": 5})], "spec.resourceGroups: expected a list"),
            ([thing("Cohort", "a", {"parentName": "b"}), thing("Cohort", "b", {"parentName": "a"})], "a -> b -> a"),
        ],
    )
    def test_it_is_fatal_and_named(self, items: list[Item], text: str) -> None:
        found = converted(items)
        assert any(each.fatal and text in str(each) for each in found.problems), said(found)


def items_of(path: Path) -> list[Item]:
    problems: list[Problem] = []
    with path.open("rb") as stdin:
        items = list(read_items([str(path)], stdin, Pace(None), problems, [], {}))
    assert problems == []
    return items


def test_the_queues_are_admitted(tmp_path: Path) -> None:
    """Webhooks' checks, which ``load`` makes, refuse none of them; a node makes a cluster of them."""
    queues = [manifest for _, manifest in converted(items_of(EXAMPLE)).queues]
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.safe_dump_all(queues))
    loaded = load([str(file), str(ROOT / "examples/teams/nodes.yaml")])
    assert [str(each) for each in loaded.problems if "millicores" not in each.message] == []
    found = loaded.cases[0].store.cluster().queues
    assert sorted(found) == ["batch", "research", "speech", "vision"]


@pytest.mark.slow
def test_the_command_prints_what_simulate_reads(tmp_path: Path) -> None:
    done = run("convert-kueue", str(EXAMPLE))
    assert done.returncode == 0
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout)] == [
        "batch",
        "research",
        "speech",
        "vision",
    ]
    assert done.stderr.count("\n") == 15
    file = tmp_path / "queues.yaml"
    file.write_text(done.stdout)
    shown = run("simulate", "-o", "csv", str(file), str(ROOT / "examples/teams/nodes.yaml"))
    assert shown.returncode == 0
    refused = run("convert-kueue", str(ROOT / "examples/teams"))
    assert refused.returncode == 2
    assert refused.stdout == ""
