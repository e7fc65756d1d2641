"""Which workload kinds of other packages are used, and what is said of those that are not, or that fail."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.reconcile.grouping.draft import Draft, GroupingCase
from kai_sched.reconcile.grouping.settings import GroupingSettings
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from kai_sched.reconcile.grouping.workload_kind import PluginKinds, WorkloadKind, usable_kinds
from tests.unit.reconcile.workloads import World, grouping, owner, pod

SOLVER = ("example.com/v1", "Solver")


def solver(rule: Any) -> PluginKinds:
    return usable_kinds([("solver", WorkloadKind(*SOLVER, rule))])


def by_spec(case: GroupingCase) -> Draft:
    return Draft(case.owner, min_member=case.whole(case.owner).fields.at("spec").count("size") or 1)


def minimum(plugins: PluginKinds) -> int:
    """The minimum of the group of a pod below a Solver of three."""
    top = owner("example.com/v1 Solver", "s", spec={"size": 3})
    found = grouping(pod("p", top), World([top]), GroupingSettings(plugins=plugins.rules))
    return int(found.manifest["spec"]["minMember"])


def test_the_rule_of_a_package_groups_the_pods_of_its_kind() -> None:
    assert minimum(solver(by_spec)) == 3
    assert minimum(PluginKinds({})) == 1


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        ("text", "str is no WorkloadKind"),
        ([WorkloadKind(*SOLVER, by_spec), None], "NoneType is no WorkloadKind"),
        (WorkloadKind("", "Solver", by_spec), "api_version is ''"),
        (WorkloadKind("example.com/v1", 5, by_spec), "kind is 5"),  # type: ignore[arg-type]
        (WorkloadKind(*SOLVER, "rule"), "rule and controller are functions"),  # type: ignore[arg-type]
        (WorkloadKind("batch/v1", "Job", by_spec), "Job (batch/v1) is built in"),
        ([WorkloadKind(*SOLVER, by_spec), WorkloadKind(*SOLVER, by_spec)], "another plugin has Solver"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_name(offered: object, message: str) -> None:
    found = usable_kinds([("p", offered)])
    (fault,) = found.faults
    assert str(fault).startswith(f"workload kind p: {message}")
    assert len(found.kinds) == isinstance(offered, list), "the rest of a list is used"


def test_a_rule_that_fails_is_told_for_the_workload() -> None:
    def fails(case: GroupingCase) -> Draft:
        return Draft(case.missing)  # type: ignore[attr-defined]

    with pytest.raises(GroupingError, match=r"^Solver ml/s: the rule of the plugin solver failed \(AttributeError: "):
        minimum(solver(fails))
    with pytest.raises(GroupingError, match="the rule of the plugin solver returned int and not a Draft"):
        minimum(solver(lambda _case: 5))


def test_what_its_requests_raise_passes_through_a_rule() -> None:
    class Later(Exception):
        pass

    def asks(_case: GroupingCase) -> Draft:
        raise Later

    with pytest.raises(Later):
        minimum(solver(asks))
