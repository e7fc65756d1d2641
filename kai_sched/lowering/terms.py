"""Inter-pod affinity and anti-affinity: which terms exist, and which pods each term matches (semantics 12.2, step 6).

Required affinity counts, as in Kubernetes, only pods that match all required terms of the incoming pod. So the whole
list of these terms is part of the identity of each of them. The terms that match a pod are part of its class: every
term counts all pods of a class, or none.

Terms are matched with label sets (namespace, labels), which many pods share. A term is indexed by *handles*: a label,
a label key or a namespace that any pod it matches must have. Invariant: a term and a label set that match have a handle
in common, so only such pairs are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kai_sched.api import names
from kai_sched.lowering.errors import TermWorkError
from kai_sched.model.constraints import PodTerm
from kai_sched.model.objects import Namespace, Pod, Shape
from kai_sched.model.selectors import holds
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import TermKind

# A label (key, value), a label key (key,), a namespace, or None, which all label sets have.
Handle = tuple[str, ...] | str | None
_NEEDS_LABEL = ("Exists", "Gt", "Lt")


@dataclass(frozen=True, slots=True)
class Term:
    """An inter-pod term: it counts, by domain of ``topology_key``, the pods that match all of ``selectors``."""

    kind: TermKind
    topology_key: str
    selectors: tuple[PodTerm, ...]


def cost_of(selectors: tuple[PodTerm, ...]) -> int:
    """How many requirements the comparison of a term with a label set looks at, at most."""
    return sum(
        1 + len(each.selector or ()) + len(each.namespaces) + len(each.namespace_selector or ()) for each in selectors
    )


def selections(shape: Shape) -> Iterator[tuple[int, tuple[PodTerm, ...]]]:
    """What the terms of a pod of this shape select: how many of them do so, and their selectors."""
    if shape.affinity:
        yield len(shape.affinity), shape.affinity
    for term in shape.anti_affinity:
        yield 1, (term,)
    for entry in shape.preferred_affinity:
        yield 1, (entry.term,)


def terms_of(shape: Shape) -> list[tuple[Term, int]]:
    """The terms of a pod of this shape, each with its weight: 0 for required affinity, 1 for anti-affinity."""
    found = [(Term(TermKind.REQUIRED, term.topology_key, shape.affinity), 0) for term in shape.affinity]
    found += [(Term(TermKind.ANTI, term.topology_key, (term,)), 1) for term in shape.anti_affinity]
    found += [
        (Term(TermKind.PREFERRED, entry.term.topology_key, (entry.term,)), entry.weight)
        for entry in shape.preferred_affinity
    ]
    return found


class TermBook:
    """All terms and all label sets seen so far, numbered, and which term matches which label set.

    Attributes
    ----------
    terms
        The term of each number.
    namespaces
        The namespaces of the current view, for namespace selectors.
    label_sets
        Namespace and labels of each number.
    matches
        By number of the label set, the numbers of the terms that match it, ascending.
    work, work_max
        What the comparisons so far have cost (``cost_of``), and the most that they may. TermWorkError is raised before
        one that would cost more (``term_work``).
    by_sets
        Whether terms are indexed by what the fewest label sets have, whatever other terms are indexed by.

    Notes
    -----
    A new term or label set is compared only with those that have a handle in common with it. Its cost does not grow
    with unrelated ones.
    """

    def __init__(self, work_max: int = sys.maxsize) -> None:
        self.terms: list[Term] = []
        self.namespaces: Mapping[str, Namespace] = {}
        self.label_sets: list[tuple[str, Mapping[str, str]]] = []  # namespace and labels
        self.matches: list[list[int]] = []  # by label set: the terms that count such pods, ascending
        self._number_of: dict[tuple[TermKind, str, int], int] = {}  # by kind, topology key and selection
        self._selections: dict[tuple[PodTerm, ...], int] = {}
        self._set_of: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._terms_at: dict[Handle, list[int]] = {}
        self._sets_at: dict[Handle, list[int]] = {}
        self._select_namespaces = False
        self._costs: list[int] = []  # of the terms
        self.work = 0
        self.work_max = work_max
        self.by_sets = False

    def __len__(self) -> int:
        """Number of terms."""
        return len(self.terms)

    def learn(self, shape: Shape) -> tuple[tuple[tuple[int, TermKind, int], ...], set[int]]:
        """Number the terms of the shape.

        Returns (number, kind, weight) for each term, and the label sets that terms seen for the first time match.
        """
        found, changed = [], set[int]()
        selection = cost = NULL
        last: tuple[PodTerm, ...] | None = None
        narrowest: tuple[Handle, ...] = ()
        for term, weight in terms_of(shape):
            # All required terms of a pod have the same selectors, and there may be many.
            if term.selectors is not last:
                last, cost = term.selectors, cost_of(term.selectors)
                selection = self._selections.setdefault(last, len(self._selections))
                narrowest = self._narrowest(last)
            key = term.kind, term.topology_key, selection
            number = self._number_of.get(key)
            if number is None:
                number = self._number_of[key] = len(self.terms)
                self.terms.append(term)
                self._costs.append(cost)
                changed |= self._introduce(number, term, narrowest)
            found.append((number, term.kind, weight))
        return tuple(found), changed

    def _introduce(self, number: int, term: Term, narrowest: tuple[Handle, ...]) -> set[int]:
        self._select_namespaces |= any(selector.namespace_selector is not None for selector in term.selectors)
        counted: set[int] = set()
        self._spend(self._costs[number] * sum(len(self._sets_at.get(handle, ())) for handle in narrowest))
        for handle in narrowest:
            self._terms_at.setdefault(handle, []).append(number)
            counted.update(row for row in self._sets_at.get(handle, ()) if self._counts(term, *self.label_sets[row]))
        for row in counted:
            self.matches[row].append(number)
        return counted

    def _spend(self, work: int) -> None:
        self.work += work
        if self.work > self.work_max:
            raise TermWorkError

    def _narrowest(self, selectors: tuple[PodTerm, ...]) -> tuple[Handle, ...]:
        """The handles to index terms by: of all sufficient sets, the one with the fewest terms and label sets."""

        def crowd(handles: tuple[Handle, ...]) -> int:
            terms = 0 if self.by_sets else sum(len(self._terms_at.get(each, ())) for each in handles)
            return terms + sum(len(self._sets_at.get(each, ())) for each in handles)

        return min(handles_of(selectors), key=crowd, default=(None,))

    def label_set(self, pod: Pod) -> int:
        """The number of the pod's label set: its namespace and labels."""
        key = (pod.namespace, tuple(sorted(pod.labels.items())))
        found = self._set_of.get(key)
        if found is None:
            found = self._set_of[key] = len(self.label_sets)
            self.label_sets.append((pod.namespace, pod.labels))
            for handle in handles(pod.namespace, pod.labels):
                self._sets_at.setdefault(handle, []).append(found)
            self.matches.append(self._match(pod.namespace, pod.labels))
        return found

    def _match(self, namespace: str, labels: Mapping[str, str]) -> list[int]:
        near = [number for handle in handles(namespace, labels) for number in self._terms_at.get(handle, ())]
        self._spend(sum(map(self._costs.__getitem__, near)))
        return sorted(number for number in near if self._counts(self.terms[number], namespace, labels))

    def rematch(self, namespace: str) -> set[int]:
        """Match the label sets of a namespace again after it changed; returns those with other matches than before."""
        changed = set()
        if self._select_namespaces:
            for row in self._sets_at.get(namespace, ()):
                before, self.matches[row] = self.matches[row], self._match(*self.label_sets[row])
                if self.matches[row] != before:
                    changed.add(row)
        return changed

    def _counts(self, term: Term, namespace: str, labels: Mapping[str, str]) -> bool:
        return all(
            selector.selector is not None
            and self._in_namespaces(selector, namespace)
            and all(holds(requirement, labels) for requirement in selector.selector)
            for selector in term.selectors
        )

    def _in_namespaces(self, term: PodTerm, name: str) -> bool:
        if name in term.namespaces:
            return True
        if term.namespace_selector is None:
            return False
        namespace = self.namespaces.get(name)
        labels = namespace.labels if namespace else {names.NAMESPACE_NAME_LABEL: name}
        return all(holds(requirement, labels) for requirement in term.namespace_selector)


def handles(namespace: str, labels: Mapping[str, str]) -> Iterator[Handle]:
    """All handles of a label set."""
    yield None
    yield namespace
    for key, value in labels.items():
        yield (key,)
        yield (key, value)


def handles_of(selectors: tuple[PodTerm, ...]) -> Iterator[tuple[Handle, ...]]:
    """Sufficient sets of handles: for each set, a pod that matches all selectors has at least one handle of it."""
    for selector in selectors:
        if selector.selector is None:
            yield ()
        for requirement in selector.selector or ():
            if requirement.op == "In":
                yield tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
            elif requirement.op in _NEEDS_LABEL:
                yield ((requirement.key,),)
        if selector.namespace_selector is None:
            yield tuple(dict.fromkeys(selector.namespaces))
