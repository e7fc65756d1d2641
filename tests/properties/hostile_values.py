"""Extremes and nonsense by the kind of value, as strategies whose simplest examples come first.

``DEEP`` stands for a nesting that no parser follows: ``encode`` puts it in, with what else JSON texts can hold and
Python objects cannot.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

DEEP = "@deep@"
DEEP_LEVELS = 10_000
HUGE = "@huge@"  # a number that no float holds
NAMES_MAX = 253

Values = st.SearchStrategy[Any]

INTEGERS = [0, -1, 1, 2, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1]
NUMBERS = [*INTEGERS, 2**64, 10**30, -(10**30), 1.5, -0.0, 1e-300, 1e15, 1e308, -1e308, HUGE]
DIGITS = [
    "0",
    "-1",
    "+1",
    "2147483647",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775807",
    "9223372036854775808",
    "9" * 30,
    "-" + "9" * 30,
    "9" * 63,
    "9" * 5000,
    "0" * 5000,
    "\u0663",  # an Arabic digit
    "\u00b2",  # a superscript, a digit and no decimal
    "\uff11\uff12",  # full-width digits
    "1_000",
    " 1",
    "1.0",
    "0x10",
    "1e5",
]
DURATIONS = [
    "0",
    "-1s",
    "1ns",
    "0.0000000001s",
    "100000h",
    "2562047h",
    "-2562047h",
    "2562047h47m16.854775807s",
    "9223372036.854775807s",
    "-9223372036.854775808s",
    "2562048h",
    "1e9h",
    "",
    "s",
    "abc",
    "1",
    "1d",
    "1h-1m",
    "\u0663s",
    "9" * 5000 + "h",
    "1h" * 20_000,
    "." + "0" * 5000 + "1s",
]
QUANTITIES = [
    "0",
    "1",
    "100m",
    "9E",
    "8Ei",
    "9223372036854775807",
    "9223372036854775808",
    "-1",
    "-9E",
    "1e-40",
    "0.000000001",
    "0.0000000001",
    "1n",
    "1e400",
    "1e-400",
    "1e999999999",
    "1E5",
    "NaN",
    "Infinity",
    "-inf",
    "",
    "1Gib",
    "1 Gi",
    ".",
    "1.",
    ".5",
    "\u0663",
    "9" * 100,
    "9" * 5000,
    "0." + "0" * 5000 + "1",
]
TIMES = [
    "1969-12-31T23:59:59Z",
    "1900-01-01T00:00:00Z",
    "1899-12-31T23:59:59Z",
    "1900-01-01T00:00:00+23:59",
    "2200-12-31T23:59:59.999999999Z",
    "2200-12-31T23:59:59-23:59",
    "2201-01-01T00:00:00Z",
    "2262-04-11T23:47:16.854775807Z",
    "2262-04-12T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "2026-06-30T23:59:60Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00.123456789012345678Z",
    "2026-01-01T00:00:00." + "1" * 5000 + "Z",
    "2026-01-01",
    "\u0662\u0660\u0662\u0666-01-01T00:00:00Z",
    "now",
    "",
]
NAMES = [
    "",
    "a",
    ".",
    "..",
    "-",
    "/",
    "a/b",
    "../..",
    "../../../api/v1/nodes/n",
    "?watch=1",
    "a?watch=1&limit=1",
    "#",
    "a#b",
    "%2f",
    "%2e%2e",
    "%",
    "a b",
    "a;b",
    "a:b@c",
    "a\\b",
    "a\x00b",
    "a\tb",
    "a\nb",
    "a\r\nX-Header: y",
    "x HTTP/1.1\r\nHost: k\r\n\r\nDELETE /api/v1/namespaces/victim/pods/p",
    "\x1b[31mred",
    "\u202eevil",
    "\u00e9",
    "\U0001f600",
    "\ud800",
    "A",
    "a_b",
    "null",
    "None",
    "__class__",
    "pod:evil/held",
    "a" * 63,
    "a" * 64,
    "a" * NAMES_MAX,
    "a" * (NAMES_MAX + 1),
    "a" * 9000,
    "{}",
    "{0.__class__}",
    "%s",
]
CHOICES = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "Always", "True", "False", "Unknown"]
CHOICES += [
    "NoSchedule",
    "NoExecute",
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "WaitForFirstConsumer",
    "preemptible",
]
WRONG_TYPES: list[Any] = [None, True, False, 0, -1, 1.5, 10**30, "", "x", [], {}, [[]], [None], {"": None}, DEEP, HUGE]


def _some(*lists: list[Any]) -> Values:
    return st.sampled_from([value for each in lists for value in each])


wrong_types: Values = _some(WRONG_TYPES)
integers: Values = _some(NUMBERS) | st.integers()
numbers: Values = _some(NUMBERS, [-1, 1e16, 1e300]) | st.floats(allow_nan=False, allow_infinity=False)
texts: Values = _some(NAMES, DIGITS, CHOICES) | st.text(max_size=20)
names: Values = texts
digits: Values = _some(DIGITS, NAMES)
durations: Values = _some(DURATIONS, NAMES) | st.builds(
    "{}{}".format, st.integers(-(2**63), 2**63), st.sampled_from(["ns", "ms", "s", "m", "h"])
)
times: Values = _some(TIMES, NAMES)
quantities: Values = _some(QUANTITIES, NUMBERS) | st.builds(
    "{}{}".format, st.integers(-(2**63), 2**63), st.sampled_from(["", "n", "m", "k", "Ki", "E", "Ei", "e9", "e-9"])
)
fractions: Values = _some(["0.5", "0.1", "1", "1.0", "0", "-0.5", "1e-9", "2", "100", "NaN", "inf"], DIGITS, NAMES)
flags: Values = _some(["true", "false", "", "True", "1"], NAMES)
booleans: Values = st.booleans()

BY_KIND: dict[str, Values] = {
    "integer": integers,
    "number": numbers,
    "text": texts,
    "name": names,
    "digits": digits,
    "duration": durations,
    "time": times,
    "quantity": quantities,
    "fraction": fractions,
    "flag": flags,
    "boolean": booleans,
    "anything": st.recursive(texts | integers, lambda inner: st.lists(inner, max_size=2), max_leaves=4),
}


def encode(content: Any) -> bytes:
    """The JSON text, with what stands for values that are none of Python's put in."""
    text = json.dumps(content, allow_nan=False)
    if DEEP in text:
        text = text.replace(f'"{DEEP}"', "[" * DEEP_LEVELS + "]" * DEEP_LEVELS)
    return text.replace(f'"{HUGE}"', "1e999").encode()


def shown(value: Any) -> str:
    """The value as a failure shows it: short."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:80]}... ({len(text)} characters)"


# Plain lists of what is drawn above, for those who draw by a seed of their own.
LISTS: dict[str, list[Any]] = {
    "integer": INTEGERS,
    "number": NUMBERS,
    "text": [*NAMES, *DIGITS, *CHOICES],
    "name": NAMES,
    "digits": DIGITS,
    "duration": DURATIONS,
    "time": TIMES,
    "quantity": QUANTITIES,
    "fraction": ["0.5", "0.1", "1", "0", "1e-9", "NaN", *DIGITS],
    "flag": ["true", "false", "", "1"],
    "boolean": [True, False],
    "application": ["kai-resource-reservation"],
    "anything": [*NAMES, *INTEGERS],
}
