"""The documents that answer ``explain``, ``fit`` and ``diff``. Units are those of ``report.documents``."""

from __future__ import annotations

from typing import Literal

from kai_sched.report.documents import (
    API_VERSION,
    AnswerDocument,
    VictimDocument,
    WorkloadDocument,
)
from kai_sched.report.reason_documents import ReasonDocument


class NeedsDocument(AnswerDocument, kw_only=True):
    """What equal pods that wait ask for.

    Attributes
    ----------
    pods
        How many there are.
    together
        How many of them have to start at once.
    gpus
        GPUs of each, in devices; parts of GPUs included.
    request
        By resource, what each asks for: CPU in cores, memory in bytes, others in devices.
    """

    pods: int
    together: int
    gpus: float
    request: dict[str, float]


class LineDocument(AnswerDocument, kw_only=True):
    """The place in the order in which waiting workloads are tried.

    Attributes
    ----------
    place
        From 1.
    of
        How many wait.
    after
        The workloads before it.
    """

    place: int
    of: int
    after: list[WorkloadDocument]


class WhenDocument(AnswerDocument, kw_only=True):
    """When the workload starts without any change, with nothing else arriving.

    Attributes
    ----------
    text
        The answer in a line.
    not_before
        The earliest time by the run times that were given, in RFC 3339; null where nothing says so.
    latest
        The latest time, in RFC 3339; null where nothing bounds it.
    unbounded
        Running workloads without a deadline, which is why there is no latest time.
    """

    text: str
    not_before: str | None
    latest: str | None
    unbounded: list[WorkloadDocument]


class ConstraintDocument(AnswerDocument, kw_only=True):
    """Something that keeps the workload from starting.

    Attributes
    ----------
    kind
        What it is: "queue", "limit", "quota", "demand", "room" or "claim".
    text
        The constraint in words.
    necessary
        Whether the workload starts if this one alone is taken away.
    """

    kind: str
    text: str
    necessary: bool


class HolderDocument(AnswerDocument, kw_only=True):
    """A leaf queue that holds GPUs.

    Attributes
    ----------
    queue
        Which one.
    gpus
        What it holds, in devices.
    over_quota
        What of that is over its quota, in devices.
    """

    queue: str
    gpus: float
    over_quota: float


class CostsDocument(AnswerDocument, kw_only=True):
    """What something costs others.

    Attributes
    ----------
    text
        The costs in words.
    victims
        Who loses pods.
    late
        Who would have started otherwise.
    """

    text: str
    victims: list[VictimDocument]
    late: list[WorkloadDocument]


class SuggestionDocument(AnswerDocument, kw_only=True):
    """The smallest change of one kind that starts the workload.

    Attributes
    ----------
    kind
        The kind of change.
    role
        Who can make it: "user", "queue owner", "administrator", or "waiting" for none.
    text
        What to do.
    unit
        What "smallest" is counted in; "" for a change that is made or not.
    flags
        The flags of ``kai-sched simulate`` that make it.
    exact
        Whether every smaller change was tried; else the next smaller one was.
    others
        How many more of this kind start the workload as well.
    costs
        What it costs others.
    """

    kind: str
    role: str
    text: str
    unit: str
    flags: list[str]
    exact: bool
    others: int
    costs: CostsDocument


class NoHelpDocument(AnswerDocument, kw_only=True):
    """A kind of change that does not start the workload.

    Attributes
    ----------
    kind
        The kind of change.
    role
        Who could make it.
    bound
        How far it was tried.
    """

    kind: str
    role: str
    bound: str


