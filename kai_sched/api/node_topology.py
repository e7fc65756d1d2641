"""Structs of NodeResourceTopology (topology.node.k8s.io/v1alpha2): only the fields that are read, decoded from JSON by
msgspec.

An agent on each node writes one for it. Unlike in most kinds, its fields are not below ``spec``.
"""

from __future__ import annotations

from kai_sched.api.core import Meta, Quantity, Wire


class TopologyAttribute(Wire):
    name: str | None = None
    value: str | None = None


class ZoneResource(Wire):
    name: str | None = None
    allocatable: Quantity | None = None
    available: Quantity | None = None


class WireZone(Wire):
    name: str | None = None
    type: str | None = None
    resources: list[ZoneResource] | None = None


class WireNodeTopology(Wire):
    """``topology_policies`` is how older agents say policy and scope, in one word."""

    metadata: Meta | None = None
    topology_policies: list[str] | None = None
    attributes: list[TopologyAttribute] | None = None
    zones: list[WireZone] | None = None


class WirePlacement(Wire):
    """What a pod holds of one NUMA zone, as annotations of the pod say it."""

    zone: str | None = None
    amount: dict[str, Quantity] | None = None
