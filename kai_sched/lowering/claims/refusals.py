"""Why a claim for devices cannot be used, whatever the node is, and how many GPUs of a node it takes for certain
(semantics 8.6, 12.1).
"""

from __future__ import annotations

from kai_sched.lowering.claims.devices import DeviceBook
from kai_sched.lowering.claims.extended import ExtendedBook
from kai_sched.model.claims.objects import (
    CONSUMERS_MAX,
    EXTENDED_PREFIX,
    RESULTS_MAX,
    ClaimRequests,
    DeviceOption,
    DeviceRequest,
    PodClaim,
    ResourceClaim,
)
from kai_sched.model.claims.selectors import SelectorError, UnansweredError
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod
from kai_sched.model.resources import GPU, canonical
from kai_sched.model.store import Cluster


class ClaimJudge:
    """Why claims cannot be used, whatever the node is (semantics 12.1), and which GPUs they surely take.

    ``faults`` is filled with what is wrong with what claims ask for.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        book: DeviceBook | None,
        extended: ExtendedBook,
        faults: dict[ClaimRequests, str],
    ) -> None:
        self._cluster, self._queue_label, self._book = cluster, config.queue_label, book
        self._extended = extended
        self._faults = faults
        self._asking: dict[ClaimRequests, set[str]] = {}  # the namespaces that wait for answers about selectors
        self._booked: dict[ClaimRequests, float] = {}
        self._gpus: dict[ClaimRequests, tuple[float, bool]] = {}

    def refusal(self, pod: Pod, use: PodClaim, claim: ResourceClaim | None, allocated: bool) -> str:
        """The sentence that says what keeps the pod from its claim, and what helps; "" where nothing does.

        ``allocated``: the claim has devices already, so that what it asks for does not matter.
        """
        if not use.claim:
            return f"its ResourceClaim for {use.name} is not made yet: the controller of Kubernetes makes it"
        name = f"ResourceClaim {pod.namespace}/{use.claim}"
        if claim is None:
            return f"{name} does not exist: create it"
        if claim.deleted:
            return f"{name} is being deleted: wait until it is gone, and create it again"
        if not use.named and claim.owner and pod.uid and claim.owner != pod.uid:
            return f"{name} was made for another pod: delete it"
        known = {uid or name for name, uid in claim.consumers}
        if len(known) >= CONSUMERS_MAX and (pod.uid or pod.name) not in known:
            return f"{name} has {len(known)} pods already, the most that it can have: use another claim"
        if use.named and self.gpus(claim.asks)[0]:
            group = self._cluster.pod_groups.get(pod.group_key) if pod.group else None
            queue = group.queue if group else pod.queue
            if claim.queue != queue:
                label = f"label {self._queue_label}"
                what = f"of queue {claim.queue}, not {queue}" if claim.queue else f"without the {label}"
                return f"{name} is {what}: give it the {label} with the queue of the pod"
        if allocated:
            return ""
        fault = self._fault(claim.asks, pod.namespace)
        return f"{name}: {fault}" if fault else ""

    def extended_refusal(self, claim: ResourceClaim, on_node: bool) -> str:
        """The same for the claim that is made for extended resources of a pod.

        Resources that some node offers keep the pod from no node: there it needs no request for them.
        """
        if claim.deleted and not on_node:
            return f"ResourceClaim {claim.key} of an earlier attempt is being deleted: wait until it is gone"
        everywhere = [each for each in claim.asks.requests if not self._extended.offered(each.resource).any()]
        for request in everywhere:
            try:
                fault = self._option_fault(request.options[0], request_for(request.resource))
            except UnansweredError as error:
                fault = self._worded(error, request.options[0], request_for(request.resource))
            if fault:
                return fault
        count = sum(request.options[0].count or 0 for request in everywhere)
        too_many = f"its containers ask for {count} devices: a claim can have {RESULTS_MAX} at most"
        return too_many if count > RESULTS_MAX else ""

    def missing_class(self, resources: tuple[str, ...]) -> str:
        """The same for extended resources that are named after classes that do not exist; "" where nodes offer all."""
        for resource in resources:
            if not self._extended.offered(resource).any():
                missing = _no_class(request_for(resource), resource.removeprefix(EXTENDED_PREFIX))
                return f"{missing}, or correct the name"
        return ""

    def _fault(self, asks: ClaimRequests, namespace: str) -> str:
        known = self._faults.get(asks)
        if known is None:
            known = self._faults[asks] = asks.fault or self._first_fault(asks)
        asking = self._asking.get(asks)
        if asking is not None and namespace not in asking and self._book is not None:
            asking.add(namespace)
            for option in (option for request in asks.requests for option in request.options):
                if option.device_class in self._cluster.device_classes:
                    self._book.selectors.ask(self._cluster.device_classes[option.device_class].selectors, "")
                    self._book.selectors.ask(option.selectors, namespace)
        return known

    def _first_fault(self, asks: ClaimRequests) -> str:
        """The first fault of an option; one that waits for answers is told where no other has a worse one."""
        waiting = ""
        for i, request in enumerate(asks.requests):
            for k, option in enumerate(request.options):
                path = f"spec.devices.requests[{i}].{'exactly' if request.exact else f'firstAvailable[{k}]'}"
                try:
                    if fault := self._option_fault(option, path):
                        return fault
                except UnansweredError as error:
                    waiting = waiting or self._worded(error, option, path)
        if waiting:
            self._asking[asks] = set()
        return waiting

    def _option_fault(self, option: DeviceOption, path: str) -> str:
        """Raises UnansweredError."""
        if option.device_class not in self._cluster.device_classes:
            return _no_class(path, option.device_class)
        if option.count is not None and option.count > RESULTS_MAX:
            return f"{path} asks for {option.count} devices: a claim can have {RESULTS_MAX} at most"
        if self._book is None:
            return ""
        try:
            self._book.matches(option)
        except UnansweredError:
            raise
        except SelectorError as error:
            return self._worded(error, option, path)
        return ""

    def _worded(self, error: SelectorError, option: DeviceOption, path: str) -> str:
        return f"{self._where(error.expression, option, path)}: {error}"

    def _where(self, expression: str, option: DeviceOption, path: str) -> str:
        """The field with a selector of the option, or of its class."""
        of_class = self._cluster.device_classes[option.device_class].selectors
        if expression in of_class:
            field = f"spec.selectors[{of_class.index(expression)}].cel.expression"
            return f"{field} of its DeviceClass {option.device_class}"
        return f"{path}.selectors[{option.selectors.index(expression)}].cel.expression"

    def booked(self, asks: ClaimRequests, namespace: str) -> float:
        """How many GPUs of one node a claim takes for certain; what it takes besides is decided by devices alone."""
        if self._fault(asks, namespace) or self._book is None:
            return 0.0
        known = self._booked.get(asks)
        if known is None:
            known = float(sum(self._surely(request) for request in asks.requests))
            self._booked[asks] = known
        return known

    def gpus(self, asks: ClaimRequests) -> tuple[float, bool]:
        """How many GPUs count for the queue, and whether the claim is made for GPUs that containers request."""
        known = self._gpus.get(asks)
        if known is None:
            whole = any(canonical(request.resource) == GPU for request in asks.requests)
            known = self._gpus[asks] = asks.gpus(), whole
        return known

    def _surely(self, request: DeviceRequest) -> int:
        option = request.options[0]
        # Whole GPUs count by what containers request; what a node offers itself needs no device of a slice there.
        if request.resource and (canonical(request.resource) == GPU or self._extended.offered(request.resource).any()):
            return 0
        if self._book is None or not request.exact or option.admin:
            return 0
        matched = self._book.matches(option) == 1
        if not matched.any() or not self._book.is_gpu[matched].all():
            return 0
        return 1 if option.count is None else option.count


def _no_class(path: str, name: str) -> str:
    return f"{path} names the DeviceClass {name}, which does not exist: create it"


def request_for(resource: str) -> str:
    """What pods are told in place of a request of the claim that is made for the resource: they wrote none."""
    return f"its request for {resource}"
