"""The generator of hostile objects leaves nothing out: each field, label and annotation that is read is in it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest
from pydantic import BaseModel

import kai_sched
from kai_sched.api import core, names
from kai_sched.api.custom import Model
from kai_sched.operator.intake.sources import SOURCES
from tests.properties.hostile_wire import (
    ANNOTATIONS,
    CUSTOM,
    LABELS,
    RAW,
    READERS,
    Leaf,
    Part,
    put,
    schema_of,
    sites,
    whole,
)
from tests.properties.hostile_world import BASES

# Wire structs that are no part of an object of these kinds, and where else they are fed nonsense.
ELSEWHERE = {
    "Header": "files: any document",
    "CustomObject": "the models in CUSTOM, in its place",
    "OwnerObject": "test_hostile_grouping",
    "KindDefault": "test_hostile_grouping",
    "KindRule": "test_hostile_grouping",
    "Spec": "a scenario file",
    "Document": "a scenario file",
    "_Spec": "test_hostile_files",
    "_Scheduled": "test_hostile_files",
    "_Head": "test_hostile_files",
    "_ServerMeta": "test_hostile_files",
    "_Suspendable": "test_hostile_files",
    "_WorkloadSpec": "test_hostile_files",
    "_Ephemeral": "test_hostile_files",
    "_ClaimTemplate": "test_hostile_files",
    "_Volume": "test_hostile_files",
    "_BoundedSpec": "test_hostile_files",
    "_BoundedStatus": "test_hostile_files",
    "_DeletedMeta": "test_hostile_files",
    "_Metadata": "test_dumps",
    "_Document": "test_dumps",
    "_DumpHead": "test_dumps",
    "ResourceAmounts": "test_hostile_takeover",
    "FlavorAmounts": "test_hostile_takeover",
    "ResourceGroup": "test_hostile_takeover",
    "FairSharing": "test_hostile_takeover",
    "KueueSpec": "test_hostile_takeover",
    "KueueMeta": "test_hostile_takeover",
    "KueueObject": "test_hostile_takeover",
    "UsageMap": "test_past_usage",
    "WirePlacement": "tests/unit/model/read/test_numa.py",
    "_AccountsMap": "test_usage_accounts",
    "_User": "an answer of the API server",
    "_TokenStatus": "an answer of the API server",
    "_AccessStatus": "an answer of the API server",
    "_ConfigMap": "one of texts only, as the API server sees to",
    "SchedulerFile": "the scheduler's config file",
    "Tier": "the scheduler's config file",
    "FilePlugin": "the scheduler's config file",
}


def subclasses(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


def known_structs() -> dict[str, set[str]]:
    """The wire structs and models of all modules, and their fields as they are on the wire."""
    for module in pkgutil.walk_packages(kai_sched.__path__, "kai_sched."):
        if not module.name.startswith(("kai_sched.solver", "kai_sched.snapshot")):
            importlib.import_module(module.name)
    found = {each.__name__: {one.encode_name for one in msgspec.structs.fields(each)} for each in subclasses(core.Wire)}
    for model in subclasses(Model):
        assert issubclass(model, BaseModel)
        if not model.__subclasses__():  # else its fields are those of what is made of it
            found[model.__name__] = {one.alias or name for name, one in model.model_fields.items()}
    return found


def covered() -> dict[str, set[str]]:
    """The fields of each struct that objects are put hostile values into."""
    found: dict[str, set[str]] = {}
    for kind in READERS:
        for site in sites(schema_of(kind)):
            struct, dot, _ = site.node.owner.partition(".")
            if dot and isinstance(site.path[-1], str):
                found.setdefault(struct, set()).add(site.path[-1])
    return found


def missing(known: dict[str, set[str]], reached: dict[str, set[str]]) -> dict[str, set[str]]:
    """The fields of structs whose fields are no places. What two structs call the same is one place."""
    everywhere = set().union(*reached.values())
    found = {}
    for struct, fields in known.items():
        if struct not in ELSEWHERE:
            left = fields - (reached.get(struct, set()) if not struct.startswith("_") else everywhere)
            if left:
                found[struct] = left
    return found


def test_every_field_of_every_wire_struct_is_covered() -> None:
    assert missing(known_structs(), covered()) == {}


def test_a_field_that_is_not_covered_is_found() -> None:
    known = known_structs()
    known["PodSpec"] = known["PodSpec"] | {"hostPID"}
    known["Novelty"] = {"name"}
    assert missing(known, covered()) == {"PodSpec": {"hostPID"}, "Novelty": {"name"}}


def test_every_undecoded_part_has_a_type() -> None:
    raw = {str(site.node.owner) for kind in READERS for site in sites(schema_of(kind)) if _is_raw(site.node)}
    assert raw - set(RAW) - {"CustomObject.status"} == set(), "say in RAW what the part holds"


def _is_raw(node: object) -> bool:
    return isinstance(node, Leaf) and node.kind == "raw"


def test_every_kind_that_is_fed_has_objects() -> None:
    fed = {source.kind[1] for source in SOURCES}
    assert fed <= {content["kind"] for content in BASES.values()}
    assert set(CUSTOM) <= set(READERS)


def test_every_label_and_annotation_that_is_read_is_drawn() -> None:
    constants = {name: value for name, value in vars(names).items() if isinstance(value, str)}
    keys = {
        value
        for name, value in constants.items()
        if name.endswith(("_LABEL", "_ANNOTATION")) or name in ("GPU_GROUPS_PREFIX", "MIG_PREFIX")
    }
    assert keys - set(LABELS) - set(ANNOTATIONS) == set()


@pytest.mark.parametrize("kind", sorted(READERS))
def test_a_value_lands_where_it_was_meant_to(kind: str) -> None:
    node = schema_of(kind)
    sane = whole(node)
    assert isinstance(node, Part)
    for site in sites(node):
        changed = put({}, sane, site.path, "here")
        for step in site.path:
            changed = changed[step]
        assert changed == "here", site
