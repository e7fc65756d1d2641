"""How much work inter-pod terms take, and which pods are over a limit of it, so that the terms of some pods do not take
the time of all (semantics 12.2, step 6).

The work of a term is its requirements times the label sets that have one of its handles (``terms``), of the handles
that the fewest have. It is a function of the pods that are there, whatever the order in which they came, and no term is
compared more often once the book of terms is made anew (``Cache``). Whoever has the terms is over the limit, never a
pod that they match. Terms of pods over a limit count for nobody; pods that wait go over before pods that run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kai_sched.lowering.terms import Handle, cost_of, handles, handles_of, selections
from kai_sched.model.objects import Phase, Pod, Shape

POD_REQUIREMENTS_MAX = 2**14
POD_WORK_MAX = 2**19
NAMESPACE_WORK_MAX = 2**20
CYCLE_WORK_MAX = 2**21


# By the id of a shape: the shape; and for each selection of its terms how many requirements these have together, and
# the sufficient sets of handles. None: it has too many requirements.
KnownWork = dict[int, tuple[Shape, list[tuple[int, list[tuple[Handle, ...]]]] | None]]


@dataclass(frozen=True, slots=True)
class TermLimits:
    """The shapes over a limit, each with the sentence about it; and with how much more work no other one is over it."""

    over: dict[Shape, str] = field(default_factory=dict)
    slack: int = 0


@dataclass(slots=True)
class _Use:
    """The work of the terms of a shape, the namespaces of its pods, and whether one of them has a node."""

    work: int
    namespaces: set[str] = field(default_factory=set)
    placed: bool = False


def too_many_requirements(shape: Shape) -> str:
    """The sentence about a pod whose terms have too many requirements; "" for others."""
    count = sum(n * cost_of(selectors) for n, selectors in selections(shape))
    if count <= POD_REQUIREMENTS_MAX:
        return ""
    n_terms = len(shape.affinity) + len(shape.anti_affinity) + len(shape.preferred_affinity)
    return f"its {n_terms} terms of pod affinity and anti-affinity have too many requirements: use fewer terms"


def find_limits(pods: Iterable[Pod], known: KnownWork) -> TermLimits:
    """Which shapes of these pods are over a limit of work. ``known`` is brought up to date with these shapes."""
    uses = _uses([pod for pod in pods if pod.phase != Phase.FAILED], known)
    over = {shape: _POD_TEXT for shape, use in uses.items() if use.work > POD_WORK_MAX}
    left = {shape: use for shape, use in uses.items() if shape not in over}
    totals = _totals(left)
    barred = {name for name, total in totals.items() if total > NAMESPACE_WORK_MAX}
    # Waiting pods first: the terms of those that run protect them.
    over |= {shape: _NAMESPACE_TEXT for shape, use in left.items() if not use.placed and use.namespaces <= barred}
    left = {shape: use for shape, use in left.items() if shape not in over}
    totals = _totals(left)
    barred = {name for name, total in totals.items() if total > NAMESPACE_WORK_MAX}
    in_all = sum(use.work for use in left.values())
    for name in sorted(totals, key=lambda name: (-totals[name], name)):
        if in_all > CYCLE_WORK_MAX:
            barred.add(name)
            in_all -= sum(use.work for use in left.values() if name in use.namespaces and use.namespaces <= barred)
    over |= {shape: _NAMESPACE_TEXT for shape, use in left.items() if use.namespaces <= barred}
    left = {shape: use for shape, use in left.items() if shape not in over}
    if not over:
        known.clear()  # nobody asks again soon
    return TermLimits(over, _slack(left))


def _slack(uses: dict[Shape, _Use]) -> int:
    most = max((use.work for use in uses.values()), default=0)
    of_namespace = max(_totals(uses).values(), default=0)
    in_all = sum(use.work for use in uses.values())
    return max(0, min(POD_WORK_MAX - most, NAMESPACE_WORK_MAX - of_namespace, CYCLE_WORK_MAX - in_all))


def _uses(pods: list[Pod], known: KnownWork) -> dict[Shape, _Use]:
    """The shapes with terms, but for those that ``too_many_requirements`` refuses."""
    label_sets = dict.fromkeys((pod.namespace, tuple(sorted(pod.labels.items()))) for pod in pods)
    at = Counter(handle for namespace, labels in label_sets for handle in handles(namespace, dict(labels)))
    uses: dict[Shape, _Use] = {}
    found: dict[int, _Use | None] = {}
    for pod in pods:
        shape = pod.shape
        if not (shape.affinity or shape.anti_affinity or shape.preferred_affinity):
            continue
        if id(shape) not in found:
            if id(shape) not in known:
                known[id(shape)] = shape, _parts(shape)
            parts = known[id(shape)][1]
            found[id(shape)] = None if parts is None else uses.setdefault(shape, _Use(_work(parts, at)))
        use = found[id(shape)]
        if use is not None:
            use.namespaces.add(pod.namespace)
            use.placed = use.placed or bool(pod.node)
    for number in known.keys() - found.keys():
        del known[number]
    return uses


def _parts(shape: Shape) -> list[tuple[int, list[tuple[Handle, ...]]]] | None:
    if too_many_requirements(shape):
        return None
    return [(n * cost_of(selectors), list(handles_of(selectors))) for n, selectors in selections(shape)]


def _work(parts: list[tuple[int, list[tuple[Handle, ...]]]], at: Counter[Handle]) -> int:
    return sum(
        cost * min((sum(at[handle] for handle in each) for each in sets), default=at[None]) for cost, sets in parts
    )


def _totals(uses: dict[Shape, _Use]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for use in uses.values():
        for name in use.namespaces:
            totals[name] += use.work
    return totals


_POD_TEXT = (
    "its terms of pod affinity and anti-affinity are compared with pods more often than "
    f"{POD_WORK_MAX} times: use fewer terms, or terms that select fewer pods"
)
_NAMESPACE_TEXT = (
    "the terms of pod affinity and anti-affinity in its namespace are compared with pods more often than "
    f"{NAMESPACE_WORK_MAX} times: use fewer different terms, or terms that select fewer pods"
)
