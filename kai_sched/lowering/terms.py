"""Inter-pod affinity in numbers: which terms there are and which pods they match (semantics 12.2, step 6).

A required affinity counts, as in Kubernetes, only pods that match all required terms of the pod that asks, so the
whole list of terms is part of such a term's identity. A pod's matches are part of its class: two pods of one class
are counted alike by every term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai_sched.api import names
from kai_sched.model.objects import Namespace, Pod, PodTerm, Shape
from kai_sched.model.selectors import holds
from kai_sched.snapshot.tables import TermKind

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Term:
    """A counter by domain of ``topology_key``: of pods that match all of ``selectors``."""

    kind: TermKind
    topology_key: str
    selectors: tuple[PodTerm, ...]


def terms_of(shape: Shape) -> list[tuple[Term, int]]:
    """The terms of a pod of this shape, with the weight that it carries them with (0: required, not carried)."""
    found = [(Term(TermKind.REQUIRED, term.topology_key, shape.affinity), 0) for term in shape.affinity]
    found += [(Term(TermKind.ANTI, term.topology_key, (term,)), 1) for term in shape.anti_affinity]
    found += [
        (Term(TermKind.PREFERRED, entry.term.topology_key, (entry.term,)), entry.weight)
        for entry in shape.preferred_affinity
    ]
    return found


class TermBook:
    """All terms met so far, numbered, and the pods' matches, remembered by namespace and labels."""

    def __init__(self) -> None:
        self.ids: dict[Term, int] = {}
        self._known: set[Shape] = set()
        self._namespaces: Mapping[str, Namespace] = {}
        self._matches: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[int, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.ids)

    def learn(self, shapes: Iterable[Shape], namespaces: Mapping[str, Namespace]) -> bool:
        """Number the terms of these shapes; True where some are new, so that pods must be matched again."""
        before = len(self.ids)
        self._namespaces = namespaces
        for shape in shapes:
            if (shape.affinity or shape.anti_affinity or shape.preferred_affinity) and shape not in self._known:
                self._known.add(shape)
                for term, _ in terms_of(shape):
                    self.ids.setdefault(term, len(self.ids))
        if len(self.ids) == before:
            return False
        self._matches.clear()
        return True

    def matches(self, pod: Pod) -> tuple[int, ...]:
        """The terms that count this pod, ascending."""
        if not self.ids:
            return ()
        key = (pod.namespace, tuple(sorted(pod.labels.items())))
        found = self._matches.get(key)
        if found is None:
            found = tuple(number for term, number in self.ids.items() if self._counts(term, pod))
            self._matches[key] = found
        return found

    def _counts(self, term: Term, pod: Pod) -> bool:
        return all(
            selector.selector is not None
            and self._in_namespaces(selector, pod.namespace)
            and all(holds(requirement, pod.labels) for requirement in selector.selector)
            for selector in term.selectors
        )

    def _in_namespaces(self, term: PodTerm, name: str) -> bool:
        if name in term.namespaces:
            return True
        if term.namespace_selector is None:
            return False
        namespace = self._namespaces.get(name)
        labels = namespace.labels if namespace else {names.NAMESPACE_NAME_LABEL: name}
        return all(holds(requirement, labels) for requirement in term.namespace_selector)
