"""Offline, which ResourceClaims are made from ResourceClaimTemplates for pods, as the controller of Kubernetes would.

A claim is named after its pod and the claim in the pod, and the status of the pod refers to it. Pods whose status has
an entry for the claim already are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kai_sched.api import core, names
from kai_sched.files.items import Item
from kai_sched.model.field_errors import FieldError, decode_part
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import POD, RESOURCE_CLAIM
from kai_sched.model.read.meta import DEFAULT_NAMESPACE

TEMPLATE = (names.DRA_VERSION, "ResourceClaimTemplate")


class _Template(core.Wire):
    metadata: core.Meta | None = None
    spec: dict[str, Any] | None = None


_template = msgspec.json.Decoder(_Template)
_pod = msgspec.json.Decoder(core.WirePod)
_anything = msgspec.json.Decoder(dict[str, Any])


def with_claims(items: Sequence[Item], problems: list[Problem]) -> list[Item]:
    """The items without the templates, with the claims that are made from them."""
    templates: dict[tuple[str, str], dict[str, Any]] = {}
    rest: list[Item] = []
    for item in items:
        if item.kind != TEMPLATE:
            rest.append(item)
            continue
        try:
            found = decode_part(_template, item.raw, "")
        except FieldError as error:
            problems.append(Problem(str(item.source), item.subject, error.field, error.message, fatal=True))
            continue
        meta = found.metadata or core.Meta()
        templates[meta.namespace or DEFAULT_NAMESPACE, meta.name or ""] = found.spec or {}
    made: list[Item] = []
    for place, item in enumerate(rest):
        if item.kind == POD and b"resourceClaimTemplateName" in bytes(item.raw):
            rest[place] = _serve(item, templates, made, problems)
    return rest + made


def _serve(
    item: Item, templates: dict[tuple[str, str], dict[str, Any]], made: list[Item], problems: list[Problem]
) -> Item:
    """The pod with the claims that were made for it in its status; the claims are added to ``made``."""
    try:
        pod = decode_part(_pod, item.raw, "")
    except FieldError:
        return item  # its reader reports the error
    meta, status = pod.metadata or core.Meta(), pod.status or core.PodStatus()
    namespace = meta.namespace or DEFAULT_NAMESPACE
    given = status.resource_claim_statuses or ()
    statuses = [{"name": each.name, "resourceClaimName": each.resource_claim_name} for each in given]
    known = {each["name"] for each in statuses}
    for i, each in enumerate((pod.spec or core.PodSpec()).resource_claims or ()):
        if not each.resource_claim_template_name or each.name in known:
            continue
        template = templates.get((namespace, each.resource_claim_template_name))
        if template is None:
            message = f"there is no ResourceClaimTemplate {namespace}/{each.resource_claim_template_name}: add it"
            field = f"spec.resourceClaims[{i}].resourceClaimTemplateName"
            problems.append(Problem(str(item.source), item.subject, field, message))
            continue
        name = f"{meta.name}-{each.name}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid or "", "controller": True}
        of_template = template.get("metadata") or {}
        claim = {
            "apiVersion": names.DRA_VERSION,
            "kind": "ResourceClaim",
            "metadata": {**of_template, "name": name, "namespace": namespace, "ownerReferences": [owner]},
            "spec": template.get("spec") or {},
        }
        made.append(Item(item.source, RESOURCE_CLAIM, msgspec.json.encode(claim)))
        statuses.append({"name": each.name, "resourceClaimName": name})
    content = _anything.decode(item.raw)
    content["status"] = {**(content.get("status") or {}), "resourceClaimStatuses": statuses}
    return Item(item.source, item.kind, msgspec.json.encode(content))
