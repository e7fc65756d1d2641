"""The allocation that is written to a claim: what drivers are told with it."""

from __future__ import annotations

from typing import Any

from kai_sched.model.claims.objects import AllocatedDevice, Allocation
from kai_sched.plan.allocations import whole_allocation, wire_allocation

TOLERATION = {"key": "broken", "operator": "Exists", "tolerationSeconds": 60}
FAST, SLOW, SHARED, UNUSED = ({"opaque": {"driver": "d", "parameters": {"mode": n}}} for n in range(4))


def written(devices: dict[str, Any], *requests: str) -> dict[str, Any]:
    allocation = Allocation(tuple(AllocatedDevice(name, "d", "n1", f"dev-{n}") for n, name in enumerate(requests)))
    configs = {"fast": [FAST], "slow": [SLOW]}
    found = whole_allocation(wire_allocation(allocation), devices, lambda name: configs.get(name, ()))
    return dict(found["devices"])


def test_each_request_gets_the_config_of_its_class_and_the_claim_its_own() -> None:
    devices = {
        "requests": [
            {"name": "a", "exactly": {"deviceClassName": "fast", "tolerations": [TOLERATION]}},
            {"name": "b", "exactly": {"deviceClassName": "plain"}},
        ],
        "config": [SHARED, {**UNUSED, "requests": ["b"]}],
    }
    found = written(devices, "a", "a", "b")
    assert found["config"] == [
        {**FAST, "source": "FromClass", "requests": ["a"]},
        {**SHARED, "source": "FromClaim"},
        {**UNUSED, "source": "FromClaim", "requests": ["b"]},
    ]
    assert [each.get("tolerations") for each in found["results"]] == [[TOLERATION], [TOLERATION], None]


def test_of_a_prioritised_list_the_option_that_was_taken_counts() -> None:
    options = [{"name": "x", "deviceClassName": "fast"}, {"name": "y", "deviceClassName": "slow"}]
    configs = [{**SHARED, "requests": ["a"]}, {**FAST, "requests": ["a/x"]}, {**SLOW, "requests": ["a/y"]}]
    found = written({"requests": [{"name": "a", "firstAvailable": options}], "config": configs}, "a/y")
    assert found["config"] == [
        {**SLOW, "source": "FromClass", "requests": ["a/y"]},
        {**SHARED, "source": "FromClaim", "requests": ["a"]},
        {**SLOW, "source": "FromClaim", "requests": ["a/y"]},
    ]


def test_without_config_there_is_none() -> None:
    assert written({"requests": [{"name": "a", "exactly": {"deviceClassName": "plain"}}]}, "a").keys() == {"results"}
