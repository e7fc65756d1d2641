"""The tables of host ports: which of them can conflict in this cycle, and which classes of pods ask for too many.

Two host ports conflict if number and protocol are equal and the addresses are equal or one of them stands for any
address, as in the NodePorts plugin of the Kubernetes scheduler. A port has a row only if a pod that may be placed asks
for it and another pod has one with its number and protocol: other ports refuse no node.

Cost: one step for each port of each class. What tenants choose is counted: the ports of a pod, the conflicts of all
pods that may be placed, and the rows, of which the solver has a counter on each node. The pods with the fewest ports
come first, so that pods over a limit do not keep others from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kai_sched.model.constraints import HostPort
from kai_sched.snapshot.tables import HostPorts, Ints

ANY_ADDRESS = ("", "0.0.0.0", "::")
POD_PORTS_MAX = 1000
CONFLICTS_MAX = 2**17  # pairs of ports that are compared on one node
COUNTERS_MAX = 2**25  # rows times nodes; memory is taken only for those that are written


@dataclass(frozen=True, slots=True)
class PortRows:
    """The table, by class (C,) the rows of its ports, and why classes are over a limit, by their row."""

    table: HostPorts
    of_class: list[list[int]]
    refusals: dict[int, str]


def lower_ports(
    asked: Sequence[tuple[HostPort, ...]], waits: npt.NDArray[np.bool_], of_task: Ints, n_nodes: int
) -> PortRows:
    """The rows of host ports.

    Parameters
    ----------
    asked
        (C,) the ports of the classes.
    waits
        (C,) whether pods of the class may get a node.
    of_task
        (T,) the class of each task.
    n_nodes
        The number of nodes.
    """
    if not any(asked):
        return PortRows(HostPorts(np.zeros(1, np.int32), np.zeros(0, np.int32)), [[]] * len(asked), {})
    known = _number_ports(asked, np.bincount(of_task, minlength=len(asked)).tolist())
    chosen, refusals = _choose(asked, waits, known, COUNTERS_MAX // max(1, n_nodes))
    rows: dict[tuple[int, str], int] = {}
    of_class = [
        []
        if c in refusals
        else [
            rows.setdefault((k, port.host_ip), len(rows))
            for k, port in zip(known.of_class[c], ports, strict=True)
            if k in chosen
        ]
        for c, ports in enumerate(asked)
    ]
    ptr, conflict = [0], list[int]()
    for k, address in rows:
        near = known.addresses[k] if address in ANY_ADDRESS else dict.fromkeys((address, *ANY_ADDRESS))
        conflict += sorted(rows[k, other] for other in near if (k, other) in rows)
        ptr.append(len(conflict))
    return PortRows(HostPorts(np.array(ptr, np.int32), np.array(conflict, np.int32)), of_class, refusals)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Pairs of number and protocol, counted from 0.

    ``of_class`` (C,) has those of the ports of each class; ``addresses`` and ``pods`` have, by pair, the addresses of
    all classes and how many pods have such a port.
    """

    of_class: list[list[int]]
    addresses: list[dict[str, None]]
    pods: list[int]


def _number_ports(asked: Sequence[tuple[HostPort, ...]], n_tasks: Sequence[int]) -> _Numbers:
    """The numbers of the ports of all classes; ``n_tasks`` (C,) counts the pods of each."""
    places: dict[tuple[int, str], int] = {}
    of_class = [[places.setdefault((port.port, port.protocol), len(places)) for port in ports] for ports in asked]
    found = _Numbers(of_class, [{} for _ in places], [0] * len(places))
    for ports, numbers, count in zip(asked, of_class, n_tasks, strict=True):
        for port, k in zip(ports, numbers, strict=True):
            found.addresses[k][port.host_ip] = None
        for k in set(numbers):
            found.pods[k] += count
    return found


def _choose(
    asked: Sequence[tuple[HostPort, ...]], waits: npt.NDArray[np.bool_], known: _Numbers, most: int
) -> tuple[set[int], dict[int, str]]:
    """The numbers whose ports get rows, ``most`` rows in all, and why classes are over a limit."""
    chosen: set[int] = set()
    refusals: dict[int, str] = {}
    rows = conflicts = 0
    n_addresses, is_shared = [len(each) for each in known.addresses], [count > 1 for count in known.pods]
    for c in sorted(np.flatnonzero(waits).tolist(), key=lambda c: (len(asked[c]), c)):
        if len(asked[c]) > POD_PORTS_MAX:
            refusals[c] = f"it asks for {len(asked[c])} host ports, and a pod can have {POD_PORTS_MAX} at most"
            continue
        numbers = known.of_class[c]
        shared = {k for k in numbers if is_shared[k]}
        more = sum(n_addresses[k] for k in shared - chosen)
        pairs = sum(
            n_addresses[k] if port.host_ip in ANY_ADDRESS else 4
            for k, port in zip(numbers, asked[c], strict=True)
            if is_shared[k]
        )
        if rows + more > most or conflicts + pairs > CONFLICTS_MAX:
            refusals[c] = (
                f"too many pods ask for the numbers of its {len(asked[c])} host ports, at too many addresses: "
                "use fewer host ports"
            )
            continue
        rows, conflicts = rows + more, conflicts + pairs
        chosen |= shared
    return chosen, refusals
