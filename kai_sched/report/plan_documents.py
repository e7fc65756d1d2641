"""Plans that ``simulate -o json`` has printed, read again to be compared."""

from __future__ import annotations

import math
import re

import msgspec

from kai_sched.answers.difference import Difference, PlanSide, compared
from kai_sched.answers.headlines import Victim
from kai_sched.answers.workloads import Workload
from kai_sched.api.names import ANSWER_KINDS, ANSWER_VERSION
from kai_sched.model.field_errors import FieldError
from kai_sched.report.cycle_documents import SimulationDocument
from kai_sched.report.documents import OverviewDocument, VictimDocument, WorkloadDocument

_simulation = msgspec.json.Decoder(SimulationDocument)
# The version first, then the kind: as JSON, also where another program has laid it out anew, or as YAML.
_BEGINNING = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:---\s|\{)?\s*"
    rb'"?apiVersion"?:\s*"?' + re.escape(ANSWER_VERSION).encode() + rb'"?,?\s*"?kind"?:\s*"?(\w+)'
)


def answer_kind(data: bytes) -> str:
    """Of which kind of answer the content of a file is, complete or not, as JSON or YAML; "" for objects."""
    found = _BEGINNING.match(data)
    kind = found[1].decode() if found else ""
    return kind if kind in ANSWER_KINDS else ""


def read_plan(path: str, data: bytes) -> OverviewDocument:
    """The overview of the last cycle of a plan. Raises FieldError for one that this version cannot compare."""
    try:
        cycles = _simulation.decode(data).cycles
    except (msgspec.DecodeError, RecursionError) as error:
        raise FieldError(path, f"not a plan of this version ({error}): simulate its cluster again") from None
    summary = cycles[-1].summary if cycles else msgspec.UNSET
    if summary is msgspec.UNSET:
        raise FieldError(path, "a plan of a scenario, which has no summary: name plans of clusters")
    return summary


def plan_difference(before: OverviewDocument, after: OverviewDocument) -> Difference:
    """What differs between two plans, each of one cycle."""
    old, new = _side(before), _side(after)
    found = [victim for headline in after.evictions for victim in headline.victims]
    evicted = [_victim(each) for each in found if each.workload.pod_group not in old.victims]
    return compared(old, new, evicted)


def _side(found: OverviewDocument) -> PlanSide:
    started = [each.workload for each in found.running]
    started += [each.workload for each in found.placed if each.starts_now]
    waiting = [each for row in found.waiting for each in row.workloads]
    placed = [each.workload for each in found.placed if not each.starts_now]
    victims = [victim.workload for headline in found.evictions for victim in headline.victims]
    partly = [each for row in found.waiting if row.pods_running for each in row.workloads]
    all_of_it = [*started, *waiting, *placed, *victims]
    queues = {
        each.name: (_bound(each.fair_share.gpu), _bound(each.allocated.gpu), _bound(each.quota.gpu))
        for each in found.queues
    }
    return PlanSide(
        {each.pod_group: _workload(each) for each in all_of_it},
        frozenset(each.pod_group for each in (*started, *partly)),
        frozenset(each.pod_group for each in victims),
        queues,
    )


def _bound(value: float | None) -> float:
    return math.inf if value is None else value


def _workload(found: WorkloadDocument) -> Workload:
    return Workload(found.kind, found.namespace, found.name, found.pod_group)


def _victim(found: VictimDocument) -> Victim:
    amounts = (found.pods, found.of_pods, found.gpus, found.up_seconds, found.moved)
    return Victim(_workload(found.workload), found.queue, *amounts)
