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

from kai_sched.model.objects import HostPort
from kai_sched.snapshot.tables import HostPorts, Ints

ANY_ADDRESS = ("", "0.0.0.0", "::")
POD_PORTS_MAX = 1000
CONFLICTS_MAX = 2**17  # pairs of ports that are compared on one node
COUNTERS_MAX = 2**25  # rows times nodes; memory is taken only for those that are written

Number = tuple[int, str]  # number and protocol


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
    addresses, pods = _by_number(asked, np.bincount(of_task, minlength=len(asked)).tolist())
    chosen, refusals = _choose(asked, waits, addresses, pods, COUNTERS_MAX // max(1, n_nodes))
    rows: dict[HostPort, int] = {}
    of_class = [
        [] if c in refusals else [rows.setdefault(port, len(rows)) for port in ports if _number(port) in chosen]
        for c, ports in enumerate(asked)
    ]
    ptr, conflict = [0], list[int]()
    for port in rows:
        others = addresses[_number(port)]
        near = others if port.host_ip in ANY_ADDRESS else dict.fromkeys((port.host_ip, *ANY_ADDRESS))
        same = (HostPort(port.port, port.protocol, address) for address in near)
        conflict += sorted(rows[other] for other in same if other in rows)
        ptr.append(len(conflict))
    return PortRows(HostPorts(np.array(ptr, np.int32), np.array(conflict, np.int32)), of_class, refusals)


def _number(port: HostPort) -> Number:
    return port.port, port.protocol


def _by_number(
    asked: Sequence[tuple[HostPort, ...]], n_tasks: Sequence[int]
) -> tuple[dict[Number, dict[str, None]], dict[Number, int]]:
    """By number and protocol: the addresses of all classes, and how many pods have such a port."""
    addresses: dict[Number, dict[str, None]] = {}
    pods: dict[Number, int] = {}
    for ports, count in zip(asked, n_tasks, strict=True):
        for port in ports:
            addresses.setdefault(_number(port), {})[port.host_ip] = None
        for number in {_number(port) for port in ports}:
            pods[number] = pods.get(number, 0) + count
    return addresses, pods


def _choose(
    asked: Sequence[tuple[HostPort, ...]],
    waits: npt.NDArray[np.bool_],
    addresses: dict[Number, dict[str, None]],
    pods: dict[Number, int],
    most: int,
) -> tuple[set[Number], dict[int, str]]:
    """The numbers whose ports get rows, ``most`` rows in all, and why classes are over a limit."""
    chosen: set[Number] = set()
    refusals: dict[int, str] = {}
    rows = conflicts = 0
    for c in sorted(np.flatnonzero(waits).tolist(), key=lambda c: (len(asked[c]), c)):
        if len(asked[c]) > POD_PORTS_MAX:
            refusals[c] = f"it asks for {len(asked[c])} host ports, and a pod can have {POD_PORTS_MAX} at most"
            continue
        shared = [port for port in asked[c] if pods[_number(port)] > 1]
        more = sum(len(addresses[number]) for number in {_number(port) for port in shared} - chosen)
        pairs = sum(len(addresses[_number(port)]) if port.host_ip in ANY_ADDRESS else 4 for port in shared)
        if rows + more > most or conflicts + pairs > CONFLICTS_MAX:
            refusals[c] = (
                f"too many pods ask for the numbers of its {len(asked[c])} host ports, at too many addresses: "
                "use fewer host ports"
            )
            continue
        rows, conflicts = rows + more, conflicts + pairs
        chosen.update(_number(port) for port in shared)
    return chosen, refusals
