"""What of a node's own properties keeps a class of pods away (semantics 12.1, 12.2), against a twin on plain lists."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.gpu_kinds import UNKNOWN_MEMORY, GpuKind, MigMode
from kai_sched.snapshot.tables import GPU, Nodes, Signatures, Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import entry
from kai_sched.solver.kernels import feasibility
from tests.unit.solver.tables import Member, assemble, node_table, opened, pointers, table

judge_nodes = entry(feasibility.judge_nodes)

SELECTOR_VERDICTS = (Verdict.NODE_AFFINITY, Verdict.WORKER_LABEL, Verdict.VOLUME_AFFINITY)


@dataclass
class Constraint:
    """A signature in lists. A selector is (verdict, terms), a term the list of nodes-by-requirement truths."""

    toleration: int = 0
    gpu_kind: GpuKind = GpuKind.NONE
    selectors: list[tuple[Verdict, list[list[int]]]] = field(default_factory=list)


def signature_table(constraints: list[Constraint], tolerated: list[list[bool]], truth: list[list[bool]]) -> Signatures:
    """The constraints as columns; requirement numbers are rows of ``truth``."""
    selectors = [selector for each in constraints for selector in each.selectors]
    terms = [term for _, selector in selectors for term in selector]
    return table(
        Signatures,
        toleration=[each.toleration for each in constraints],
        tolerated=tolerated,
        selector_ptr=pointers([len(each.selectors) for each in constraints]),
        selector_verdict=[verdict for verdict, _ in selectors],
        term_ptr=pointers([len(selector) for _, selector in selectors]),
        requirement_ptr=pointers([len(term) for term in terms]),
        requirement=[row for term in terms for row in term],
        truth=truth,
        gpu_kind=[each.gpu_kind for each in constraints],
    )


def takes_on_mig_nodes(kind: GpuKind, mig: int) -> bool:
    """Which kinds of GPUs may be asked for on a node with MIG devices."""
    without = kind == GpuKind.NONE
    return (
        without
        or {
            MigMode.SINGLE: kind in (GpuKind.WHOLE, GpuKind.CLAIM, GpuKind.EXTENDED),
            MigMode.MIXED: kind == GpuKind.MIG,
            MigMode.ANY: True,
        }[MigMode(mig)]
    )


def twin_verdict(each: Constraint, tolerated: list[list[bool]], truth: list[list[bool]], nodes: Nodes, n: int) -> int:
    """The steps of semantics 12.2 in their order."""
    kind, mig, known = each.gpu_kind, nodes.mig[n], nodes.device_memory[n] != UNKNOWN_MEMORY
    hindered = kind == GpuKind.LEGACY_MIG or (kind == GpuKind.MIG and nodes.legacy_mig[n])
    for_claims = nodes.claims_only[n] and kind in (GpuKind.WHOLE, GpuKind.FRACTION, GpuKind.MEMORY)
    for_claims = for_claims or (nodes.claims_only[n] == 2 and kind == GpuKind.EXTENDED)
    if mig != MigMode.NO_MIG and not for_claims and (hindered or not takes_on_mig_nodes(kind, mig)):
        return Verdict.MIG_ONLY
    if mig == MigMode.NO_MIG and kind == GpuKind.MIG:
        return Verdict.NO_MIG
    if for_claims:
        return Verdict.CLAIMS_ONLY
    if kind in (GpuKind.FRACTION, GpuKind.MEMORY) and nodes.closed[n]:
        return Verdict.NOT_RESERVED
    if kind == GpuKind.MEMORY and not known:
        return Verdict.NO_GPU_MEMORY
    if nodes.condition[n]:
        return int(nodes.condition[n])
    if not tolerated[each.toleration][nodes.taint_set[n]]:
        return Verdict.TAINT
    for verdict, terms in each.selectors:
        if not any(term and all(truth[row][n] for row in term) for term in terms):
            return verdict
    return Verdict.OK


TERMS = st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3)
CONSTRAINTS = st.builds(
    Constraint,
    st.integers(0, 1),
    st.sampled_from(GpuKind),
    st.lists(st.tuples(st.sampled_from(SELECTOR_VERDICTS), TERMS), max_size=3),
)


def flags(rows: int, columns: int) -> st.SearchStrategy[list[list[bool]]]:
    row = st.lists(st.sampled_from([True, True, False]), min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows)


@given(st.lists(CONSTRAINTS, min_size=1, max_size=3), st.integers(1, 5), flags(2, 2), st.data())
def test_verdicts_are_those_of_the_twin(
    constraints: list[Constraint], n_nodes: int, tolerated: list[list[bool]], data: st.DataObject
) -> None:
    """Signatures that no pending pod has are left alone."""

    def some(values: list[int]) -> list[int]:
        return data.draw(st.lists(st.sampled_from(values), min_size=n_nodes, max_size=n_nodes))

    truth = data.draw(flags(4, n_nodes))
    nodes = node_table(
        [[1.0, 1.0, 1.0, 1.0]] * n_nodes,
        condition=some([0, 0, 0, Verdict.NOT_READY, Verdict.DISK_PRESSURE]),
        mig=some(list(MigMode)),
        device_memory=some([100, UNKNOWN_MEMORY]),
        legacy_mig=some([0, 0, 1]),
        closed=some([0, 0, 1]),
        claims_only=some([0, 0, 1, 2]),
        taint_set=some([0, 1]),
    )
    wanted = np.array(data.draw(flags(1, len(constraints)))[0], np.uint8)
    verdicts = np.full((len(constraints), n_nodes), 99, np.uint8)
    judge_nodes(nodes, signature_table(constraints, tolerated, truth), wanted, verdicts)
    for k, each in enumerate(constraints):
        for n in range(n_nodes):
            expected = twin_verdict(each, tolerated, truth, nodes, n) if wanted[k] else 99
            assert verdicts[k, n] == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([[0]], [Verdict.OK, Verdict.NODE_AFFINITY]),
        ([[0], [1]], [Verdict.OK, Verdict.OK]),  # one term of two is enough
        ([[0, 1]], [Verdict.NODE_AFFINITY, Verdict.NODE_AFFINITY]),  # within a term all requirements must hold
        ([[]], [Verdict.NODE_AFFINITY, Verdict.NODE_AFFINITY]),  # a term without requirements never holds
        ([], [Verdict.NODE_AFFINITY, Verdict.NODE_AFFINITY]),
    ],
)
def test_selectors(terms: list[list[int]], expected: list[int]) -> None:
    """Requirement 0 holds on the first of two nodes, requirement 1 on the second."""
    constraint = Constraint(selectors=[(Verdict.NODE_AFFINITY, terms)])
    verdicts = np.zeros((1, 2), np.uint8)
    signatures = signature_table([constraint], [[True]], [[True, False], [False, True]])
    judge_nodes(node_table([[1.0] * 4] * 2), signatures, np.ones(1, np.uint8), verdicts)
    assert verdicts[0].tolist() == expected


@pytest.mark.parametrize(("gpus", "refused"), [(2.0, Verdict.OK), (3.0, Verdict.TOO_LARGE)])
def test_a_class_larger_than_the_largest_node_is_refused(gpus: float, refused: Verdict) -> None:
    """Entry by entry: the maxima may come from different nodes (12.1)."""
    nodes = node_table([[4.0, 8.0, 2.0, 9.0, 0.0], [9.0, 8.0, 0.0, 9.0, 0.0]])
    books = opened(assemble([Member(1, [Status.PENDING])], nodes=nodes, request=[[9.0, 1.0, gpus, 1.0, 0.0]]))
    assert books.finder.refused[0] == refused
    assert nodes.allocatable[:, GPU].max() == 2.0


@pytest.mark.parametrize(("status", "node"), [(Status.PENDING, NULL), (Status.RUNNING, 0), (Status.GATED, NULL)])
def test_only_signatures_of_pods_that_may_be_placed_are_judged(status: Status, node: int) -> None:
    nodes = node_table([[4.0] * 5], condition=[Verdict.UNSCHEDULABLE])
    books = opened(assemble([Member(1, [status])], nodes=nodes, tasks={"node": [node]}))
    assert books.finder.verdicts[0, 0] == (0 if status == Status.GATED else Verdict.UNSCHEDULABLE)
