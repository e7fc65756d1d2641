"""Which claims for devices the tasks have, what is allocated to them, and which pods are alike by their claims
(semantics 8.6; ADR 14).

A claim that one pod uses moves with it: its pods are of one class if their claims ask for the same. A claim that
several pods use, or that is allocated before its pod has a node, is a row of its own, and its pods are of a class of
their own. Claims that no task uses but that are allocated hold their devices.

Cost: one step for each task with claims; nothing for the others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.claims.devices import DeviceBook
from kai_sched.lowering.claims.extended import ExtendedBook
from kai_sched.lowering.claims.refusals import ClaimJudge
from kai_sched.lowering.errors import ErrorCollector
from kai_sched.model.claims.objects import (
    EXTENDED_CLAIM,
    Allocation,
    ClaimRequests,
    DeviceOption,
    ExtendedRequests,
    ResourceClaim,
)
from kai_sched.model.claims.of_pods import ClaimBook, PodClaims
from kai_sched.model.claims.selectors import SelectorQuestion
from kai_sched.model.config import Config
from kai_sched.model.keys import ObjectKey
from kai_sched.model.objects import Node, Pod
from kai_sched.model.store import Cluster
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Floats, Ints, Status


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """What tells classes apart by their claims: equal for pods that can have the same devices.

    ``specs`` has what each claim asks for, and the key of the claim where it is a certain one ("" otherwise).
    ``refusal``: why no node will do; "" if none. ``gpus`` count for the queue, ``booked`` for the room of nodes, both
    beside what containers request. ``whole``: a claim is made for the GPUs that containers request.
    """

    specs: tuple[tuple[ClaimRequests, str], ...] = ()
    refusal: str = ""
    gpus: float = 0.0
    booked: float = 0.0
    whole: bool = False


NO_CLAIMS = ClaimKey()


@dataclass(slots=True)
class ClaimRows:
    """The claims of a cycle before classes are known, and then their tables.

    Attributes
    ----------
    keys, of_task
        The distinct keys, the first for no claims, and (T,) the key of each task.
    claims
        (I,) the ResourceClaim of each row.
    options
        (O,) name of the request and option of each row: "request" or "request/option", and the option.
    gpus
        (N,) GPUs of slices on the nodes.
    extended, asked
        The extended resources for which classes stand, and what claims that are made for them ask for, by row.
    faults
        What is wrong with what claims ask for, as far as that was judged; "" for nothing.
    """

    book: DeviceBook | None
    keys: list[ClaimKey]
    of_task: Ints
    extended: ExtendedBook | None = None
    asked: dict[int, ExtendedRequests] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    claims: list[ResourceClaim] = field(default_factory=list)
    by_task: list[list[int]] = field(default_factory=list)
    certain: list[bool] = field(default_factory=list)
    on_nodes: Counter[int] = field(default_factory=Counter)
    allocations: dict[int, Allocation] = field(default_factory=dict)
    options: list[tuple[str, DeviceOption]] = field(default_factory=list)
    faults: dict[ClaimRequests, str] = field(default_factory=dict)

    @property
    def questions(self) -> tuple[SelectorQuestion, ...]:
        """Selectors that are not evaluated yet."""
        return self.book.selectors.questions if self.book is not None else ()

    @property
    def gpus(self) -> Floats | None:
        return self.book.gpus if self.book is not None else None


def find_claims(
    cluster: Cluster,
    cache: Cache,
    nodes: list[Node],
    pods: npt.NDArray[np.object_],
    placed: tuple[Ints, npt.NDArray[np.int8]],
    config: Config,
) -> ClaimRows:
    """The claims of the tasks, and the key of each task.

    ``pods`` (T,) are the pods of the tasks, ``placed`` their nodes and statuses, (T,) each.
    """
    of_task = np.zeros(pods.size, np.int32)
    unused = not cluster.resource_claims and not cluster.resource_slices
    if unused and not cluster.device_classes and not cache.has_claims:
        return ClaimRows(None, [NO_CLAIMS], of_task)
    book = cache.device_book(lambda: DeviceBook(cluster, cache, nodes))
    book.begin(cluster.selector_answers, len(nodes))
    claims = ClaimBook(cluster)
    extended = ExtendedBook(claims.classes, cache, nodes)
    found = ClaimRows(book, [NO_CLAIMS], of_task, extended)
    node, status = placed
    counts = (status >= Status.GATED).tolist()
    on_node = ((node != NULL) & (status >= Status.PIPELINED)).tolist()
    uses = []
    errors = ErrorCollector()
    for t, pod in enumerate(pods.tolist()):
        try:
            of_pod = claims.claims(pod)
        except Exception as error:
            errors.add(Pod, pod.key, error)
            continue
        if of_pod is not None and counts[t]:
            uses.append(_Uses(t, pod, on_node[t], of_pod, of_pod.distinct()))
    errors.end()
    if unused and not uses:
        return ClaimRows(None, [NO_CLAIMS], of_task)
    _number(uses, found, cache)
    numbers = {NO_CLAIMS: 0}
    judge = ClaimJudge(cluster, config, found.book, extended, found.faults)
    for each in uses:
        key = _key(each, found, judge, errors)
        of_task[each.task] = numbers.setdefault(key, len(numbers))
    errors.end()
    found.keys = list(numbers)
    for _, claim in sorted(cluster.resource_claims.items()):
        if claim.allocation is not None and claim.key not in found.rows:
            found.allocations[len(found.claims)] = claim.allocation
            found.rows[claim.key] = len(found.claims)
            found.claims.append(claim)
            found.certain.append(True)
    return found


@dataclass(frozen=True, slots=True)
class _Uses:
    """A task with claims, and whether it is on a node; ``distinct`` are the claims that exist, each once, by key."""

    task: int
    pod: Pod
    on_node: bool
    claims: PodClaims
    distinct: dict[ObjectKey, ResourceClaim]


def _number(uses: list[_Uses], found: ClaimRows, cache: Cache) -> None:
    """Give the claims of tasks their rows, in the order of the tasks, and note which of them stay where they are."""
    users = Counter(key for each in uses for key in each.distinct)
    there = Counter(key for each in uses if each.on_node for key in each.distinct)
    found.by_task = [[] for _ in range(found.of_task.size)]
    for each in uses:
        holder = cache.binding(each.pod)
        binding = dict(holder.claims) if holder else {}
        own, asked = each.claims.own, each.claims.asked
        names = {claim.key: use.name for use, claim in each.claims.listed if claim is not None}
        if own is not None:
            names[own.key] = EXTENDED_CLAIM
        for key, claim in each.distinct.items():
            allocation = claim.allocation or (binding.get(names[key]) if each.on_node else None)
            row = found.rows.setdefault(key, len(found.claims))
            if row == len(found.claims):
                found.claims.append(claim)
                found.certain.append(False)
            if asked is not None and claim is own:
                found.asked[row] = asked
            if allocation is not None:
                found.allocations[row] = allocation
            elsewhere = len(set(claim.consumers)) > there[key]
            stays = users[key] > 1 or (allocation is not None and (not each.on_node or elsewhere))
            found.certain[row] = found.certain[row] or stays
            found.by_task[each.task].append(row)
            found.on_nodes[row] += each.on_node


def _key(each: _Uses, found: ClaimRows, judge: ClaimJudge, errors: ErrorCollector) -> ClaimKey:
    """The key of the task. What fails because of a claim, or of the pod, is added to the errors."""
    refusal = ""
    for use, claim in each.claims.listed:
        allocated = claim is not None and found.rows[claim.key] in found.allocations
        try:
            refusal = refusal or judge.refusal(each.pod, use, claim, allocated)
        except Exception as error:
            if claim is not None:
                errors.add(ResourceClaim, claim.key, error)
            else:
                errors.add(Pod, each.pod.key, error)
            return NO_CLAIMS
    if each.claims.own is not None:
        refusal = refusal or judge.extended_refusal(each.claims.own, each.on_node)
    refusal = refusal or judge.missing_class(each.claims.missing)
    specs, gpus, booked, whole = [], 0.0, 0.0, False
    for row in found.by_task[each.task]:
        claim, certain = found.claims[row], found.certain[row]
        specs.append((claim.asks, claim.key if certain else ""))
        count, is_whole = judge.gpus(claim.asks)
        gpus, whole = gpus + count, whole or is_whole
        booked += 0.0 if certain else judge.booked(claim.asks, each.pod.namespace)
    return ClaimKey(tuple(specs), refusal, gpus, booked, whole)
