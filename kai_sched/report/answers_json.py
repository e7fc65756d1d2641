"""Answers as plain data, for JSON and YAML: which keys they have, and in which units.

Names are as in the API (camelCase). Amounts are in devices (GPUs), cores (CPU), bytes (memory) and seconds. What is
unlimited is null. docs/answers.schema.json is the schema.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kai_sched.answers.headlines import Headline, Victim
from kai_sched.answers.overview import ClusterRoom, Overview, PlacedWorkload, RunningWorkload, room_text
from kai_sched.answers.waiting import Waiting
from kai_sched.answers.workloads import Workload
from kai_sched.model.times import format_time
from kai_sched.plan.reasons import NoFit, Reason
from kai_sched.plan.result import QUEUE_RESOURCES, QueueState

# These import the solver, which must not happen before it is chosen how it runs.
if TYPE_CHECKING:
    from kai_sched.answers.difference import Difference
    from kai_sched.answers.explain.constraints import Constraint
    from kai_sched.answers.explain.explanation import Costs, Explanation
    from kai_sched.answers.explain.suggestion import NothingHelps, Suggestion
    from kai_sched.answers.fit import Fit
    from kai_sched.answers.when import When

API_VERSION = "kai-sched.io/v1"


def overview_document(found: Overview) -> dict[str, Any]:
    """The overview of a cycle."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Overview",
        "text": room_text(found.room),
        "room": _room(found.room),
        "queues": [queue_document(each) for each in found.queues],
        "waiting": [_waiting(each) for each in found.waiting],
        "placed": [_placed(each) for each in found.placed],
        "evictions": [_headline(each) for each in found.headlines],
        "running": [_placed(each) for each in found.running],
        "finishedPods": found.finished,
        "otherSchedulers": dict(found.others),
    }


def explanation_document(found: Explanation) -> dict[str, Any]:
    """Why a workload waits."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "workload": _workload(found.workload),
        "queue": found.queue,
        "priorityClass": found.priority_class,
        "priority": found.priority,
        "preemptible": found.preemptible,
        "waitingSeconds": found.waits_s,
        "podsWithNode": found.running,
        "needs": [
            {"pods": each.pods, "together": each.together, "gpus": each.gpus, "request": _request(each.request)}
            for each in found.needs
        ],
        "starts": found.starts,
        "reason": reason_document(found.reason),
        "line": {
            "place": len(found.earlier) + 1,
            "of": found.waiting,
            "after": [_workload(each) for each in found.earlier],
        },
        "when": _when(found.when),
        "constraints": [_constraint(each) for each in found.constraints],
        "holders": [{"queue": name, "gpus": held, "overQuota": over} for name, held, over in found.holders],
        "suggestions": [_suggestion(each, costs) for each, costs in found.suggestions],
        "noHelp": [_nothing(each) for each in found.nothing],
    }


def fit_document(found: Sequence[Fit]) -> dict[str, Any]:
    """Whether workloads would run."""
    return {"apiVersion": API_VERSION, "kind": "FitList", "items": [_fit(each) for each in found]}


def difference_document(found: Difference) -> dict[str, Any]:
    """What differs between two plans."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Difference",
        "text": found.texts,
        "starts": [_workload(each) for each in found.starts],
        "noLongerRuns": [_workload(each) for each in found.waits],
        "evicted": [_victim(each) for each in found.evicted],
        "noLongerEvicted": [_workload(each) for each in found.spared],
        "gone": [_workload(each) for each in found.gone],
        "new": [_workload(each) for each in found.new],
        "queues": [
            {
                "name": each.queue,
                "fairShare": _pair(each.fair_share),
                "allocated": _pair(each.allocated),
                "quota": _pair(each.quota),
            }
            for each in found.shares
        ],
    }


def _pair(values: tuple[float, float]) -> dict[str, float | None]:
    return {"before": _bound(values[0]), "after": _bound(values[1])}


def _bound(value: float) -> float | None:
    """The number; None for no bound."""
    return None if math.isinf(value) else value


def _workload(found: Workload) -> dict[str, str]:
    return {"kind": found.kind, "namespace": found.namespace, "name": found.name, "podGroup": found.group}


def _room(room: ClusterRoom) -> dict[str, Any]:
    scale = 1000.0 if room.resource == "cpu" else 1.0
    return {
        "resource": room.resource,
        "nodes": room.nodes,
        "total": room.total / scale,
        "used": room.used / scale,
        "free": room.free / scale,
        "unusable": room.apart / scale,
        "unusableNodes": room.nodes_apart,
    }


def queue_document(queue: QueueState) -> dict[str, Any]:
    """A queue with its amounts by resource."""
    columns = {
        "quota": queue.quota,
        "limit": queue.limit,
        "fairShare": queue.fair_share,
        "allocated": queue.allocated,
        "requested": queue.requested,
    }
    scales = {"cpu": 1000.0, "memory": 1.0, "gpu": 1.0}
    amounts = {
        name: {
            resource: _bound(value / scales[resource]) for resource, value in zip(QUEUE_RESOURCES, triple, strict=True)
        }
        for name, triple in columns.items()
    }
    return {"name": queue.name, "parent": queue.parent, "depth": queue.depth, "priority": queue.priority, **amounts}


