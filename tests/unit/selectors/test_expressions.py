"""CEL expressions over devices, as Kubernetes defines them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kai_sched.model.claims.objects import Capacity, Device, Version
from kai_sched.model.claims.selectors import view_of
from kai_sched.selectors.expressions import ExpressionFault, answers, compiled

DEVICE = Device(
    "gpu-0",
    {"a.com/model": "A100", "a.com/slot": 3, "a.com/ok": True, "a.com/driver": Version("1.10.0-rc.2")},
    {"a.com/memory": Capacity(Fraction(40 * 2**30))},
    shared=True,
)


def answer(expression: str) -> bool | str:
    (found,) = answers(expression, [view_of("a.com", DEVICE, None).content])
    return found


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
    assert answer(expression) is expected


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('device.attributes["a.com"].nothing == 1', "nothing"),
        ("device.driver", "it is neither true nor false"),
        ('device.capacity["a.com"].memory.isGreaterThan(3)', "take quantities and versions"),
        ("1/0 == 1", "division by zero"),
        ("1%0 == 1", "zero"),
        ("9223372036854775807 + 1 == 1", "overflow"),
        ("(-9223372036854775807 - 1) / -1 == 1", ""),
        ("[1][5] == 1", "index"),
        ("{'a': 1}['b'] == 1", "b"),
        ("1 in 5", ""),
        ("'x'.matches('(')", "regex"),
        ("'x'.matches('(a{1000}){1000}')", "size limit"),
        ("(1).lowerAscii() == 'a'", ""),
        ("semver('" + "9" * 5000 + ".1.1').isGreaterThan(semver('1.1.1'))", "4300 digits"),
    ],
)
def test_whatever_the_library_raises_is_an_answer(expression: str, text: str) -> None:
    found = answer(expression)
    assert isinstance(found, str)
    assert text in found
    assert 0 < len(found) <= 200


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ('device.attributes["a.com"].?model.orValue("") == "A100"', "uses optional selection (.?)"),
        ('device.attributes[?"a.com"].hasValue()', "uses optional selection ([?)"),
        ('cel.bind(own, device.attributes["a.com"], own.slot > 1)', "uses cel.bind"),
        ('device.attributes["a.com"].model.charAt(0) == "A"', "uses the function charAt"),
        ("device.driver ==", "cannot be compiled"),
        ("'\\uD800' == 'a'", "cannot be compiled"),
    ],
)
def test_what_cannot_be_compiled_is_told_without_a_device(expression: str, what: str) -> None:
    with pytest.raises(ExpressionFault) as error:
        answers(expression, [])
    assert str(error.value).startswith(what)


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
    assert compiled(expression)
    assert answer(expression) is True
