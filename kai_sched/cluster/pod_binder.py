"""Sends binds (POST pods/binding with the pod's uid) and settles unknown outcomes; ``operator.delivery.bind_tracker``
decides whether a bind is still valid.

The pods of a group are bound together, many at a time. The volume binder submits the groups whose volumes are bound.
The API server refuses a second bind and a pod of another uid, so nothing is ever bound twice. A bind whose outcome is
unknown, as after a cut connection, is settled by reading the pod; until then the pod keeps its room. A pod that shares
GPUs is bound in the version in which it was seen with the labels of its devices: users may change them until then.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec

from kai_sched.api import core, names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.delivery import Delivery, Workers, deliver
from kai_sched.cluster.failure import CONFLICT, NOT_FOUND, read
from kai_sched.cluster.paths import pod_path
from kai_sched.cluster.retry import BINDS
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.model.keys import split_key
from kai_sched.model.numa import placement_text
from kai_sched.model.read.sharing import is_device_label
from kai_sched.plan.effects import Bind
from kai_sched.telemetry.unexpected import FAULTS

INSPECT_AGAIN = Backoff(1.0, 10.0)  # between reads of a pod that cannot be read
WORKERS = 32

OBSOLETE = "Obsolete"
FAULT = "InternalError"
NO_VERSIONS: Mapping[str, str] = {}
BOUND: Literal["bound"] = "bound"
_decode_pod = msgspec.json.Decoder(core.WirePod).decode


@dataclass(frozen=True, slots=True)
class BindFailure:
    """Why a bind was given up.

    Attributes
    ----------
    reason
        OBSOLETE if the cluster has changed meanwhile, NOT_LEADER if the lease was lost, the reason that the API server
        gave, such as "Forbidden", or FAULT for an unexpected exception of the scheduler.
    message
        A sentence for people.
    status
        The HTTP status, 0 without an answer.
    """

    reason: str
    message: str
    status: int = 0


BindOutcome = BindFailure | Literal["bound"]


class BindObserver(Protocol):
    """Validates binds before they are sent, and receives their outcomes. All calls are made in the event loop."""

    def check(self, bind: Bind) -> str:
        """Return why the bind must not be sent any more, or an empty string."""

    def bound(self, bind: Bind, seconds: float) -> None:
        """The API server has accepted the bind, ``seconds`` after it was first sent."""

    def failed(self, bind: Bind, failure: BindFailure) -> None:
        """The bind was given up."""


class PodBinder:
    """Sends binds in the order of ``submit``.

    Each bind is validated for the whole group when it is submitted, and again by itself right before each attempt.

    Parameters
    ----------
    api
        The client of the API server.
    queue
        Binds that wait. Others may look at how many there are.
    observer
        Validates binds and hears of outcomes.
    rng
        Jitter of retries.
    workers
        How many binds are under way at most.
    """

    def __init__(
        self,
        api: Api,
        queue: FifoQueue[Bind],
        observer: BindObserver,
        rng: random.Random,
        workers: int = WORKERS,
    ) -> None:
        self._api = api
        self._queue = queue
        self._check = observer.check
        self._bound = observer.bound
        self._failed = observer.failed
        self._rng = rng
        self._versions: dict[str, str] = {}  # by uid of the pod, while its bind waits
        self._workers = Workers("binder", queue, self._work, workers)

    async def drained(self) -> None:
        """Return once the outcome of every bind is known."""
        await self._queue.drained()

    def submit(self, group: Sequence[Bind], versions: Mapping[str, str] = NO_VERSIONS) -> None:
        """Send all binds of a group, or none if one of them is obsolete.

        ``versions`` are the resourceVersions, by uid of the pod, in which pods were seen with the labels of the devices
        that they share. Other pods that share GPUs are read first.
        """
        refusals = [(bind, why) for bind in group if (why := self._why_obsolete(bind))]
        if refusals:
            first, why = refusals[0]
            refused = {bind.pod: why for bind, why in refusals}
            for bind in group:
                why_not = refused.get(bind.pod, f"not sent, because of {first.pod}: {why}")
                self._report_failure(bind, BindFailure(OBSOLETE, why_not))
            return
        self._versions.update({bind.uid: versions.get(bind.uid, "") for bind in group if bind.gpu_groups})
        self._queue.submit(group)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._workers.run()

    async def _work(self, bind: Bind) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        outcome: BindOutcome
        request = _BindRequest(self._api, bind, self._why_obsolete, self._rng, self._versions.pop(bind.uid, ""))
        try:
            outcome = await deliver(request, BINDS, self._rng)
        except Exception as error:
            outcome = BindFailure(FAULT, FAULTS.note("binder", bind.pod, error))
        if isinstance(outcome, BindFailure):
            self._report_failure(bind, outcome)
        else:
            self._bound(bind, clock() - started)

    def _why_obsolete(self, bind: Bind) -> str:
        try:
            return self._check(bind)
        except Exception as error:
            return f"it cannot be checked: {FAULTS.note('binder', bind.pod, error)}"

    def _report_failure(self, bind: Bind, failure: BindFailure) -> None:
        try:
            self._failed(bind, failure)
        except Exception as error:
            FAULTS.note("binder", bind.pod, error)


class _Shown(enum.Enum):
    """What the pod in the API server says about its bind."""

    BOUND = "bound"
    PENDING = "pending"  # not bound: the bind may be sent again
    LOST = "lost"  # the bind can never succeed
    UNKNOWN = "unknown"  # the pod could not be read


class _BindRequest(Delivery[BindOutcome]):
    """One bind. While ``_shown`` is UNKNOWN, one of the attempts may have been carried out.

    ``_version`` is the resourceVersion in which a pod that shares GPUs has the labels of its devices; "" where it has
    to be read first.
    """

    def __init__(self, api: Api, bind: Bind, check: Callable[[Bind], str], rng: random.Random, version: str) -> None:
        self._api = api
        self._bind = bind
        self._check = check
        self._rng = rng
        self._shown = _Shown.PENDING
        self._version = version

    def obsolete(self) -> str:
        return self._check(self._bind)

    async def send(self) -> BindOutcome:
        if self._bind.gpu_groups and not self._version:
            pod = await self._get()
            if why := self._note(pod):
                return BindFailure(OBSOLETE, why, CONFLICT)  # as the API server would say: its group has to wait
        path = pod_path(self._bind.pod, "binding")
        await self._api.request("POST", path, body=binding(self._bind, self._version))
        return BOUND

    async def inspect(self, failure: ApiFailure) -> BindOutcome | None:
        problem = await self._read(_failure(failure))
        return self._outcome(problem) if self._shown in (_Shown.BOUND, _Shown.LOST) else None

    async def give_up(self, reason: str, failure: ApiFailure | None) -> BindOutcome:
        problem = BindFailure(OBSOLETE, reason) if failure is None else _failure(failure)
        reads = 0
        while self._shown is _Shown.UNKNOWN:  # the pod keeps its room until it can be read
            reads += 1
            await asyncio.sleep(INSPECT_AGAIN.wait_s(reads, self._rng))
            problem = await self._read(problem)
        return self._outcome(problem)

    def _outcome(self, problem: BindFailure) -> BindOutcome:
        return BOUND if self._shown is _Shown.BOUND else problem

    async def _read(self, problem: BindFailure) -> BindFailure:
        """Read the pod into ``_shown``, and return ``problem`` as it is to be reported then."""
        bind = self._bind
        try:
            pod = await self._get()
        except ApiFailure as unknown:
            is_gone = unknown.status == NOT_FOUND
            self._shown = _Shown.LOST if is_gone else _Shown.UNKNOWN
            return BindFailure(OBSOLETE, str(unknown), NOT_FOUND) if is_gone else problem
        node = (pod.spec or core.PodSpec()).node_name
        if not pod.metadata or pod.metadata.uid != bind.uid:
            self._shown = _Shown.LOST
            return BindFailure(OBSOLETE, f"pod {bind.pod} was deleted and created again", problem.status)
        if node == bind.node:
            self._shown = _Shown.BOUND
            return problem
        if node:
            self._shown = _Shown.LOST
            return BindFailure(OBSOLETE, f"pod {bind.pod} is on node {node} already", problem.status)
        if why := self._note(pod):
            self._shown = _Shown.LOST
            return BindFailure(OBSOLETE, why, problem.status)
        is_deleted = problem.status == CONFLICT and pod.metadata.deletion_timestamp is not None
        self._shown = _Shown.LOST if is_deleted else _Shown.PENDING
        return problem

    async def _get(self) -> core.WirePod:
        path = pod_path(self._bind.pod)
        return read(_decode_pod, await self._api.request("GET", path), path, "the pod")

    def _note(self, pod: core.WirePod) -> str:
        """Take over the version of a pod that shares GPUs; return what is wrong if it waits without its devices."""
        meta = pod.metadata or core.Meta()
        self._version = (meta.resource_version or "") if self._bind.gpu_groups else ""
        devices = {value for key, value in (meta.labels or {}).items() if is_device_label(key)}
        waits = self._bind.gpu_groups and not (pod.spec or core.PodSpec()).node_name
        is_other = waits and devices != set(self._bind.gpu_groups)
        return f"the labels of the devices of pod {self._bind.pod} were changed" if is_other else ""


def _failure(failure: ApiFailure) -> BindFailure:
    return BindFailure(failure.reason, str(failure), failure.status)


def binding(bind: Bind, version: str = "") -> bytes:
    """Return the body of the POST: a Binding with the uid of the pod, and the version that it must have, if any.

    The API server adds the annotations of a Binding to the pod: what it is to hold of NUMA zones.
    """
    namespace, name = split_key(bind.pod)
    metadata: dict[str, object] = {"namespace": namespace, "name": name, "uid": bind.uid}
    if bind.zones:
        metadata["annotations"] = {names.NUMA_PREDICTED_ANNOTATION: placement_text(bind.zones)}
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {**metadata, "resourceVersion": version} if version else metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
    )
