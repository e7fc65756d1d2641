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
from kai_sched.snapshot.tables import GPU, Flags, Floats
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

    fixed: Flags
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
    snapshot, counts, fixed = lowered.snapshot, solution.class_facts(c).nodes, solution.fixed_verdicts(c)
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
