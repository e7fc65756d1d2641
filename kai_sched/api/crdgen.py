"""The CRDs made from the models of this package: plural and short names, printer columns of ``kubectl get``, and the
schema in the form that the API server accepts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kai_sched.api import bindrequest, config, names, podgroup, queue, shard, topology
from kai_sched.api.custom import QUANTITY_PATTERN, Model

Schema = dict[str, Any]
Column = tuple[str, str, str, int]  # name, type, path, priority


class ColumnPriority(enum.IntEnum):
    """Whether kubectl shows a column always, or with `-o wide` only."""

    ALWAYS = 0
    WIDE = 1


ALWAYS = int(ColumnPriority.ALWAYS)
WIDE = int(ColumnPriority.WIDE)

# Words of a JSON schema that a structural schema knows. Titles, defaults and references are not among them.
_KEPT = (
    "type",
    "format",
    "description",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "nullable",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)


@dataclass(frozen=True, slots=True)
class Definition:
    model: type[Model]
    api_version: str
    plural: str
    namespaced: bool = False
    has_status: bool = True
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()

    @property
    def kind(self) -> str:
        """The kind on the wire; the models of whole objects are named after it."""
        return self.model.__name__.removesuffix("Manifest")

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.api_version.split('/')[0]}"


def _resource_columns(title: str, resource: str, key: str, wide: bool = False) -> tuple[Column, ...]:
    """Printer columns of one resource of a queue: quota, fair share, allocated and requested."""
    priority = WIDE if wide else ALWAYS
    return (
        (f"{title}-Quota", "number", f".spec.resources.{resource}.quota", priority),
        (f"{title}-Fair-Share", "string", f".status.fairShare.{key}", priority),
        (f"{title}-Allocated", "string", f".status.allocated.{key}", priority),
        (f"{title}-Requested", "string", f".status.requested.{key}", priority),
    )


_AGE: Column = ("Age", "date", ".metadata.creationTimestamp", ALWAYS)
# The original's columns come first, in its order; what follows is ours.
DEFINITIONS = (
    Definition(
        queue.QueueManifest,
        names.QUEUE_VERSION,
        "queues",
        columns=(
            ("Priority", "string", ".spec.priority", ALWAYS),
            ("Parent", "string", ".spec.parentQueue", ALWAYS),
            ("Children", "string", ".status.childQueues", ALWAYS),
            ("DisplayName", "string", ".spec.displayName", ALWAYS),
            *_resource_columns("GPU", "gpu", "nvidia\\.com/gpu"),
            *_resource_columns("CPU", "cpu", "cpu", wide=True),
            *_resource_columns("Memory", "memory", "memory", wide=True),
        ),
    ),
    Definition(
        podgroup.PodGroupManifest,
        names.POD_GROUP_VERSION,
        "podgroups",
        namespaced=True,
        short_names=("pg",),
        columns=(
            _AGE,
            ("Queue", "string", ".spec.queue", ALWAYS),
            ("Min-Member", "integer", ".spec.minMember", ALWAYS),
            ("GPU-Requested", "string", ".status.resourcesStatus.requested.nvidia\\.com/gpu", ALWAYS),
            ("GPU-Allocated", "string", ".status.resourcesStatus.allocated.nvidia\\.com/gpu", ALWAYS),
            ("Pending-Reason", "string", ".status.schedulingConditions[-1:].reasons[0].reason", ALWAYS),
            ("Priority-Class", "string", ".spec.priorityClassName", WIDE),
            ("Message", "string", ".status.schedulingConditions[-1:].message", WIDE),
        ),
    ),
    Definition(bindrequest.BindRequestManifest, names.BIND_REQUEST_VERSION, "bindrequests", namespaced=True),
    Definition(topology.TopologyManifest, names.TOPOLOGY_VERSION, "topologies", has_status=False),
    Definition(config.ConfigManifest, names.CONFIG_VERSION, "configs"),
    Definition(shard.SchedulingShardManifest, names.CONFIG_VERSION, "schedulingshards"),
)


def custom_resource_definitions() -> dict[str, Schema]:
    """Every definition by the name of its file."""
    return {f"{definition.name}.yaml": _manifest(definition) for definition in DEFINITIONS}


def _manifest(definition: Definition) -> Schema:
    kind = definition.kind
    group, version = definition.api_version.split("/")
    served: Schema = {"name": version, "served": True, "storage": True}
    if definition.columns:
        served["additionalPrinterColumns"] = [
            {"name": name, "type": kind_of, "jsonPath": path, **({"priority": priority} if priority else {})}
            for name, kind_of, path, priority in definition.columns
        ]
    served["schema"] = {"openAPIV3Schema": _root(definition.model)}
    if definition.has_status:
        served["subresources"] = {"status": {}}
    kinds: Schema = {"kind": kind, "listKind": f"{kind}List", "plural": definition.plural, "singular": kind.lower()}
    if definition.short_names:
        kinds["shortNames"] = list(definition.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": {
            "group": group,
            "names": kinds,
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [served],
        },
    }


def _root(model: type[Model]) -> Schema:
    found = structural(model)
    found["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        **found["properties"],
    }
    return found


def structural(model: type[BaseModel]) -> Schema:
    """The model's schema with references put in place and only the words that the API server takes."""
    whole = model.model_json_schema(by_alias=True)
    models = {each.__name__: each for each in _models(model)}
    return _node(whole, whole.get("$defs", {}), models, model)


