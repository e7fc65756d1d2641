"""CEL expressions over devices, as Kubernetes defines them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kai_sched.lowering.selectors import SelectorBook, SelectorError
from kai_sched.model.claims import Capacity, Device, Version

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
