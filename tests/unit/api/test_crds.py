"""The generated definitions: up to date, what API 1.1 says, and in the form that the API server takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_sched.api import queue
from kai_sched.api.crdgen import DEFINITIONS, custom_resource_definitions, structural
from kai_sched.api.custom import DNS_LABEL_PATTERN, DURATION_PATTERN, LABEL_KEY_PATTERN, QUANTITY_PATTERN, Model
from kai_sched.files.crds import main, outdated, render
from kai_sched.model.resources import QuantityError, parse_quantity
from kai_sched.model.times import parse_duration

FOLDER = Path(__file__).parents[3] / "crds"
CRDS = {name.removesuffix(".yaml"): crd for name, crd in custom_resource_definitions().items()}


def schema_of(name: str) -> dict[str, Any]:
    (version,) = CRDS[name]["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of a schema that describes a value."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from nodes(schema[word], f"{path}.{word}")


def at(name: str, path: str) -> dict[str, Any]:
    node = schema_of(name)
    for part in path.split("."):
        node = node["items"] if part == "[]" else node["properties"][part]
    return node


def test_the_folder_is_up_to_date() -> None:
    assert outdated(FOLDER) == []


def test_a_folder_that_is_not_up_to_date_is_noticed(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "queues.scheduling.run.ai.yaml").write_text("changed")
    (tmp_path / "configs.kai.scheduler.yaml").unlink()
    (tmp_path / "other.yaml").write_text("a: 1")
    assert outdated(tmp_path) == ["configs.kai.scheduler.yaml", "other.yaml", "queues.scheduling.run.ai.yaml"]
    assert main(["--check", str(tmp_path)]) == 1
    assert main([]) == 2


@pytest.mark.parametrize(
    ("name", "version", "kind", "scope", "short", "status"),
    [
        ("queues.scheduling.run.ai", "v2", "Queue", "Cluster", None, True),
        ("podgroups.scheduling.run.ai", "v2alpha2", "PodGroup", "Namespaced", ["pg"], True),
        ("bindrequests.scheduling.run.ai", "v1alpha2", "BindRequest", "Namespaced", None, True),
        ("topologies.kai.scheduler", "v1alpha1", "Topology", "Cluster", None, False),
        ("configs.kai.scheduler", "v1", "Config", "Cluster", None, True),
        ("schedulingshards.kai.scheduler", "v1", "SchedulingShard", "Cluster", None, True),
    ],
)
def test_inventory(name: str, version: str, kind: str, scope: str, short: list[str] | None, status: bool) -> None:
    crd = CRDS[name]
    (served,) = crd["spec"]["versions"]
    assert crd["metadata"]["name"] == name
    assert crd["spec"]["group"] == name.split(".", 1)[1]
    assert crd["spec"]["scope"] == scope
    names = crd["spec"]["names"]
    assert (names["kind"], names["listKind"], names["singular"]) == (kind, f"{kind}List", kind.lower())
    assert names.get("shortNames") == short
    assert (served["name"], served["served"], served["storage"]) == (version, True, True)
    assert ("subresources" in served) == status


def test_all_six_are_there() -> None:
    assert len(CRDS) == len(DEFINITIONS) == 6


def test_queue_columns_begin_with_the_contracts() -> None:
    (served,) = CRDS["queues.scheduling.run.ai"]["spec"]["versions"]
    columns = [(column["name"], column["type"], column["jsonPath"]) for column in served["additionalPrinterColumns"]]
    assert columns[:4] == [
        ("Priority", "string", ".spec.priority"),
        ("Parent", "string", ".spec.parentQueue"),
        ("Children", "string", ".status.childQueues"),
        ("DisplayName", "string", ".spec.displayName"),
    ]


def test_pod_group_columns_begin_as_kubectl_has_them() -> None:
    """A definition with columns of its own loses the one that kubectl adds."""
    (served,) = CRDS["podgroups.scheduling.run.ai"]["spec"]["versions"]
    first = served["additionalPrinterColumns"][0]
    assert first == {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


@pytest.mark.parametrize("name", sorted(CRDS))
def test_columns_show_fields_that_exist(name: str) -> None:
    (served,) = CRDS[name]["spec"]["versions"]
    for column in served.get("additionalPrinterColumns", ()):
        if column["type"] == "date":
            continue
        node = schema_of(name)
        for part in re.findall(r"((?:[^.\\[]|\\.)+)(?:\[[^]]*\])?", column["jsonPath"]):
            node = node.get("items", node)
            node = node.get("additionalProperties") or node["properties"][part]


@pytest.mark.parametrize("name", sorted(CRDS))
class TestStructural:
    """The rules that the API server has for schemas."""

    def test_every_value_has_one_type(self, name: str) -> None:
        kinds = {"object", "array", "string", "integer", "number", "boolean"}
        for path, node in nodes(schema_of(name)):
            assert node.get("type") in kinds or node.get("x-kubernetes-int-or-string"), path

    def test_int_or_string_is_written_as_the_api_server_wants_it(self, name: str) -> None:
        for path, node in nodes(schema_of(name)):
            if "anyOf" in node:
                assert node["x-kubernetes-int-or-string"], path
                assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
                assert "type" not in node, path

    def test_no_word_that_a_structural_schema_lacks(self, name: str) -> None:
        text = render()[f"{name}.yaml"]
        for word in ("$ref", "$defs", "title:", "default:", "const:", "oneOf", "allOf", "patternProperties"):
            assert word not in text

    def test_objects_have_fields_or_values_or_are_open(self, name: str) -> None:
        for path, node in nodes(schema_of(name)):
            if node.get("type") == "object" and path != ".metadata":
                ways = {"properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"}
                assert len(ways & node.keys()) == 1, path
            if node.get("type") == "array":
                assert "items" in node, path

    def test_required_fields_exist(self, name: str) -> None:
        for path, node in nodes(schema_of(name)):
            assert set(node.get("required", ())) <= node.get("properties", {}).keys(), path

    def test_patterns_compile(self, name: str) -> None:
        for _, node in nodes(schema_of(name)):
            if "pattern" in node:
                re.compile(node["pattern"])

    def test_rules_name_only_fields_that_exist(self, name: str) -> None:
        for path, node in nodes(schema_of(name)):
            fields = node.get("properties") or node.get("items", {}).get("properties") or {}
            for rule in node.get("x-kubernetes-validations", ()):
                used = set(re.findall(r"(?:self|oldSelf|\bl|other)\.([a-zA-Z]+)\b(?!\()", rule["rule"]))
                assert used <= fields.keys(), path
                assert rule["message"]

    def test_the_file_says_the_same(self, name: str) -> None:
        assert yaml.safe_load(render()[f"{name}.yaml"]) == CRDS[name]


def test_bounds_of_a_queue_are_checked_by_the_api_server() -> None:
    for resource in ("cpu", "memory", "gpu"):
        for field in ("quota", "limit", "overQuotaWeight"):
            node = at("queues.scheduling.run.ai", f"spec.resources.{resource}.{field}")
            assert node["type"] == "number"
            assert [rule["rule"] for rule in node["x-kubernetes-validations"]] == [
                "self >= 0.0 && self <= 1000000000000000.0 || self == -1.0"
            ]
    assert at("queues.scheduling.run.ai", "spec.priority")["nullable"] is True
    assert "fairShare" in at("queues.scheduling.run.ai", "status")["properties"]


def test_pod_group_fields() -> None:
    name = "podgroups.scheduling.run.ai"
    minimum = at(name, "spec.minMember")
    assert (minimum["type"], minimum["format"], minimum["minimum"]) == ("integer", "int32", 0)
    assert at(name, "spec.preemptibility")["enum"] == ["preemptible", "non-preemptible"]
    assert at(name, "spec.subGroups.[].name")["pattern"] == DNS_LABEL_PATTERN
    assert at(name, "spec.subGroups.[]")["required"] == ["name"]
    for path in ("spec", "spec.subGroups.[]"):
        rule = at(name, path)["x-kubernetes-validations"][0]
        assert rule["rule"] == "!(has(self.minMember) && has(self.minSubGroup))"
        assert rule["fieldPath"] == ".minSubGroup"
    groups = at(name, "spec.subGroups")
    assert (groups["x-kubernetes-list-type"], groups["x-kubernetes-list-map-keys"]) == ("map", ["name"])
    assert at(name, "spec.subGroups.[].parent")["maxLength"] == 63
    assert "transitionID" in at(name, "status.schedulingConditions.[]")["properties"]


def test_topology_levels() -> None:
    name = "topologies.kai.scheduler"
    levels = at(name, "spec.levels")
    assert (levels["minItems"], levels["maxItems"], levels["x-kubernetes-list-type"]) == (1, 16, "atomic")
    label = at(name, "spec.levels.[].nodeLabel")
    assert (label["minLength"], label["maxLength"], label["pattern"]) == (1, 316, LABEL_KEY_PATTERN)
    assert schema_of(name)["required"] == ["spec"]
    assert at(name, "spec")["required"] == ["levels"]
    assert any("oldSelf" in rule["rule"] for rule in levels["x-kubernetes-validations"])


def test_an_open_bound() -> None:
    node = at("schedulingshards.kai.scheduler", "spec.goMemLimitRatio")
    assert (node["minimum"], node["exclusiveMinimum"], node["maximum"]) == (0, True, 1)


def test_names_that_are_not_plain_camel_case() -> None:
    assert "usageDBConfig" in at("schedulingshards.kai.scheduler", "spec")["properties"]
    assert "GOGC" in at("configs.kai.scheduler", "spec.scheduler")["properties"]
    assert "k8sClientConfig" in at("configs.kai.scheduler", "spec.podGrouper")["properties"]
    assert {"receivedGPU", "selectedGPUGroups", "predictedNUMAZones"} <= at("bindrequests.scheduling.run.ai", "spec")[
        "properties"
    ].keys()


@pytest.mark.parametrize("text", ["1", "500m", "1.5Gi", ".5", "5.", "1e3", "1E-3", "-4k", "x", "1 Gi", "1Gib", ""])
def test_the_pattern_of_quantities_agrees_with_the_parser(text: str) -> None:
    try:
        parse_quantity(text)
        valid = True
    except QuantityError:
        valid = False
    assert bool(re.fullmatch(QUANTITY_PATTERN, text)) == valid


@pytest.mark.parametrize(
    "text", ["90s", "1h30m", "1.5h", ".5s", "5.s", "-1s", "+2us", "3µs", "0", "-0", "1", "1d", "1 h", "h", ".s", "s1"]
)
def test_the_pattern_of_durations_agrees_with_the_parser(text: str) -> None:
    try:
        parse_duration(text)
        valid = True
    except ValueError:
        valid = False
    assert bool(re.fullmatch(DURATION_PATTERN, text)) == valid


def test_durations_are_checked_by_the_api_server() -> None:
    for name, fields in (
        ("queues.scheduling.run.ai", ("preemptMinRuntime", "reclaimMinRuntime")),
        ("podgroups.scheduling.run.ai", ("preemptionDelay", "stalenessGracePeriod")),
    ):
        for field in fields:
            form, length = at(name, f"spec.{field}")["x-kubernetes-validations"]
            assert DURATION_PATTERN in form["rule"]
            assert "duration(self) <= duration('87600h')" in length["rule"]


def test_a_queue_cannot_be_its_own_parent() -> None:
    (rule,) = schema_of("queues.scheduling.run.ai")["x-kubernetes-validations"]
    assert rule["fieldPath"] == ".spec.parentQueue"


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("rack", True),
        ("k8s.io/rack", True),
        ("a.b-c.d/X_y.z", True),
        ("/rack", False),
        ("A.b/rack", False),
        ("rack-", False),
    ],
)
def test_the_pattern_of_label_keys(key: str, valid: bool) -> None:
    assert bool(re.fullmatch(LABEL_KEY_PATTERN, key)) == valid


def test_a_field_with_two_types_cannot_be_generated() -> None:
    class Ambiguous(Model):
        value: int | list[int]

    with pytest.raises(TypeError, match="give the field one type"):
        structural(Ambiguous)


def test_models_say_which_fields_they_do_not_know() -> None:
    found = queue.QueueSpec.model_validate_json('{"resources": {"gpu": {"qouta": 1}}, "x": {}}')
    assert [path for path, _ in found.unknown_fields("spec")] == ["spec.x", "spec.resources.gpu.qouta"]
