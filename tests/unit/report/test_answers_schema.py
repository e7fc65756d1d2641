"""docs/answers.schema.json: made from the code, with a description for every field; all answers follow it, and what
does not is found.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, ValidationError

import kai_sched
from kai_sched import Cluster, Config, run_cycle
from kai_sched.api import names
from kai_sched.cycle.world.pods import World, advance, settled_states
from kai_sched.model import objects as o
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.store import Store
from kai_sched.report.json import Cycle, cycle_document, document, encode
from tests.answers_schema import DOCUMENTS, descriptions, render
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.shares import Sharing
from tests.scenarios.objects import NOW_NS as SCENARIO_NOW_NS
from tests.scenarios.table import Scenario, blocks
from tests.tree import ROOT
from tests.unit.cli.command import run

FILE = ROOT / "docs" / "answers.schema.json"
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
SCENARIOS = dict(blocks(ROOT / "tests" / "scenarios"))
TEAMS = ROOT / "examples" / "teams"
SHARING = ROOT / "examples" / "gpu-sharing"
INPUTS = {
    "teams": [TEAMS],
    "raycluster": [ROOT / "examples" / "raycluster.yaml"],
    "rayservice": [ROOT / "examples" / "rayservice.yaml"],
    "parts": [SHARING / "config.yaml", SHARING / "pods.yaml"],
    "half-gpu": [SHARING / "config.yaml", SHARING / "raycluster.yaml"],
    "claims": [SHARING / "claims.yaml"],
    **{path.stem: [SHARING / "config.yaml", path] for path in sorted((ROOT / "tests" / "decisions").glob("*.yaml"))},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one-more", "namespace": "ml-team-a", "labels": {"kai.scheduler/queue": "team-a"}},
    "spec": {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
    },
}


def check(text: bytes) -> None:
    """Raise ValidationError for a document that does not follow the schema."""
    VALIDATOR.validate(json.loads(text))


def test_the_file_is_made_from_the_code() -> None:
    assert FILE.read_text() == render()
    Draft202012Validator.check_schema(SCHEMA)


def test_the_kinds_of_answers_are_known_where_files_are_read() -> None:
    tops = [{each.name: each.default for each in msgspec.structs.fields(top)} for top in DOCUMENTS]
    assert {top["kind"] for top in tops} == names.ANSWER_KINDS
    assert {top["api_version"] for top in tops} == {names.ANSWER_VERSION}


def test_every_field_is_described_and_no_other_key_is_allowed() -> None:
    assert len(SCHEMA["oneOf"]) == len(DOCUMENTS) == 5
    for name, definition in SCHEMA["$defs"].items():
        assert definition["additionalProperties"] is False, name
        assert definition["description"].endswith("."), name
        for field, found in definition["properties"].items():
            assert found["description"].endswith("."), f"{name}.{field}"
            assert set(definition["required"]) <= definition["properties"].keys()


def test_docstrings_describe_fields_that_are_there() -> None:
    for cls in DOCUMENTS:
        assert descriptions(cls)[1].keys() == set(cls.__struct_fields__)


def answers(name: str) -> Iterator[dict[str, Any]]:
    """The answers to all questions about an input."""
    cluster = kai_sched.load(INPUTS[name])
    found = cluster.simulate(cycles=2)
    yield found.to_dict()
    for each in found.waiting[:2]:
        yield cluster.explain(each.workloads[0].group).to_dict()
    node = next(iter(found.nodes))
    yield cluster.diff(cluster.with_nodes(2, like=node).drain(node)).to_dict()
    yield cluster.fit(POD).to_dict()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kai_sched.InputWarning")
@pytest.mark.parametrize("name", INPUTS)
def test_answers_about_files_follow_the_schema(name: str) -> None:
    kinds = set()
    for each in answers(name):
        check(encode(each))
        kinds.add(each["kind"])
    assert {"Simulation", "Difference", "FitList"} <= kinds


def simulation(cluster: Cluster, config: Config, now_ns: int, hints: SchedulingHints, plain: bool) -> bytes:
    result = run_cycle(cluster, config, now_ns, hints=hints)
    store = Store.of(cluster)
    advance(store, cluster, result, now_ns, World())
    settled = settled_states(result, store.cluster())
    found = cycle_document(Cycle(cluster, result, settled, now_ns), config if plain else None)
    return encode(document("a.yaml", "cluster", [found], [] if plain else None))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_scenarios_follow_the_schema(scenario: Scenario) -> None:
    hints = SchedulingHints(pipelined_free=scenario.pipelined_free)
    cluster, config = Cluster.of(scenario.objects), scenario.config()
    for plain in (False, True):
        check(simulation(cluster, config, SCENARIO_NOW_NS, hints, plain))


@given(clusters(Spice(pod_affinity=True, bind_requests=True, sharing=Sharing())))
def test_random_clusters_follow_the_schema(objects: list[o.Object]) -> None:
    check(simulation(Cluster.of(objects), Config(), NOW_NS, SchedulingHints(), True))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside of this one."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def test_what_does_not_follow_the_schema_is_found() -> None:
    """Another type in any place, a key that is not there, and a key too many, each in a hundred places."""
    whole = kai_sched.load(TEAMS).explain("llama-pretraining").to_dict()
    rng = random.Random(1)
    inside = list(places(whole))
    for path in rng.sample(inside, min(100, len(inside))):
        broken = copy.deepcopy(whole)
        holder = broken
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = {"surely": ["not", "this"]}
        with pytest.raises(ValidationError):
            check(encode(broken))
    for key in whole:
        with pytest.raises(ValidationError):
            check(encode({name: value for name, value in whole.items() if name != key}))
    with pytest.raises(ValidationError):
        check(encode({**whole, "anotherKey": 1}))


@pytest.mark.slow
def test_the_command_line_prints_what_the_library_gives() -> None:
    done = run("simulate", "examples/teams", "-o", "json")
    check(done.stdout.encode())
    found = kai_sched.load(TEAMS).simulate().to_dict()
    assert json.loads(done.stdout) == json.loads(encode(found)) | {"file": "examples/teams/namespaces.yaml"}
