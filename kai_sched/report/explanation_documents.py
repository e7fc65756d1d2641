"""Documents of the answer to ``explain``."""

from __future__ import annotations

from typing import Literal

from kai_sched.report.documents import API_VERSION, AnswerDocument, VictimDocument, WorkloadDocument
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
        From 1; 0 where the workload does not wait.
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
    never
        Whether it does not start whoever ends.
    """

    text: str
    not_before: str | None
    latest: str | None
    unbounded: list[WorkloadDocument]
    never: bool


class StateDocument(AnswerDocument, kw_only=True):
    """What a workload does before anything is decided.

    Attributes
    ----------
    name
        "waits" where a pod of it waits for a node, whatever the others do; "runs" where one has a node; "leaves" where
        those that are left are being deleted; "finished" where all have ended; "empty" where it has no pod.
    text
        The state in words; "" where it waits.
    pods
        Pods of it.
    pods_failed
        Those that have failed.
    nodes
        Nodes with the number of its pods.
    gpus
        GPUs that these hold.
    up_seconds
        Seconds since it started; 0 where that is not known.
    pods_evicted
        Pods of it that are evicted or moved by what is decided next.
    """

    name: Literal["waits", "runs", "leaves", "finished", "empty"]
    text: str
    pods: int
    pods_failed: int
    nodes: dict[str, int]
    gpus: float
    up_seconds: float
    pods_evicted: int


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
    state
        What it does now.
    waiting_seconds
        Seconds since its oldest pod that waits was created; 0 where that is not known.
    pods_with_node
        Pods of it that have nodes.
    needs
        What its pods that wait ask for.
    starts
        Whether it waits and starts without any change.
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
    state: StateDocument
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
