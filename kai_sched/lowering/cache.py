"""What lowering keeps between cycles: row tables of pods, pod groups and nodes, and the classes of pods.

A cold and a warm cache give the same snapshot, byte for byte: rows and numbers kept here never show in it, only what
they stand for does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from kai_sched.api import names
from kai_sched.lowering.layouts import Layout, layout_key, make_layout
from kai_sched.lowering.rows import Names, RowTable
from kai_sched.lowering.terms import TermBook
from kai_sched.model.config import Config, in_pool
from kai_sched.model.objects import BindRequest, Namespace, Node, Phase, Pod, PodGroup, Shape
from kai_sched.model.store import Cluster
from kai_sched.snapshot.columns import NULL

# Columns of the pods' matrix. The last ones are the task order, smaller first (1.3: kubeflow, ray, taskorder).
GROUP, SUB_GROUP, CLASS, NODE, BINDING, NOMINATED, PHASE, DELETED, GATED, FOREIGN = range(10)
KUBEFLOW, RAY, LABELLED, TASK_PRIORITY = range(10, 14)
# Columns of the pod groups' matrix.
ID, QUEUE, PRIORITY_CLASS, PREEMPTIBLE, LAYOUT, BARE, LAST_START, MAY_EVICT_AT, STALE_SINCE, GRACE = range(10)
UNSET = -2  # GRACE: the group does not say

SCALING_POD = "scaling-pod"
BARE_PREFIX = "pod:"
SPARE_NUMBERS = 10_000


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods that placement cannot tell apart: of one shape, and matched by the same inter-pod terms."""

    shape: Shape
    reserves: bool  # a GPU reservation pod: its device is counted with the pods that share it
    matches: tuple[int, ...]


