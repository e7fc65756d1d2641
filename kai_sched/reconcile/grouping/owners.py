"""The owners of a pod up to its workload: which are followed, how many, and which pods ask for no group (API 4.1, 4.2).

The grouper and the reader of files call ``resolve``. Invariant: a reference that no object can have is never looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kai_sched.api import core, legal, names
from kai_sched.api.custom import LABEL_KEY_LENGTH
from kai_sched.model.field_errors import FieldError, decode_part
from kai_sched.model.objects import NO_LABELS
from kai_sched.model.read.meta import namespace_of
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.workload_errors import GroupingError, OwnerGone

POD_VERSION = "v1"
# No chain is this long; a longer one goes round in a circle.
CHAIN_MAX = 32
_REMEDY = "delete the object, or make it anew with an owner that is there"
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]*", re.ASCII)

_workload = msgspec.json.Decoder(core.OwnerObject)


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """An object to look up; with ``whole`` including its spec and status, otherwise its metadata."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""  # empty where only the name is known
    whole: bool = False

    @property
    def subject(self) -> str:
        """Such as "RayCluster ml/train"."""
        return f"{self.kind} {self.namespace}/{self.name}"


# Returns the object, or None if no object has that name. Raises PermissionError if the object may not be read. Other
# exceptions pass through the rules. So a Fetch may raise one for an object that is not read yet; the caller reads the
# object and calls the rule again.
Fetch = Callable[[ObjectReference], "Owner | None"]


@dataclass(frozen=True, slots=True)
class Owner:
    """An object on the way from a pod to its workload. ``body`` is empty if only metadata was fetched.

    ``derived`` is what rules have computed of the body alone, by a key of theirs: pods of one owner need it one by one.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    references: tuple[ObjectReference, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    derived: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def subject(self) -> str:
        """Such as "RayCluster ml/train"."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def group(self) -> str:
        """The API group; empty for core."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The API version without its group."""
        return self.api_version.rpartition("/")[2]

    @property
    def fields(self) -> Fields:
        """The fields beside the metadata."""
        return Fields(self.subject, "", self.body)

    def reference(self, whole: bool = False) -> ObjectReference:
        """The reference of the object itself."""
        return ObjectReference(self.api_version, self.kind, self.namespace, self.name, self.uid, whole)

    def error(self, field: str, message: str) -> GroupingError:
        """Return the error for a field of the object."""
        return GroupingError(self.subject, field, message)


def read_owner(raw: bytes, reference: ObjectReference) -> Owner:
    """Return the object that was fetched for ``reference``, whole or its metadata alone. Raises GroupingError."""
    try:
        wire = decode_part(_workload, raw, "")
    except FieldError as error:
        raise GroupingError(reference.subject, error.field, error.message) from None
    body = {name: part for name, part in (("spec", wire.spec), ("status", wire.status)) if part is not None}
    for name, part in body.items():
        if not isinstance(part, dict):
            raise GroupingError(reference.subject, name, "expected a mapping: correct the value")
    found = _owner(wire.metadata or core.Meta(), reference.api_version, reference.kind, reference.namespace)
    return replace(found, name=found.name or reference.name, uid=found.uid or reference.uid, body=body)


def owner_of_pod(pod: core.WirePod) -> Owner:
    """Return the pod as an object like its owners, with an empty ``body``."""
    meta = pod.metadata or core.Meta()
    return _owner(meta, POD_VERSION, "Pod", namespace_of(meta))


def _owner(meta: core.Meta, api_version: str, kind: str, namespace: str) -> Owner:
    references = tuple(
        ObjectReference(each.api_version or "", each.kind or "", namespace, each.name or "", each.uid or "")
        for each in meta.owner_references or ()
        if not _is_kubernetes_group(each)
    )
    labels, annotations = meta.labels or NO_LABELS, meta.annotations or NO_LABELS
    return Owner(api_version, kind, namespace, meta.name or "", meta.uid or "", labels, annotations, references)


