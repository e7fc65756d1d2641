"""Static node constraints in numbers: label requirements by node, taints, volumes (semantics 12)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.model.config import Config
from kai_sched.model.objects import Node, NodeSelector, Requirement, Shape, Taint, Toleration, VolumeClaim
from kai_sched.model.selectors import NODE_NAME, holds
from kai_sched.model.volumes import VolumeBook
from kai_sched.snapshot.tables import Signatures, Verdict

_HARD_EFFECTS = ("NoSchedule", "NoExecute")

Selector = tuple[Verdict, NodeSelector]


@dataclass(frozen=True, slots=True)
class Signature:
    """What decides about a node before anything is placed. Equal signatures are judged once."""

    selectors: tuple[Selector, ...]
    tolerations: tuple[Toleration, ...]
    whole_gpu: bool


@dataclass(slots=True)
class SignatureBook:
    """The signatures of one snapshot, in the order in which canonical order meets them."""

    rows: dict[Signature, int] = field(default_factory=dict)

    def row(self, signature: Signature) -> int:
        return self.rows.setdefault(signature, len(self.rows))


def judge_volumes(shape: Shape, book: VolumeBook) -> tuple[Verdict, str, tuple[Selector, ...]]:
    """The verdict of the pod's claims on every node (12.1), the claim or volume to blame, and what they demand of a
    node.

    A claim that waits for its first consumer demands a node where a volume could be bound to it or made for it.
    """
    cluster = book.cluster
    selectors: list[Selector] = []
    waiting: list[VolumeClaim] = []
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
            waiting.append(claim)
            reach = book.reach(claim)
            if reach is not None:
                selectors.append((Verdict.VOLUME_AFFINITY, reach))
    if book.competing(waiting):
        names = [name for name, node in sorted(cluster.nodes.items()) if book.place(waiting, node).homeless is None]
        selectors.append((Verdict.VOLUME_AFFINITY, ((Requirement(NODE_NAME, "In", tuple(names)),),)))
    return Verdict.OK, "", tuple(selectors)


def make_signature(shape: Shape, cpu_only: bool, volumes: tuple[Selector, ...], config: Config) -> Signature:
    """The signature of a shape: node selector, node affinity, volumes, worker label, in the order of telling."""
    selectors: list[Selector] = []
    if shape.node_selector:
        terms = (tuple(Requirement(key, "In", (value,)) for key, value in shape.node_selector),)
        selectors.append((Verdict.NODE_AFFINITY, terms))
    if shape.node_affinity is not None:
        selectors.append((Verdict.NODE_AFFINITY, shape.node_affinity))
    selectors.extend(volumes)
    if config.restrict_node_scheduling:
        label = config.cpu_worker_label if cpu_only else config.gpu_worker_label
        selectors.append((Verdict.WORKER_LABEL, ((Requirement(label, "Exists"),),)))
    return Signature(tuple(selectors), shape.tolerations, not cpu_only)


def lower_signatures(
    book: SignatureBook, cache: Cache, nodes: list[Node], taint_sets: list[tuple[Taint, ...]]
) -> Signatures:
    """The table of the book's signatures over these nodes (canonical order)."""
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
    truth = [truth_of(requirement, cache, nodes) for requirement in requirements]
    return Signatures(
        np.array([tolerations[signature.tolerations] for signature in book.rows], np.int32),
        np.array([[not untolerated(each, taints) for taints in taint_sets] for each in tolerations], np.uint8).reshape(
            len(tolerations), len(taint_sets)
        ),
        np.array(selector_ptr, np.int32),
        np.array(verdicts, np.uint8),
        np.array(term_ptr, np.int32),
        np.array(requirement_ptr, np.int32),
        np.array(flat, np.int32),
        np.array(truth, np.uint8).reshape(len(requirements), len(nodes)),
        np.array([signature.whole_gpu for signature in book.rows], np.uint8),
    )


def truth_of(requirement: Requirement, cache: Cache, nodes: list[Node]) -> npt.NDArray[np.uint8]:
    """Where the requirement holds, by node; kept until a node changes."""
    found = cache.columns.get(requirement)
    if found is None:
        codes, values = label_column(requirement.key, cache, nodes)
        by_code = [holds(requirement, {} if value is None else {requirement.key: value}) for value in values]
        found = cache.columns[requirement] = np.array(by_code, np.uint8)[codes]
    return found


def label_column(key: str, cache: Cache, nodes: list[Node]) -> tuple[npt.NDArray[np.int32], list[str | None]]:
    """The label's value on each node as a code into the values, ``None`` for "not there"; kept until a node changes."""
    codes = cache.columns.get(("codes", key))
    if codes is None:
        numbers: dict[str | None, int] = {None: 0}
        if key == NODE_NAME:
            texts = [numbers.setdefault(node.name, len(numbers)) for node in nodes]
        else:
            texts = [numbers.setdefault(node.labels.get(key), len(numbers)) for node in nodes]
        codes = cache.columns["codes", key] = np.array(texts, np.int32)
        cache.columns["values", key] = np.array(list(numbers), object)
    return codes, list(cache.columns["values", key])


def untolerated(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> list[Taint]:
    """The taints that keep a pod with these tolerations away."""
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
