"""Which devices the CEL expressions of device classes and claims select; each is evaluated once for each device.

An expression sees ``device.driver``, ``device.attributes["domain"].name``, ``device.capacity["domain"].name`` and
``device.allowMultipleAllocations``, as Kubernetes defines them. Quantities and versions are maps with one entry, which
the functions ``quantity``, ``semver``, ``compareTo``, ``isGreaterThan`` and ``isLessThan`` take.

Cost: about ten microseconds for each pair of an expression and a device that is new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

from kai_sched.model.claims import AttributeValue, Device, Version
from kai_sched.model.faults import shown
from kai_sched.model.resources import is_quantity, parse_quantity

# Domains that an expression names: without a value of the device they are empty maps, not errors.
_DOMAINS = re.compile(r"""(?:attributes|capacity)\s*\[\s*["']([^"']+)["']\s*\]""")
# Unless it asks whether they are there.
_ASKED = re.compile(r"""["']([^"']+)["']\s+in\s+device\.(?:attributes|capacity)""")
_SEMVER = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
# What is kept at most; users write any number of expressions.
PROGRAMS_MAX = 4096
ANSWERS_MAX = 4_000_000


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


class SelectorError(ValueError):
    """An expression that cannot be compiled, or that fails for a device; the message says what and how to help it."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(f"{shown(expression)} {message}")
        self.expression = expression


class SelectorBook:
    """What expressions say about devices. Answers are kept as long as their device is (``forget``)."""

    def __init__(self) -> None:
        self._programs: dict[str, Any] = {}
        # By expression and identity of the device; the device is held, so that no other gets its id.
        self._answers: dict[tuple[str, int], tuple[Device, bool]] = {}

    def selects(self, expression: str, driver: str, device: Device) -> bool:
        """Whether the expression selects the device of this driver. Raises SelectorError."""
        known = self._answers.get((expression, id(device)))
        if known is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            known = self._answers[expression, id(device)] = device, self._evaluate(expression, driver, device)
        return known[1]

    def check(self, expression: str) -> None:
        """As ``check_selector``; what can be compiled is kept."""
        self._program(expression)

    def forget(self, devices: Iterable[Device]) -> None:
        """Drop the answers about all devices but these."""
        live = {id(device) for device in devices}
        self._answers = {key: answer for key, answer in self._answers.items() if key[1] in live}

    def _program(self, expression: str) -> Any:
        program = self._programs.get(expression)
        if program is None:
            program = check_selector(expression)
            if len(self._programs) >= PROGRAMS_MAX:
                self._programs.clear()
            self._programs[expression] = program
        return program

    def _evaluate(self, expression: str, driver: str, device: Device) -> bool:
        program = self._program(expression)
        context = _library().Context(variables={"device": _variables(expression, driver, device)}, functions=FUNCTIONS)
        try:
            found = program.execute(context)
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            detail = " ".join(str(error).split())[:200]
            raise SelectorError(
                expression,
                f"fails for device {device.name} of driver {driver} ({detail}): "
                "correct it, or ask first whether the device has the attribute",
            ) from None
        if not isinstance(found, bool):
            raise SelectorError(expression, f"is neither true nor false for device {device.name}: correct it")
        return found


@cache
def _library() -> ModuleType:
    """The CEL library. It brings a terminal program of 250 modules: clusters without selectors start without it, and
    spare the garbage collector a third of its objects."""
    import cel

    return cel


def check_selector(expression: str) -> Any:
    """Compile the expression, which needs no device, and return the program.

    Raises SelectorError, also for what Kubernetes knows and the library does not.
    """
    try:
        program = _library().compile(expression)
    except ValueError as error:
        if found := _UNSUPPORTED.search(str(error)):
            raise SelectorError(expression, _lacks(f"optional selection ({found[1]})")) from None
        detail = " ".join(str(error).split())[:200]
        raise SelectorError(expression, f"cannot be compiled ({detail}): correct it") from None
    names = {name for name in program.functions() if name.isidentifier() and not name.startswith("_")}
    if missing := sorted(names - _BUILT_IN - FUNCTIONS.keys()):
        what = "cel.bind" if "bind" in missing else f"the function {missing[0]}"
        raise SelectorError(expression, _lacks(what))
    return program


def _lacks(what: str) -> str:
    return (
        f'uses {what}, which this scheduler does not have: write it without, with has(...), "in", or the value itself'
    )


def _variables(expression: str, driver: str, device: Device) -> dict[str, Any]:
    domains = set(_DOMAINS.findall(expression)) - set(_ASKED.findall(expression))
    attributes = {domain: dict[str, Any]() for domain in domains}
    for name, value in device.attributes.items():
        domain, _, short = name.rpartition("/")
        attributes.setdefault(domain, {})[short] = _value(value)
    capacity = {domain: dict[str, Any]() for domain in domains}
    for name, each in device.capacity.items():
        domain, _, short = name.rpartition("/")
        capacity.setdefault(domain, {})[short] = {"quantity": str(each.value)}
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.shared,
    }


def _value(value: AttributeValue) -> Any:
    return {"version": value.text} if isinstance(value, Version) else value


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
