"""What lowering keeps between cycles (rows of pods, groups and nodes, classes of pods), and which change makes which of
it be computed anew.

``Cache.sync`` reads the changes since the last view from the store's journal, so a cycle costs what has changed.

Invariant: an empty and a warm cache give the same snapshot, byte for byte. Row numbers and numbers of names depend on
the history of the cache; they never appear in a snapshot, only what they stand for does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sized
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kai_sched.api import names
from kai_sched.lowering.cached_rows import Entry, GroupCell, Names, PodCell, RowTable, put_all
from kai_sched.lowering.class_records import KnownShape, PodClass
from kai_sched.lowering.errors import ErrorCollector, TermWorkError
from kai_sched.lowering.limits import duration, moment
from kai_sched.lowering.roles import (
    gpu_kind,
    group_of_bare_pod,
    has_worker_label,
    is_bare,
    is_reservation,
    is_scaling,
    placing,
    task_priority,
)
from kai_sched.lowering.sub_group_tree import Layout, layout_key, make_layout
from kai_sched.lowering.term_work import POD_WORK_MAX, KnownWork, TermLimits, find_limits, too_many_requirements
from kai_sched.lowering.terms import TermBook
from kai_sched.model.claims.objects import EXTENDED_PREFIX, DeviceClass, DeviceTaintRule, ResourceSlice
from kai_sched.model.config import Config, in_pool
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.objects import BindRequest, Namespace, Node, Phase, Pod, PodGroup, Shape
from kai_sched.model.store import Change, Cluster
from kai_sched.snapshot.columns import NULL

Made = TypeVar("Made")
UNSET = -2  # GroupCell.GRACE: the group does not set one

SPARE_NUMBERS = 10_000
SPARE_MATCHES = 4_000_000


class Cache:
    """The state of lowering between cycles. For one thread.

    ``sync`` brings it up to date; ``lowering`` modules read its attributes:

    Attributes
    ----------
    pods, groups
        Row tables with the columns ``PodCell`` and ``GroupCell``. ``groups`` has PodGroups and bare pods.
    nodes
        The nodes of the pool by name.
    node_names, group_ids, sub_groups, queue_names, priority_classes
        Numbers for names; cells of the row tables refer to them.
    shapes, classes, layouts, terms
        Shapes, classes, layouts and inter-pod terms by number.
    reservations
        Keys of pods that hold a GPU device for the pods that share it.
    bindings
        Live bind requests by key of the pod.
    held_shapes
        By number of a shape and of devices: what a pod on a node has where that is less (``holdings``).
    columns
        Arrays (N,) derived from the nodes, and codes in them, by what they hold; cleared when a node changes.
    """

    def __init__(self) -> None:
        self._term_work: KnownWork = {}
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next ``sync`` reads all objects."""
        self.pods = RowTable(len(PodCell))
        self.groups = RowTable(len(GroupCell))
        self.nodes: dict[str, Node] = {}
        self.node_names = Names()
        self.group_ids = Names()
        self.sub_groups = Names()
        self.queue_names = Names()
        self.priority_classes = Names()
        self.shape_ids = Names()
        self.shapes: list[KnownShape] = []
        self.places = Names()
        self.class_ids: dict[tuple[int, bool, tuple[int, ...]], int] = {}
        self.classes: list[PodClass] = []
        self.layout_ids = Names()
        self.layouts: list[Layout] = []
        self.terms = TermBook(POD_WORK_MAX)
        self._limits = TermLimits()
        self._terms_read = 0  # terms of all objects when all were read last
        self._n_matches = 0  # of the terms and classes so far
        self._changed: set[int] = set()  # label sets that other terms match than those by which pods are classified
        self.reservations: set[str] = set()
        self.bindings: dict[str, BindRequest] = {}  # what the original has yet to bind, by pod
        self.held_shapes: dict[tuple[int, int], Shape] = {}
        self.columns: dict[object, Any] = {}  # of the nodes as they are; cleared when one changes
        self.has_claims = False  # whether some pod has had claims for devices, or asked for devices of a class
        self._devices: Any = None  # of slices; made anew when one changes of what they depend on
        self._quick: dict[int, tuple[Shape, KnownShape]] = {}  # by id; the shape is held, so that no other gets its id
        self._store_id: object = None
        self._serial = -1
        self._config: Config | None = None

    def sync(self, cluster: Cluster, config: Config) -> None:
        """Take over the changes since the last call, or all objects if they are not known or the config changed.

        After an exception the cache is empty, as it may have been updated in part. Raises LoweringError for objects
        that cannot be lowered.
        """
        try:
            changes = cluster.changes_since(self._store_id, self._serial) if self._config == config else None
            try:
                if changes and self._limits.over and any(kind is Pod for kind, _ in changes):
                    self._check_limits(cluster)
                self._take_in(changes, cluster, config)
            except TermWorkError:
                self._take_in_within_limits(cluster, config)
        except BaseException:
            self.reset()
            raise

    def _check_limits(self, cluster: Cluster) -> None:
        """Raise TermWorkError if other pods than before are over a limit."""
        if find_limits(cluster.pods.values(), self._term_work).over != self._limits.over:
            raise TermWorkError

    def _take_in_within_limits(self, cluster: Cluster, config: Config) -> None:
        """Read all objects anew, without the terms that are over a limit of work; label sets first.

        Each term is then compared with as many label sets as ``find_limits`` counts, and no other one can be over a
        limit before the comparisons have cost the slack besides.
        """
        self.reset()
        limits = find_limits(cluster.pods.values(), self._term_work)
        self.terms.work_max, self.terms.by_sets, self.terms.namespaces = sys.maxsize, True, cluster.namespaces
        for pod in cluster.pods.values():
            if pod.phase != Phase.FAILED:
                self.terms.label_set(pod)
        self._limits = limits
        self._read_all(cluster, config)
        self.terms.work_max = self.terms.work + limits.slack

    def _read_all(self, cluster: Cluster, config: Config) -> None:
        self.terms.namespaces = cluster.namespaces
        self._sync_bindings(cluster)
        self._sync(list(cluster.pods), list(cluster.pod_groups), list(cluster.nodes), cluster, config)
        self._terms_read, self._n_matches = len(self.terms), 0

    def _take_in(self, changes: set[Change] | None, cluster: Cluster, config: Config) -> None:
        if changes is None or self._crowded():
            self.reset()
            self._read_all(cluster, config)
            return
        self.terms.namespaces = cluster.namespaces
        pods = [key for kind, key in changes if kind is Pod]
        if any(kind is BindRequest for kind, _ in changes):
            pods = list({*pods, *self._sync_bindings(cluster)})
        groups = [key for kind, key in changes if kind is PodGroup]
        nodes = [key for kind, key in changes if kind is Node]
        for name in [key for kind, key in changes if kind is Namespace]:
            self._match_again(self.terms.rematch(name))
        if any(kind in (ResourceSlice, DeviceClass, DeviceTaintRule, Node) for kind, _ in changes):
            self._devices = None
        self._sync(pods, groups, nodes, cluster, config)

    def _sync(self, pods: list[str], groups: list[str], nodes: list[str], cluster: Cluster, config: Config) -> None:
        self._sync_nodes(nodes, cluster, config)
        self._sync_groups(groups, cluster, config)
        self._sync_pods(pods, cluster, config)
        self._store_id, self._serial, self._config = cluster.store_id, cluster.serial, config

    def _crowded(self) -> bool:
        """Whether most numbered names and shapes are no longer in use, so that a reset is cheaper than keeping them."""
        pairs: tuple[tuple[Sized, Sized], ...] = (
            (self.group_ids, self.groups),
            (self.layout_ids, self.groups),
            (self.queue_names, self.groups),
            (self.priority_classes, self.groups),
            (self.sub_groups, self.pods),
            (self.class_ids, self.pods),
            (self.shape_ids, self.pods),
            (self._quick, self.pods),
            (self.terms.label_sets, self.pods),
            (self.node_names, self.nodes),
        )
        n_terms = 4 * (len(self.pods) + self._terms_read) + SPARE_NUMBERS
        crowded = len(self.terms) > n_terms or self._n_matches > SPARE_MATCHES
        return crowded or any(len(numbered) > 4 * len(live) + SPARE_NUMBERS for numbered, live in pairs)

    def column(self, name: object, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The column of the nodes with this name: as it was made last, or made anew if a node has changed."""
        found: npt.NDArray[Any] = self.columns[name] if name in self.columns else make()
        self.columns[name] = found
        return found

    def device_book(self, make: Callable[[], Made]) -> Made:
        """What ``make`` returns of slices, classes, taint rules and nodes; as it was made last if none has changed."""
        if self._devices is None:
            self._devices = make()
        found: Made = self._devices
        return found

    def _sync_nodes(self, keys: list[str], cluster: Cluster, config: Config) -> None:
        if keys:
            self.columns.clear()
        errors = ErrorCollector()
        for name in keys:
            node = cluster.nodes.get(name)
            try:
                counts = node is not None and in_pool(node.labels, config) and has_worker_label(node, config)
            except Exception as error:
                errors.add(Node, name, error)
                continue
            if node is not None and counts:
                self.nodes[name] = node
            else:
                self.nodes.pop(name, None)
        errors.end()

    def _sync_bindings(self, cluster: Cluster) -> list[str]:
        """Read all live bind requests; returns the pods whose request changed. Of two for a pod the first counts."""
        before, self.bindings = self.bindings, {}
        for _, request in sorted(cluster.bind_requests.items()):
            if request.is_live:
                self.bindings.setdefault(request.pod_key, request)
        return [key for key in before | self.bindings if before.get(key) != self.bindings.get(key)]

    def binding(self, pod: Pod) -> BindRequest | None:
        """The bind request that makes the pod count as Binding, provided that its node exists (semantics 0.1)."""
        if not self.bindings or pod.phase != Phase.PENDING or pod.node or pod.deleted_ns:
            return None
        return self.bindings.get(pod.key)

    def _sync_groups(self, keys: list[str], cluster: Cluster, config: Config) -> None:
        gone: list[str] = []
        entries: list[Entry] = []
        errors = ErrorCollector()
        for key in keys:
            group = cluster.pod_groups.get(key)
            try:
                if group is None or not in_pool(group.labels, config):
                    gone.append(key)
                else:
                    entries.append(
                        (key, (group.created_ns, group.uid, key), group, self._group_cells(key, group, False))
                    )
            except Exception as error:
                errors.add(PodGroup, key, error)
        errors.end()
        self.groups.remove(gone)
        put_all(self.groups, entries, PodGroup)

    def _group_cells(self, identity: str, group: PodGroup, bare: bool) -> tuple[int, ...]:
        key = layout_key(group)
        layout = self.layout_ids.row(key)
        if layout == len(self.layouts):
            self.layouts.append(make_layout(group))
        # Most groups have no times: skipping the calls makes reading a whole cluster faster.
        delay = duration(group.preemption_delay_s) if group.preemption_delay_s else 0
        grace = group.staleness_grace_s
        return (
            self.group_ids.row(identity),
            self.queue_names.row(group.queue),
            self.priority_classes.row(group.priority_class),
            NULL if group.preemptible is None else int(group.preemptible),
            layout,
            int(bare),
            moment(group.last_start_ns) if group.last_start_ns else 0,
            moment(max(group.created_ns, group.last_eviction_ns) + delay) if delay > 0 else 0,
            moment(group.stale_since_ns) if group.stale_since_ns else 0,
            UNSET if grace is None else NULL if grace < 0 else duration(grace),
        )

    def _sync_pods(self, keys: list[str], cluster: Cluster, config: Config) -> None:
        gone: list[str] = []
        present: list[tuple[str, Pod, KnownShape]] = []
        errors = ErrorCollector()
        for key in keys:
            pod = cluster.pods.get(key)
            if pod is None or pod.phase == Phase.FAILED:
                gone.append(key)
                continue
            try:
                present.append((key, pod, self._known(pod.shape)))
            except Exception as error:
                errors.add(Pod, key, error)
        errors.end()
        self._match_again(self._changed)
        self._changed = set()
        gone_groups = [bare_pod_group_key(key) for key in gone]
        self.reservations.difference_update(gone)
        entries: list[Entry] = []
        bare: list[Entry] = []
        for key, pod, known in present:
            try:
                reserves = names.APP_LABEL in pod.labels and is_reservation(pod, config)
                own, bare_now = bare_pod_group_key(key), is_bare(pod, config)
                cells = self._pod_cells(own if bare_now else "", pod, known, reserves, config)
                entries.append((key, (pod.created_ns, pod.uid, key), pod, cells))
                if bare_now:
                    group = group_of_bare_pod(pod)
                    bare.append((own, (pod.created_ns, pod.uid, key), group, self._group_cells(own, group, True)))
                elif own in self.groups.row_of:
                    gone_groups.append(own)
                (self.reservations.add if reserves else self.reservations.discard)(key)
            except Exception as error:
                errors.add(Pod, key, error)
        errors.end()
        self.pods.remove(gone)
        self.groups.remove(gone_groups)
        put_all(self.pods, entries, Pod)
        self.groups.put(bare)

    def _pod_cells(self, own: str, pod: Pod, known: KnownShape, reserves: bool, config: Config) -> tuple[int, ...]:
        """The cells of a pod; ``own`` is the key of its group if it is bare."""
        key = pod.group_key if pod.group else own
        label_set = self.terms.label_set(pod) if self.terms.terms else NULL
        labelled, priority = task_priority(pod) if "taskorder" in config.plugins else (0, 0)
        binding = self.binding(pod)
        return (
            self.group_ids.row(key) if key else NULL,
            self.sub_groups.row(pod.sub_group or "default"),
            self._class_of(known, reserves, label_set),
            self.node_names.row(pod.node) if pod.node else NULL,
            self.node_names.row(binding.node) if binding else NULL,
            self.node_names.row(pod.nominated_node) if pod.nominated_node else NULL,
            int(pod.phase),
            moment(pod.deleted_ns) if pod.deleted_ns else 0,
            int(bool(pod.gates)),
            int(pod.scheduler != config.scheduler_name and not reserves and not is_scaling(pod, config)),
            int("kubeflow" in config.plugins and pod.labels.get(names.JOB_ROLE_LABEL) not in ("master", "launcher")),
            int("ray" in config.plugins and pod.labels.get(names.RAY_NODE_TYPE_LABEL) != "head"),
            labelled,
            -priority,
            label_set,
        )

    def _known(self, shape: Shape) -> KnownShape:
        # Readers return equal shapes as one object, so identity is tried first: hashing a shape costs as much as all
        # other work for a pod.
        quick = self._quick.get(id(shape))
        if quick is not None:
            return quick[1]
        number = self.shape_ids.row(shape)
        if number == len(self.shapes):
            had_terms = bool(self.terms)
            refusal = self._limits.over.get(shape) or too_many_requirements(shape)
            terms, changed = ((), set[int]()) if refusal else self.terms.learn(shape)
            named = any(resource.startswith(EXTENDED_PREFIX) for resource, _ in shape.request)
            self.has_claims = self.has_claims or named or shape.n_claims > 0
            kind = gpu_kind(shape)
            place = self.places.row(placing(shape, kind))
            self.shapes.append(KnownShape(number, place, shape, kind, terms, refusal))
            if terms and not had_terms:
                self._match_all()
            self._changed |= changed
        self._quick[id(shape)] = shape, self.shapes[number]
        return self.shapes[number]

    def class_of(self, shape: Shape, reserves: bool, label_set: int) -> int:
        """The number of the class of pods with this shape. A caller keeps the shape, which would get a new number."""
        return self._class_of(self._known(shape), reserves, label_set)

    def _class_of(self, known: KnownShape, reserves: bool, label_set: int) -> int:
        matches = tuple(self.terms.matches[label_set]) if label_set != NULL else ()
        key = (known.number, reserves, matches)
        found = self.class_ids.get(key)
        if found is None:
            found = self.class_ids[key] = len(self.classes)
            self.classes.append(PodClass(known, reserves, matches))
            self._n_matches += len(matches)
        return found

    def _match_again(self, label_sets: set[int]) -> None:
        """Classify the pods with these label sets again: other terms match them now."""
        if label_sets:
            column = self.pods.cells[:, PodCell.LABEL_SET]
            for row in np.flatnonzero(np.isin(column, np.fromiter(label_sets, np.int64))).tolist():
                if self.pods.objects[row] is not None:
                    self._classify(row, int(column[row]))

    def _match_all(self) -> None:
        """Number the label sets of all pods: the first inter-pod term makes labels matter."""
        for row in self.pods.row_of.values():
            label_set = self.terms.label_set(self.pods.objects[row])
            self.pods.cells[row, PodCell.LABEL_SET] = label_set
            self._classify(row, label_set)

    def _classify(self, row: int, label_set: int) -> None:
        before = self.classes[self.pods.cells[row, PodCell.CLASS]]
        self.pods.cells[row, PodCell.CLASS] = self._class_of(before.known, before.reserves, label_set)
