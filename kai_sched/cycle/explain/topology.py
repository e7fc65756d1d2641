"""Why no topology domain holds the pods of a group, or what is wrong with its constraint (semantics 10.2)."""

from __future__ import annotations

from kai_sched.lowering.lower import Lowered
from kai_sched.plan import topology_reasons as reasons
from kai_sched.plan.reasons import Reason
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.solution import JobOutcome, Solution


def topology_reason(j: int, outcome: JobOutcome, lowered: Lowered, solution: Solution) -> Reason:
    """The reason for job ``j``, whose verdict is NO_TOPOLOGY, NO_LEVEL or NO_DOMAIN; the set is the blocking row."""
    layout, local = lowered.layouts[j], outcome.blocking_row - int(lowered.snapshot.jobs.set_ptr[j])
    constraint, known = layout.constraints[local], lowered.topologies.topologies
    assert constraint is not None, "only sets with a constraint are refused for it"
    name = "" if layout.parent[local] == NULL else layout.names[local]
    match outcome.verdict:
        case Verdict.NO_TOPOLOGY:
            return reasons.no_topology(constraint.topology, name, sorted(known))
        case Verdict.NO_LEVEL:
            topology = known[constraint.topology]
            wanted = [level for level in (constraint.required_level, constraint.preferred_level) if level]
            unknown = [level for level in wanted if not topology.level(level)]
            return reasons.no_level(constraint.topology, name, wanted, unknown, topology.levels)
    level = constraint.required_level
    running = level != "" and _has_running(j, local, lowered, solution)
    most = None if outcome.placed == NULL else outcome.placed
    return reasons.no_domain(constraint.topology, name, level, outcome.asked, most, running)


def _has_running(j: int, local: int, lowered: Lowered, solution: Solution) -> bool:
    """Whether pods of the set, or of sets below it, have a place: the others must join them."""
    sets, first = lowered.snapshot.sets, int(lowered.snapshot.jobs.set_ptr[j])
    below = {first + local}
    for s in range(first + local, int(lowered.snapshot.jobs.set_ptr[j + 1])):
        if s in below or sets.parent[s] in below:
            below.add(s)
            statuses = solution.status[sets.task_ptr[s] : sets.task_ptr[s + 1]]
            if ((statuses >= Status.PIPELINED) & (statuses <= Status.RUNNING)).any():
                return True
    return False