def _waiting(found: Waiting) -> dict[str, Any]:
    return {
        "name": found.name,
        "workloads": [_workload(each) for each in found.workloads],
        "queue": found.queue,
        "pods": found.pods,
        "gpusPerPod": found.gpus_per_pod,
        "gpus": found.gpus,
        "podsRunning": found.running,
        "waitingSeconds": found.waits_s,
        "code": found.code,
        "why": found.why,
        "message": found.message,
    }


def _placed(found: PlacedWorkload | RunningWorkload) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "workload": _workload(found.workload),
        "queue": found.queue,
        "pods": found.pods,
        "gpus": found.gpus,
        "nodes": dict(found.nodes),
    }
    if isinstance(found, PlacedWorkload):
        entry |= {"startsNow": found.starts, "after": found.after}
    return entry


def _headline(found: Headline) -> dict[str, Any]:
    return {
        "for": None if found.winner is None else _workload(found.winner),
        "queue": found.queue,
        "action": found.action,
        "rule": found.rule,
        "victims": [_victim(each) for each in found.victims],
        "pods": found.pods,
        "gpus": found.gpus,
        "text": found.text,
    }


def _victim(found: Victim) -> dict[str, Any]:
    return {
        "workload": _workload(found.workload),
        "queue": found.queue,
        "pods": found.pods,
        "ofPods": found.of_pods,
        "gpus": found.gpus,
        "upSeconds": found.up_s,
        "moved": found.moved,
    }


def _request(request: Sequence[tuple[str, float]]) -> dict[str, float]:
    """By resource; CPU in cores."""
    return {name: amount / 1000.0 if name == "cpu" else amount for name, amount in request}


def reason_document(reason: Reason | None) -> dict[str, Any] | None:
    """The reason as data: the code, the numbers behind it, and what each action that evicts found."""
    if reason is None:
        return None
    found: dict[str, Any] = {"code": reason.code, "message": reason.message}
    if reason.gate is not None:
        gate = reason.gate
        scale = 1000.0 if gate.resource == "cpu" else 1.0
        found |= {
            "queue": gate.queue,
            "resource": gate.resource,
            "limit": _bound(gate.bound / scale),
            "held": gate.held / scale,
            "asked": gate.need / scale,
        }
    if reason.facts is not None:
        found |= _facts(reason.facts)
    if reason.tries:
        found["perAction"] = dict(reason.tries)
    return found


def _facts(facts: NoFit) -> dict[str, Any]:
    scales = {"cpu": 1000.0}
    return {
        "pod": facts.pod,
        "pods": {"placed": facts.placed, "asked": facts.asked},
        "nodes": {
            "all": facts.n_nodes,
            "short": {
                name: {"nodes": nodes, "asked": asked / scales.get(name, 1.0), "mostFree": most / scales.get(name, 1.0)}
                for name, (nodes, asked, most) in facts.short.items()
            },
            "verdicts": dict(facts.verdicts),
        },
        "free": {
            name: {"free": each.amount / scales.get(name, 1.0), "total": each.total / scales.get(name, 1.0)}
            for name, each in facts.free.items()
        },
        "holders": {name: held / scales.get(facts.holders_of, 1.0) for name, held in facts.holders},
        "holdersOf": facts.holders_of,
    }


def _when(found: When | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "text": found.text,
        "notBefore": format_time(found.not_before_ns) if found.not_before_ns else None,
        "latest": format_time(found.latest_ns) if found.latest_ns else None,
        "unbounded": [_workload(each) for each in found.unbounded],
    }


def _constraint(found: Constraint) -> dict[str, Any]:
    return {"kind": found.kind, "text": found.text, "necessary": found.necessary}


def _suggestion(found: Suggestion, costs: Costs) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "role": found.role,
        "text": found.text,
        "unit": found.unit,
        "flags": [each.flag for each in found.changes],
        "exact": found.exact,
        "others": found.more,
        "costs": _costs(costs),
    }


def _costs(costs: Costs) -> dict[str, Any]:
    return {
        "text": costs.text,
        "victims": [_victim(each) for each in costs.victims],
        "late": [_workload(each) for each in costs.late],
    }


def _nothing(found: NothingHelps) -> dict[str, Any]:
    return {"kind": found.kind, "role": found.role, "bound": found.bound}


def _fit(found: Fit) -> dict[str, Any]:
    return {
        "workload": _workload(found.workload),
        "queue": found.queue,
        "verdict": found.verdict,
        "pods": found.pods,
        "ofPods": found.of_pods,
        "gpus": found.gpus,
        "nodes": dict(found.nodes),
        "costs": _costs(found.costs),
        "reason": reason_document(found.reason),
        "text": found.text,
    }
