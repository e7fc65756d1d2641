"""Whatever expressions say, of whatever form: what is asked about parts of devices is what whole devices would say, and
nothing that an expression does is felt by anybody else.
"""

from __future__ import annotations

from collections.abc import Sequence

import cel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import CycleResult, Store, run_cycle
from kai_sched.api import names
from kai_sched.model.claims.objects import Device
from kai_sched.model.claims.selector_text import domains_of, parts_of
from kai_sched.model.claims.selectors import view_of
from kai_sched.model.config import Config
from kai_sched.model.read.kinds import Reader
from kai_sched.plan.effects import Bind
from kai_sched.selectors.expressions import FUNCTIONS, ExpressionFault, answers
from tests.properties.expressions import HARMFUL, devices, expressions
from tests.properties.hostile_work import Object, cluster, meta, pod, put


def said(expression: str, contents: Sequence[bytes]) -> list[bool | None]:
    """What is answered for each device; None where the expression fails."""
    try:
        return [None if isinstance(each, str) else each for each in answers(expression, contents)]
    except ExpressionFault:
        return [None] * len(contents)


def library_says(expression: str, content: bytes) -> bool | None:
    """The same of the library itself, for a whole device with all domains that the expression takes to be there."""
    device = msgspec.json.decode(content)
    for field, domain in domains_of(expression):
        device[field].setdefault(domain, {})
    try:
        found = cel.compile(expression).execute(cel.Context(variables={"device": device}, functions=FUNCTIONS))
    except BaseException:
        return None
    return found if isinstance(found, bool) else None


@given(expressions(), st.lists(devices(), min_size=1, max_size=4))
def test_answers_are_those_of_the_library_for_whole_devices(expression: str, seen: list[Device]) -> None:
    drivers = ["x.com", "y.com"] * len(seen)
    whole = [view_of(driver, device, None).content for driver, device in zip(drivers, seen, strict=False)]
    parts = parts_of(expression)
    partly = [view_of(driver, device, parts).content for driver, device in zip(drivers, seen, strict=False)]
    expected = [library_says(expression, content) for content in whole]
    assert said(expression, whole) == expected
    assert said(expression, partly) == expected


def claimant(name: str, expression: str, namespace: str = "evil") -> list[Object]:
    """A claim with the selector, and a pod that waits for it."""
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    labels = {names.QUEUE_LABEL: namespace}
    claim = {"metadata": meta(name, namespace, labels=labels), "spec": spec}
    return [
        {"apiVersion": names.DRA_VERSION, "kind": "ResourceClaim", **claim},
        pod(name, {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}, namespace),
    ]


def decided(objects: list[Object]) -> CycleResult:
    store = Store()
    put(store, Reader(Config()), [*cluster(2, 3), *claimant("claims", "true", "sane"), *objects])
    return run_cycle(store.cluster(), Config(), 0)


def plan_of_others(result: CycleResult) -> list[tuple[str, str]]:
    """In the order of deciding; where a pod with a claim is depends on the devices that others get."""
    bound = [each for each in result.effects if isinstance(each, Bind) and each.pod.startswith("sane/")]
    return [(each.pod, "" if each.claims else each.node) for each in bound]


ALONE = plan_of_others(decided([]))


def check_others(written: list[str]) -> None:
    """Others get what they get without these, and each of these pods is bound or told why not."""
    result = decided([each for i, text in enumerate(written) for each in claimant(f"c{i}", text)])
    assert plan_of_others(result) == ALONE
    bound = {each.pod for each in result.effects if isinstance(each, Bind)}
    for i in range(len(written)):
        reason = result.groups[f"evil/c{i}"].reason
        assert f"evil/c{i}" in bound or (reason is not None and f"ResourceClaim evil/c{i}" in reason.message)


@given(st.lists(expressions(), min_size=1, max_size=6))
def test_whatever_a_selector_does_is_told_on_its_claim_alone(written: list[str]) -> None:
    assert len(ALONE) == 4
    check_others(written)


@pytest.mark.slow
@pytest.mark.parametrize("harmful", HARMFUL, ids=["slow", "large", "deep"])
def test_so_is_what_harms_the_process_that_evaluates_it(harmful: str) -> None:
    check_others([harmful, "1/0 == 1", harmful + " || true", "true"])