class ExplanationDocument(AnswerDocument, kw_only=True):
    """Why a workload waits, and what would start it: the answer of ``explain``.

    Attributes
    ----------
    api_version
        The version of the form.
    kind
        What the document is.
    workload
        Which one.
    queue
        Its queue; "" where it names none.
    priority_class
        Its priority class; "" where it names none.
    priority
        The value of that.
    preemptible
        Whether it can be evicted.
    waiting_seconds
        Seconds since its oldest pod that waits was created; 0 where that is not known.
    pods_with_node
        Pods of it that have nodes.
    needs
        What its pods that wait ask for.
    starts
        Whether it starts without any change.
    reason
        Why it waits; null where no pod does.
    line
        Its place in line.
    when
        When it starts without any change; null where it starts now.
    constraints
        What blocks it.
    holders
        Who holds GPUs, the largest first.
    suggestions
        The smallest change of each kind that starts it.
    no_help
        Kinds of changes that do not start it.
    """

    api_version: Literal["kai-sched.io/v1"] = API_VERSION
    kind: Literal["Explanation"] = "Explanation"
    workload: WorkloadDocument
    queue: str
    priority_class: str
    priority: int
    preemptible: bool
    waiting_seconds: float
    pods_with_node: int
    needs: list[NeedsDocument]
    starts: bool
    reason: ReasonDocument | None
    line: LineDocument
    when: WhenDocument | None
    constraints: list[ConstraintDocument]
    holders: list[HolderDocument]
    suggestions: list[SuggestionDocument]
    no_help: list[NoHelpDocument]


class FitDocument(AnswerDocument, kw_only=True):
    """Whether a workload would run.

    Attributes
    ----------
    workload
        Which one.
    queue
        Its queue.
    verdict
        "runs", "evicts" (it runs at the expense of others) or "waits".
    pods
        How many of its pods get nodes.
    of_pods
        How many pods it has.
    gpus
        GPUs that these get, or that all ask for where it waits, in devices.
    nodes
        By node: the number of its pods.
    costs
        What it costs others.
    reason
        Why it, or the rest of it, waits; null where nothing of it does.
    why
        The reason in a few words; empty where it does not wait.
    when
        When it starts, where it waits; else null.
    left_free
        GPUs that are free after it and would not be without it, in devices.
    text
        The answer in one line.
    """

    workload: WorkloadDocument
    queue: str
    verdict: Literal["runs", "evicts", "waits"]
    pods: int
    of_pods: int
    gpus: float
    nodes: dict[str, int]
    costs: CostsDocument
    reason: ReasonDocument | None
    why: str
    when: WhenDocument | None
    left_free: float
    text: str


class FitListDocument(AnswerDocument, kw_only=True):
    """Whether workloads would run: the answer of ``fit``.

    Attributes
    ----------
    api_version
        The version of the form.
    kind
        What the document is.
    items
        An entry for each workload.
    """

    api_version: Literal["kai-sched.io/v1"] = API_VERSION
    kind: Literal["FitList"] = "FitList"
    items: list[FitDocument]


class PairDocument(AnswerDocument, kw_only=True):
    """An amount of GPUs in both plans, in devices; null is unlimited.

    Attributes
    ----------
    before
        In the first plan.
    after
        In the second plan.
    """

    before: float | None
    after: float | None


class ShareDocument(AnswerDocument, kw_only=True):
    """A queue of which the GPUs differ.

    Attributes
    ----------
    name
        Of the queue.
    fair_share
        What it is entitled to.
    allocated
        What its pods hold.
    quota
        What it is guaranteed.
    """

    name: str
    fair_share: PairDocument
    allocated: PairDocument
    quota: PairDocument


class DifferenceDocument(AnswerDocument, kw_only=True):
    """What differs between two plans once both have settled: the answer of ``diff`` and of changes.

    Attributes
    ----------
    api_version
        The version of the form.
    kind
        What the document is.
    text
        The difference in a few lines.
    starts
        Workloads that run in the second plan only.
    no_longer_runs
        Workloads that run in the first plan only.
    evicted
        Who loses pods in the second plan only.
    no_longer_evicted
        Workloads that lose pods in the first plan only.
    gone
        Workloads that exist in the first cluster only.
    new
        Workloads that exist in the second cluster only.
    queues
        Queues of which the quota, the fair share or the allocation differs.
    """

    api_version: Literal["kai-sched.io/v1"] = API_VERSION
    kind: Literal["Difference"] = "Difference"
    text: list[str]
    starts: list[WorkloadDocument]
    no_longer_runs: list[WorkloadDocument]
    evicted: list[VictimDocument]
    no_longer_evicted: list[WorkloadDocument]
    gone: list[WorkloadDocument]
    new: list[WorkloadDocument]
    queues: list[ShareDocument]
