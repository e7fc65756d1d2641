"""The tables of classes, pods that placement cannot tell apart: requests, and what is over a limit of work;
``equivalence`` is about jobs, ``host_ports`` has the conflicts of ports, ``term_roles`` those of inter-pod terms.

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
from kai_sched.lowering.class_records import PodClass, TaskColumns
from kai_sched.lowering.constraints import NO_CLAIMS, SignatureBook
from kai_sched.lowering.devices import device_memories, memory_prices, part_of
from kai_sched.lowering.distinct import distinct
from kai_sched.lowering.equivalence import equivalent_classes
from kai_sched.lowering.exclusive_claims import ExclusiveRows, find_exclusive
from kai_sched.lowering.host_ports import lower_ports
from kai_sched.lowering.storage import storage_rows
from kai_sched.lowering.term_roles import contests, lower_term_roles
from kai_sched.lowering.volume_amounts import lower_volume_amounts
from kai_sched.lowering.volume_judge import VolumeJudge
from kai_sched.lowering.volumes import VolumeRows, lower_volumes
from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Shape
from kai_sched.model.resources import CPU, GPU, MEMORY, PODS, mig_gpus
from kai_sched.model.store import Cluster
from kai_sched.model.volumes import VolumeBook
from kai_sched.snapshot.gpu_kinds import UNKNOWN_MEMORY, GpuKind
from kai_sched.snapshot.tables import (
    Classes,
    Floats,
    HostPorts,
    Ints,
    Longs,
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
    amounts
        (N, K) what nodes have of the last K resources, which are for volumes.
    volumes
        The claims that wait for volumes, the free volumes, and what storage drivers say of nodes.
    exclusive
        The claims for one pod alone.
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
    amounts: Floats
    volumes: VolumeRows
    exclusive: ExclusiveRows
    legacy_mig: npt.NDArray[np.bool_]
    claims: list[ClaimKey]


def lower_classes(
    cache: Cache,
    cluster: Cluster,
    config: Config,
    nodes: list[Node],
    tasks: TaskColumns,
    claims: ClaimRows,
) -> ClassRows:
    """The tables of the classes that the tasks of this cycle belong to.

    Parameters
    ----------
    tasks
        What classes are made from. Node constraints are lowered only for classes with a task that may get a node;
        other classes only take up room.
    claims
        The claims of the tasks.
    """
    exclusive = find_exclusive(cluster, cache, tasks, len(nodes))
    found, of_task = _met_classes(cache, tasks.numbers, claims, exclusive)
    n_tasks = np.bincount(of_task, minlength=len(found))
    waits = np.bincount(of_task[tasks.movable], minlength=len(found)) > 0
    resources = _resources(found, nodes, claims.extended.backed if claims.extended is not None else frozenset())
    book = SignatureBook()
    refusals = [""] * len(found)
    sizes = np.unique(device_memories(nodes, cache, config)).tolist() if any(each.shape.share for each in found) else []
    volume_book, users = VolumeBook(cluster), _claim_users(found, n_tasks.tolist())
    drivers, evicts = storage_rows(cluster, cache, nodes), config.schedule_csi_storage
    amounts = lower_volume_amounts(found, of_task, tasks.node, waits, users, volume_book, drivers, evicts)
    judge = VolumeJudge(volume_book, drivers, amounts, users, exclusive.texts, evicts)
    table = _table(found, waits, resources, book, refusals, cluster, config, sizes, claims.keys, judge)
    ports = lower_ports([each.shape.host_ports for each in found], waits, of_task, len(nodes))
    usable = waits & (table.refused == Verdict.OK)
    volumes = lower_volumes(found, usable, users, n_tasks.tolist(), volume_book, drivers, cache)
    _refuse(found, volumes.refusals | ports.refusals | amounts.refusals, table, refusals)
    terms, term_roles, n_domains = lower_term_roles(found, ports, contests(exclusive, of_task), cache, nodes)
    return ClassRows(
        of_task=of_task,
        kind=equivalent_classes(found, users, volume_book)[of_task],
        table=table._replace(request=np.hstack((table.request, amounts.request))),
        signatures=book,
        terms=terms,
        term_roles=term_roles,
        host_ports=ports.table,
        n_domains=n_domains,
        resources=resources + amounts.resources,
        refusals=refusals,
        amounts=amounts.allocatable,
        volumes=volumes,
        exclusive=exclusive,
        legacy_mig=np.array([each.shape.legacy_mig for each in found], bool),
        claims=[claims.keys[each.claims] for each in found],
    )


def _met_classes(
    cache: Cache, numbers: Longs, claims: ClaimRows, exclusive: ExclusiveRows
) -> tuple[list[PodClass], Ints]:
    """The classes in the order in which the tasks first meet them, and (T,) the row of each task's class.

    ``numbers`` (T,) are the classes of the tasks in the cache.
    """
    n_keys, n_texts = len(claims.keys), len(exclusive.texts)
    numbers = (numbers * n_keys + claims.of_task) * n_texts + exclusive.held
    of_pod = distinct(numbers, len(cache.classes) * n_keys * n_texts)
    met = np.argsort(of_pod.first, kind="stable")
    row_of_distinct = np.empty(met.size, np.int32)
    row_of_distinct[met] = np.arange(met.size, dtype=np.int32)
    of_task = row_of_distinct[of_pod.inverse]
    found, merged = _without_old_terms(
        [
            _with_claims(cache.classes[number // n_texts // n_keys], number // n_texts % n_keys, number % n_texts)
            for number in of_pod.values[met].tolist()
        ],
        len(cache.terms),
    )
    return found, merged[of_task]


def _claim_users(found: list[PodClass], n_tasks: list[int]) -> dict[str, int]:
    """How many tasks use each PersistentVolumeClaim, by its key; ``n_tasks`` (C,) are those of each class."""
    users: dict[str, int] = {}
    for each, n in zip(found, n_tasks, strict=True):
        for key in each.known.shape.claims:
            users[key] = users.get(key, 0) + n
    return users


def _with_claims(each: PodClass, claims: int, held: int) -> PodClass:
    return PodClass(each.known, each.reserves, each.matches, claims, held) if claims or held else each


def _without_old_terms(found: list[PodClass], n_terms: int) -> tuple[list[PodClass], Ints]:
    """The classes without the terms of pods that are gone, and (len(found),) the row of each given class among them.

    The cache keeps the terms of pods that are gone and tells classes apart by them; a new cache would not. Merging such
    classes makes the snapshots of a warm and of a new cache equal.
    """
    live = {number for each in found for number, _, _ in each.known.terms}
    if len(live) == n_terms:
        return found, np.arange(len(found), dtype=np.int32)
    rows: dict[tuple[int, bool, tuple[int, ...], int, int], int] = {}
    kept: list[PodClass] = []
    merged = np.empty(len(found), np.int32)
    for c, each in enumerate(found):
        matches = each.matches
        if not live.issuperset(matches):
            each = replace(each, matches=tuple(number for number in matches if number in live))
        key = (each.known.number, each.reserves, each.matches, each.claims, each.held)
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
    judge: VolumeJudge,
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
        verdict, refusals[c], volumes = judge.judge(c, each) if shape.claims else NO_CLAIMS
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
