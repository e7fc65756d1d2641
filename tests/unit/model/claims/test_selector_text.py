"""What the text of an expression tells about what it sees of a device."""

from __future__ import annotations

import time

import pytest

from kai_sched.model.claims.selector_text import DevicePart, domains_of, parts_of
from kai_sched.model.claims.selectors import EXPRESSION_MAX

MODEL, SLOT = DevicePart("attributes", "a.com", "model"), DevicePart("attributes", "a.com", "slot")
DOMAIN = DevicePart("attributes", "a.com")


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("true", set()),
        ("device.driver == 'a.com'", {DevicePart("driver")}),
        ("device . driver\n== 'a.com'", {DevicePart("driver")}),
        ("device.allowMultipleAllocations", {DevicePart("allowMultipleAllocations")}),
        ("device.attributes['a.com'].model == 'A100'", {MODEL}),
        ('device.attributes [ "a.com" ] . model == "A100" && device.attributes["a.com"].slot > 1', {MODEL, SLOT}),
        ("has(device.attributes['a.com'].model)", {MODEL}),
        ("device.capacity['a.com'].memory.compareTo(quantity('1Gi')) > 0", {DevicePart("capacity", "a.com", "memory")}),
        ("'a.com' in device.attributes", {DevicePart("attributes", "a.com")}),
        (
            "'a.com' in device.attributes && device.attributes['a.com'].model == 'x'",
            {DevicePart("attributes", "a.com"), MODEL},
        ),
        ("device. // a comment with \"\n driver == 'a.com'", {DevicePart("driver")}),
        (r"device.attributes['a.com'].model.lowerAscii().matches('a\\d')", {MODEL}),
        ("!('a.com' in device.attributes) || device.driver.startsWith('a')", {DOMAIN, DevicePart("driver")}),
        # What looks like a use within strings hides none outside of them.
        ("'a' == device.driver && ' in device.attributes' != ''", {DevicePart("driver")}),
        ('"device.attributes[" == device.driver && "].a" != ""', {DevicePart("driver")}),
        ("'device.attributes[\"' == device.driver && '\"].a' != ''", {DevicePart("driver")}),
        ("'device' == 'x'", set()),
        # Calls see all of what they are called on.
        ("device.attributes['a.com'].size() == 2", None),
        ("device.attributes['a.com'].exists(k, k == 'model')", None),
        ("device.driver()", None),
        # Other operators bind closer than "in", or as close.
        ("'a' + '.com' in device.attributes", None),
        ("true == 'a.com' in device.attributes", None),
        ("'a.com' in device.attributes + {}", None),
        ("'a.com' in device.attributes == true", None),
        # Strings of other kinds, and what is no CEL.
        (r"r'\' == device.driver || ' in device.attributes' == ''", None),
        ('"""a"b""" == device.driver', None),
        ("b'a' == b'a' && device.driver == 'a'", None),
        ("device.driver == 'a", None),
        ("device.driver == 'a' && \u00e4", None),
        ("device. // a comment\r driver == 'a.com'", None),
        ("[1].all(device, device.driver == 'a')", None),
        (".device.driver == 'a'", None),
        # Anything but the usual forms may be anything.
        ("'model' in device.attributes['a.com']", None),
        ("device.attributes['a.com'] == {}", None),
        ("device.attributes['a' + '.com'].model == 'x'", None),
        ("device.attributes['a.com']['model'] == 'x'", None),
        ("device.attributes[r'a.com'].model == 'x'", None),
        (r"device.attributes['a\x2ecom'].model == 'x'", None),
        ('device.attributes["""a.com"""].model == "x"', None),
        ("device.attributes.all(k, k == 'a.com')", None),
        ("device['driver'] == 'a.com'", None),
        ("[device].exists(d, d.driver == 'a.com')", None),
        ("`device`.driver == 'a.com'", None),
        ("device == device", None),
        ("has(device.driver) && device.driverless", None),
        ("dyn(device).driver == 'a.com'", None),
    ],
)
def test_which_parts_of_a_device_an_expression_sees(expression: str, parts: set[DevicePart] | None) -> None:
    assert parts_of(expression) == parts


@pytest.mark.parametrize(
    ("expression", "domains"),
    [
        ("device.driver == 'a.com'", set()),
        ("has(device.attributes['a.com'].model)", {("attributes", "a.com")}),
        ("device.capacity['a.com'].memory == device.attributes['b'].x", {("capacity", "a.com"), ("attributes", "b")}),
        ("[device].all(d, d.attributes['a.com'].size() == 0)", {("attributes", "a.com")}),
        ("'a.com' in device.attributes && device.attributes['a.com'].model == 'x'", set()),
        ("'a.com' in device.capacity && has(device.attributes['a.com'].model)", {("attributes", "a.com")}),
        (r"device.driver.matches(r'\w') && device.attributes['a.com'].model == 'x'", {("attributes", "a.com")}),
        ("device.driver != '[\"' && device.attributes['a.com'].model == '\"]'", {("attributes", "a.com")}),
    ],
)
def test_which_domains_it_takes_to_be_there(expression: str, domains: set[tuple[str, str]]) -> None:
    assert domains_of(expression) == domains


@pytest.mark.parametrize(
    "part", ["'", '"', '\\"', "\"\\'", '"""', "'''", "device", "a", " ", "'' in device.", "//", "//\r", "\u00e9"]
)
def test_reading_costs_in_proportion_to_the_length(part: str) -> None:
    """A hundred times the longest expression within seconds; with the square of the length it would take hours."""
    text = part * (100 * EXPRESSION_MAX // len(part))
    began = time.process_time()
    parts_of("device." + text)
    domains_of(text)
    assert time.process_time() - began < 10.0
