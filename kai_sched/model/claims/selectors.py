"""What device classes, claims and taint rules ask about devices, as CEL expressions, and the answers, which come with
the cluster (semantics 8.6; ADR 16).

Users write these expressions, so nothing here compiles or evaluates one: ``kai_sched.selectors`` does, in a process of
its own. A cycle names what it lacks (``SelectorQuestion``); until there is an answer, what depends on it waits.

An answer holds for all devices that look alike to the expression (``DeviceView``): ``selector_text`` says which parts
of a device an expression can see at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from kai_sched.model.claims.objects import AttributeValue, Device, DeviceClass, DeviceTaintRule, Version
from kai_sched.model.claims.selector_text import ATTRIBUTES, CAPACITY, DRIVER, SHARED, DevicePart
from kai_sched.model.field_errors import shown

EXPRESSION_MAX = 10 * 1024  # characters, as in Kubernetes
FAILS_REMEDY = "correct it, or ask first whether the device has the attribute"
SELECTORS_MAX = 512  # of a claim
_SURROGATE = re.compile("[\ud800-\udfff]")  # files may have them, the API server takes none


class SelectorError(ValueError):
    """An expression that cannot be compiled, or that fails for a device; the message says what and how to help it."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(f"{shown(expression)} {message}")
        self.expression = expression


class UnansweredError(SelectorError):
    """An expression that has not been evaluated for all devices yet."""

    def __init__(self, expression: str) -> None:
        super().__init__(expression, "is not evaluated yet: the pod waits for the answer")


class DeviceView(NamedTuple):
    """What an expression sees of a device: ``content`` as JSON, and a digest of it."""

    key: bytes
    content: bytes


@dataclass(frozen=True, slots=True)
class SelectorAnswer:
    """What is known of one expression.

    Attributes
    ----------
    fault
        Why it cannot be used for any device; empty if it can.
    of
        By the key of the view, whether it selects such devices; or, as a text, why it fails for them.
    """

    fault: str = ""
    of: Mapping[bytes, bool | str] = field(default_factory=dict)


SelectorAnswers = Mapping[str, SelectorAnswer]  # by expression
NO_ANSWER = SelectorAnswer()
NO_ANSWERS: SelectorAnswers = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SelectorQuestion:
    """An expression that a cycle needs answers for.

    Attributes
    ----------
    namespaces
        Who asks; "" for objects of the cluster.
    views
        What it is asked about; with none, whether it can be used at all.
    """

    expression: str
    namespaces: tuple[str, ...] = ("",)
    views: tuple[DeviceView, ...] = ()


def failure(expression: str, driver: str, device: str, detail: str) -> SelectorError:
    """The error of an expression that fails for the device."""
    return SelectorError(
        expression,
        f"fails for device {device} of driver {driver} ({detail}): {FAILS_REMEDY}",
    )


def object_questions(
    classes: Mapping[str, DeviceClass], rules: Mapping[str, DeviceTaintRule], answers: SelectorAnswers
) -> list[SelectorQuestion]:
    """Whether the selectors of classes and taint rules can be used at all, as far as that is not known yet."""
    found = {text for _, each in sorted(classes.items()) for text in each.selectors}
    found |= {text for _, each in sorted(rules.items()) for text in each.selectors}
    return [SelectorQuestion(text) for text in sorted(found) if text not in answers and not text_fault(text)]


def selector_problems(
    classes: Mapping[str, DeviceClass], rules: Mapping[str, DeviceTaintRule], answers: SelectorAnswers
) -> list[tuple[str, str, str, str]]:
    """(kind, name, field, message) of the selectors of classes and taint rules that can be used for no device, and of
    those that are about any device and fail for some."""
    listed = [("DeviceClass", each.name, "spec.selectors", each.selectors, True) for _, each in sorted(classes.items())]
    for _, rule in sorted(rules.items()):
        is_any = not (rule.driver or rule.pool or rule.device or rule.device_class)
        listed.append(("DeviceTaintRule", rule.name, "spec.deviceSelector.selectors", rule.selectors, is_any))
    found = []
    for kind, name, path, selectors, is_any in listed:
        for i, text in enumerate(selectors):
            fault = text_fault(text) or _known_fault(answers.get(text, NO_ANSWER), is_any and i == 0)
            if fault:
                found.append((kind, name, f"{path}[{i}].cel.expression", str(SelectorError(text, fault))))
    return found


def _known_fault(answer: SelectorAnswer, is_about_any: bool) -> str:
    """Why the expression cannot be used; or, if it is about any device, why it fails for some of them."""
    if answer.fault or not is_about_any:
        return answer.fault
    details = sorted(each for each in answer.of.values() if isinstance(each, str))
    return f"fails for some devices ({details[0]}): {FAILS_REMEDY}" if details else ""


def text_fault(expression: str) -> str:
    """Why the expression is not even compiled; empty if it is."""
    if len(expression) > EXPRESSION_MAX:
        return f"has {len(expression)} characters: shorten it to {EXPRESSION_MAX}"
    if not expression.isascii() and _SURROGATE.search(expression):
        return "has half of a surrogate pair, which is no character: correct it"
    return ""


def values_of(driver: str, device: Device) -> Iterator[tuple[DevicePart, Any]]:
    """The parts that the device has, each with its value as expressions see it; None for domains with any value."""
    yield DevicePart(DRIVER), driver
    yield DevicePart(SHARED), device.shared
    attributes = ((name, _attribute(value)) for name, value in device.attributes.items())
    amounts = ((name, {"quantity": str(each.value)}) for name, each in device.capacity.items())
    for place, values in ((ATTRIBUTES, attributes), (CAPACITY, amounts)):
        for qualified, value in values:
            domain, _, name = qualified.rpartition("/")
            yield DevicePart(place, domain), None
            yield DevicePart(place, domain, name), value


def view_of(driver: str, device: Device, parts: frozenset[DevicePart] | None) -> DeviceView:
    """The device as far as these parts show it."""
    seen: dict[str, Any] = {ATTRIBUTES: {}, CAPACITY: {}}
    for part, value in sorted(values_of(driver, device), key=lambda each: each[0]):
        if parts is not None and part not in parts:
            continue
        if part.field in (DRIVER, SHARED):
            seen[part.field] = value
            continue
        domain = seen[part.field].setdefault(part.domain, {})
        if value is not None:
            domain[part.name] = value
    content = msgspec.json.encode(seen)
    return DeviceView(blake2b(content, digest_size=16).digest(), content)


def _attribute(value: AttributeValue) -> Any:
    return {"version": value.text} if isinstance(value, Version) else value
