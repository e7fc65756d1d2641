"""Which kinds of other schedulers are read, and what was found of them, in files or in a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from kai_sched.api import names
from kai_sched.files.items import Item

Manifest = Mapping[str, Any]

KUEUE = "kueue.x-k8s.io"
VOLCANO_QUEUES = "scheduling.volcano.sh"
VOLCANO_JOBS = "batch.volcano.sh"
YUNIKORN_CONFIG_MAP = "yunikorn-configs"
WEBHOOKS = "admissionregistration.k8s.io"
APPS = "apps"
SCHEDULERS = {"KAI Scheduler": "kai-scheduler", "Volcano": "volcano", "YuniKorn": "yunikorn"}  # what pods name


class GroupKind(NamedTuple):
    """A kind in any version of its API group; "" is the group of pods."""

    group: str
    kind: str


class ForeignKind(NamedTuple):
    """A kind that is read, and the resource by which the API server lists it.

    Of kinds of which there is one for each workload the metadata is enough: ``whole`` is False.
    """

    kind: GroupKind
    resource: str
    whole: bool = True


CONFIG_MAP = GroupKind("", "ConfigMap")
POD = GroupKind("", "Pod")
DEPLOYMENT = GroupKind(APPS, "Deployment")
KAI_KINDS = (
    ForeignKind(GroupKind(names.QUEUE_GROUP, "Queue"), "queues"),
    ForeignKind(GroupKind(names.QUEUE_GROUP, "PodGroup"), "podgroups"),
    ForeignKind(GroupKind(names.QUEUE_GROUP, "BindRequest"), "bindrequests"),
    ForeignKind(GroupKind(names.KAI_GROUP, "Config"), "configs"),
    ForeignKind(GroupKind(names.KAI_GROUP, "SchedulingShard"), "schedulingshards"),
    ForeignKind(GroupKind(names.KAI_GROUP, "Topology"), "topologies"),
)
KUEUE_KINDS = (
    ForeignKind(GroupKind(KUEUE, "ClusterQueue"), "clusterqueues"),
    ForeignKind(GroupKind(KUEUE, "Cohort"), "cohorts"),
    ForeignKind(GroupKind(KUEUE, "LocalQueue"), "localqueues"),
    ForeignKind(GroupKind(KUEUE, "ResourceFlavor"), "resourceflavors"),
    ForeignKind(GroupKind(KUEUE, "AdmissionCheck"), "admissionchecks"),
    ForeignKind(GroupKind(KUEUE, "Topology"), "topologies"),
    ForeignKind(GroupKind(KUEUE, "WorkloadPriorityClass"), "workloadpriorityclasses"),
)
OTHER_KINDS = (
    ForeignKind(GroupKind(KUEUE, "Workload"), "workloads", whole=False),
    ForeignKind(GroupKind(VOLCANO_QUEUES, "Queue"), "queues"),
    ForeignKind(GroupKind(VOLCANO_QUEUES, "PodGroup"), "podgroups", whole=False),
    ForeignKind(GroupKind(VOLCANO_JOBS, "Job"), "jobs", whole=False),
    ForeignKind(DEPLOYMENT, "deployments"),
    ForeignKind(GroupKind(WEBHOOKS, "MutatingWebhookConfiguration"), "mutatingwebhookconfigurations", whole=False),
    ForeignKind(GroupKind(WEBHOOKS, "ValidatingWebhookConfiguration"), "validatingwebhookconfigurations", whole=False),
)
ALL_KINDS = (*KAI_KINDS, *KUEUE_KINDS, *OTHER_KINDS)
_KEPT = frozenset(each.kind for each in ALL_KINDS) | {CONFIG_MAP, POD}


@dataclass(slots=True)
class FoundObjects:
    """What there is of other schedulers.

    Attributes
    ----------
    objects
        By kind, in their order, of ConfigMaps those of YuniKorn, of pods those that name a scheduler of ``SCHEDULERS``.
    versions
        The versions of each kind: those that are served, or that the objects of files have.
    unreadable
        What could not be read, such as "queues.scheduling.run.ai", and why.
    live
        Whether a running cluster was read.
    """

    objects: dict[GroupKind, list[Manifest]] = field(default_factory=dict)
    versions: dict[GroupKind, set[str]] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    live: bool = False

    def of(self, group: str, kind: str) -> list[Manifest]:
        """The objects of a kind."""
        return self.objects.get(GroupKind(group, kind), [])

    def add(self, kind: GroupKind, version: str, manifest: Manifest) -> None:
        """Keep the object, if it is of interest."""
        if kind not in _KEPT or (kind == CONFIG_MAP and name_of(manifest) != YUNIKORN_CONFIG_MAP):
            return
        if kind == POD and scheduler_of(manifest) not in SCHEDULERS.values():
            return
        self.objects.setdefault(kind, []).append(manifest)
        self.versions.setdefault(kind, set()).add(version)

    def pods_of(self, scheduler: str) -> list[Manifest]:
        """The pods that name the scheduler."""
        return [each for each in self.of("", "Pod") if scheduler_of(each) == scheduler]


def found_in_items(items: Iterable[Item]) -> FoundObjects:
    """What objects from files say of other schedulers. An object that cannot be decoded is in ``unreadable``."""
    found = FoundObjects()
    for item in items:
        version, kind = item.kind
        group, slash, short = version.rpartition("/")
        if GroupKind(group if slash else "", kind) not in _KEPT:
            continue
        try:
            manifest = msgspec.json.decode(item.raw, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found.unreadable.append((f"{item.source}: {kind}", str(error)))
            continue
        found.add(GroupKind(group if slash else "", kind), short, manifest)
    return found


def part(manifest: Manifest, *path: str) -> Any:
    """What stands at the path of mappings; None where one of them is missing or is none."""
    node: Any = manifest
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def texts(manifest: Manifest, *path: str) -> dict[str, str]:
    """The texts of a mapping such as the labels; none where it is missing."""
    found = part(manifest, *path)
    pairs = found.items() if isinstance(found, Mapping) else ()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}


def name_of(manifest: Manifest) -> str:
    """The name, without the namespace; "" for none."""
    name = part(manifest, "metadata", "name")
    return name if isinstance(name, str) else ""


def place_of(manifest: Manifest) -> str:
    """ "namespace/name", or the name alone."""
    namespace = part(manifest, "metadata", "namespace")
    return f"{namespace}/{name_of(manifest)}" if isinstance(namespace, str) and namespace else name_of(manifest)


def scheduler_of(pod: Manifest) -> str:
    """The name of the scheduler that the pod asks for; "" for none."""
    name = part(pod, "spec", "schedulerName")
    return name if isinstance(name, str) else ""


def count(number: int, what: str) -> str:
    """Such as "2 queues" or "1 queue"; the plural of "class" and of "topology" is right as well."""
    if number == 1:
        return f"1 {what}"
    if what.endswith("y"):
        return f"{number} {what[:-1]}ies"
    return f"{number} {what}es" if what.endswith("s") else f"{number} {what}s"


def counts_text(counts: Counter[str]) -> str:
    """Such as "3 a, 1 b", the most frequent first."""
    return ", ".join(
        f"{number} {name}" for name, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )
