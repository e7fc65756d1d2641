"""The tables of inter-pod terms, and of how classes of pods are tied to them and to host ports: which pods a term
counts, and which it keeps away (semantics 12.2, step 6). Pods that compete for a claim get such a term, too.

``terms`` says which terms match which pods.
"""

from __future__ import annotations

import numpy as np

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.class_records import PodClass
from kai_sched.lowering.constraints import label_column
from kai_sched.lowering.exclusive_claims import ExclusiveRows
from kai_sched.lowering.host_ports import PortRows
from kai_sched.lowering.terms import Term
from kai_sched.model.objects import Node
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Ints, TermKind, TermRole, TermRoles, Terms

REQUIRED = int(TermKind.REQUIRED)
NEED, CARRY, MATCH, PORT = int(TermRole.NEED), int(TermRole.CARRY), int(TermRole.MATCH), int(TermRole.PORT)


def contests(exclusive: ExclusiveRows, of_task: Ints) -> dict[int, list[int]]:
    """By class: the numbers of the claims for one pod alone for which its pods compete with others."""
    found: dict[int, list[int]] = {}
    for number, tasks in enumerate(exclusive.contested.values()):
        for c in np.unique(of_task[list(tasks)]).tolist():
            found.setdefault(c, []).append(number)
    return found


def lower_term_roles(
    found: list[PodClass], ports: PortRows, contested: dict[int, list[int]], cache: Cache, nodes: list[Node]
) -> tuple[Terms, TermRoles, int]:
    """Terms, term roles and the number of domains of these classes.

    Terms are numbered in the order of first occurrence; after them come those of claims for one pod alone
    (``contested``, by class), each anti-affinity of the pods with the claim against each other on all nodes together.
    A term role is a row of three: a TermRole, the number of the term or the port, and the weight; those of a class lie
    side by side.
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
    for c, (each, terms, rows_of_ports) in enumerate(zip(found, own, ports.of_class, strict=True)):
        need: list[int] = []
        match: list[int] = []
        if terms or each.matches:
            need = [a for a, kind, _ in terms if kind == REQUIRED]
            match = sorted(rows[number] for number in each.matches if number in rows)
            entries += [(NEED, a, 1) for a in need]
            entries += [(CARRY, a, weight) for a, kind, weight in terms if kind != REQUIRED]
            entries += [(MATCH, a, 1) for a in match]
        entries += [(PORT, row, 1) for row in rows_of_ports]
        entries += [(role, len(rows) + number, 1) for number in contested.get(c, ()) for role in (CARRY, MATCH)]
        ptr.append(len(entries))
        self_match.append(bool(need) and set(need) <= set(match))
    terms_here = [cache.terms.terms[number] for number in rows]
    domain, spans_nodes, n_domains = _domains(terms_here, cache, nodes)
    term_roles = TermRoles(
        np.array(ptr, np.int32), np.array(entries, np.int32).reshape(-1, 3), np.array(self_match, np.uint8)
    )
    kinds = np.array([int(term.kind) for term in terms_here], np.uint8)
    if contested:
        n_more = 1 + max(number for numbers in contested.values() for number in numbers)
        everywhere = np.full((n_more, len(nodes)), np.arange(n_domains, n_domains + n_more, dtype=np.int32)[:, None])
        domain = np.vstack((domain, everywhere))
        kinds = np.append(kinds, np.full(n_more, int(TermKind.ANTI), np.uint8))
        spans_nodes = np.append(spans_nodes, np.full(n_more, len(nodes) > 1, np.uint8))
        n_domains += n_more
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
