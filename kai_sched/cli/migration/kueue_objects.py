"""The objects of Kueue as they are on the wire (v1beta1, v1beta2): the parts that have a meaning in a Queue."""

from __future__ import annotations

from typing import Any

import msgspec

from kai_sched.api.core import Quantity, Wire
from kai_sched.cli.migration.found import KUEUE
from kai_sched.files.items import Item
from kai_sched.model.field_errors import FieldError, decode_part

VERSIONS = {
    "Cohort": frozenset({"v1alpha1", "v1beta1", "v1beta2"}),
    "ClusterQueue": frozenset({"v1beta1", "v1beta2"}),
    "LocalQueue": frozenset({"v1beta1", "v1beta2"}),
    "ResourceFlavor": frozenset({"v1beta1", "v1beta2"}),
}


class ResourceAmounts(Wire):
    """What a flavor has of one resource."""

    name: str = ""
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorAmounts(Wire):
    name: str = ""
    resources: list[ResourceAmounts] | None = None


class ResourceGroup(Wire):
    covered_resources: list[str] | None = None
    flavors: list[FlavorAmounts] | None = None


class FairSharing(Wire):
    weight: Quantity | None = None


class KueueSpec(Wire):
    """The spec of a ClusterQueue or of a Cohort; v1beta2 renamed ``cohort`` and ``parent``."""

    cohort: str | None = None
    cohort_name: str | None = None
    parent: str | None = None
    parent_name: str | None = None
    resource_groups: list[ResourceGroup] | None = None
    fair_sharing: FairSharing | None = None

    @property
    def above(self) -> str:
        """The cohort that it is in; "" for none."""
        return self.cohort_name or self.cohort or self.parent_name or self.parent or ""


class KueueMeta(Wire):
    name: str = ""
    namespace: str = ""


class KueueObject(Wire):
    """An object with the spec that queues have."""

    metadata: KueueMeta | None = None
    spec: KueueSpec | None = None


_object = msgspec.json.Decoder(KueueObject)
_anything = msgspec.json.Decoder(dict[str, Any])


def is_of_kueue(item: Item) -> bool:
    """Whether the object is one of Kueue."""
    return item.kind[0].startswith(f"{KUEUE}/")


def read_queue_like(item: Item) -> tuple[str, KueueSpec]:
    """Name and spec of a ClusterQueue or Cohort. Raises FieldError."""
    _check_version(item)
    found = decode_part(_object, item.raw, "")
    name = found.metadata.name if found.metadata else ""
    if not name:
        raise FieldError("metadata.name", "missing: give it a name")
    return name, found.spec or KueueSpec()


def read_anything(item: Item) -> dict[str, Any]:
    """The whole object. Raises FieldError."""
    _check_version(item)
    return decode_part(_anything, item.raw, "")


def _check_version(item: Item) -> None:
    version, kind = item.kind[0].rpartition("/")[2], item.kind[1]
    known = VERSIONS.get(kind)
    if known is not None and version not in known:
        newest = max(known)
        raise FieldError("apiVersion", f"{version} is not read: write it as {newest}, or have a newer Kueue print it")
