"""Reads where a pod may run: node selector, node and inter-pod affinity, tolerations, host ports, claims and ConfigMaps
(semantics 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kai_sched.api import core, names
from kai_sched.model.constraints import HostPort, NodeSelector, PodTerm, Requirement, Term, Toleration, WeightedPodTerm
from kai_sched.model.field_errors import FieldError, Warn, decode_part, shown
from kai_sched.model.keys import object_key
from kai_sched.model.read.parse_cache import Recent
from kai_sched.model.read.requests import SIDECAR_POLICY
from kai_sched.model.selectors import compared

_NODE_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_POD_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_ANY_ADDRESS = "0.0.0.0"
PORT_MAX = 65_535
WEIGHT_MAX = 100

_affinity = msgspec.json.Decoder(core.Affinity | None)
_tolerations = msgspec.json.Decoder(list[core.WireToleration] | None)
_selector = msgspec.json.Decoder(dict[str, str] | None)

Affinity = tuple[NodeSelector | None, tuple[PodTerm, ...], tuple[PodTerm, ...], tuple[WeightedPodTerm, ...]]
NO_AFFINITY: Affinity = (None, (), (), ())


def read_node_selector(selector: core.Selector, field: str) -> NodeSelector:
    """The terms that can match; an empty term matches nothing and is left out. Raises FieldError."""
    terms: list[Term] = []
    for i, term in enumerate(selector.node_selector_terms or ()):
        where = f"{field}.nodeSelectorTerms[{i}]"
        expressions = _requirements(term.match_expressions, _NODE_OPERATORS, f"{where}.matchExpressions")
        fields = _requirements(term.match_fields, _NODE_OPERATORS, f"{where}.matchFields")
        for j, requirement in enumerate(fields):
            if requirement.key != "metadata.name":
                message = f"{shown(requirement.key)} is not a field of nodes to select by: use metadata.name"
                raise FieldError(f"{where}.matchFields[{j}].key", message)
        if expressions or fields:
            terms.append(_sorted_set(expressions + fields))
    return tuple(terms)


def _requirements(wire: Sequence[core.WireRequirement] | None, known: Iterable[str], field: str) -> list[Requirement]:
    found = []
    for i, each in enumerate(wire or ()):
        if each.operator not in known:
            message = f"{shown(each.operator)} is not an operator: use one of {', '.join(sorted(known))}"
            raise FieldError(f"{field}[{i}].operator", message)
        values = tuple(each.values or ())
        if each.operator in ("Gt", "Lt") and not (len(values) == 1 and compared(values[0]) is not None):
            raise FieldError(
                f"{field}[{i}].values", f"operator {each.operator} compares with one whole number of 64 bits: give it"
            )
        if each.operator in ("In", "NotIn") and not values:
            raise FieldError(f"{field}[{i}].values", f"operator {each.operator} needs at least one value: give it")
        found.append(Requirement(each.key, each.operator, tuple(sorted(set(values)))))
    return found


def _sorted_set(requirements: Iterable[Requirement]) -> Term:
    return tuple(sorted(set(requirements), key=lambda each: (each.key, each.op, each.values)))


def read_label_selector(selector: core.LabelSelector, field: str) -> Term:
    """All requirements of a label selector; an empty one matches everything. Raises FieldError."""
    found = _requirements(selector.match_expressions, _POD_OPERATORS, f"{field}.matchExpressions")
    found += [Requirement(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()]
    return _sorted_set(found)


class ConstraintReader:
    """Reads constraints of pods, and caches them by raw text: most pods of a cluster share a few."""

    def __init__(self) -> None:
        self._affinities: Recent[tuple[bytes, str, tuple[tuple[str, str], ...]], Affinity] = Recent()
        self._tolerations: Recent[bytes, tuple[Toleration, ...]] = Recent()
        self._selectors: Recent[bytes, tuple[tuple[str, str], ...]] = Recent()

    def affinity(self, raw: bytes, namespace: str, labels: Mapping[str, str]) -> Affinity:
        """Required node affinity, then required, anti and preferred inter-pod terms. Raises FieldError."""
        if not raw or raw in (b"null", b"{}"):
            return NO_AFFINITY
        # Only (mis)matchLabelKeys make two pods with the same text and namespace differ.
        own = tuple(sorted(labels.items())) if b"atchLabelKeys" in raw else ()
        key = (raw, namespace, own)
        known = self._affinities.get(key)
        if known is None:
            wire = decode_part(_affinity, raw, "spec.affinity") or core.Affinity()
            size = len(raw) + sum(len(name) + len(value) for name, value in own)
            known = self._affinities.put(key, _read_affinity(wire, namespace, labels), size)
        return known

    def tolerations(self, raw: bytes) -> tuple[Toleration, ...]:
        """Sorted, without repetitions: their order means nothing. Raises FieldError."""
        known = self._tolerations.get(raw)
        if known is None:
            wire = decode_part(_tolerations, raw, "spec.tolerations") or []
            found = {Toleration(e.key or "", e.operator or "Equal", e.value or "", e.effect or "") for e in wire}
            known = tuple(sorted(found, key=lambda each: (each.key, each.operator, each.value, each.effect)))
            self._tolerations.put(raw, known, len(raw))
        return known

    def node_selector(self, raw: bytes) -> tuple[tuple[str, str], ...]:
        """Sorted by key. Raises FieldError."""
        known = self._selectors.get(raw)
        if known is None:
            known = tuple(sorted((decode_part(_selector, raw, "spec.nodeSelector") or {}).items()))
            self._selectors.put(raw, known, len(raw))
        return known


def _read_affinity(wire: core.Affinity, namespace: str, labels: Mapping[str, str]) -> Affinity:
    nodes = wire.node_affinity.required_during_scheduling_ignored_during_execution if wire.node_affinity else None
    node_selector = None
    if nodes is not None:
        where = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        node_selector = read_node_selector(nodes, where)
    required: list[tuple[PodTerm, ...]] = []
    preferred: list[WeightedPodTerm] = []
    for name, part, sign in (("podAffinity", wire.pod_affinity, 1), ("podAntiAffinity", wire.pod_anti_affinity, -1)):
        part = part or core.PodAffinity()
        field = f"spec.affinity.{name}.requiredDuringSchedulingIgnoredDuringExecution"
        hard = part.required_during_scheduling_ignored_during_execution or ()
        required.append(tuple(_term(each, namespace, labels, f"{field}[{i}]") for i, each in enumerate(hard)))
        field = f"spec.affinity.{name}.preferredDuringSchedulingIgnoredDuringExecution"
        for i, soft in enumerate(part.preferred_during_scheduling_ignored_during_execution or ()):
            if not 0 < soft.weight <= WEIGHT_MAX:
                raise FieldError(f"{field}[{i}].weight", f"{shown(soft.weight)} is no weight: give 1 to {WEIGHT_MAX}")
            term = _term(soft.pod_affinity_term, namespace, labels, f"{field}[{i}].podAffinityTerm")
            preferred.append(WeightedPodTerm(sign * soft.weight, term))
    return node_selector, required[0], required[1], tuple(preferred)


def _term(wire: core.WirePodTerm, namespace: str, labels: Mapping[str, str], field: str) -> PodTerm:
    selector = None
    if wire.label_selector is not None:
        # As in Kubernetes, a key that the pod itself lacks asks for nothing.
        own = [(key, "In") for key in wire.match_label_keys or ()]
        own += [(key, "NotIn") for key in wire.mismatch_label_keys or ()]
        folded = [Requirement(key, op, (labels[key],)) for key, op in own if key in labels]
        selector = _sorted_set((*read_label_selector(wire.label_selector, f"{field}.labelSelector"), *folded))
    elsewhere = None
    if wire.namespace_selector is not None:
        elsewhere = read_label_selector(wire.namespace_selector, f"{field}.namespaceSelector")
    listed = tuple(sorted(set(wire.namespaces or ())))
    if not listed and elsewhere is None:
        listed = (namespace,)
    return PodTerm(wire.topology_key, selector, listed, elsewhere)


def read_ports(spec: core.PodSpec, warn: Warn, unsupported: list[str]) -> tuple[HostPort, ...]:
    """Ports taken on the node by containers and sidecars. On the host's network every container port is one.

    An invalid port gives a warning and an entry in ``unsupported``.
    """
    found = set()
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == SIDECAR_POLICY]
    for container in (*sidecars, *(spec.containers or ())):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number and not 0 < number <= PORT_MAX:
                message = f"{shown(number)} is no port: give 1 to {PORT_MAX}"
                warn("spec.containers.ports", f"{message}; until then the pod is not scheduled")
                unsupported.append("spec.containers.ports, which are not valid")
            elif number:
                found.add(HostPort(number, port.protocol or "TCP", port.host_ip or _ANY_ADDRESS))
    return tuple(sorted(found, key=lambda each: (each.port, each.protocol, each.host_ip)))


def read_claims(spec: core.PodSpec, namespace: str, pod: str) -> tuple[str, ...]:
    """Keys of the claims that the pod's volumes need, those made for generic ephemeral volumes included."""
    found = set()
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found.add(object_key(namespace, volume.persistent_volume_claim.claim_name or ""))
        elif volume.ephemeral is not None:
            found.add(object_key(namespace, f"{pod}-{volume.name}"))
    return tuple(sorted(found))


