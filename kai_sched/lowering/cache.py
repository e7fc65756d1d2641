"""What lowering keeps between cycles (rows of pods, groups and nodes, classes of pods), and which change makes which of
it be computed anew.

``Cache.sync`` reads the changes since the last view from the store's journal, so a cycle costs what has changed.

Invariant: an empty and a warm cache give the same snapshot, byte for byte. Row numbers and numbers of names depend on
the history of the cache; they never appear in a snapshot, only what they stand for does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kai_sched.api import names
from kai_sched.lowering.cached_rows import OF_DEVICES, OF_STORAGE, STORAGE, GroupCell, Names, PodCell, RowTable, by_age
from kai_sched.lowering.class_records import KnownShape, PodClass
from kai_sched.lowering.crowding import Crowding, Numbered
from kai_sched.lowering.errors import ErrorCollector, TermWorkError
from kai_sched.lowering.limits import UNSET
from kai_sched.lowering.own_cells import write_times, write_traits
from kai_sched.lowering.roles import gpu_kind, group_of_bare_pod, has_worker_label, is_bare, is_reservation, placing
from kai_sched.lowering.sub_group_tree import Layout, layout_key, make_layout
from kai_sched.lowering.term_work import POD_WORK_MAX, KnownWork, TermLimits, find_limits, too_many_requirements
from kai_sched.lowering.terms import TermBook
from kai_sched.model.claims.objects import EXTENDED_PREFIX
from kai_sched.model.config import Config, in_pool, pool_of_conditions
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.model.objects import BindRequest, Namespace, Node, Phase, Pod, PodGroup, Shape
from kai_sched.model.store import Change, Cluster
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Longs

Made = TypeVar("Made")

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
    node_names, group_ids, sub_groups, queue_names, priority_classes, shapes, classes, layouts, terms
        Numbers for names, shapes, classes, layouts and inter-pod terms; cells of the row tables refer to them.
    reservations
        Keys of pods that hold a GPU device for the pods that share it.
    bindings
        Live bind requests by key of the pod.
    held_shapes
        By number of a shape and of devices: what a pod on a node has where that is not its shape (``holdings``).
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
        self._crowding = Crowding()
        self._n_matches = 0  # of the terms and classes so far
        self._changed: set[int] = set()  # label sets that other terms match than those by which pods are classified
        self.reservations: set[str] = set()
        self._bare: set[str] = set()  # keys of the bare pods
        self.bindings: dict[str, BindRequest] = {}  # what the original has yet to bind, by pod
        self.held_shapes: dict[tuple[int, int], Shape] = {}
        self.columns: dict[object, Any] = {}  # of the nodes as they are; cleared when one changes
        self.queues: Any = None  # what the table of queues was made of, and the table
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
        self._n_matches = 0
        self._crowding.read(self._numbered())

    def _take_in(self, changes: set[Change] | None, cluster: Cluster, config: Config) -> None:
        if changes is None or self._n_matches > SPARE_MATCHES or self._crowding.is_over(self._numbered()):
            self.reset()
            self._read_all(cluster, config)
            return
        self.terms.namespaces = cluster.namespaces
        pods, groups, nodes = ([key for kind, key in changes if kind is each] for each in (Pod, PodGroup, Node))
        changed = {kind for kind, _ in changes}
        if BindRequest in changed:
            pods = list({*pods, *self._sync_bindings(cluster)})
        for name in [key for kind, key in changes if kind is Namespace]:
            self._match_again(self.terms.rematch(name))
        if changed & OF_DEVICES:
            self._devices = None
        if changed & OF_STORAGE:
            self.columns.pop(STORAGE, None)
        self._sync(pods, groups, nodes, cluster, config)

    def _sync(self, pods: list[str], groups: list[str], nodes: list[str], cluster: Cluster, config: Config) -> None:
        self._sync_nodes(nodes, cluster, config)
        self._sync_groups(groups, cluster, config)
        self._sync_pods(pods, cluster, config)
        self._store_id, self._serial, self._config = cluster.store_id, cluster.serial, config

    def _numbered(self) -> tuple[Numbered, ...]:
        """What has numbers until the next reset."""
        return (
            (self.group_ids, self.groups),
            (self.layout_ids, self.groups),
            (self.queue_names, self.groups),
            (self.priority_classes, self.groups),
            (self.sub_groups, self.pods),
            (self.class_ids, self.pods),
            (self.shape_ids, self.pods),
            (self._quick, self.pods),
            (self.terms, self.pods),
            (self.terms.label_sets, self.pods),
            (self.node_names, self.nodes),
        )

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
        groups = {key: group for key in keys if (group := cluster.pod_groups.get(key)) is not None}
        self.groups.remove([key for key in keys if key not in groups])
        errors = ErrorCollector()
        errors.in_blocks(PodGroup, groups, lambda some: self._take_groups(some, config))
        errors.end()

    def _take_groups(self, some: Mapping[str, PodGroup], config: Config) -> None:
        groups = {key: group for key, group in some.items() if in_pool(group.labels, config)}
        self.groups.remove([key for key in some if key not in groups])
        self.groups.put(groups, by_age(groups), self._group_cells(groups, config, False))

    def _group_cells(self, by_key: Mapping[str, PodGroup], config: Config, bare: bool) -> Longs:
        """(cells, groups) the cells of groups; ``bare``: each stands for a bare pod."""
        groups = list(by_key.values())
        cells = np.zeros((len(GroupCell), len(groups)), np.int64)
        cells[GroupCell.ID] = self.group_ids.rows(by_key)
        cells[GroupCell.QUEUE] = self.queue_names.rows([group.queue for group in groups])
        cells[GroupCell.PRIORITY_CLASS] = self.priority_classes.rows([group.priority_class for group in groups])
        cells[GroupCell.PREEMPTIBLE] = [NULL if group.preemptible is None else group.preemptible for group in groups]
        cells[GroupCell.LAYOUT] = self._layouts_of(groups)
        cells[GroupCell.BARE] = bare
        cells[GroupCell.GRACE] = UNSET
        if not bare:
            write_times(cells, groups, pool_of_conditions({}, config))
        return cells

    def _layouts_of(self, groups: list[PodGroup]) -> list[int]:
        numbers = self.layout_ids.rows([layout_key(group) for group in groups])
        if len(self.layouts) < len(self.layout_ids):
            for number, group in zip(numbers, groups, strict=True):
                if number == len(self.layouts):
                    self.layouts.append(make_layout(group))
        return numbers

    def _sync_pods(self, keys: list[str], cluster: Cluster, config: Config) -> None:
        pods: dict[str, Pod] = {}
        errors, quick = ErrorCollector(), self._quick
        for key in keys:
            pod = cluster.pods.get(key)
            if pod is None or pod.phase == Phase.FAILED:
                continue
            pods[key] = pod
            if id(pod.shape) not in quick:
                try:
                    self._known(pod.shape)
                except Exception as error:
                    errors.add(Pod, key, error)
        errors.end()
        self._match_again(self._changed)
        self._changed = set()
        gone = [key for key in keys if key not in pods]
        self.pods.remove(gone)
        self._forget_bare(gone)
        self.reservations.difference_update(gone)
        errors.in_blocks(Pod, pods, lambda some: self._take_pods(some, config))
        errors.end()

    def _take_pods(self, pods: Mapping[str, Pod], config: Config) -> None:
        bare = {key: group_of_bare_pod(pod) for key, pod in pods.items() if not pod.group and is_bare(pod, config)}
        reserve = {key for key, pod in pods.items() if names.APP_LABEL in pod.labels and is_reservation(pod, config)}
        self.reservations.difference_update(pods)
        self.reservations |= reserve
        self._forget_bare(key for key in pods if key not in bare)
        self._bare.update(bare)
        own: dict[str, str] = {key: bare_pod_group_key(key) for key in bare}
        group_keys = [pod.group_key if pod.group else own.get(key, "") for key, pod in pods.items()]
        cells = self._pod_cells(group_keys, list(pods.values()), [key in reserve for key in pods], config)
        self.pods.put(pods, by_age(pods), cells)
        groups = dict(zip(own.values(), bare.values(), strict=True))
        self.groups.put(groups, by_age(bare), self._group_cells(groups, config, True))

    def _forget_bare(self, keys: Iterable[str]) -> None:
        """Remove the groups of these pods, as far as they were bare."""
        were_bare = self._bare.intersection(keys)
        self._bare -= were_bare
        self.groups.remove([bare_pod_group_key(key) for key in were_bare])

    def _pod_cells(self, group_keys: list[str], pods: list[Pod], reserves: list[bool], config: Config) -> Longs:
        """(cells, pods) the cells of pods, in groups with these keys ("": none); ``reserves``: reservation pods."""
        cells = np.zeros((len(PodCell), len(pods)), np.int64)
        cells[PodCell.GROUP] = self.group_ids.rows_or_null(group_keys)
        cells[PodCell.SUB_GROUP] = self.sub_groups.rows([pod.sub_group or "default" for pod in pods])
        cells[PodCell.NODE] = self.node_names.rows_or_null([pod.node for pod in pods])
        cells[PodCell.BINDING : PodCell.NOMINATED + 1] = NULL
        if self.bindings:
            requests = [self.binding(pod) for pod in pods]
            cells[PodCell.BINDING] = self.node_names.rows_or_null([each.node if each else "" for each in requests])
        if any(nominated := [pod.nominated_node for pod in pods]):
            cells[PodCell.NOMINATED] = self.node_names.rows_or_null(nominated)
        write_traits(cells, pods, reserves, config)
        label_sets = [self.terms.label_set(pod) for pod in pods] if self.terms.terms else [NULL] * len(pods)
        cells[PodCell.LABEL_SET] = label_sets
        kinds = list(zip([id(pod.shape) for pod in pods], reserves, label_sets, strict=True))
        classes = {kind: self._class_of(self._quick[kind[0]][1], *kind[1:]) for kind in dict.fromkeys(kinds)}
        cells[PodCell.CLASS] = [classes[kind] for kind in kinds]
        return cells

    def _known(self, shape: Shape) -> KnownShape:
        # Readers return equal shapes as one object, so identity is tried first: hashing a shape costs as much as all
        # other work for a pod.
        if (quick := self._quick.get(id(shape))) is not None:
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
            column = self.pods.cells[PodCell.LABEL_SET]
            for row in np.flatnonzero(np.isin(column, np.fromiter(label_sets, np.int64))).tolist():
                if self.pods.objects[row] is not None:
                    self._classify(row, int(column[row]))

    def _match_all(self) -> None:
        """Number the label sets of all pods: the first inter-pod term makes labels matter."""
        for row in self.pods.row_of.values():
            label_set = self.terms.label_set(self.pods.objects[row])
            self.pods.cells[PodCell.LABEL_SET, row] = label_set
            self._classify(row, label_set)

    def _classify(self, row: int, label_set: int) -> None:
        before = self.classes[self.pods.cells[PodCell.CLASS, row]]
        self.pods.cells[PodCell.CLASS, row] = self._class_of(before.known, before.reserves, label_set)
