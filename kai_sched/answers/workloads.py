"""Groups as their users know them, by the kind and name of the workload that they wrote; how a name is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.model.field_errors import FieldError
from kai_sched.model.keys import bare_pod_group_key, split_key, unmarked
from kai_sched.model.objects import Pod, PodGroup
from kai_sched.model.problems import near, some_of
from kai_sched.model.store import Cluster


@dataclass(frozen=True, slots=True, repr=False)
class Workload:
    """What a user wrote: a kind and a name; for a group without an owner the PodGroup, for a bare pod the Pod.

    ``group`` is the key of its group in results (``CycleResult.groups``).
    """

    kind: str
    namespace: str
    name: str
    group: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, slots=True)
class Workloads:
    """The workloads of a cluster, by the key of their group."""

    by_group: Mapping[str, Workload] = field(default_factory=dict)
    pods: Mapping[str, str] = field(default_factory=dict)  # the group of each pod, by key

    def of(self, group: str) -> Workload:
        """The workload of a group; also of one that the cluster no longer has."""
        found = self.by_group.get(group)
        if found is None:
            namespace, name = split_key(unmarked(group))
            found = Workload("PodGroup" if unmarked(group) == group else "Pod", namespace, name, group)
        return found

    def find(self, text: str) -> Workload:
        """The workload that a user means: "name", "namespace/name", "kind/name", the name of its PodGroup or of one of
        its pods, or a part of the name that no other has. The key of a group means that group.

        Raises FieldError.
        """
        if text in self.by_group:
            return self.by_group[text]
        parts = text.split("/")
        exact = [each for each in self.by_group.values() if _is_called(each, parts)]
        if not exact and text in self.pods:
            exact = [self.of(self.pods[text])]
        if not exact and len(parts) == 1:
            by_pod = {group for key, group in self.pods.items() if split_key(key)[1] == text}
            exact = [self.of(group) for group in sorted(by_pod)]
        found = exact or [each for each in self.by_group.values() if text.lower() in f"{each.namespace}/{each.name}"]
        if len(found) == 1:
            return found[0]
        names = sorted(f"{each.namespace}/{each.name}" for each in found)
        if found:
            kinds = {f"{each.kind}/{each.name}" for each in found}
            names = sorted(kinds) if len(set(names)) < len(names) else names
            raise FieldError("NAME", f"{text!r} may be {some_of(names)}: write one of them in full")
        known = sorted(each.name for each in self.by_group.values())
        raise FieldError("NAME", f"there is no workload {text!r}{near(text, known)}")


def _is_called(workload: Workload, parts: list[str]) -> bool:
    group = split_key(unmarked(workload.group))
    if len(parts) == 1:
        return parts[0] in (workload.name, group[1])
    first, name = parts[0], parts[-1]
    if len(parts) == 3:  # kind/namespace/name
        return (first.lower(), parts[1], name) == (workload.kind.lower(), workload.namespace, workload.name)
    if len(parts) > 3:
        return False
    is_kind = first.lower() == workload.kind.lower()
    return (is_kind or first == workload.namespace) and name in (workload.name, group[1])


def workloads_of(cluster: Cluster) -> Workloads:
    """The workloads of all groups and of pods without a group."""
    found: dict[str, Workload] = {}
    for key, group in sorted(cluster.pod_groups.items()):
        found[key] = _of_group(key, group)
    pods: dict[str, str] = {}
    for key, pod in sorted(cluster.pods.items()):
        group_key: str = pod.group_key
        if not pod.group:
            if key in cluster.pod_groups:
                group_key = bare_pod_group_key(key)
            found[group_key] = _of_pod(group_key, pod)
        pods[key] = group_key
    return Workloads(found, pods)


def _of_group(key: str, group: PodGroup) -> Workload:
    if group.owner_kind and group.owner_name:
        return Workload(group.owner_kind, group.namespace, group.owner_name, key)
    return Workload("PodGroup", group.namespace, group.name, key)


def _of_pod(key: str, pod: Pod) -> Workload:
    return Workload("Pod", pod.namespace, pod.name, key)
