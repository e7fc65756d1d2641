"""Why each node refuses a class of pods at the end of the cycle, by its name (``detailedFitErrors``, semantics 3.9).

The solver counts nodes by verdict and does not say which they are. What follows from the snapshot and from what is
free is judged here once more, for all nodes at once; which of the others a verdict is about is often the only one left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kai_sched.cycle.explain.shares import wanted_share
from kai_sched.lowering.constraints import untolerated
from kai_sched.lowering.lower import Lowered
from kai_sched.plan.node_reasons import any_of, lacks, listed
from kai_sched.plan.reasons import some_of
from kai_sched.snapshot.gpu_kinds import UNKNOWN_MEMORY, GpuKind, MigMode
from kai_sched.snapshot.tables import GPU, Floats, Longs, Nodes, Signatures
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.solution import Solution

# What pods that are placed decide: judged after all else, for each node by itself.
PLACED = (
    Verdict.NO_CLAIMED_DEVICES,
    Verdict.CLAIMS_TOO_HARD,
    Verdict.NOT_ALIGNED,
    Verdict.HOST_PORT,
    Verdict.POD_AFFINITY,
    Verdict.POD_ANTI_AFFINITY,
    Verdict.EXISTING_ANTI_AFFINITY,
    Verdict.NO_VOLUME,
)
ROUNDING = 1e-6  # of GPUs, whose parts are added and taken away again


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """What keeps a class of pods from each node.

    Attributes
    ----------
    fixed
        (N,) the verdict by fixed properties of the nodes, OK where there is none.
    short
        (N, R) which resources the nodes lack that these properties do not rule out. Of GPUs that pods share only the
        solver knows what is left of each.
    left
        The verdicts on all other nodes, which are not known node by node.
    """

    fixed: Longs
    short: npt.NDArray[np.bool_]
    left: frozenset[Verdict]

    def refused(self) -> list[int]:
        """The rows of the nodes that refuse the pods, or may."""
        known = (self.fixed != Verdict.OK) | self.short.any(axis=1)
        rows: list[int] = np.flatnonzero(known | bool(self.left - {Verdict.OK})).tolist()
        return rows


def list_nodes(
    c: int, t: int, asked: Floats, lowered: Lowered, solution: Solution, texts: Mapping[Verdict, str]
) -> str:
    """Each node that refuses pods of class ``c``, with why; "" where none does any more.

    Parameters
    ----------
    t
        A task of the class.
    asked
        (R,) what it asks for as users wrote it.
    texts
        What a verdict is called.
    """
    found = judge(c, lowered, solution)
    rows = found.refused()
    known = {**texts, Verdict.NO_ROOM: f"lacks {wanted_share(c, lowered)}"}
    return listed(_entries(rows, found, t, asked, lowered, solution, known), len(rows))


def judge(c: int, lowered: Lowered, solution: Solution) -> NodeVerdicts:
    """What keeps pods of class ``c``, of which a task found no node, from each node."""
    snapshot, counts = lowered.snapshot, solution.class_facts(c).nodes
    fixed = _fixed(int(snapshot.classes.signature[c]), snapshot.nodes, snapshot.signatures)
    rounding = np.zeros(len(lowered.resources))
    rounding[GPU] = ROUNDING
    short = snapshot.classes.request[c] > solution.idle + solution.releasing + rounding
    short[fixed != Verdict.OK] = False
    if snapshot.classes.shares[c]:
        short[:, GPU] = False
    left = {verdict for verdict in (Verdict.OK, *PLACED) if counts.get(verdict)}
    if counts.get(Verdict.NO_ROOM, 0) + counts.get(Verdict.NO_POD_SLOT, 0) > int(short.any(axis=1).sum()):
        left.add(Verdict.NO_ROOM)
    return NodeVerdicts(fixed, short, frozenset(left))


def _fixed(k: int, nodes: Nodes, signatures: Signatures) -> Longs:
    """(N,) as ``solver.kernels.feasibility.judge_nodes`` has it for signature ``k``: the first that fails wins."""
    verdicts = _by_gpus(int(signatures.gpu_kind[k]), nodes)
    verdicts = np.where(verdicts == Verdict.OK, nodes.condition, verdicts)
    refused = signatures.tolerated[signatures.toleration[k]][nodes.taint_set] == 0
    verdicts[(verdicts == Verdict.OK) & refused] = Verdict.TAINT
    for selector in range(*signatures.selector_ptr[k : k + 2].tolist()):
        holds = np.zeros(len(verdicts), bool)
        for term in range(*signatures.term_ptr[selector : selector + 2].tolist()):
            rows = signatures.requirement[slice(*signatures.requirement_ptr[term : term + 2].tolist())]
            holds |= signatures.truth[rows].all(axis=0) & bool(rows.size)
        verdicts[(verdicts == Verdict.OK) & ~holds] = signatures.selector_verdict[selector]
    return verdicts


def _by_gpus(kind: int, nodes: Nodes) -> Longs:
    """(N,) as ``solver.kernels.feasibility.judge_gpus`` has it."""
    verdicts = np.full(len(nodes.mig), int(Verdict.OK), np.int64)
    if kind == GpuKind.NONE:
        return verdicts
    is_whole, is_part = kind in (GpuKind.WHOLE, GpuKind.EXTENDED), kind in (GpuKind.FRACTION, GpuKind.MEMORY)
    is_mig, none = kind == GpuKind.MIG, nodes.mig == MigMode.NO_MIG
    refuses = np.full(len(verdicts), kind == GpuKind.LEGACY_MIG)
    refuses |= is_mig & (nodes.legacy_mig == 1)
    refuses |= (nodes.mig == MigMode.SINGLE) & (not is_whole and kind != GpuKind.CLAIM)
    refuses |= (nodes.mig == MigMode.MIXED) & (not is_mig)
    steps = (
        (none & is_mig, Verdict.NO_MIG),
        ((nodes.claims_only != 0) & (kind == GpuKind.WHOLE or is_part), Verdict.CLAIMS_ONLY),
        ((nodes.claims_only == 2) & (kind == GpuKind.EXTENDED), Verdict.CLAIMS_ONLY),
        (~none & refuses, Verdict.MIG_ONLY),
        ((nodes.closed == 1) & is_part, Verdict.NOT_RESERVED),
        ((nodes.device_memory == UNKNOWN_MEMORY) & (kind == GpuKind.MEMORY), Verdict.NO_GPU_MEMORY),
    )
    for holds, verdict in reversed(steps):
        verdicts[holds] = verdict
    return verdicts


def _entries(
    rows: list[int],
    found: NodeVerdicts,
    t: int,
    asked: Floats,
    lowered: Lowered,
    solution: Solution,
    texts: Mapping[Verdict, str],
) -> Iterator[tuple[str, str]]:
    """Name and text of each of these nodes; ``t`` is a task of the class."""
    others = any_of(sorted(texts[verdict] for verdict in found.left - {Verdict.OK}), Verdict.OK in found.left)
    for n in rows:
        node, verdict = lowered.nodes[n], Verdict(int(found.fixed[n]))
        if verdict == Verdict.TAINT:
            taints = untolerated(lowered.pods[t].shape.tolerations, node.taints)
            names = sorted(f"{taint.key}={taint.value}" if taint.value else taint.key for taint in taints)
            yield node.name, f"{texts[verdict]} ({some_of(names)})"
        elif verdict != Verdict.OK:
            yield node.name, texts[verdict]
        elif found.short[n].any():
            free = solution.idle[n] + solution.releasing[n]
            lacking = np.flatnonzero(found.short[n]).tolist()
            yield node.name, " and ".join(lacks(lowered.resources[r], float(asked[r]), float(free[r])) for r in lacking)
        else:
            yield node.name, others
