"""Which fixed properties of a node keep a class of pods away: MIG, conditions, taints, selectors (semantics 12.2, the
static steps).

The verdict depends on the snapshot alone, so it is computed once in a cycle. Classes that share their static
constraints share a signature. Room, ports and inter-pod terms change during the cycle and are checked elsewhere
(``kernels.fit``, ``kernels.score``).

Cost: N nodes for each of K signatures that is wanted, times the requirements of its selectors; what a requirement says
about a node is a table (``signatures.truth``) that the snapshot brings along.
Invariant: verdicts of signatures that are not wanted keep their zeros and must not be read.
"""

from __future__ import annotations

from kai_sched.snapshot.gpu_kinds import UNKNOWN_MEMORY, GpuKind, MigMode
from kai_sched.snapshot.tables import Flags, Nodes, Signatures
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.jit import inner, kernel

OK = int(Verdict.OK)
TAINT = int(Verdict.TAINT)
MIG_ONLY = int(Verdict.MIG_ONLY)
NO_MIG = int(Verdict.NO_MIG)
NOT_RESERVED = int(Verdict.NOT_RESERVED)
CLAIMS_ONLY = int(Verdict.CLAIMS_ONLY)
NO_GPU_MEMORY = int(Verdict.NO_GPU_MEMORY)
WITHOUT_GPUS = int(GpuKind.NONE)
WHOLE = int(GpuKind.WHOLE)
EXTENDED = int(GpuKind.EXTENDED)
FRACTION = int(GpuKind.FRACTION)
MEMORY = int(GpuKind.MEMORY)
CLAIM = int(GpuKind.CLAIM)
MIG = int(GpuKind.MIG)
LEGACY_MIG = int(GpuKind.LEGACY_MIG)
HAS_NO_MIG = int(MigMode.NO_MIG)
SINGLE = int(MigMode.SINGLE)
MIXED = int(MigMode.MIXED)


@inner
def judge_nodes(nodes: Nodes, signatures: Signatures, wanted: Flags, verdicts: Flags) -> None:
    """Write the verdict of each wanted signature on each node, directly; OK (0): no property is in the way.

    The first failing step wins: type of GPUs, node conditions, taints, selectors (12.2, steps 2, 3, 5, 6 and 7).

    Parameters
    ----------
    nodes : (N,) columns ``condition``, ``taint_set`` and those of ``judge_gpus`` are read
    signatures : (K,) columns, and ``tolerated``, toleration set by taint set
    wanted : (K,), 1 where some pod that may be placed has the signature
    verdicts : (K, N), written in place for wanted signatures
    """
    for k in range(signatures.toleration.shape[0]):
        if wanted[k] == 1:
            judge_signature(k, nodes, signatures, verdicts[k])


@kernel
def judge_signature(k: int, nodes: Nodes, signatures: Signatures, verdicts: Flags) -> None:
    """Write the verdict of signature ``k`` on each node to ``verdicts`` (N,), as ``judge_nodes`` does for many."""
    for n in range(nodes.condition.shape[0]):
        verdict = judge_gpus(signatures.gpu_kind[k], n, nodes)
        if verdict != OK:
            verdicts[n] = verdict
        elif nodes.condition[n] != OK:
            verdicts[n] = nodes.condition[n]
        elif signatures.tolerated[signatures.toleration[k], nodes.taint_set[n]] == 0:
            verdicts[n] = TAINT
        else:
            verdicts[n] = judge_selectors(signatures, k, n)


@inner
def judge_gpus(kind: int, n: int, nodes: Nodes) -> int:
    """Return the verdict on a pod with this ``GpuKind`` for node ``n`` (12.2, steps 2 and 3).

    Reads ``mig``, ``legacy_mig``, ``closed``, ``claims_only`` and ``device_memory`` of the nodes, (N,) each.
    """
    mig = nodes.mig[n]
    if kind == WITHOUT_GPUS:
        return OK
    if mig == HAS_NO_MIG and kind == MIG:
        return NO_MIG
    if nodes.claims_only[n] != 0 and WHOLE <= kind <= MEMORY:
        return CLAIMS_ONLY
    # The device plugin would give the pod a GPU that a claim may have.
    if nodes.claims_only[n] == 2 and kind == EXTENDED:
        return CLAIMS_ONLY
    whole = kind in (WHOLE, EXTENDED)
    refused = kind == LEGACY_MIG or (kind == MIG and nodes.legacy_mig[n] == 1)
    refused = refused or (mig == SINGLE and not whole and kind != CLAIM) or (mig == MIXED and kind != MIG)
    if mig != HAS_NO_MIG and refused:
        return MIG_ONLY
    if nodes.closed[n] == 1 and kind in (FRACTION, MEMORY):
        return NOT_RESERVED
    return NO_GPU_MEMORY if kind == MEMORY and nodes.device_memory[n] == UNKNOWN_MEMORY else OK


@inner
def judge_selectors(signatures: Signatures, k: int, n: int) -> int:
    """Return the verdict of the first selector of signature ``k`` that does not hold on node ``n``, or OK.

    All selectors must hold. Of the terms of a selector one must hold, of the requirements of a term all; a term without
    requirements never holds (12.2, step 6).
    """
    for selector in range(signatures.selector_ptr[k], signatures.selector_ptr[k + 1]):
        holds = False
        for term in range(signatures.term_ptr[selector], signatures.term_ptr[selector + 1]):
            first, end = signatures.requirement_ptr[term], signatures.requirement_ptr[term + 1]
            met = first < end
            for entry in range(first, end):
                if signatures.truth[signatures.requirement[entry], n] == 0:
                    met = False
                    break
            if met:
                holds = True
                break
        if not holds:
            return int(signatures.selector_verdict[selector])
    return OK
