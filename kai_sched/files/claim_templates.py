"""Offline, which ResourceClaims are made from ResourceClaimTemplates for pods, as the controller of Kubernetes would.

A claim is named after its pod and the claim in the pod, and the status of the pod refers to it. Where the PodGroup of
Kubernetes that the pod names has the same claim, all its pods share one. Pods whose status has an entry for the claim
already are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from kai_sched.api import core, names
from kai_sched.files.items import Item
from kai_sched.model.field_errors import FieldError, decode_part
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import KUBERNETES_GROUP, POD, RESOURCE_CLAIM
from kai_sched.model.read.meta import DEFAULT_NAMESPACE

TEMPLATE = (names.DRA_VERSION, "ResourceClaimTemplate")


class _Template(core.Wire):
    metadata: core.Meta | None = None
    spec: dict[str, Any] | None = None


class _ClaimsOfGroup(core.Wire):
    resource_claims: list[core.WirePodClaim] | None = None


class _GroupWithClaims(core.Wire):
    metadata: core.Meta | None = None
    spec: _ClaimsOfGroup | None = None


# Claims of PodGroups: namespace, PodGroup, claim and template.
_Shared = frozenset[tuple[str, str, str, str]]


_group = msgspec.json.Decoder(_GroupWithClaims)
_template = msgspec.json.Decoder(_Template)
_pod = msgspec.json.Decoder(core.WirePod)
_anything = msgspec.json.Decoder(dict[str, Any])


def with_claims(items: Sequence[Item], given: Iterable[Item], problems: list[Problem]) -> list[Item]:
    """The items without the templates, with the claims that are made from them. ``given`` are all of the input, with
    the PodGroups of Kubernetes."""
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
    made: dict[tuple[str, str], Item] = {}
    shared = _shared(item for item in given if item.kind == KUBERNETES_GROUP)
    for place, item in enumerate(rest):
        if item.kind == POD and b"resourceClaimTemplateName" in bytes(item.raw):
            rest[place] = _serve(item, templates, shared, made, problems)
    return [*rest, *made.values()]


def _shared(groups: Iterable[Item]) -> _Shared:
    found = set()
    for item in groups:
        with suppress(FieldError):  # the rule of grouping reports it
            group = decode_part(_group, item.raw, "")
            meta = group.metadata or core.Meta()
            for each in (group.spec or _ClaimsOfGroup()).resource_claims or ():
                place = meta.namespace or DEFAULT_NAMESPACE, meta.name or ""
                found.add((*place, each.name or "", each.resource_claim_template_name or ""))
    return frozenset(found)


def _serve(
    item: Item,
    templates: dict[tuple[str, str], dict[str, Any]],
    shared: _Shared,
    made: dict[tuple[str, str], Item],
    problems: list[Problem],
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
    spec = pod.spec or core.PodSpec()
    group = (spec.scheduling_group or core.SchedulingGroup()).pod_group_name or ""
    for i, each in enumerate(spec.resource_claims or ()):
        if not each.resource_claim_template_name or each.name in known:
            continue
        template = templates.get((namespace, each.resource_claim_template_name))
        if template is None:
            message = f"there is no ResourceClaimTemplate {namespace}/{each.resource_claim_template_name}: add it"
            field = f"spec.resourceClaims[{i}].resourceClaimTemplateName"
            problems.append(Problem(str(item.source), item.subject, field, message))
            continue
        if (namespace, group, each.name, each.resource_claim_template_name) in shared:
            version, kind = KUBERNETES_GROUP
            owner = {"apiVersion": version, "kind": kind, "name": group, "uid": "", "controller": True}
        else:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid or "", "controller": True}
        name = f"{owner['name']}-{each.name}"
        of_template = template.get("metadata") or {}
        claim = {
            "apiVersion": names.DRA_VERSION,
            "kind": "ResourceClaim",
            "metadata": {**of_template, "name": name, "namespace": namespace, "ownerReferences": [owner]},
            "spec": template.get("spec") or {},
        }
        made.setdefault((namespace, name), Item(item.source, RESOURCE_CLAIM, msgspec.json.encode(claim)))
        statuses.append({"name": each.name, "resourceClaimName": name})
    content = _anything.decode(item.raw)
    content["status"] = {**(content.get("status") or {}), "resourceClaimStatuses": statuses}
    return Item(item.source, item.kind, msgspec.json.encode(content))
