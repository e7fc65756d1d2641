"""Quantities are exact, and amounts are in the scheduler's units (semantics 0.2)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.resources import QuantityError, amount, canonical, parse_quantity, quantity_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("250m", Fraction(1, 4)),
        ("3", 3),
        ("3k", 3000),
        ("3M", 3 * 10**6),
        ("3G", 3 * 10**9),
        ("3T", 3 * 10**12),
        ("3P", 3 * 10**15),
        ("3E", 3 * 10**18),
        ("3Ki", 3 * 2**10),
        ("3Mi", 3 * 2**20),
        ("1.5Gi", 3 * 2**29),
        ("3Ti", 3 * 2**40),
        ("3Pi", 3 * 2**50),
        ("3Ei", 3 * 2**60),
        ("2e3", 2000),
        ("2E3", 2000),
        ("2E-3", Fraction(1, 500)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+4", 4),
        ("-1.5", Fraction(-3, 2)),
        (4, 4),
        (0.5, Fraction(1, 2)),
        (1e-7, Fraction(1, 10**7)),
        # Finer than one nano is rounded away from zero; beyond 64 bits is the largest there is.
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("1e-999999999", Fraction(1, 10**9)),
        ("9Ei", 2**63 - 1),
        ("1e999999999", 2**63 - 1),
        ("0e999999999", 0),
    ],
)
def test_parses_every_form_exactly(text: str | float, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "1 Gi", "1Gib", "1gi", "1K", "e3", "1e", "1.2.3", "1m5", "--1", "1_000", "٣", "nan", "inf", "0x10"],
)
def test_refuses_what_is_no_quantity_and_quotes_it(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [True, False, float("nan"), float("inf"), None])
def test_refuses_what_is_no_number(value: object) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)  # type: ignore[arg-type]
    with pytest.raises(QuantityError):
        amount("cpu", value)  # type: ignore[arg-type]


def test_refuses_endless_texts_without_working_them_out() -> None:
    with pytest.raises(QuantityError, match=r"1111'\.\.\."):
        parse_quantity("1" * 1_000_000)


@pytest.mark.parametrize(
    ("resource", "quantity", "units"),
    [
        ("cpu", "1", 1000),
        ("cpu", "0.1", 100),
        ("cpu", "100u", 1),  # rounded up
        ("memory", "1.5", 2),  # rounded up
        ("memory", "16Gi", 16 * 2**30),
        ("nvidia.com/gpu", "8", 8),
        ("amd.com/gpu", 2, 2),
        ("pods", "110", 110),
        ("ephemeral-storage", "10Gi", 10 * 2**30),
        ("storage", "1k", 1000),
        ("nvidia.com/mig-1g.5gb", "3", 3),
        ("hugepages-2Mi", "4Mi", 4 * 2**20 * 1000),
        ("attachable-volumes-csi-x", "25", 25_000),
        ("example.com/fpga", "2", 2000),
        ("example.com/gpu", "2", 2000),  # no GPU of ours, whatever its name ends in
        ("kubernetes.io/thing", "1", 1000),
    ],
)
def test_amounts_are_in_scheduler_units(resource: str, quantity: str | int, units: float) -> None:
    assert amount(resource, quantity) == units


def test_only_the_two_vendors_names_are_gpus() -> None:
    names = ["nvidia.com/gpu", "amd.com/gpu", "example.com/gpu", "gpu.intel.com/i915"]
    assert [canonical(name) for name in names] == ["gpu", "gpu", "example.com/gpu", "gpu.intel.com/i915"]


# Up to where floats hold every whole number; beyond, an amount may be rounded down to the next float.
@given(st.integers(0, 2**30), st.sampled_from(["", "k", "M", "Ki", "Mi", "m", "u", "n"]))
def test_order_of_values_is_order_of_amounts(number: int, suffix: str) -> None:
    smaller, larger = f"{number}{suffix}", f"{number + 1}{suffix}"
    assert parse_quantity(smaller) < parse_quantity(larger)
    assert amount("cpu", smaller) <= amount("cpu", larger)
    assert amount("memory", smaller) >= parse_quantity(smaller)


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 500.0, "500m"),
        ("cpu", 4000.0, "4"),
        ("cpu", 0.0, "0"),
        ("memory", 17179869184.0, "17179869184"),
        ("gpu", 16 / 3, "5333m"),
        ("gpu", 0.5, "500m"),
        ("nvidia.com/mig-1g.5gb", 3.0, "3"),
        ("example.com/fpga", 2000.0, "2"),
        ("cpu", float("inf"), "-1"),
    ],
)
def test_amounts_are_written_as_quantities(resource: str, value: float, text: str) -> None:
    assert quantity_text(resource, value) == text


@given(st.integers(0, 2**50), st.sampled_from(["cpu", "memory", "gpu", "example.com/fpga"]))
def test_a_quantity_that_is_written_reads_the_same(units: int, resource: str) -> None:
    assert amount("nvidia.com/gpu" if resource == "gpu" else resource, quantity_text(resource, float(units))) == units