def _models(model: type[BaseModel]) -> list[type[Model]]:
    """All models below this one; their names are unique within one resource."""
    found: list[type[Model]] = []
    todo: list[Any] = [model]
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, type) and issubclass(each, Model):
            found.append(each)
            todo.extend(field.annotation for field in each.model_fields.values())
        todo.extend(getattr(each, "__args__", ()))
    return found


def _node(
    node: Schema, references: dict[str, Schema], models: dict[str, type[Model]], model: type[BaseModel] | None
) -> Schema:
    merged = dict(node)
    while "$ref" in merged:
        name = merged.pop("$ref").rsplit("/", 1)[1]
        model = models[name]
        merged = {**references[name], **merged}
    if "x-quantity" in merged or "x-int-or-string" in merged:
        return _int_or_string(merged)
    if "anyOf" in merged:
        choices = [choice for choice in merged.pop("anyOf") if choice.get("type") != "null"]
        if len(choices) != 1:
            raise TypeError(f"a structural schema cannot say {choices}: give the field one type")
        return _node({**choices[0], **merged}, references, models, model)
    if "const" in merged:
        merged["enum"] = [merged.pop("const")]
    found = {word: merged[word] for word in _KEPT if word in merged}
    if "exclusiveMinimum" in merged:
        # The API server writes open bounds as JSON schema did before its draft 6.
        found.update(minimum=merged["exclusiveMinimum"], exclusiveMinimum=True)
    if "items" in merged:
        found["items"] = _node(merged["items"], references, models, None)
    if "properties" in merged:
        found["properties"] = {
            name: _node(entry, references, models, None) for name, entry in sorted(merged["properties"].items())
        }
        _add_rules(found, model)
    elif isinstance(merged.get("additionalProperties"), dict):
        found["additionalProperties"] = _node(merged["additionalProperties"], references, models, None)
    if "type" not in found:
        raise TypeError(f"no type in {node}: a structural schema needs one everywhere")
    return found


def _int_or_string(node: Schema) -> Schema:
    found: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if "x-quantity" in node:
        found["pattern"] = QUANTITY_PATTERN
    if "description" in node:
        found["description"] = node["description"]
    return found


def _add_rules(found: Schema, model: type[BaseModel] | None) -> None:
    if model is None or not issubclass(model, Model):
        return
    if model.required_fields:
        found["required"] = list(model.required_fields)
    if model.rules:
        found["x-kubernetes-validations"] = [
            {"rule": rule, "message": message, **({"fieldPath": field} if field else {})}
            for rule, message, field in model.rules
        ]
