"""Whatever stands in an object of another scheduler: ``doctor`` and ``convert-kueue`` say something of it and go on."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from kai_sched.cli.migration.convert import convert_kueue
from kai_sched.cli.migration.kueue_objects import (
    FairSharing,
    FlavorAmounts,
    KueueMeta,
    KueueObject,
    KueueSpec,
    ResourceAmounts,
    ResourceGroup,
)
from kai_sched.cli.migration.takeover import takeover_of_files
from tests.properties.hostile_values import BY_KIND, DIGITS, encode, shown, wrong_types
from tests.tree import ROOT

EXAMPLES = ROOT / "examples/from-elsewhere"
FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
IMAGE = ("spec", "template", "spec", "containers", 0, "image")

Place = tuple[str | int, ...]
hostile = wrong_types | st.one_of(*BY_KIND.values()) | st.sampled_from(DIGITS).map("r/kai-scheduler/a:v{}.1.0".format)


def objects(name: str) -> list[Any]:
    """The objects of an example, those of a List by themselves."""
    found = [each for each in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()) if each]
    return [item for each in found for item in (each["items"] if each.get("kind") == "List" else [each])]


def paths(node: Any, above: Place = ()) -> Iterator[Place]:
    """The path of every value below the node, but those that say what kind of object it is."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        path = (*above, key)
        if path not in {("apiVersion",), ("kind",)}:
            yield path
            yield from paths(value, path)


def put(node: Any, path: Place, value: Any) -> None:
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value


# What earlier versions call the queue above, which the example does not show.
OLD_FIELDS = [
    {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": kind,
        "metadata": {"name": f"old-{field}"},
        "spec": {field: "above"},
    }
    for kind, field in (("ClusterQueue", "cohort"), ("Cohort", "parent"), ("Cohort", "parentName"))
]
WORLDS = {name: objects(name) for name in ("kai", "kueue", "volcano", "yunikorn")}
WORLDS["kueue"] += OLD_FIELDS
PLACES = [
    (name, number, path) for name, found in WORLDS.items() for number, each in enumerate(found) for path in paths(each)
]
FIRST_DEPLOYMENT = next(number for number, each in enumerate(WORLDS["kai"]) if each["kind"] == "Deployment")


def test_every_field_of_kueue_that_is_read_is_changed() -> None:
    structs = (KueueObject, KueueMeta, KueueSpec, ResourceGroup, FlavorAmounts, ResourceAmounts, FairSharing)
    read = {one.encode_name for each in structs for one in msgspec.structs.fields(each)}
    assert read - {path[-1] for name, _, path in PLACES if name == "kueue"} == set()


@FIXTURES
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), hostile), min_size=1, max_size=3))
@example(changes=[(("kai", FIRST_DEPLOYMENT, IMAGE), f"r/kai-scheduler/a:v{'9' * 5000}.1.0")])
@example(changes=[(("kai", FIRST_DEPLOYMENT, IMAGE), f"r/kai-scheduler/a:v1.1.0-{'9' * 5000}")])
def test_whatever_stands_in_an_object_something_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: list[tuple[tuple[str, int, Place], Any]]
) -> None:
    world = changes[0][0][0]
    items = copy.deepcopy(WORLDS[world])
    for (name, number, path), value in changes:
        note(f"{name} {number} {path}: {shown(value)}")
        try:
            if name == world:
                put(items[number], path, value)
        except (TypeError, IndexError, KeyError):
            pass  # an earlier change took the place away
    file = tmp_path / "objects.json"
    file.write_bytes(b"[" + b",".join(map(encode, items)) + b"]")

    assert takeover_of_files([str(file)])
    if world == "kueue":
        convert_kueue([str(file)], None)
        capfd.readouterr()
