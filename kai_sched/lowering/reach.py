"""Which nodes a node affinity of a volume, or the topology of a storage segment, reaches: by the values that it names.

Cost: the nodes that have such a value; all nodes for an affinity that names none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.constraints import label_column
from kai_sched.model.constraints import NodeSelector, Term
from kai_sched.model.objects import Node
from kai_sched.model.selectors import admits


@dataclass(slots=True)
class Reaches:
    """(nodes) that a node affinity reaches, looked up by the values of a label where the affinity names values."""

    cache: Cache
    nodes: list[Node]
    _known: dict[NodeSelector | None, list[int]] = field(default_factory=dict)
    _by_value: dict[str, dict[str | None, list[int]]] = field(default_factory=dict)

    def of(self, selector: NodeSelector) -> list[int]:
        """The rows of the nodes that the selector admits, in order."""
        found = self._known.get(selector)
        if found is None:
            rows = sorted({n for term in selector for n in self._near(term)})
            found = self._known[selector] = [n for n in rows if admits(selector, self.nodes[n])]
        return found

    def _near(self, term: Term) -> list[int] | range:
        """Nodes among which are all that the term admits."""
        for requirement in term:
            if requirement.op == "In":
                values = self._values(requirement.key)
                return [n for value in requirement.values for n in values.get(value, ())]
        return range(len(self.nodes))

    def _values(self, key: str) -> dict[str | None, list[int]]:
        if key not in self._by_value:
            codes, numbers = label_column(key, self.cache, self.nodes)
            values = list(numbers)
            found: dict[str | None, list[int]] = {}
            for n, code in enumerate(codes.tolist()):
                found.setdefault(values[code], []).append(n)
            self._by_value[key] = found
        return self._by_value[key]
