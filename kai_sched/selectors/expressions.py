"""What a CEL expression says about devices: the only module that calls the CEL library. Only ``worker`` imports it, as
users write the expressions.

An expression sees ``device.driver``, ``device.attributes["domain"].name``, ``device.capacity["domain"].name`` and
``device.allowMultipleAllocations``, as Kubernetes defines them. Quantities and versions are maps with one entry, which
the functions ``quantity``, ``semver``, ``compareTo``, ``isGreaterThan`` and ``isLessThan`` take.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence, Set
from fractions import Fraction
from types import ModuleType
from typing import Any

import msgspec

from kai_sched.model.claims.selector_text import ATTRIBUTES, CAPACITY, DRIVER, SHARED, DevicePart, domains_of, parts_of
from kai_sched.model.field_errors import shown
from kai_sched.model.resources import is_quantity, parse_quantity

# The library's command line needs hundreds of modules, and nothing here needs it.
sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))

import cel  # noqa: E402

DETAIL_MAX = 200

_SEMVER = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)

# What the library itself has, beside operators and macros.
_TIMES = (
    "Date",
    "DayOfMonth",
    "DayOfWeek",
    "DayOfYear",
    "FullYear",
    "Hours",
    "Milliseconds",
    "Minutes",
    "Month",
    "Seconds",
)
_TYPES = ("bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
_TEXTS = ("contains", "endsWith", "matches", "size", "startsWith")
_OPTIONAL = ("hasValue", "none", "of", "ofNonZeroValue", "or", "orValue", "value")
_BUILT_IN = frozenset((*(f"get{part}" for part in _TIMES), *_TYPES, *_TEXTS, *_OPTIONAL))
_UNSUPPORTED = re.compile(r"unsupported syntax '([^']*)'")


class ExpressionFault(ValueError):
    """Why an expression can be used for no device."""


def compiled(expression: str) -> Any:
    """The program. Raises ExpressionFault, also for what Kubernetes knows and the library does not."""
    try:
        program = cel.compile(expression)
        called = program.functions()
    except MemoryError:
        raise
    except BaseException as error:
        if found := _UNSUPPORTED.search(str(error)):
            raise ExpressionFault(_lacks(f"optional selection ({found[1]})")) from None
        raise ExpressionFault(f"cannot be compiled ({_detail(error)}): correct it") from None
    names = {name for name in called if name.isidentifier() and not name.startswith("_")}
    if missing := sorted(names - _BUILT_IN - FUNCTIONS.keys()):
        raise ExpressionFault(_lacks("cel.bind" if "bind" in missing else f"the function {missing[0]}"))
    return program


def _lacks(what: str) -> str:
    return (
        f'uses {what}, which this scheduler does not have: write it without, with has(...), "in", or the value itself'
    )


def _detail(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:DETAIL_MAX].encode(errors="backslashreplace").decode()[:DETAIL_MAX]


def answers(expression: str, devices: Sequence[bytes]) -> list[bool | str]:
    """For each device (``DeviceView.content``) whether the expression selects it, or a text that says why it fails.

    Raises ExpressionFault.
    """
    program, parts, domains = compiled(expression), parts_of(expression), domains_of(expression)
    context = cel.Context(functions=FUNCTIONS)
    return [_answer(program, context, _shown(device, parts, domains)) for device in devices]


def _shown(content: bytes, parts: Set[DevicePart] | None, domains: Set[tuple[str, str]]) -> dict[str, Any]:
    """The device as far as the expression sees it: what is shown to the library takes most of the time."""
    device = msgspec.json.decode(content)
    found = device if parts is None else {ATTRIBUTES: {}, CAPACITY: {}}
    for part in parts or ():
        if part.field in (DRIVER, SHARED):
            found |= {part.field: device[part.field]} if part.field in device else {}
        elif part.domain in device[part.field]:
            values, domain = found[part.field].setdefault(part.domain, {}), device[part.field][part.domain]
            values |= {part.name: domain[part.name]} if part.name in domain else {}
    for field, domain in domains:  # without a value of the device they are empty, unless it is asked for them
        found[field].setdefault(domain, {})
    return found


def _answer(program: Any, context: Any, device: dict[str, Any]) -> bool | str:
    context.add_variable("device", device)
    try:
        found = program.execute(context)
    except MemoryError:
        raise
    except BaseException as error:  # whatever the library raises, panics of its own included
        return _detail(error)
    return found if isinstance(found, bool) else "it is neither true nor false"


def _comparable(value: Any) -> Any:
    """What a quantity or a version is compared by. Raises ValueError."""
    if isinstance(value, dict) and "version" in value:
        found = _SEMVER.fullmatch(value["version"])
        if found is None:
            raise ValueError(f"{shown(value['version'])} is not a semantic version")
        major, minor, patch, before = found.groups()
        parts = [] if before is None else before.split(".")
        # A version before a release is lower than the release; numbers are lower than texts.
        rank = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
        return (int(major), int(minor), int(patch), before is None, rank)
    if isinstance(value, dict) and "quantity" in value:
        return Fraction(value["quantity"])
    raise ValueError("compareTo, isGreaterThan and isLessThan take quantities and versions")


def _quantity(text: str) -> dict[str, str]:
    return {"quantity": str(parse_quantity(text))}


def _semver(text: str) -> dict[str, str]:
    if _SEMVER.fullmatch(text) is None:
        raise ValueError(f"{shown(text)} is not a semantic version")
    return {"version": text}


def _compare(a: Any, b: Any) -> int:
    left, right = _comparable(a), _comparable(b)
    return int(left > right) - int(left < right)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": _quantity,
    "isQuantity": is_quantity,
    "semver": _semver,
    "isSemver": lambda text: _SEMVER.fullmatch(text) is not None,
    "compareTo": _compare,
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "lowerAscii": lambda text: text.lower(),
    "upperAscii": lambda text: text.upper(),
}
