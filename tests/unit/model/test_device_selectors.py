"""CEL expressions over devices, as Kubernetes defines them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from kai_sched.model.claims import Capacity, Device, DeviceClass, DeviceTaintRule, Version
from kai_sched.model.config import Config
from kai_sched.model.device_selectors import SelectorBook, SelectorError
from kai_sched.model.faults import FieldError
from kai_sched.model.objects import Object, Taint
from kai_sched.model.read import DEVICE_CLASS, DEVICE_TAINT_RULE, Reader

DEVICE = Device(
    "gpu-0",
    {"a.com/model": "A100", "a.com/slot": 3, "a.com/ok": True, "a.com/driver": Version("1.10.0-rc.2")},
    {"a.com/memory": Capacity(Fraction(40 * 2**30))},
    shared=True,
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'a.com'", True),
        ('device.attributes["a.com"].model == "A100"', True),
        ('device.attributes["a.com"].model.lowerAscii() == "a100"', True),
        ('device.attributes["a.com"].model.matches("^H")', False),
        ('device.attributes["a.com"].slot > 2 && device.attributes["a.com"].ok', True),
        ('device.capacity["a.com"].memory.compareTo(quantity("40Gi")) == 0', True),
        ('device.capacity["a.com"].memory.isGreaterThan(quantity("40Gi"))', False),
        ('device.attributes["a.com"].driver.isLessThan(semver("1.10.0"))', True),
        ('device.attributes["a.com"].driver.compareTo(semver("1.9.9")) > 0', True),
        ('device.attributes["a.com"].driver.isGreaterThan(semver("1.10.0-rc.10"))', False),
        ('has(device.attributes["b.com"].model)', False),
        ('"b.com" in device.attributes && device.attributes["b.com"].model == "x"', False),
        ("device.allowMultipleAllocations", True),
    ],
)
def test_answers(expression: str, expected: bool) -> None:
    assert SelectorBook().selects(expression, "a.com", DEVICE) == expected


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("device.driver ==", "cannot be compiled"),
        ('device.attributes["a.com"].nothing == 1', "fails for device gpu-0 of driver a.com"),
        ("device.driver", "neither true nor false"),
        ('device.capacity["a.com"].memory.isGreaterThan(3)', "fails for device gpu-0"),
    ],
)
def test_what_has_no_answer_says_what_helps(expression: str, text: str) -> None:
    with pytest.raises(SelectorError, match=text) as error:
        SelectorBook().selects(expression, "a.com", DEVICE)
    assert "correct it" in str(error.value)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ('device.attributes["a.com"].?model.orValue("") == "A100"', "optional selection (.?)"),
        ('device.attributes[?"a.com"].hasValue()', "optional selection ([?)"),
        ('cel.bind(own, device.attributes["a.com"], own.slot > 1)', "cel.bind"),
        ('device.attributes["a.com"].model.charAt(0) == "A"', "the function charAt"),
    ],
)
def test_what_the_library_lacks_is_named_without_a_device(expression: str, what: str) -> None:
    with pytest.raises(SelectorError) as error:
        SelectorBook().check(expression)
    assert f"uses {what}, which this scheduler does not have" in str(error.value)


@pytest.mark.parametrize(
    "expression",
    [
        *(f'timestamp("2024-01-01T00:00:00Z").get{part}() > -1' for part in ["FullYear", "Month", "DayOfYear", "Date"]),
        *(f'timestamp("2024-01-01T00:00:00Z").get{part}() > -1' for part in ["DayOfMonth", "DayOfWeek"]),
        *(f'duration("1h").get{part}() > -1' for part in ["Hours", "Minutes", "Seconds", "Milliseconds"]),
        'int("3") == 3 && uint("3") == 3u && double("1.5") == 1.5 && string(1) == "1" && bytes("a") == b"a"',
        'type(1) == int && dyn(1) == 1 && size("a") == 1 && "a".contains("a") && "a".startsWith("a")',
        '"a".endsWith("a") && "a".matches("a") && ["a"].all(x, x == "a") && {"a": 1}.exists(k, k == "a")',
        "!optional.none().hasValue() && optional.of(1).or(optional.none()).value() == 1",
        'optional.ofNonZeroValue("").orValue("b") == "b" && quantity("1Ki").compareTo(quantity("1024")) == 0',
    ],
)
def test_what_it_has(expression: str) -> None:
    assert SelectorBook().selects(expression, "a.com", DEVICE)


def test_answers_are_kept_as_long_as_the_device_is() -> None:
    book = SelectorBook()
    assert book.selects("device.driver == 'a.com'", "a.com", DEVICE)
    book.forget([DEVICE])
    assert len(book._answers) == 1
    book.forget([])
    assert not book._answers


def test_a_taint_rule_is_read_with_what_is_wrong_with_it() -> None:
    """An unusable selector is told, and the rule is kept; without a key or with an unknown effect there is no rule."""
    told: list[tuple[str, str]] = []

    def read(spec: dict[str, Any]) -> Object:
        raw = msgspec.json.encode({"metadata": {"name": "broken"}, "spec": spec})
        return Reader(Config()).read(DEVICE_TAINT_RULE, raw, lambda field, message: told.append((field, message)))

    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    named = {"driver": "d", "pool": "p", "device": "x", "deviceClassName": "gpu"}
    selectors = [{"cel": {"expression": "true"}}, {"cel": {"expression": "1 +"}}]
    found = read({"taint": taint, "deviceSelector": named | {"selectors": selectors}})
    assert found == DeviceTaintRule("broken", Taint("k", "v", "NoSchedule"), "d", "p", "x", "gpu", ("true", "1 +"))
    assert [field for field, _ in told] == ["spec.deviceSelector.selectors[1].cel.expression"]
    assert read({"taint": taint}) == DeviceTaintRule("broken", Taint("k", "v", "NoSchedule"), selects=False)
    for spec, field in (
        ({"deviceSelector": {}}, "spec.taint.key"),
        ({"taint": taint | {"effect": "PreferNoSchedule"}}, "spec.taint.effect"),
    ):
        with pytest.raises(FieldError) as caught:
            read(spec)
        assert caught.value.field == field


def test_a_class_with_a_selector_that_cannot_be_used_is_told_when_it_is_read_and_kept() -> None:
    expressions = ["device.driver == 'gpu.example.com'", "device.driver ==", "device.?driver.hasValue()"]
    selectors = [{"cel": {"expression": each}} for each in expressions]
    raw = msgspec.json.encode({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
    told: list[tuple[str, str]] = []
    found = Reader(Config()).read(DEVICE_CLASS, raw, lambda field, message: told.append((field, message)))
    assert found == DeviceClass("gpu", tuple(expressions))
    assert [field for field, _ in told] == [f"spec.selectors[{i}].cel.expression" for i in (1, 2)]
    assert told[0][1].startswith("'device.driver ==' cannot be compiled (")
    assert told[1][1].startswith("'device.?driver.hasValue()' uses optional selection (.?)")