def read_config_maps(spec: core.PodSpec, namespace: str, exempt_prefix: str) -> tuple[str, ...]:
    """Keys of the ConfigMaps without which a container cannot start (semantics 12.1).

    Names that start with a non-empty ``exempt_prefix`` are made for the pod once it has its GPU.
    """
    needed: list[core.ConfigMapReference] = []
    mounted: set[str | None] = set()
    for group in (spec.init_containers, spec.containers, spec.ephemeral_containers):
        for container in group or ():
            mounted.update(mount.name for mount in container.volume_mounts or ())
            sources = [variable.value_from for variable in container.env or () if variable.value_from is not None]
            needed += [source.config_map_key_ref for source in sources if source.config_map_key_ref is not None]
            needed += [each.config_map_ref for each in container.env_from or () if each.config_map_ref is not None]
    for volume in spec.volumes or ():
        if volume.name in mounted:
            if volume.config_map is not None:
                needed.append(volume.config_map)
            if volume.projected is not None:
                parts = volume.projected.sources or ()
                needed += [part.config_map for part in parts if part.config_map is not None]
    found = {each.name for each in needed if each.name and not each.optional and each.name != names.ROOT_CA_CONFIG_MAP}
    if exempt_prefix:
        found = {name for name in found if not name.startswith(exempt_prefix)}
    return tuple(sorted(object_key(namespace, name) for name in found))
