"""The tables of classes, pods that placement cannot tell apart: requests, term roles, and what is over a limit of work;
``equivalence`` is about jobs, ``host_ports`` has the conflicts of ports.

A class has one shape (``model.objects.Shape``) and is matched by the same inter-pod terms. Most clusters have many pods
and few classes, so node constraints are judged per class. The tables are in the order in which the tasks, in canonical
order, first meet the classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.claims.tables import ClaimKey, ClaimRows
from kai_sched.lowering.class_records import PodClass
from kai_sched.lowering.constraints import NO_CLAIMS, SignatureBook, judge_volumes, label_column
from kai_sched.lowering.devices import device_memories, memory_prices, part_of
from kai_sched.lowering.equivalence import equivalent_classes
from kai_sched.lowering.host_ports import PortRows, lower_ports
from kai_sched.lowering.terms import Term
from kai_sched.lowering.volumes import VolumeRows, lower_volumes
from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Shape
from kai_sched.model.resources import CPU, GPU, MEMORY, PODS, mig_gpus
from kai_sched.model.store import Cluster
from kai_sched.model.volumes import VolumeBook
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.gpu_kinds import UNKNOWN_MEMORY, GpuKind
from kai_sched.snapshot.tables import (
    Classes,
    Flags,
    Floats,
    HostPorts,
    Ints,
    Longs,
    TermKind,
    TermRole,
    TermRoles,
    Terms,
)
from kai_sched.snapshot.verdicts import Verdict

BASE_RESOURCES = (CPU, MEMORY, GPU, PODS)
# Users can request resources of any name, and each name is a column of all nodes and classes. Of the resources that no
# node has, this many get a column of their own; all others share the last column.
ABSENT_MAX = 64
UNKNOWN = "unknown resources"
GPU_SHARING_OFF = "GPU sharing"
COUNTED = (GpuKind.NONE, GpuKind.WHOLE)  # what containers request says all
NO_DEVICES = (GpuKind.NONE, GpuKind.LEGACY_MIG)
REQUIRED = int(TermKind.REQUIRED)
NEED, CARRY, MATCH, PORT = int(TermRole.NEED), int(TermRole.CARRY), int(TermRole.MATCH), int(TermRole.PORT)


@dataclass(frozen=True, slots=True)
class ClassRows:
    """The tables with a class axis, and what they refer to.

    Attributes
    ----------
    of_task
        (T,) the class of each task.
    kind
        (T,) equal numbers for tasks whose classes differ in their requests only.
    table
        Requests (C, R), quota amounts (C, 3), signatures and refusals of the classes.
    signatures
        The node constraints that the classes refer to.
    terms, term_roles, host_ports
        Inter-pod terms with their domains (A, N), the ties of classes to terms and ports, and which host ports
        conflict.
    n_domains
        The number of domains of all terms together.
    resources
        (R,) the resource of each column of amounts.
    refusals
        (C,) the object, feature or limit for which the class fits no node; "" where there is none.
    volumes
        The claims that wait for volumes, and the free volumes.
    legacy_mig
        (C,) whether the pods ask for MIG devices in the legacy way.
    claims
        (C,) what tells classes apart by their claims for devices.
    """

    of_task: Ints
    kind: Ints
    table: Classes
    signatures: SignatureBook
    terms: Terms
    term_roles: TermRoles
    host_ports: HostPorts
    n_domains: int
    resources: tuple[str, ...]
    refusals: list[str]
    volumes: VolumeRows
    legacy_mig: npt.NDArray[np.bool_]
    claims: list[ClaimKey]


def lower_classes(
    cache: Cache,
    cluster: Cluster,
    config: Config,
    nodes: list[Node],
    numbers: npt.NDArray[np.int64],
    movable: npt.NDArray[np.bool_],
    claims: ClaimRows,
) -> ClassRows:
    """The tables of the classes that the tasks of this cycle belong to.

    Parameters
    ----------
    numbers
        (T,) the number of each task's class in the cache, tasks in canonical order.
    movable
        (T,) whether the task may get a node in this cycle. Node constraints are lowered only for classes with such a
        task; other classes only take up room.
    claims
        The claims of the tasks.
    """
    n_keys = len(claims.keys)
    numbers = numbers * n_keys + claims.of_task
    distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    met = np.argsort(first, kind="stable")
    row_of_distinct = np.empty(met.size, np.int32)
    row_of_distinct[met] = np.arange(met.size, dtype=np.int32)
    of_task = row_of_distinct[inverse] if numbers.size else np.zeros(0, np.int32)
    found, merged = _without_old_terms(
        [_with_claims(cache.classes[number // n_keys], number % n_keys) for number in distinct[met].tolist()],
        len(cache.terms),
    )
    of_task = merged[of_task]
    waits, n_tasks = np.bincount(of_task[movable], minlength=len(found)) > 0, np.bincount(of_task, minlength=len(found))
    resources = _resources(found, nodes, claims.extended.backed if claims.extended is not None else frozenset())
    book = SignatureBook()
    refusals = [""] * len(found)
    sizes = np.unique(device_memories(nodes, cache, config)).tolist() if any(each.shape.share for each in found) else []
    storage = VolumeBook(cluster)
    table = _table(found, waits, resources, book, refusals, cluster, config, sizes, claims.keys, storage)
    ports = lower_ports([each.shape.host_ports for each in found], waits, of_task, len(nodes))
    users, usable = _claim_users(found, n_tasks.tolist()), waits & (table.refused == Verdict.OK)
    volumes = lower_volumes(found, usable, users, n_tasks.tolist(), storage, (cache, nodes))
    _refuse(found, volumes.refusals | ports.refusals, table, refusals)
    terms, term_roles, n_domains = _lower_term_roles(found, ports, cache, nodes)
    return ClassRows(
        of_task=of_task,
        kind=equivalent_classes(found, users, storage)[of_task],
        table=table,
        signatures=book,
        terms=terms,
        term_roles=term_roles,
        host_ports=ports.table,
        n_domains=n_domains,
        resources=resources,
        refusals=refusals,
        volumes=volumes,
        legacy_mig=np.array([each.shape.legacy_mig for each in found], bool),
        claims=[claims.keys[each.claims] for each in found],
    )


def _claim_users(found: list[PodClass], n_tasks: list[int]) -> dict[str, int]:
    """How many tasks use each PersistentVolumeClaim, by its key; ``n_tasks`` (C,) are those of each class."""
    users: dict[str, int] = {}
    for each, n in zip(found, n_tasks, strict=True):
        for key in each.known.shape.claims:
            users[key] = users.get(key, 0) + n
    return users


def _with_claims(each: PodClass, claims: int) -> PodClass:
    return PodClass(each.known, each.reserves, each.matches, claims) if claims else each


def _without_old_terms(found: list[PodClass], n_terms: int) -> tuple[list[PodClass], Ints]:
    """The classes without the terms of pods that are gone, and (len(found),) the row of each given class among them.

    The cache keeps the terms of pods that are gone and tells classes apart by them; a new cache would not. Merging such
    classes makes the snapshots of a warm and of a new cache equal.
    """
    live = {number for each in found for number, _, _ in each.known.terms}
    if len(live) == n_terms:
        return found, np.arange(len(found), dtype=np.int32)
    rows: dict[tuple[int, bool, tuple[int, ...], int], int] = {}
    kept: list[PodClass] = []
    merged = np.empty(len(found), np.int32)
    for c, each in enumerate(found):
        matches = each.matches
        if not live.issuperset(matches):
            each = replace(each, matches=tuple(number for number in matches if number in live))
        key = (each.known.number, each.reserves, each.matches, each.claims)
        row = merged[c] = rows.setdefault(key, len(rows))
        if row == len(kept):
            kept.append(each)
    return kept, merged


def _resources(found: list[PodClass], nodes: list[Node], backed: frozenset[str]) -> tuple[str, ...]:
    """The columns of amounts; ``backed`` are resources that devices of slices may serve on any node."""
    asked = {name for each in found for name, _ in each.shape.request} - set(BASE_RESOURCES)
    if len(asked) <= ABSENT_MAX:
        return BASE_RESOURCES + tuple(sorted(asked))
    absent = sorted(asked - {name for node in nodes for name in node.allocatable} - backed)
    rest = (UNKNOWN,) if len(absent) > ABSENT_MAX else ()
    return BASE_RESOURCES + tuple(sorted(asked - set(absent[ABSENT_MAX:]))) + rest


def _table(
    found: list[PodClass],
    waits: npt.NDArray[np.bool_],
    resources: tuple[str, ...],
    book: SignatureBook,
    refusals: list[str],
    cluster: Cluster,
    config: Config,
    sizes: list[int],
    keys: list[ClaimKey],
    storage: VolumeBook,
) -> Classes:
    """The table of the classes; ``sizes`` are the memory of the devices of all nodes, ``keys`` those of claims."""
    column, unknown = {name: r for r, name in enumerate(resources)}, len(resources) - 1
    request = np.zeros((len(found), len(resources)))
    for c, each in enumerate(found):
        for name, amount in each.known.shape.request:
            request[c, column.get(name, unknown)] += amount
    kinds, (quota, gate, shares, portion, memory) = _gpu_amounts(found, request, sizes, keys)
    cpu_only = [each.reserves or kind in NO_DEVICES for each, kind in zip(found, kinds, strict=True)]
    signature = np.zeros(len(found), np.int32)
    refused = np.zeros(len(found), np.uint8)
    for c in np.flatnonzero(waits).tolist():
        each, kind = found[c], kinds[c]
        shape, key = each.known.shape, keys[each.claims]
        verdict, refusals[c], volumes = judge_volumes(shape, storage) if shape.claims else NO_CLAIMS
        missing = [name for name in shape.config_maps if name not in cluster.config_maps]
        if text := _not_supported(shape, config):
            verdict, refusals[c] = Verdict.NOT_SUPPORTED, text
        elif verdict == Verdict.OK and missing:
            verdict, refusals[c] = Verdict.CONFIG_MAP_MISSING, ", ".join(missing)
        elif verdict == Verdict.OK and key.refusal:
            verdict, refusals[c] = Verdict.DEVICE_CLAIM, key.refusal
        refused[c] = int(verdict)
        signature[c] = book.row(shape, kind, volumes, config)
    return Classes(
        request=request,
        quota=quota,
        gate=gate,
        shares=shares,
        portion=portion,
        memory=memory,
        signature=signature,
        cpu_only=np.array(cpu_only, np.uint8),
        refused=refused,
    )


def _refuse(found: list[PodClass], limits: dict[int, str], table: Classes, refusals: list[str]) -> None:
    """Refuse the classes that are over a limit of work, where nothing else does: with the sentence about it."""
    for c, each in enumerate(found):
        text = each.known.refusal or limits.get(c, "")
        if text and table.refused[c] == Verdict.OK:
            table.refused[c], refusals[c] = Verdict.OVER_WORK, text


def _gpu_amounts(
    found: list[PodClass], request: Floats, sizes: list[int], keys: list[ClaimKey]
) -> tuple[list[GpuKind], tuple[Floats, Floats, Ints, Floats, Longs]]:
    """(C,) the kind of GPUs of each class, and the columns of ``Classes`` from ``quota`` to ``memory``.

    ``request`` (C, R) has the amounts of containers; parts of GPUs and GPUs of claims are added, those of reservation
    pods taken away. ``sizes`` are the memories of the devices of all nodes, in MiB.
    """
    column = BASE_RESOURCES.index(GPU)
    kinds = [each.known.gpu_kind for each in found]
    quota, gate = request[:, :3].copy(), request[:, column].copy()
    shares, portion, memory = np.zeros(len(found), np.int32), np.zeros(len(found)), np.zeros(len(found), np.int64)
    known = [size for size in sizes if size != UNKNOWN_MEMORY]
    for c, each in enumerate(found):
        if kinds[c] in COUNTED and not each.reserves and not each.claims:
            continue
        share = each.shape.share
        gate[c] = quota[c, 2] = quota[c, 2] + sum(mig_gpus(name) * amount for name, amount in each.shape.request)
        if each.reserves:
            # The device counts with the pods that share it.
            request[c, column] = 0.0
        elif share and not request[c, column]:
            shares[c], portion[c], memory[c] = share.devices, share.portion, share.memory_mib
            request[c, column] = part_of(share, sizes) * share.devices
            gate[c] = quota[c, 2] = share.quota
            if share.memory_mib:
                quota[c, 2], gate[c] = memory_prices(share, min(known, default=0), max(known, default=0))
        key = keys[each.claims]
        if key.gpus:
            request[c, column] += key.booked
            quota[c, 2] += key.gpus
            gate[c] += key.gpus
            kinds[c] = GpuKind.CLAIM if kinds[c] in NO_DEVICES else kinds[c]
        if key.whole and kinds[c] == GpuKind.WHOLE:
            kinds[c] = GpuKind.EXTENDED
    return kinds, (quota, gate, shares, portion, memory)


def _not_supported(shape: Shape, config: Config) -> str:
    """What the pod asks for that this version does not have; "" if nothing."""
    if shape.unsupported:
        return ", ".join(shape.unsupported)
    return GPU_SHARING_OFF if shape.share and not config.gpu_sharing else ""


def _lower_term_roles(
    found: list[PodClass], ports: PortRows, cache: Cache, nodes: list[Node]
) -> tuple[Terms, TermRoles, int]:
    """Terms, term roles and the number of domains of these classes.

    Terms are numbered in the order of first occurrence. A term role is a row of three: a TermRole, the number of the
    term or the port, and the weight; those of a class lie side by side.
    """
    rows: dict[int, int] = {}
    # A term that no pod matches keeps nobody away, unless the pod needs one that matches.
    matched = set[int]().union(*(each.matches for each in found))
    own = [
        [
            (rows.setdefault(number, len(rows)), kind, weight)
            for number, kind, weight in each.known.terms
            if number in matched or kind == REQUIRED
        ]
        for each in found
    ]
    entries: list[tuple[int, int, int]] = []
    ptr, self_match = [0], []
    for each, terms, rows_of_ports in zip(found, own, ports.of_class, strict=True):
        need: list[int] = []
        match: list[int] = []
        if terms or each.matches:
            need = [a for a, kind, _ in terms if kind == REQUIRED]
            match = sorted(rows[number] for number in each.matches if number in rows)
            entries += [(NEED, a, 1) for a in need]
            entries += [(CARRY, a, weight) for a, kind, weight in terms if kind != REQUIRED]
            entries += [(MATCH, a, 1) for a in match]
        entries += [(PORT, row, 1) for row in rows_of_ports]
        ptr.append(len(entries))
        self_match.append(bool(need) and set(need) <= set(match))
    terms_here = [cache.terms.terms[number] for number in rows]
    domain, spans_nodes, n_domains = _domains(terms_here, cache, nodes)
    term_roles = TermRoles(
        np.array(ptr, np.int32), np.array(entries, np.int32).reshape(-1, 3), np.array(self_match, np.uint8)
    )
    kinds = np.array([int(term.kind) for term in terms_here], np.uint8)
    return Terms(kinds, domain, spans_nodes), term_roles, n_domains


def _domains(terms: list[Term], cache: Cache, nodes: list[Node]) -> tuple[Ints, Flags, int]:
    """(A, N) the domain of each node for each term, (A,) whether a domain has several nodes, and the number of domains.

    The domain is NULL where the node lacks the label.
    Each term counts pods for itself, so terms never share a domain, even with the same topology key.
    """
    domain = np.empty((len(terms), len(nodes)), np.int32)
    spans_nodes = np.zeros(len(terms), np.uint8)
    by_key: dict[str, list[int]] = {}
    for a, term in enumerate(terms):
        by_key.setdefault(term.topology_key, []).append(a)
    sizes = np.zeros(len(terms) + 1, np.int32)
    columns = {key: label_column(key, cache, nodes) for key in by_key}
    for key, rows in by_key.items():
        sizes[np.array(rows) + 1] = len(columns[key][1]) - 1
    first = np.cumsum(sizes, dtype=np.int32)
    for key, rows in by_key.items():
        codes = columns[key][0]
        domain[rows] = np.where(codes == 0, NULL, codes - 1 + first[rows][:, None])
        spans_nodes[rows] = np.bincount(codes, minlength=1)[1:].max(initial=0) > 1
    return domain, spans_nodes, int(first[-1])
