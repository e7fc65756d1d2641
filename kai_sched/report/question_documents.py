"""Documents of the answers to ``fit`` and ``diff``."""

from __future__ import annotations

from typing import Literal

from kai_sched.report.documents import API_VERSION, AnswerDocument, VictimDocument, WorkloadDocument
from kai_sched.report.explanation_documents import CostsDocument, WhenDocument
from kai_sched.report.reason_documents import ReasonDocument


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
