"""What is shown of a device, and how classes and rules with selectors are read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from kai_sched.model.claims.objects import Capacity, Device, DeviceClass, DeviceTaintRule, Version
from kai_sched.model.claims.selector_text import DevicePart
from kai_sched.model.claims.selectors import (
    EXPRESSION_MAX,
    SELECTORS_MAX,
    SelectorAnswer,
    SelectorQuestion,
    object_questions,
    selector_problems,
    text_fault,
    view_of,
)
from kai_sched.model.config import Config
from kai_sched.model.constraints import Taint
from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import Object
from kai_sched.model.read.kinds import DEVICE_TAINT_RULE, RESOURCE_CLAIM, Reader

DEVICE = Device(
    "gpu-0",
    {"a.com/model": "A100", "a.com/slot": 3, "b.com/driver": Version("1.10.0-rc.2")},
    {"a.com/memory": Capacity(Fraction(40 * 2**30))},
    shared=True,
)
MODEL, SLOT = DevicePart("attributes", "a.com", "model"), DevicePart("attributes", "a.com", "slot")


def nothing(_field: str, _message: str) -> None:
    raise AssertionError


def test_what_is_shown_of_a_device() -> None:
    def shown(*parts: DevicePart) -> Any:
        return msgspec.json.decode(view_of("a.com", DEVICE, frozenset(parts)).content)

    assert shown() == {"attributes": {}, "capacity": {}}
    assert shown(MODEL) == {"attributes": {"a.com": {"model": "A100"}}, "capacity": {}}
    assert shown(DevicePart("attributes", "a.com")) == {"attributes": {"a.com": {}}, "capacity": {}}
    assert shown(DevicePart("attributes", "c.com", "model")) == shown()
    assert shown(DevicePart("driver")) == {**shown(), "driver": "a.com"}
    assert msgspec.json.decode(view_of("a.com", DEVICE, None).content) == {
        "driver": "a.com",
        "allowMultipleAllocations": True,
        "attributes": {"a.com": {"model": "A100", "slot": 3}, "b.com": {"driver": {"version": "1.10.0-rc.2"}}},
        "capacity": {"a.com": {"memory": {"quantity": str(40 * 2**30)}}},
    }


def test_devices_are_alike_if_they_look_alike() -> None:
    other = Device("gpu-1", {"a.com/slot": 4, "a.com/model": "A100"}, shared=True)
    assert view_of("a.com", DEVICE, frozenset([MODEL])) == view_of("b.com", other, frozenset([MODEL]))
    assert view_of("a.com", DEVICE, frozenset([SLOT])).key != view_of("a.com", other, frozenset([SLOT])).key
    one, true = Device("x", {"a.com/slot": 1}), Device("x", {"a.com/slot": True})
    assert view_of("a.com", one, None).key != view_of("a.com", true, None).key


def test_a_taint_rule_is_read_with_its_selectors() -> None:
    """Without a key or with an unknown effect there is no rule."""

    def read(spec: dict[str, Any]) -> Object:
        raw = msgspec.json.encode({"metadata": {"name": "broken"}, "spec": spec})
        return Reader(Config()).read(DEVICE_TAINT_RULE, raw, nothing)

    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    named = {"driver": "d", "pool": "p", "device": "x", "deviceClassName": "gpu"}
    selectors = [{"cel": {"expression": "true"}}, {"cel": {"expression": "1 +"}}]
    found = read({"taint": taint, "deviceSelector": named | {"selectors": selectors}})
    assert found == DeviceTaintRule("broken", Taint("k", "v", "NoSchedule"), "d", "p", "x", "gpu", ("true", "1 +"))
    assert read({"taint": taint}) == DeviceTaintRule("broken", Taint("k", "v", "NoSchedule"), selects=False)
    for spec, field in (
        ({"deviceSelector": {}}, "spec.taint.key"),
        ({"taint": taint | {"effect": "PreferNoSchedule"}}, "spec.taint.effect"),
    ):
        with pytest.raises(FieldError) as caught:
            read(spec)
        assert caught.value.field == field


def test_classes_and_rules_are_told_of_selectors_that_cannot_be_used() -> None:
    classes = {"gpu": DeviceClass("gpu", ("true", "1 +", "x" * (EXPRESSION_MAX + 1)))}
    rules = {"r": DeviceTaintRule("r", Taint("k", "", "NoSchedule"), selectors=("1 +",))}
    assert object_questions(classes, rules, {}) == [SelectorQuestion("1 +"), SelectorQuestion("true")]
    answers = {"true": SelectorAnswer(), "1 +": SelectorAnswer("cannot be compiled")}
    assert object_questions(classes, rules, answers) == []
    told = selector_problems(classes, rules, answers)
    assert [each[:3] for each in told] == [
        ("DeviceClass", "gpu", "spec.selectors[1].cel.expression"),
        ("DeviceClass", "gpu", "spec.selectors[2].cel.expression"),
        ("DeviceTaintRule", "r", "spec.deviceSelector.selectors[0].cel.expression"),
    ]
    assert told[0][3] == "'1 +' cannot be compiled"
    assert told[1][3].endswith(f"has {EXPRESSION_MAX + 1} characters: shorten it to {EXPRESSION_MAX}")


def test_classes_and_rules_are_told_of_selectors_that_fail_for_devices() -> None:
    """If they are about any device; else the others may be kept from the selector by what comes before it."""
    classes = {"gpu": DeviceClass("gpu", ("1/0 == 1", "2/0 == 1"))}
    taint = Taint("k", "", "NoSchedule")
    rules = {
        "any": DeviceTaintRule("any", taint, selectors=("1/0 == 1",)),
        "named": DeviceTaintRule("named", taint, driver="a", selectors=("1/0 == 1",)),
        "of-class": DeviceTaintRule("of-class", taint, device_class="gpu", selectors=("1/0 == 1",)),
    }
    answer = SelectorAnswer("", {b"1": True, b"2": "division by zero"})
    told = selector_problems(classes, rules, {"1/0 == 1": answer, "2/0 == 1": answer})
    assert [each[1:3] for each in told] == [
        ("gpu", "spec.selectors[0].cel.expression"),
        ("any", "spec.deviceSelector.selectors[0].cel.expression"),
    ]
    assert told[0][3].startswith("'1/0 == 1' fails for some devices (division by zero): correct it")


@pytest.mark.parametrize("text", ["'\ud800' == 'a'", "'\udfff'", "\udabc"])
def test_what_is_no_text_is_not_sent_anywhere(text: str) -> None:
    assert "surrogate" in text_fault(text)
    assert text_fault("'\U0001f600\uffff' == ''") == ""


@pytest.mark.parametrize(("more", "fault"), [(0, ""), (1, f"{SELECTORS_MAX + 1} selectors: give {SELECTORS_MAX}")])
def test_a_claim_has_a_bounded_number_of_selectors(more: int, fault: str) -> None:
    selectors = [{"cel": {"expression": "true"}}] * SELECTORS_MAX
    options = [
        {"name": "a", "deviceClassName": "gpu", "selectors": selectors},
        {"name": "b", "deviceClassName": "gpu", "selectors": selectors[:more]},
    ]
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": options}]}}
    raw = msgspec.json.encode({"metadata": {"name": "c", "namespace": "a"}, "spec": spec})
    claim: Any = Reader(Config()).read(RESOURCE_CLAIM, raw, nothing)
    assert fault in claim.asks.fault
    assert bool(claim.asks.fault) is bool(fault)
