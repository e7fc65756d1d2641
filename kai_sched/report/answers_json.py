"""Answers as documents (``report.documents`` and the modules beside it), for JSON, YAML and ``to_dict()``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kai_sched.answers.headlines import Costs, Headline, Victim
from kai_sched.answers.overview import ClusterRoom, Overview, PlacedWorkload, RunningWorkload, room_text
from kai_sched.answers.waiting import Waiting
from kai_sched.answers.workloads import Workload
from kai_sched.model.times import format_time
from kai_sched.plan.reasons import NoFit, Reason
from kai_sched.plan.result import QueueState
from kai_sched.report import documents as d
from kai_sched.report import explanation_documents as e
from kai_sched.report import question_documents as q
from kai_sched.report import reason_documents as r

# These import the solver, which must not happen before it is chosen how it runs.
if TYPE_CHECKING:
    from kai_sched.answers.difference import Difference
    from kai_sched.answers.explain.constraints import Constraint
    from kai_sched.answers.explain.explanation import Explanation
    from kai_sched.answers.explain.suggestion import NothingHelps, Suggestion
    from kai_sched.answers.explain.workload_state import WorkloadState
    from kai_sched.answers.fit import Fit
    from kai_sched.answers.when import When


def overview_document(found: Overview) -> d.OverviewDocument:
    """The overview of a cycle."""
    return d.OverviewDocument(
        text=room_text(found.room),
        room=_room(found.room),
        queues=[queue_document(each) for each in found.queues],
        waiting=[_waiting(each) for each in found.waiting],
        placed=[_placed(each) for each in found.placed],
        evictions=[_headline(each) for each in found.headlines],
        running=[_running(each) for each in found.running],
        finished_pods=found.finished,
        suspended_workloads=found.suspended,
        suspended_by_kueue=found.suspended_by_kueue,
        other_schedulers=dict(found.others),
    )


def explanation_document(found: Explanation) -> e.ExplanationDocument:
    """Why a workload waits."""
    before = [_workload(each) for each in found.earlier]
    return e.ExplanationDocument(
        workload=_workload(found.workload),
        queue=found.queue,
        priority_class=found.priority_class,
        priority=found.priority,
        preemptible=found.preemptible,
        state=_state(found.state),
        waiting_seconds=found.waits_s,
        pods_with_node=found.running,
        needs=[
            e.NeedsDocument(pods=each.pods, together=each.together, gpus=each.gpus, request=_request(each.request))
            for each in found.needs
        ],
        starts=found.starts,
        reason=reason_document(found.reason) if found.reason else None,
        line=e.LineDocument(place=len(before) + 1 if found.needs else 0, of=found.waiting, after=before),
        when=_when(found.when) if found.when else None,
        constraints=[_constraint(each) for each in found.constraints],
        holders=[e.HolderDocument(queue=name, gpus=held, over_quota=over) for name, held, over in found.holders],
        suggestions=[_suggestion(each, costs) for each, costs in found.suggestions],
        no_help=[_nothing(each) for each in found.nothing],
    )


def _state(found: WorkloadState) -> e.StateDocument:
    return e.StateDocument(
        name=found.name,
        text=found.text,
        pods=found.pods,
        pods_failed=found.failed,
        nodes=dict(found.nodes),
        gpus=found.gpus,
        up_seconds=found.up_s,
        pods_evicted=sum(pods for _, pods in found.evicted),
    )


def fit_document(found: Sequence[Fit]) -> q.FitListDocument:
    """Whether workloads would run."""
    return q.FitListDocument(items=[_fit(each) for each in found])


def difference_document(found: Difference) -> q.DifferenceDocument:
    """What differs between two plans."""
    return q.DifferenceDocument(
        text=found.texts,
        starts=[_workload(each) for each in found.starts],
        no_longer_runs=[_workload(each) for each in found.waits],
        evicted=[_victim(each) for each in found.evicted],
        no_longer_evicted=[_workload(each) for each in found.spared],
        gone=[_workload(each) for each in found.gone],
        new=[_workload(each) for each in found.new],
        queues=[
            q.ShareDocument(
                name=each.queue,
                fair_share=_pair(each.fair_share),
                allocated=_pair(each.allocated),
                quota=_pair(each.quota),
            )
            for each in found.shares
        ],
    )


def queue_document(queue: QueueState) -> d.QueueDocument:
    """A queue with its amounts by resource."""
    return d.QueueDocument(
        name=queue.name,
        parent=queue.parent,
        depth=queue.depth,
        priority=queue.priority,
        quota=_amounts(queue.quota),
        limit=_amounts(queue.limit),
        fair_share=_amounts(queue.fair_share),
        allocated=_amounts(queue.allocated),
        requested=_amounts(queue.requested),
    )


def reason_document(reason: Reason) -> r.ReasonDocument:
    """The reason as data: the code, the numbers behind it, and what each action that evicts found."""
    found = r.ReasonDocument(code=reason.code, message=reason.message)
    if reason.gate is not None:
        gate = reason.gate
        found.queue, found.resource = gate.queue, gate.resource
        found.limit = _bound(in_units(gate.resource, gate.bound))
        found.held = in_units(gate.resource, gate.held)
        found.asked = in_units(gate.resource, gate.need)
    if reason.facts is not None:
        _add_facts(found, reason.facts)
    if reason.tries:
        found.per_action = dict(reason.tries)
    return found


def _add_facts(found: r.ReasonDocument, facts: NoFit) -> None:
    short = {
        name: r.ShortDocument(nodes=nodes, asked=in_units(name, asked), most_free=in_units(name, most))
        for name, (nodes, asked, most) in facts.short.items()
    }
    found.pod = facts.pod
    found.pods = r.ChunkDocument(placed=facts.placed, asked=facts.asked)
    found.nodes = r.NodesDocument(every=facts.n_nodes, short=short, verdicts=dict(facts.verdicts))
    found.free = {
        name: r.FreeDocument(free=in_units(name, each.amount), total=in_units(name, each.total))
        for name, each in facts.free.items()
    }
    found.holders = {name: in_units(facts.holders_of, held) for name, held in facts.holders}
    found.holders_of = facts.holders_of


def in_units(resource: str, amount: float) -> float:
    """The amount in the units of documents: cores where the scheduler has millicores."""
    return amount / 1000.0 if resource == "cpu" else amount


def _amounts(triple: tuple[float, float, float]) -> d.AmountsDocument:
    cpu, memory, gpu = triple
    return d.AmountsDocument(cpu=_bound(in_units("cpu", cpu)), memory=_bound(memory), gpu=_bound(gpu))


def _pair(values: tuple[float, float]) -> q.PairDocument:
    return q.PairDocument(before=_bound(values[0]), after=_bound(values[1]))


def _bound(value: float) -> float | None:
    """The number; None for no bound."""
    return None if math.isinf(value) else value


def _workload(found: Workload) -> d.WorkloadDocument:
    return d.WorkloadDocument(kind=found.kind, namespace=found.namespace, name=found.name, pod_group=found.group)


def _room(room: ClusterRoom) -> d.RoomDocument:
    total, used, free, apart = (
        in_units(room.resource, each) for each in (room.total, room.used, room.free, room.apart)
    )
    return d.RoomDocument(
        resource=room.resource,
        nodes=room.nodes,
        total=total,
        used=used,
        free=free,
        unusable=apart,
        unusable_nodes=room.nodes_apart,
    )


def _waiting(found: Waiting) -> d.WaitingDocument:
    return d.WaitingDocument(
        name=found.name,
        workloads=[_workload(each) for each in found.workloads],
        queue=found.queue,
        pods=found.pods,
        gpus_per_pod=found.gpus_per_pod,
        gpus=found.gpus,
        pods_running=found.running,
        waiting_seconds=found.waits_s,
        code=found.code,
        why=found.why,
        message=found.message,
    )


def _running(found: RunningWorkload) -> d.RunningDocument:
    return d.RunningDocument(
        workload=_workload(found.workload),
        queue=found.queue,
        pods=found.pods,
        gpus=found.gpus,
        nodes=dict(found.nodes),
    )


def _placed(found: PlacedWorkload) -> d.PlacedDocument:
    return d.PlacedDocument(
        workload=_workload(found.workload),
        queue=found.queue,
        pods=found.pods,
        gpus=found.gpus,
        nodes=dict(found.nodes),
        starts_now=found.starts,
        after=found.after,
    )


def _headline(found: Headline) -> d.HeadlineDocument:
    return d.HeadlineDocument(
        winner=None if found.winner is None else _workload(found.winner),
        queue=found.queue,
        action=found.action,
        rule=found.rule,
        victims=[_victim(each) for each in found.victims],
        pods=found.pods,
        gpus=found.gpus,
        text=found.text,
    )


def _victim(found: Victim) -> d.VictimDocument:
    return d.VictimDocument(
        workload=_workload(found.workload),
        queue=found.queue,
        pods=found.pods,
        of_pods=found.of_pods,
        gpus=found.gpus,
        up_seconds=found.up_s,
        moved=found.moved,
    )


def _request(request: Sequence[tuple[str, float]]) -> dict[str, float]:
    """By resource; CPU in cores."""
    return {name: in_units(name, amount) for name, amount in request}


def _when(found: When) -> e.WhenDocument:
    return e.WhenDocument(
        text=found.text,
        not_before=format_time(found.not_before_ns) if found.not_before_ns else None,
        latest=format_time(found.latest_ns) if found.latest_ns else None,
        unbounded=[_workload(each) for each in found.unbounded],
        never=found.never,
    )


def _constraint(found: Constraint) -> e.ConstraintDocument:
    return e.ConstraintDocument(kind=found.kind, text=found.text, necessary=found.necessary)


def _suggestion(found: Suggestion, costs: Costs) -> e.SuggestionDocument:
    return e.SuggestionDocument(
        kind=found.kind,
        role=found.role,
        text=found.text,
        unit=found.unit,
        flags=[each.flag for each in found.changes],
        exact=found.exact,
        others=found.more,
        costs=_costs(costs),
    )


def _costs(costs: Costs) -> e.CostsDocument:
    victims, late = [_victim(each) for each in costs.victims], [_workload(each) for each in costs.late]
    return e.CostsDocument(text=costs.text, victims=victims, late=late)


def _nothing(found: NothingHelps) -> e.NoHelpDocument:
    return e.NoHelpDocument(kind=found.kind, role=found.role, bound=found.bound)


def _fit(found: Fit) -> q.FitDocument:
    return q.FitDocument(
        workload=_workload(found.workload),
        queue=found.queue,
        verdict=found.verdict,
        pods=found.pods,
        of_pods=found.of_pods,
        gpus=found.gpus,
        nodes=dict(found.nodes),
        costs=_costs(found.costs),
        reason=reason_document(found.reason) if found.reason else None,
        why=found.why,
        when=_when(found.when) if found.when else None,
        left_free=found.left_free,
        text=found.text,
    )
