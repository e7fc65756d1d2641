"""Which pods of the cluster go to the grouper (those with an owner, of Spark, or of a PodGroup of Kubernetes), on which
of their fields the group depends, and whether they show it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kai_sched.api import core, names
from kai_sched.model.config import Config
from kai_sched.model.objects import NO_LABELS, Pod
from kai_sched.model.read.meta import DEFAULT_NAMESPACE
from kai_sched.reconcile.grouping.draft import SELECTED_LABELS
from kai_sched.reconcile.grouping.owners import is_spark, named_group, wants_group

# The group and sub-group of a pod, by name. Both are empty for a pod that belongs to no group of ours.
Place = tuple[str, str]
ALONE: Place = ("", "")


@dataclass(slots=True)
class Member:
    """A pod that belongs to a workload.

    Attributes
    ----------
    source
        See ``source_of``.
    mark
        A hash of everything that the place depends on.
    place
        Where the pod belongs; None until that is decided.
    shown
        The place in the API server, as of ``version``.
    leaves
        Whether the pod is being deleted: its place does not matter any more.
    """

    uid: str
    source: str
    mark: int
    place: Place | None = None
    shown: Place = ALONE
    version: int = -1
    leaves: bool = False

    @property
    def is_written(self) -> bool:
        """Whether the API server shows the pod in its place."""
        return self.place is None or not self.place[0] or is_in(self.shown, self.place)


class Labelled:
    """Keys of pods by namespace, label and value, for the labels that rules ask for."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str, str], set[str]] = {}
        self._entries: dict[str, list[tuple[str, str, str]]] = {}

    def put(self, pod: Pod) -> None:
        """The pod exists, with these labels."""
        entries = [(pod.namespace, label, pod.labels[label]) for label in SELECTED_LABELS if label in pod.labels]
        if entries or self._entries:
            if self._entries.get(pod.key, []) == entries:
                return
            self.drop(pod.key)
            if entries:
                self._entries[pod.key] = entries
                for entry in entries:
                    self._keys.setdefault(entry, set()).add(pod.key)

    def drop(self, key: str) -> None:
        """The pod is gone."""
        for entry in self._entries.pop(key, ()):
            keys = self._keys[entry]
            keys.discard(key)
            if not keys:
                del self._keys[entry]

    def keys(self, namespace: str, label: str, value: str) -> list[str]:
        """Return the sorted keys of the pods of the namespace with that label, one of SELECTED_LABELS."""
        return sorted(self._keys.get((namespace, label, value), ()))


def concerns(wire: core.WirePod, config: Config) -> bool:
    """Whether we group the pod: it belongs to a workload, or bare pods are grouped, too."""
    owners = wire.metadata is not None and bool(wire.metadata.owner_references)
    grouped = owners or bool(named_group(wire.spec)) or is_spark(wire) or config.group_bare_pods
    return grouped and wants_group(wire, config.scheduler_name)


def source_of(wire: core.WirePod) -> str:
    """The source of the pod: the PodGroup of Kubernetes that it names, else what owns it directly, else itself."""
    meta = wire.metadata or core.Meta()
    if name := named_group(wire.spec):
        return source_of_group(f"{meta.namespace or DEFAULT_NAMESPACE}/{name}")
    return (meta.owner_references[0].uid or "") if meta.owner_references else meta.uid or ""


def source_of_group(key: str) -> str:
    """The source of all pods that name this PodGroup of Kubernetes, "namespace/name". No uid has a slash."""
    return f"{names.KUBERNETES_GROUPS}/{key}"


def is_kubernetes_group(source: str) -> bool:
    """Whether the source is a PodGroup of Kubernetes."""
    return source.startswith(f"{names.KUBERNETES_GROUPS}/")


def mark_of(meta: core.Meta) -> int:
    """Return a hash of what the place of a pod depends on."""
    owners = tuple((each.kind, each.uid) for each in meta.owner_references or ())
    return hash((owners, _but(meta.labels, names.SUB_GROUP_LABEL), _but(meta.annotations, names.POD_GROUP_ANNOTATION)))


def _but(texts: core.Labels, key: str) -> frozenset[tuple[str, str]]:
    return frozenset(item for item in (texts or NO_LABELS).items() if item[0] != key)


def trimmed(wire: core.WirePod) -> core.WirePod:
    """Return the pod with only the fields that rules read."""
    spec = wire.spec or core.PodSpec()
    kept = core.PodSpec(
        node_name=spec.node_name,
        scheduler_name=spec.scheduler_name,
        priority_class_name=spec.priority_class_name,
        scheduling_group=spec.scheduling_group,
    )
    return core.WirePod(wire.metadata, kept)


def placed(pod: Pod, place: Place) -> Pod:
    """Return the pod in its place."""
    group, sub_group = place
    if not group or is_in((pod.group, pod.sub_group), place):
        return pod
    if not sub_group:
        return replace(pod, group=group)
    return replace(pod, group=group, sub_group=sub_group, labels={**pod.labels, names.SUB_GROUP_LABEL: sub_group})


def is_in(shown: Place, place: Place) -> bool:
    """Whether ``shown`` is that place. If the rules name no sub-group, the label of the pod itself holds."""
    return shown[0] == place[0] and place[1] in ("", shown[1])


def key_of(pod: core.WirePod) -> str:
    """Return "namespace/name"."""
    meta = pod.metadata or core.Meta()
    return f"{meta.namespace or DEFAULT_NAMESPACE}/{meta.name}"


def key_of_group(pod: str, place: Place) -> str:
    """Return the key of the PodGroup of a pod, which is given by its key."""
    return f"{pod.partition('/')[0]}/{place[0]}"