class Cache:
    """Lives as long as its owner wants cheap cycles. Not to be shared by threads."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.pods = RowTable(14)
        self.groups = RowTable(10)
        self.nodes: dict[str, Node] = {}
        self.node_names = Names()
        self.group_ids = Names()
        self.sub_groups = Names()
        self.queue_names = Names()
        self.priority_classes = Names()
        self.class_ids = Names()
        self.classes: list[PodClass] = []
        self.layout_ids = Names()
        self.layouts: list[Layout] = []
        self.terms = TermBook()
        self.sharing: set[str] = set()  # pods that hold part of a device
        self.bindings: dict[str, BindRequest] = {}  # what the original has yet to bind, by pod
        self.columns: dict[object, npt.NDArray[Any]] = {}  # of the nodes as they are; cleared when one changes
        self._quick: dict[tuple[int, bool, tuple[int, ...]], int] = {}
        self._held: list[Shape] = []
        self._store_id: object = None
        self._serial = -1
        self._config: Config | None = None

    def sync(self, cluster: Cluster, config: Config) -> None:
        """Take in what changed since the last call; everything, where that is not known or the settings changed."""
        changes = cluster.changes_since(self._store_id, self._serial) if self._config == config else None
        if changes is None or self._crowded() or (self.terms and any(kind is Namespace for kind, _ in changes)):
            self._reset()
            self._sync_bindings(cluster)
            pods, groups, nodes = list(cluster.pods), list(cluster.pod_groups), list(cluster.nodes)
        else:
            pods = [key for kind, key in changes if kind is Pod]
            if any(kind is BindRequest for kind, _ in changes):
                pods = list({*pods, *self._sync_bindings(cluster)})
            groups = [key for kind, key in changes if kind is PodGroup]
            nodes = [key for kind, key in changes if kind is Node]
        self._store_id, self._serial, self._config = cluster.store_id, cluster.serial, config
        self._sync_nodes(nodes, cluster, config)
        self._sync_groups(groups, cluster, config)
        self._sync_pods(pods, cluster, config)

    def _crowded(self) -> bool:
        """Whether most of what is numbered is gone: then it is cheaper to begin anew than to keep it."""
        pairs = (
            (self.group_ids, self.groups),
            (self.layout_ids, self.groups),
            (self.class_ids, self.pods),
            (self.terms.ids, self.pods),
            (self.node_names, self.nodes),
        )
        return any(len(numbered) > 4 * len(live) + SPARE_NUMBERS for numbered, live in pairs)

    def _sync_nodes(self, keys: list[str], cluster: Cluster, config: Config) -> None:
        if keys:
            self.columns.clear()
        for name in keys:
            node = cluster.nodes.get(name)
            if node is not None and in_pool(node.labels, config) and _has_worker_label(node, config):
                self.nodes[name] = node
            else:
                self.nodes.pop(name, None)

    def _sync_bindings(self, cluster: Cluster) -> list[str]:
        """Look at all live bind requests; returns the pods to look at again. Of two for a pod the first counts."""
        before, self.bindings = self.bindings, {}
        for _, request in sorted(cluster.bind_requests.items()):
            if request.is_live:
                self.bindings.setdefault(request.pod_key, request)
        return [key for key in before | self.bindings if before.get(key) != self.bindings.get(key)]

    def binding(self, key: str, pod: Pod) -> BindRequest | None:
        """The request that makes the pod count as Binding, if its node is there (semantics 0.1)."""
        waits = pod.phase == Phase.PENDING and not pod.node and not pod.deleted_ns
        return self.bindings.get(key) if waits else None

    def _sync_groups(self, keys: list[str], cluster: Cluster, config: Config) -> None:
        gone, entries = [], []
        for key in keys:
            group = cluster.pod_groups.get(key)
            if group is None or not in_pool(group.labels, config):
                gone.append(key)
            else:
                entries.append((key, (group.created_ns, group.uid, key), group, self._group_cells(key, group)))
        self.groups.remove(gone)
        self.groups.put(entries)

    def _group_cells(self, identity: str, group: PodGroup) -> tuple[int, ...]:
        key = layout_key(group)
        layout = self.layout_ids.row(key)
        if layout == len(self.layouts):
            self.layouts.append(make_layout(group))
        delay, grace = int(group.preemption_delay_s * 1e9), group.staleness_grace_s
        return (
            self.group_ids.row(identity),
            self.queue_names.row(group.queue),
            self.priority_classes.row(group.priority_class),
            NULL if group.preemptible is None else int(group.preemptible),
            layout,
            int(identity.startswith(BARE_PREFIX)),
            group.last_start_ns,
            max(group.created_ns, group.last_eviction_ns) + delay if delay > 0 else 0,
            group.stale_since_ns,
            UNSET if grace is None else NULL if grace < 0 else int(grace * 1e9),
        )

    def _sync_pods(self, keys: list[str], cluster: Cluster, config: Config) -> None:
        gone, entries, bare = [], [], []
        present = []
        for key in keys:
            pod = cluster.pods.get(key)
            if pod is None or pod.phase == Phase.FAILED:
                gone.append(key)
            else:
                present.append((key, pod))
        if self.terms.learn((pod.shape for _, pod in present), cluster.namespaces):
            self._match_again()
        gone_groups = [bare_key(key) for key in gone]
        self.sharing.difference_update(gone)
        for key, pod in present:
            entries.append((key, (pod.created_ns, pod.uid, key), pod, self._pod_cells(key, pod, config)))
            own = bare_key(key)
            if _is_bare(pod, config):
                group = PodGroup(
                    pod.namespace,
                    pod.name,
                    uid=pod.uid,
                    created_ns=pod.created_ns,
                    queue=pod.queue or names.DEFAULT_QUEUE,
                    priority_class=pod.priority_class,
                )
                bare.append((own, (pod.created_ns, pod.uid, key), group, self._group_cells(own, group)))
            elif own in self.groups.row_of:
                gone_groups.append(own)
            if pod.shape.shared_devices:
                self.sharing.add(key)
            else:
                self.sharing.discard(key)
        self.pods.remove(gone)
        self.groups.remove(gone_groups)
        self.pods.put(entries)
        self.groups.put(bare)

    def _pod_cells(self, key: str, pod: Pod, config: Config) -> tuple[int, ...]:
        if pod.group:
            group = self.group_ids.row(f"{pod.namespace}/{pod.group}")
        else:
            group = self.group_ids.row(bare_key(key)) if _is_bare(pod, config) else NULL
        app = pod.labels.get(names.APP_LABEL)
        utility = app in (config.reservation_app_label, SCALING_POD)
        labelled, priority = _task_priority(pod)
        binding = self.binding(key, pod)
        return (
            group,
            self.sub_groups.row(pod.sub_group or "default"),
            self._class_of(pod, app == config.reservation_app_label),
            self.node_names.row(pod.node) if pod.node else NULL,
            self.node_names.row(binding.node) if binding else NULL,
            self.node_names.row(pod.nominated_node) if pod.nominated_node else NULL,
            int(pod.phase),
            pod.deleted_ns,
            int(bool(pod.gates)),
            int(pod.scheduler != config.scheduler_name and not utility),
            int("kubeflow" in config.plugins and pod.labels.get(names.JOB_ROLE_LABEL) not in ("master", "launcher")),
            int("ray" in config.plugins and pod.labels.get(names.RAY_NODE_TYPE_LABEL) != "head"),
            labelled if "taskorder" in config.plugins else 0,
            -priority if "taskorder" in config.plugins else 0,
        )

    def _class_of(self, pod: Pod, reserves: bool) -> int:
        matches = self.terms.matches(pod)
        # Readers give equal shapes as one object, so identity is tried first: hashing a shape costs as much as the
        # rest of a pod.
        quick = (id(pod.shape), reserves, matches)
        found = self._quick.get(quick)
        if found is None:
            found = self.class_ids.row((pod.shape, reserves, matches))
            if found == len(self.classes):
                self.classes.append(PodClass(pod.shape, reserves, matches))
            self._quick[quick] = found
            self._held.append(pod.shape)  # an id must not be used again
        return found

    def _match_again(self) -> None:
        """New inter-pod terms may match pods that are already in the table."""
        for row in self.pods.ordered():
            pod = self.pods.objects[row]
            reserves = self.classes[self.pods.cells[row, CLASS]].reserves
            self.pods.cells[row, CLASS] = self._class_of(pod, reserves)


def bare_key(pod_key: str) -> str:
    """The identity of the group that a pod without a pod group is; no pod group can have it."""
    return BARE_PREFIX + pod_key


def _is_bare(pod: Pod, config: Config) -> bool:
    return not pod.group and pod.scheduler == config.scheduler_name and in_pool(pod.labels, config)


def _has_worker_label(node: Node, config: Config) -> bool:
    if not config.restrict_node_scheduling:
        return True
    return config.cpu_worker_label in node.labels or config.gpu_worker_label in node.labels


def _task_priority(pod: Pod) -> tuple[int, int]:
    """Labelled before unreadable before unlabelled; the larger number first (1.3, taskorder)."""
    text = pod.labels.get(names.TASK_PRIORITY_LABEL)
    if text is None:
        return 2, 0
    try:
        return 0, int(text)
    except ValueError:
        return 1, 0