@dataclass(frozen=True, slots=True)
class Chain:
    """The owners of a pod that may be read, nearest first, and whether one of them or the pod asks for no group."""

    owners: tuple[Owner, ...]
    skips: bool


def _is_kubernetes_group(reference: core.OwnerReference) -> bool:
    """Whether a PodGroup of Kubernetes itself is referred to. A controller may add it to the owners of the pods, so
    that these go with it; the workload is the other owner."""
    return reference.kind == names.KUBERNETES_GROUP[1] and (reference.api_version or "").startswith(
        f"{names.KUBERNETES_GROUPS}/"
    )


def named_group(spec: core.PodSpec | None) -> str:
    """The PodGroup of Kubernetes itself (scheduling.k8s.io) that a pod names in its spec; empty for none."""
    group = None if spec is None else spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


def wants_group(pod: core.WirePod, scheduler_name: str) -> bool:
    """Return whether the pod is to be grouped, as far as the pod itself says (4.1)."""
    meta, spec = pod.metadata or core.Meta(), pod.spec or core.PodSpec()
    annotations = meta.annotations or NO_LABELS
    if spec.scheduler_name != scheduler_name or annotations.get(names.SKIP_GROUPER_ANNOTATION) == "true":
        return False
    is_named = bool(annotations.get(names.POD_GROUP_ANNOTATION))
    return bool(meta.owner_references) or bool(named_group(spec)) or not is_named


def is_spark(pod: core.WirePod) -> bool:
    """Return whether the pod belongs to a Spark application, whose pods share a group even without an owner."""
    labels = (pod.metadata or core.Meta()).labels or NO_LABELS
    return names.SPARK_SELECTOR_LABEL in labels and names.SPARK_NAME_LABEL in labels


def check_reference(owned: Owner, reference: ObjectReference) -> None:
    """Raises GroupingError if no object can have the name or the kind that ``owned`` refers to."""
    field = "metadata.ownerReferences[0]"
    if fault := legal.version_fault(reference.api_version):
        raise owned.error(f"{field}.apiVersion", f"the owner's apiVersion is impossible: {fault}; {_REMEDY}")
    if len(reference.kind) > LABEL_KEY_LENGTH or not _KIND.fullmatch(reference.kind):
        raise owned.error(f"{field}.kind", f"the owner's kind is impossible: {legal.shown(reference.kind)}; {_REMEDY}")
    if fault := legal.name_fault(reference.api_version, reference.name):
        raise owned.error(f"{field}.name", f"the owner's name is impossible: {fault}; {_REMEDY}")


def resolve(pod: core.WirePod, fetch: Fetch) -> Chain:
    """Return the owners of the pod, up to the top or to the first that may not be read. Metadata is enough.

    Raises GroupingError if an owner is gone, is another object of the same name, or has several owners itself.
    """
    here = owner_of_pod(pod)
    skips = here.annotations.get(names.SKIP_GROUPER_ANNOTATION) == "true"
    owners: list[Owner] = []
    while here.references:
        reference = here.references[0]
        check_reference(here, reference)
        try:
            found = fetch(reference)
        except PermissionError:
            break
        place = "metadata.ownerReferences[0]"
        if found is None or found.uid != reference.uid:
            what = "there is none" if found is None else f"the one there has the uid {found.uid!r}"
            uid = legal.shown(reference.uid)
            message = f"{reference.subject} with the uid {uid} owns it, but {what}: delete the object"
            raise OwnerGone(here.subject, place, f"{message}, or make it anew")
        if len(found.references) > 1:
            several = ", ".join(each.subject for each in found.references)
            raise found.error("metadata.ownerReferences", f"several owners ({several}): leave one of them")
        owners.append(found)
        if len(owners) > CHAIN_MAX:
            raise here.error(place, f"more than {CHAIN_MAX} owners above each other: they go round in a circle; cut it")
        skips = skips or found.annotations.get(names.SKIP_GROUPER_ANNOTATION) == "true"
        here = found
    return Chain(tuple(owners), skips)
