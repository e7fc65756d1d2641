"""Which pods on nodes have the devices that their annotations ask for, and which have what their containers request and
no more (semantics 8.2).

Anybody who may create pods can give one annotations, labels and a node. So an annotation holds a device only for pods
of this scheduler, and in a cluster (``Config.proves_shares``) only where a reservation pod holds the device for the
group that the pod names: these pods are in a namespace where tenants create none.

Also which pods on nodes are not to be evicted for now: they have a class of their own, as those of the former kind.

Cost: one step for each pod with such annotations that is on a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.cached_rows import PodCell
from kai_sched.lowering.class_records import PodClass
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod, Shape
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Ints, Longs, Status

Devices = Set[tuple[str, str]]  # (node, group)
NOT_HELD = "a device by annotation that nothing shows to be the pod's: create the pod again, without a node"
STAYS = "its eviction, which the API server refuses"
_STAYS = -1  # in the place of a number of devices


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the pods on nodes have.

    Attributes
    ----------
    classes
        (T,) the number of each task's class in the cache.
    groups
        By task: the groups whose devices it shares, as far as it is on a node and has a share.
    reserved
        (node, group) of the devices that reservation pods hold.
    """

    classes: Longs
    groups: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    reserved: Devices = frozenset()


def find_holdings(
    cache: Cache,
    pods: npt.NDArray[np.object_],
    rows: Longs,
    placed: tuple[Ints, npt.NDArray[np.int8]],
    config: Config,
    awaited: Devices,
) -> Holdings:
    """What the pods on nodes have.

    Parameters
    ----------
    pods, rows
        (T,) the pods, and their rows in the cache.
    placed
        (T,) each: the node of the task, or NULL, and its status.
    awaited
        ``SchedulingHints.awaited_devices``.
    """
    classes: Longs = cache.pods.cells[PodCell.CLASS, rows]
    annotated = np.fromiter((_is_annotated(each.known.shape) for each in cache.classes), bool, len(cache.classes))
    node, status = placed
    asked = np.flatnonzero((node != NULL) & (status >= Status.PIPELINED) & annotated[classes])
    if not asked.size:
        return Holdings(classes)
    reserved = frozenset(
        (pod.node, group)
        for pod in (cache.pods.objects[cache.pods.row_of[key]] for key in cache.reservations)
        for group in pod.gpu_groups
    )
    groups: dict[int, tuple[str, ...]] = {}
    proofs = reserved | awaited if config.proves_shares else None
    for t in asked.tolist():
        pod = pods[t]
        share = pod.shape.share
        proven = _proven_groups(cache, pod, proofs, config)
        wanted = share.devices if share else 0
        if proven is None or (share and len(proven) < wanted and proofs is not None):
            has, asks = len(proven or ()), cache.classes[classes[t]]
            held = held_shape(_without_terms(pod.shape, asks), has)
            shape = cache.held_shapes.setdefault((asks.known.number, has), held)
            classes[t] = cache.class_of(shape, asks.reserves, int(cache.pods.cells[PodCell.LABEL_SET, rows[t]]))
        if share and proven is not None:
            groups[t] = proven[:wanted]
    return Holdings(classes, groups, reserved)


def with_refused_victims(
    cache: Cache, classes: Longs, rows: Longs, placed: tuple[Ints, npt.NDArray[np.int8]], keys: Set[str]
) -> Longs:
    """(T,) the ``classes`` of tasks, where those on nodes have others whose pods are in ``keys``: jobs with a pod of
    an unsupported class are no victims (4.2), and all else is as it was.

    Parameters
    ----------
    rows
        (T,) the rows of the pods in the cache.
    placed
        (T,) each: the node of the task, or NULL, and its status.
    keys
        ``SchedulingHints.refused_victims``.
    """
    refused = [row for row in map(cache.pods.row_of.get, sorted(keys)) if row is not None]
    if not refused:
        return classes
    node, status = placed
    found = classes.copy()
    for t in np.flatnonzero(np.isin(rows, refused) & (node != NULL) & (status >= Status.PIPELINED)).tolist():
        asks = cache.classes[classes[t]]
        stays = replace(_without_terms(asks.shape, asks), unsupported=(*asks.shape.unsupported, STAYS))
        shape = cache.held_shapes.setdefault((asks.known.number, _STAYS), stays)
        found[t] = cache.class_of(shape, asks.reserves, int(cache.pods.cells[PodCell.LABEL_SET, rows[t]]))
    return found


def _without_terms(shape: Shape, asks: PodClass) -> Shape:
    """The shape without its inter-pod terms, if these are over a limit of work: the limit is that of the pod's shape,
    and another shape with the same terms would go round it."""
    if not asks.known.refusal:
        return shape
    return replace(shape, affinity=(), anti_affinity=(), preferred_affinity=())


def _is_annotated(shape: Shape) -> bool:
    """Whether the pod asks for devices in another way than by what its containers request."""
    return shape.share is not None or shape.legacy_mig or shape.containers is not None


def _proven_groups(cache: Cache, pod: Pod, proofs: Devices | None, config: Config) -> tuple[str, ...] | None:
    """The groups whose devices the pod shares; None for a pod that has no device by its annotations.

    Without ``proofs`` the input is believed, as far as it shows that this scheduler placed the pod.
    """
    request = cache.binding(pod)
    if request is not None:
        return request.gpu_groups
    if pod.scheduler != config.scheduler_name:
        return None
    if proofs is None:
        return pod.gpu_groups if pod.gpu_groups or pod.group else None
    return tuple(group for group in pod.gpu_groups if (pod.node, group) in proofs) or None


def held_shape(shape: Shape, devices: int) -> Shape:
    """The shape of a pod that has parts of so many devices and else what its containers request; such a pod fits no
    node, so that nobody expects it to find another place."""
    share = replace(shape.share, devices=devices) if shape.share and devices else None
    request = shape.request if shape.containers is None else shape.containers
    unsupported = (*shape.unsupported, NOT_HELD)
    return replace(shape, request=request, containers=None, share=share, legacy_mig=False, unsupported=unsupported)
