"""The chart without Helm: its values have comments and a strict schema, its version is that of the project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from kai_sched import __version__
from kai_sched.operator import default_queues
from tests.chart_values import CHART, at, comments, ignored, values
from tests.tree import ROOT

SCHEMA = yaml.safe_load((CHART / "values.schema.json").read_text())
WITHOUT_EFFECT = "Accepted without effect."


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The path of each property that has no properties of its own, and its schema."""
    for key, inner in schema["properties"].items():
        own = f"{path}.{key}".lstrip(".")
        if "properties" in inner and own not in {"global.gpuMemoryReserve", "scheduler.minRuntime"}:
            yield from leaves(inner, own)
        else:
            yield own, inner


def test_its_versions_are_that_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_each_value_has_a_comment_and_a_place_in_the_schema() -> None:
    described = {path for path, _ in comments((CHART / "values.yaml").read_text())}
    known = dict(leaves(SCHEMA))
    accepted = {path for path, schema in known.items() if schema.get("description") == WITHOUT_EFFECT}
    assert described == known.keys() - accepted
    assert accepted == ignored().keys()


def test_its_values_fit_the_schema() -> None:
    jsonschema.validate(values(), SCHEMA)
    # Objects that a schema leaves open are those of Kubernetes and of our own kinds.
    closed = [path for path, schema in nested(SCHEMA) if schema.get("additionalProperties") is not False]
    assert closed == []


def nested(schema: dict[str, Any], path: str = "values") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema that has properties, with its path."""
    if "properties" in schema:
        yield path, schema
        for key, inner in schema["properties"].items():
            yield from nested(inner, f"{path}.{key}")


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("global.gpuSharing", "yes"),
        ("global.gpuSharingMode", "MPS"),
        ("scheduler.placementStrategy", "scatter"),
        ("scheduler.image.digest", "sha256:1"),
        ("replicas", 0),
        ("defaultQueue.parentResources", {"gpus": {}}),
        ("shards", [{"pool": "a100"}]),
        ("allShards", "yes"),
        ("global.fairShare", "both"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(path: str, wrong: object) -> None:
    content: dict[str, Any] = {"all": values()}
    folder, _, key = f"all.{path}".rpartition(".")
    at(content, folder)[key] = wrong
    with pytest.raises(jsonschema.ValidationError) as refused:
        jsonschema.validate(content["all"], SCHEMA)
    assert ".".join(str(part) for part in refused.value.absolute_path).startswith(path)


def test_its_default_queues_are_the_built_in_ones() -> None:
    given = values()["defaultQueue"]
    text = (ROOT / "kai_sched" / "operator" / "default_queues.yaml").read_text()
    parent, child = yaml.safe_load_all(text)
    assert default_queues.PATH.endswith("/queues")
    assert (parent["metadata"]["name"], parent["spec"]["resources"]) == (given["parentName"], given["parentResources"])
    assert (child["metadata"]["name"], child["spec"]["resources"]) == (given["childName"], given["childResources"])


def test_no_object_is_in_a_hook() -> None:
    texts = [path.read_text() for path in (CHART / "templates").rglob("*.*")]
    assert len(texts) > 10
    assert [text for text in texts if re.search(r"helm\.sh/hook\b", text)] == []
