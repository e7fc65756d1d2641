"""Whatever expressions say, of whatever form: what is asked about parts of devices is what whole devices would say, and
nothing that an expression does is felt by anybody else.
"""

from __future__ import annotations

from collections.abc import Sequence

import cel
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.claims import Device
from kai_sched.model.device_selectors import view_of
from kai_sched.model.selector_text import domains_of, parts_of
from kai_sched.selectors.expressions import FUNCTIONS, ExpressionFault, answers
from tests.properties.expressions import devices, expressions


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
