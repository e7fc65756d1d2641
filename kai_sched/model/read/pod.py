"""Reads a pod: queue, priority class, phase, gates and shape; ``read.requests``, ``read.constraints`` and
``read.sharing`` read the parts of the shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakValueDictionary

from kai_sched.api import core, names
from kai_sched.model.claims.objects import PodClaim, is_extended
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, TypeFault, Warn, shown
from kai_sched.model.numa import CONTAINERS_MAX, NO_PLACEMENT, NumaRequest
from kai_sched.model.objects import NO_LABELS, Phase, Pod, Shape
from kai_sched.model.priorities import is_reserved, reserved_text
from kai_sched.model.read.constraints import (
    NO_AFFINITY,
    Affinity,
    ConstraintReader,
    read_claims,
    read_config_maps,
    read_ports,
)
from kai_sched.model.read.meta import identity, namespace_of, time_ns
from kai_sched.model.read.numa import TOO_MANY, NumaReader
from kai_sched.model.read.requests import Finding, Request, RequestReader
from kai_sched.model.read.sharing import (
    NONE,
    GpuAnnotations,
    container_fault,
    container_of_share,
    is_device_label,
    read_gpu_annotations,
)
from kai_sched.model.resources import GPU, MIG_PREFIX

PHASES = {
    "": Phase.PENDING,
    "Pending": Phase.PENDING,
    "Running": Phase.RUNNING,
    "Succeeded": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
}
_SHARING_KEYS = (
    names.GPU_FRACTION_ANNOTATION,
    names.GPU_MEMORY_ANNOTATION,
    names.GPU_DEVICES_ANNOTATION,
    names.MPS_ANNOTATION,
)
_SHARING_PREFIXES = (MIG_PREFIX, names.CONTAINER_PREFIX)


class PodReader:
    """Reads the pods of one cluster; equal shapes become one object.

    Invariant: every pod that the API server accepts can be read, since a pod on a node holds room there whatever else
    it says. Requests and terms that cannot be read make the pod unsupported instead.

    Attributes
    ----------
    numa
        Reads what NUMA alignment goes by.
    """

    def __init__(self, config: Config) -> None:
        self._queue_label = config.queue_label
        self._node_pool_label = config.node_pool_label
        self._scheduler = config.scheduler_name
        self._requests = RequestReader()
        self.numa = NumaReader(config, self._requests)
        self._constraints = ConstraintReader()
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()

    def read(self, wire: core.WirePod, warn: Warn) -> Pod:
        """The pod. Raises FieldError if it is unusable. Fields that are ignored go to ``warn``."""
        meta = wire.metadata or core.Meta()
        spec = wire.spec or core.PodSpec()
        status = wire.status or core.PodStatus()
        name, namespace = identity(meta), namespace_of(meta)
        labels = meta.labels or NO_LABELS
        annotations = meta.annotations or NO_LABELS
        _check_switch("labels", labels, names.BACKGROUND_LABEL, warn)
        request = self._requests.read(spec, status)
        numa = self.numa.request(spec, status, request[0]) if self.numa.is_on else None
        zones = self.numa.placement(annotations, warn) if self.numa.is_on else (NO_PLACEMENT, False)
        shape = self._shape(spec, (*request, numa), (namespace, name), labels, annotations, warn)
        return Pod(
            namespace,
            name,
            shape,
            uid=meta.uid or "",
            created_ns=time_ns(meta.creation_timestamp, "metadata.creationTimestamp", warn),
            labels=labels,
            group=annotations.get(names.POD_GROUP_ANNOTATION, ""),
            sub_group=labels.get(names.SUB_GROUP_LABEL, ""),
            queue=self._queue(labels),
            scheduler=spec.scheduler_name or "",
            priority_class=self._priority_class(spec, namespace, labels, warn),
            node=spec.node_name or "",
            nominated_node=status.nominated_node_name or "",
            phase=PHASES.get(status.phase or "", Phase.UNKNOWN),
            deleted_ns=time_ns(meta.deletion_timestamp, "metadata.deletionTimestamp", warn),
            gates=tuple(sorted(gate.name or "" for gate in spec.scheduling_gates)) if spec.scheduling_gates else (),
            gpu_groups=_gpu_groups(labels),
            reserved_device=annotations.get(names.RESERVED_DEVICE_ANNOTATION, ""),
            device_map=_device_map(spec, annotations) if names.SHARED_GPU_CONFIG_MAP_ANNOTATION in annotations else "",
            claims=_claims(spec, status) if spec.resource_claims else (),
            extended=self._requests.extended(spec) if any(map(_may_be_extended, shape.request)) else (),
            zones=zones[0],
            zones_observed=zones[1],
            safe_to_consolidate=_safe_to_consolidate(annotations, warn),
        )

    def _queue(self, labels: Mapping[str, str]) -> str:
        """The queue label; else the label ``project`` of older installations, with the node pool if there is one."""
        queue = labels.get(self._queue_label, "")
        if not queue and (project := labels.get(names.PROJECT_LABEL)):
            pool = labels.get(self._node_pool_label)
            return f"{project}-{pool}" if pool else project
        return queue

    def _priority_class(self, spec: core.PodSpec, namespace: str, labels: Mapping[str, str], warn: Warn) -> str:
        """The priority class of the label, else of the spec. Classes reserved for Kubernetes are ignored."""
        label, own = labels.get(names.PRIORITY_CLASS_LABEL, ""), spec.priority_class_name or ""
        named = label or own
        if not named.startswith(names.SYSTEM_CLASSES_PREFIX) or not is_reserved(named, namespace):
            return named
        rest = "" if is_reserved(own, namespace) else own
        if spec.scheduler_name == self._scheduler:
            field = f"metadata.labels[{names.PRIORITY_CLASS_LABEL}]" if label else "spec.priorityClassName"
            warn(field, reserved_text(named, repr(rest) if rest else "the default priority"))
        return rest

    def _shape(
        self,
        spec: core.PodSpec,
        asked_for: tuple[Request, list[Finding], NumaRequest | None],
        named: tuple[str, str],
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        warn: Warn,
    ) -> Shape:
        unsupported: list[str] = []
        (namespace, name), (request, findings, numa) = named, asked_for
        for field, message in findings:
            warn(field, f"{message}; until then the pod is not scheduled")
            unsupported.append(f"{field}, which is not a valid quantity")
        if numa is not None and len(numa.containers) > CONTAINERS_MAX:
            unsupported.append(f"spec.containers: {TOO_MANY}")
        # Pods whose MIG device was chosen elsewhere name it in an annotation alone, or request 0 GPUs (semantics 8.5).
        by_containers = any(name.startswith(MIG_PREFIX) and amount for name, amount in request.items())
        asked, containers = NONE, None
        if annotations and any(key in _SHARING_KEYS or key.startswith(_SHARING_PREFIXES) for key in annotations):
            before = _amounts(request)
            asked = _asked(spec, annotations, request, by_containers, unsupported, warn)
            containers = before if asked.mig or asked.whole else None
        affinity = self._affinity(spec, namespace, labels, unsupported, warn)
        parts = (
            _amounts(request),
            self._constraints.node_selector(bytes(spec.node_selector)) if spec.node_selector else (),
            affinity[0],
            self._constraints.tolerations(bytes(spec.tolerations)) if spec.tolerations else (),
            read_ports(spec, warn, unsupported),
            *affinity[1:],
            read_claims(spec, namespace, name) if spec.volumes else (),
            read_config_maps(spec, namespace, annotations.get(names.SHARED_GPU_CONFIG_MAP_ANNOTATION, "")),
            tuple(sorted(unsupported)),
            asked.share,
            len(spec.resource_claims or ()),
            asked.share is None and not by_containers and (bool(asked.mig) or request.get(GPU) == 0.0),
            containers,
            numa,
        )
        shape = self._shapes.get(parts)
        if shape is None:
            # A weak reference: a shape goes with its last pod.
            shape = self._shapes[parts] = Shape(*parts)
        return shape

    def _affinity(
        self, spec: core.PodSpec, namespace: str, labels: Mapping[str, str], unsupported: list[str], warn: Warn
    ) -> Affinity:
        """The affinity. An invalid term makes the pod unsupported: without the term it could be placed wrongly."""
        if not spec.affinity:
            return NO_AFFINITY
        try:
            return self._constraints.affinity(bytes(spec.affinity), namespace, labels)
        except TypeFault:
            raise
        except FieldError as error:
            warn(error.field, f"{error.message}; until then the pod is not scheduled")
            unsupported.append(f"{error.field}, which is not valid")
            return NO_AFFINITY


def _asked(
    spec: core.PodSpec,
    annotations: Mapping[str, str],
    request: Request,
    by_containers: bool,
    unsupported: list[str],
    warn: Warn,
) -> GpuAnnotations:
    """What the annotations ask for, beside the containers; ``request`` is raised, in place, by what they add to it.

    What they ask for in a form that cannot be read makes the pod unsupported: it would be bound without a GPU. That
    does not hold for pods on a node, and for those whose containers get GPUs or MIG devices whatever annotations say.
    """
    asked = read_gpu_annotations(annotations, warn).beside(request.get(GPU, 0.0))
    if not spec.node_name and not request.get(GPU) and not by_containers:
        unsupported += asked.faults
        if asked.share:
            containers = (*(spec.init_containers or ()), *(spec.containers or ()))
            if found := container_fault(annotations, (each.name for each in containers)):
                key, fault = found
                warn(f"metadata.annotations[{key}]", f"{fault}; until then the pod waits")
                unsupported.append(f"annotation {key}: {fault}")
    for key, count in (*asked.mig, (GPU, asked.whole)):
        request[key] = max(request.get(key, 0.0), count)
    if asked.whole:
        unsupported.append("a part of a GPU by annotation beside whole GPUs of containers")
    if asked.mig and not by_containers:
        unsupported.append(f"annotation {asked.mig[0][0]} without a container that requests the MIG device")
    return asked


def _amounts(request: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """The amounts above 0, by resource."""
    return tuple(sorted(entry for entry in request.items() if entry[1]))


def _may_be_extended(amount: tuple[str, float]) -> bool:
    return amount[0] == GPU or is_extended(amount[0])


def _claims(spec: core.PodSpec, status: core.PodStatus) -> tuple[PodClaim, ...]:
    """The claims for devices. One that is made from a template is known by the status of the pod; an entry without a
    name there says that the pod needs none."""
    made = {each.name: each.resource_claim_name for each in status.resource_claim_statuses or ()}
    found = []
    for each in spec.resource_claims or ():
        if each.resource_claim_name:
            found.append(PodClaim(each.name or "", each.resource_claim_name, named=True))
        elif each.name not in made or made[each.name]:
            found.append(PodClaim(each.name or "", made.get(each.name) or ""))
    return tuple(found)


def _safe_to_consolidate(annotations: Mapping[str, str], warn: Warn) -> bool:
    """Whether consolidation may move the pod: unless its annotation is "false"."""
    _check_switch("annotations", annotations, names.SAFE_TO_CONSOLIDATE_ANNOTATION, warn)
    return annotations.get(names.SAFE_TO_CONSOLIDATE_ANNOTATION) != "false"


def _check_switch(field: str, values: Mapping[str, str], name: str, warn: Warn) -> None:
    """Warn of a value that is neither "true" nor "false": it counts as none."""
    text = values.get(name, "true")
    if text not in ("true", "false"):
        warn(f"metadata.{field}[{name}]", f'{shown(text)}: give "true" or "false"')


def _gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Devices that the pod shares, from either form of the label."""
    if not any(map(is_device_label, labels)):
        return ()
    found = {value for key, value in labels.items() if is_device_label(key)}
    return tuple(sorted(found - {""}))


def _device_map(spec: core.PodSpec, annotations: Mapping[str, str]) -> str:
    """The name that admission has given the ConfigMap of the container with the share (API 7.4); "" without one."""
    _, wanted = container_of_share(annotations) or ("", "")
    prefix = annotations[names.SHARED_GPU_CONFIG_MAP_ANNOTATION]
    for kind, containers in (("i", spec.init_containers or ()), ("", spec.containers or ())):
        for index, container in enumerate(containers):
            if (container.name == wanted) if wanted else not kind:
                return f"{prefix}-{kind}{index}"
    return ""
