"""Where a pod may run, as the scheduler sees it: taints and tolerations, requirements on labels, inter-pod terms, host
ports (semantics 12). Frozen and independent of the wire, as ``model.objects``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One label requirement: In, NotIn, Exists, DoesNotExist, Gt or Lt. A node's name has the key ``metadata.name``."""

    key: str
    op: str
    values: tuple[str, ...] = ()


# A term is the AND of its requirements (empty: matches nothing); a node selector is the OR of its terms.
Term = tuple[Requirement, ...]
NodeSelector = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class HostPort:
    port: int
    protocol: str = "TCP"
    host_ip: str = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One pod (anti-)affinity term. ``selector`` None matches no pod, an empty one matches every pod.

    ``namespaces``: the names listed, or the pod's own where the term lists none; ``namespace_selector``: None, or
    requirements on the labels of Namespace objects (empty: every namespace), added to the names.
    """

    topology_key: str
    selector: tuple[Requirement, ...] | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    weight: int  # negative for anti-affinity
    term: PodTerm
