"""Topology, kai.scheduler/v1alpha1 (API 1.5): the fields of its CRD, and the validation rules for its levels."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kai_sched.api.custom import LABEL_KEY_LENGTH, LABEL_KEY_PATTERN, Model, schema

LEVELS_MAX = 16
_KEY = {"minLength": 1, "maxLength": LABEL_KEY_LENGTH, "pattern": LABEL_KEY_PATTERN}
_HOST = "'kubernetes.io/hostname'"
_RULES = [
    {
        "rule": "self.map(l, l.nodeLabel) == oldSelf.map(l, l.nodeLabel)",
        "message": "the node labels of the levels cannot be changed",
    },
    {
        "rule": "self.all(l, self.exists_one(other, other.nodeLabel == l.nodeLabel))",
        "message": "the node labels of the levels must be unique",
    },
    {
        "rule": f"self.all(l, l.nodeLabel != {_HOST}) || self[size(self) - 1].nodeLabel == {_HOST}",
        "message": "kubernetes.io/hostname can only be the last level",
    },
    {
        "rule": "self.all(l, !has(l.alias) || self.exists_one(other, has(other.alias) && other.alias == l.alias))",
        "message": "aliases must be unique",
    },
    {
        "rule": "self.all(l, !has(l.alias) || self.all(other, other.nodeLabel != l.alias))",
        "message": "an alias must differ from all node labels of the topology",
    },
]


class TopologyLevel(Model):
    required_fields = ("nodeLabel",)

    node_label: Annotated[str, schema(**_KEY)] = Field(description="Label of nodes whose value names the domain.")
    alias: Annotated[str | None, schema(**_KEY)] = Field(None, description="Another name for the level.")


class TopologySpec(Model):
    required_fields = ("levels",)

    levels: Annotated[
        list[TopologyLevel],
        schema(
            minItems=1, maxItems=LEVELS_MAX, **{"x-kubernetes-list-type": "atomic", "x-kubernetes-validations": _RULES}
        ),
    ] = Field(description="From the widest to the narrowest.")


class TopologyManifest(Model):
    """How the nodes of a cluster are grouped into racks, blocks and zones."""

    required_fields = ("spec",)

    spec: TopologySpec
