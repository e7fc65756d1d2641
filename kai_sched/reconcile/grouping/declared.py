"""The grouping rule for kinds that the ConfigMap of kinds declares: the size of the gang; ``settings`` reads the
ConfigMap.
"""

from __future__ import annotations

from kai_sched.reconcile.grouping.draft import Draft, GroupingCase, Rule
from kai_sched.reconcile.grouping.fields import Fields
from kai_sched.reconcile.grouping.settings import KindRule

_ALL = "[*]"


def declared(rule: KindRule) -> Rule:
    """A gang of the size at the paths of ``rule``."""

    def group(case: GroupingCase) -> Draft:
        fields = case.whole(case.owner).fields
        minimum = _sum(fields, rule.minimum) if rule.minimum else None
        if minimum is None and rule.replicas:
            minimum = _sum(fields, rule.replicas)
        return Draft(case.owner, listed=case.chain, min_member=1 if minimum is None else minimum)

    return group


def _sum(fields: Fields, path: str) -> int | None:
    """The sum of all numbers at the path; None if there are none."""
    *above, last = path.split(".")
    places = [fields]
    for step in above:
        if not step.endswith(_ALL):
            places = [place.at(step) for place in places]
            continue
        name = step.removesuffix(_ALL)
        inner: list[Fields] = []
        for place in places:
            is_list = isinstance(place.values.get(name), list)
            inner += place.entries(name) if is_list else [each for _, each in place.at(name).each()]
        places = inner
    counts = [count for place in places if (count := place.count(last)) is not None]
    return sum(counts) if counts else None
