"""A label selector as a text, as kubectl and the arguments of plugins have it: "a=b,c in (d,e),!f"."""

from __future__ import annotations

import re

from kai_sched.model.constraints import Requirement
from kai_sched.model.field_errors import shown

LENGTH_MAX = 4096  # characters
_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?"
_VALUE = r"[-\w.]*"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*)?(?P<key>{_KEY})\s*"
    rf"(?:(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})|(?P<set>in|notin)\s*\((?P<values>[-\w.,\s]*)\))?\s*(?:,|$)",
    re.ASCII,
)


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """The requirements of the selector, all of which must hold.

    ValueError says what cannot be read, and how to write it; an empty text is refused, as it would select everything.
    """
    if len(text) > LENGTH_MAX:
        raise ValueError(f"the label selector has more than {LENGTH_MAX} characters: shorten it")
    found: list[Requirement] = []
    at = 0
    while at < len(text) or not found:
        match = _REQUIREMENT.match(text, at)
        if match is None or (match["absent"] and (match["sign"] or match["set"])):
            raise ValueError(f'{shown(text)} is no label selector: write it as "key=value,other in (a,b),!absent"')
        found.append(_requirement(match))
        at = match.end()
    return tuple(found)


def _requirement(match: re.Match[str]) -> Requirement:
    if match["set"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "In" if match["set"] == "in" else "NotIn", values)
    if match["sign"]:
        return Requirement(match["key"], "NotIn" if match["sign"] == "!=" else "In", (match["value"],))
    return Requirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
