"""Signatures: what a pod asks of a node whatever other pods are there (node selector and affinity, tolerations, worker
labels, volumes), as tables (semantics 12).

Node selectors, node affinity, volumes, worker labels and taints become tables of requirements and their truth for each
node; the solver judges each signature once per node. Columns by node are cached until a node changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.model.config import Config
from kai_sched.model.constraints import NodeSelector, Requirement, Taint, Toleration
from kai_sched.model.objects import Node, Shape, VolumeClaim
from kai_sched.model.selectors import NODE_NAME, holds
from kai_sched.model.volumes import VolumeBook
from kai_sched.snapshot.gpu_kinds import GpuKind
from kai_sched.snapshot.tables import Signatures
from kai_sched.snapshot.verdicts import Verdict

POD_CLAIMS_MAX = 64  # claims of one pod that wait for volumes
TOO_MANY_CLAIMS = f"more than {POD_CLAIMS_MAX} of its claims wait for volumes: give the pod fewer claims"
TOO_MANY_DEMANDS = (
    "too many volumes have to be compared with what the claims of this namespace ask for: let claims ask for the same"
)
TRUTHS = "truths"  # what ``Cache.columns`` has the columns of requirements under
_HARD_EFFECTS = ("NoSchedule", "NoExecute")

Selector = tuple[Verdict, NodeSelector]
NO_CLAIMS: tuple[Verdict, str, tuple[Selector, ...]] = (Verdict.OK, "", ())


@dataclass(frozen=True, slots=True)
class Signature:
    """All that decides about a node before any pod is placed. Equal signatures are judged once.

    Attributes
    ----------
    selectors
        Node selectors that must all match, each with the Verdict for a node that it does not match.
    tolerations
        The tolerations of the pod.
    gpu_kind
        What kind of GPUs the pod requests; a node may not take it.
    """

    selectors: tuple[Selector, ...]
    tolerations: tuple[Toleration, ...]
    gpu_kind: GpuKind


@dataclass(slots=True)
class SignatureBook:
    """The signatures of one snapshot, numbered in the order of first occurrence; ``rows`` has the number of each."""

    rows: dict[Signature, int] = field(default_factory=dict)
    _known: dict[object, int] = field(default_factory=dict)

    def row(self, shape: Shape, gpu_kind: GpuKind, volumes: tuple[Selector, ...], config: Config) -> int:
        """The number of the signature of a shape (``make_signature``); ``config`` is the same for all."""
        key = shape.node_selector, shape.node_affinity, shape.tolerations, gpu_kind, volumes
        found = self._known.get(key)
        if found is None:
            signature = make_signature(shape, gpu_kind, volumes, config)
            found = self._known[key] = self.rows.setdefault(signature, len(self.rows))
        return found


def judge_volumes(
    shape: Shape, book: VolumeBook, capacity: Callable[[VolumeClaim], NodeSelector | None]
) -> tuple[Verdict, str, tuple[Selector, ...]]:
    """What the claims of a pod with this shape mean for nodes (semantics 12.1).

    A claim that waits for its first consumer needs a node where a volume can be bound to it or provisioned for it. If
    a free volume serves it, that changes while pods are placed, and ``volumes`` has it. ``capacity`` says where there
    is room for a volume that is made for a claim; None: everywhere.

    Returns
    -------
    tuple
        The Verdict that holds for every node, OK if the claims are usable; the key of the claim or volume, or the
        limit, behind any other verdict; and the node selectors that the volumes add.
    """
    cluster = book.cluster
    selectors: list[Selector] = []
    n_waiting = 0
    for key in shape.claims:
        claim = cluster.volume_claims.get(key)
        if claim is None:
            return Verdict.CLAIM_MISSING, key, ()
        if claim.deleted:
            return Verdict.CLAIM_DELETED, key, ()
        if claim.phase == "Lost":
            return Verdict.CLAIM_LOST, key, ()
        if claim.volume:
            volume = cluster.volumes.get(claim.volume)
            if volume is None:
                return Verdict.VOLUME_MISSING, claim.volume, ()
            if volume.node_affinity is not None:
                selectors.append((Verdict.VOLUME_AFFINITY, volume.node_affinity))
        elif not book.waits(claim):
            return Verdict.CLAIM_UNBOUND, key, ()
        else:
            n_waiting += 1
            if n_waiting > POD_CLAIMS_MAX or not book.affords(claim):
                return Verdict.OVER_WORK, TOO_MANY_CLAIMS if n_waiting > POD_CLAIMS_MAX else TOO_MANY_DEMANDS, ()
            selectors += _reach(claim, book, capacity)
    return Verdict.OK, "", tuple(selectors)


def _reach(
    claim: VolumeClaim, book: VolumeBook, capacity: Callable[[VolumeClaim], NodeSelector | None]
) -> list[Selector]:
    """The nodes on which a waiting claim can get a volume, where no free volume serves it."""
    found = [] if claim.selected_node else book.kept(claim)
    if not found:
        if not claim.selected_node and book.is_served(claim):
            return []
        topologies = book.topologies(claim)
        if topologies is None:
            return [(Verdict.NO_VOLUME, ())]
        room = None if claim.selected_node else capacity(claim)
        selectors = ((Verdict.VOLUME_AFFINITY, topologies[0]), (Verdict.NO_CAPACITY, room))
        return [(verdict, selector) for verdict, selector in selectors if selector is not None]
    if any(volume.node_affinity is None for volume in found):
        return []
    terms = (term for volume in found for term in volume.node_affinity or ())
    return [(Verdict.VOLUME_AFFINITY, tuple(dict.fromkeys(terms)))]


def make_signature(shape: Shape, gpu_kind: GpuKind, volumes: tuple[Selector, ...], config: Config) -> Signature:
    """The signature of a shape. The first selector that does not match a node gives the verdict on it.

    ``volumes`` are the selectors from ``judge_volumes``.
    """
    selectors: list[Selector] = []
    if shape.node_selector:
        terms = (tuple(Requirement(key, "In", (value,)) for key, value in shape.node_selector),)
        selectors.append((Verdict.NODE_AFFINITY, terms))
    if shape.node_affinity is not None:
        selectors.append((Verdict.NODE_AFFINITY, shape.node_affinity))
    selectors.extend(volumes)
    if config.restrict_node_scheduling:
        label = config.cpu_worker_label if gpu_kind == GpuKind.NONE else config.gpu_worker_label
        selectors.append((Verdict.WORKER_LABEL, ((Requirement(label, "Exists"),),)))
    return Signature(tuple(selectors), shape.tolerations, gpu_kind)


def lower_signatures(
    book: SignatureBook, cache: Cache, nodes: list[Node], taint_sets: list[tuple[Taint, ...]]
) -> Signatures:
    """The table of the signatures in ``book``.

    ``nodes`` (N,) are in canonical order; ``taint_sets`` are the distinct taint lists that the node table refers to.
    Requirements, terms and selectors are stored once each, as ranges of ranges (``snapshot.columns``).
    """
    tolerations: dict[tuple[Toleration, ...], int] = {}
    requirements: dict[Requirement, int] = {}
    selector_ptr, term_ptr, requirement_ptr = [0], [0], [0]
    verdicts: list[int] = []
    flat: list[int] = []
    for signature in book.rows:
        tolerations.setdefault(signature.tolerations, len(tolerations))
        for verdict, terms in signature.selectors:
            verdicts.append(int(verdict))
            for term in terms:
                flat.extend(requirements.setdefault(requirement, len(requirements)) for requirement in term)
                requirement_ptr.append(len(flat))
            term_ptr.append(len(requirement_ptr) - 1)
        selector_ptr.append(len(verdicts))
    truths = {requirement: truth_of(requirement, cache, nodes) for requirement in requirements}
    # Others are forgotten: nodes that have room for volumes are listed by name, and the list changes with what is used.
    cache.columns[TRUTHS] = truths
    return Signatures(
        toleration=np.array([tolerations[signature.tolerations] for signature in book.rows], np.int32),
        tolerated=np.array(
            [[not untolerated(each, taints) for taints in taint_sets] for each in tolerations], np.uint8
        ).reshape(len(tolerations), len(taint_sets)),
        selector_ptr=np.array(selector_ptr, np.int32),
        selector_verdict=np.array(verdicts, np.uint8),
        term_ptr=np.array(term_ptr, np.int32),
        requirement_ptr=np.array(requirement_ptr, np.int32),
        requirement=np.array(flat, np.int32),
        truth=np.concatenate([np.zeros(0, np.uint8), *truths.values()]).reshape(len(requirements), len(nodes)),
        gpu_kind=np.array([int(signature.gpu_kind) for signature in book.rows], np.uint8),
    )


def truth_of(requirement: Requirement, cache: Cache, nodes: list[Node]) -> npt.NDArray[np.uint8]:
    """(N,) 1 where the node meets the requirement; cached until a node changes, or no pod has the requirement."""
    truths: dict[Requirement, npt.NDArray[np.uint8]] = cache.columns.setdefault(TRUTHS, {})
    found = truths.get(requirement)
    if found is None:
        codes, numbers = label_column(requirement.key, cache, nodes)
        found = truths[requirement] = _truth_by_code(requirement, numbers)[codes]
    return found


def _truth_by_code(requirement: Requirement, numbers: dict[str | None, int]) -> npt.NDArray[np.uint8]:
    """(values,) 1 for each value that meets the requirement, as ``holds`` says; the values that it lists are looked up.

    A node's name has as many values as there are nodes, and each pod may list others.
    """
    if requirement.op in ("In", "NotIn"):
        listed = [numbers[value] for value in requirement.values if value in numbers]
        found = np.full(len(numbers), requirement.op == "NotIn", np.uint8)
        found[listed] = requirement.op == "In"
        return found
    labels: list[dict[str, str]] = [{} if value is None else {requirement.key: value} for value in numbers]
    return np.array([holds(requirement, each) for each in labels], np.uint8)


def label_column(key: str, cache: Cache, nodes: list[Node]) -> tuple[npt.NDArray[np.int32], dict[str | None, int]]:
    """(N,) the code of the label's value on each node, and the code of each value; cached until a node changes.

    Code 0 stands for a missing label; its value is None. The key NODE_NAME stands for the name of the node.
    """
    codes = cache.columns.get(("codes", key))
    if codes is None:
        numbers: dict[str | None, int] = {None: 0}
        if key == NODE_NAME:
            texts = [numbers.setdefault(node.name, len(numbers)) for node in nodes]
        else:
            texts = [numbers.setdefault(node.labels.get(key), len(numbers)) for node in nodes]
        codes = cache.columns["codes", key] = np.array(texts, np.int32)
        cache.columns["values", key] = numbers
    return codes, cache.columns["values", key]


def untolerated(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> list[Taint]:
    """The taints with effect NoSchedule or NoExecute that none of the tolerations matches."""
    return [
        taint
        for taint in taints
        if taint.effect in _HARD_EFFECTS and not any(_matches(toleration, taint) for toleration in tolerations)
    ]


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value
