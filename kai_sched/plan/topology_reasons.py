"""The texts about topology constraints that no domain meets, or that name what is not there (semantics 10)."""

from __future__ import annotations

from collections.abc import Sequence

from kai_sched.plan.reasons import NO_DOMAIN, NO_FIT, Reason, some_of


def no_topology(topology: str, sub_group: str, known: Sequence[str]) -> Reason:
    """The constraint of the group, or of a sub-group, names a Topology that does not exist."""
    there = f"there are {some_of(known)}" if known else "there is none"
    text = f"Topology {topology!r}{_of_sub_group(sub_group)} does not exist: {there}; create it, or name another one"
    return Reason(NO_FIT, text, missing=True)


def no_level(
    topology: str, sub_group: str, wanted: Sequence[str], unknown: Sequence[str], levels: Sequence[str]
) -> Reason:
    """The constraint names no level, one that the topology does not have, or a preferred level above the required."""
    there = f"its levels are {', '.join(levels)}, from the widest"
    if unknown:
        problem = f"Topology {topology} has no level {unknown[0]!r}{_of_sub_group(sub_group)}"
    elif wanted:
        problem = f"the preferred level {wanted[1]!r} of Topology {topology} is above the required {wanted[0]!r}"
        problem += _of_sub_group(sub_group)
    else:
        problem = f"the constraint on Topology {topology}{_of_sub_group(sub_group)} names no level"
    return Reason(NO_FIT, f"{problem}: {there}; correct topologyConstraint", missing=True)


def no_domain(topology: str, sub_group: str, level: str, asked: int, most: int | None, running: bool) -> Reason:
    """No topology domain can hold the pods of the group, or of a sub-group.

    Parameters
    ----------
    level
        The label that all must share; "": any nodes of the topology will do.
    asked
        How many pods are to be placed together.
    most
        How many of them the roomiest domain has room for, by what is free; None where that is not known.
    running
        Whether the domain is given by pods that have a place.
    """
    pods = ("the pod" if asked == 1 else f"all {asked} pods") + _of_sub_group(sub_group)
    if not level:
        text = f"the nodes of Topology {topology} have no room for {pods}"
        return Reason(NO_DOMAIN, text if most is None or most >= asked else f"{text}: they have room for {most}")
    domain = f"{level} of Topology {topology}"
    text = f"the {domain} of its other pods has no room" if running else f"no {domain} has room"
    text += f" for {pods}"
    if most is None or most >= asked:
        return Reason(NO_DOMAIN, f"{text}: other pods, or what these ask of nodes, leave too few of its nodes")
    return Reason(NO_DOMAIN, f"{text}: {'it' if running else 'the roomiest'} has room for {most}")


def _of_sub_group(name: str) -> str:
    return f" of sub-group {name}" if name else ""
