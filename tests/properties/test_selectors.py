"""Whatever expressions say, of whatever form: what is asked about parts of devices is what whole devices would say, and
nothing that an expression does is felt by anybody else.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.claims import Device
from kai_sched.model.device_selectors import view_of
from kai_sched.model.selector_text import parts_of
from kai_sched.selectors.expressions import ExpressionFault, answers
from tests.properties.expressions import devices, expressions


def said(expression: str, contents: Sequence[bytes]) -> list[bool | None]:
    """What the library says of each device; None where it fails."""
    try:
        return [None if isinstance(each, str) else each for each in answers(expression, contents)]
    except ExpressionFault:
        return [None] * len(contents)


@given(expressions(), st.lists(devices(), min_size=1, max_size=4))
def test_parts_of_devices_suffice(expression: str, seen: list[Device]) -> None:
    drivers = ["x.com", "y.com"] * len(seen)
    whole = [view_of(driver, device, None).content for driver, device in zip(drivers, seen, strict=False)]
    parts = parts_of(expression)
    partly = [view_of(driver, device, parts).content for driver, device in zip(drivers, seen, strict=False)]
    assert said(expression, partly) == said(expression, whole)
