"""Certificates: for the right host, for a year, with the authority before in the bundle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kai_sched.operator.http.authority import RENEW_AFTER, VALIDITY, Pair, age, issue, problem, service_name

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAME = service_name("webhook", "kai-scheduler")


def authorities(pair: Pair) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pair.authorities)


def test_a_new_certificate_is_good_for_its_service_for_a_year() -> None:
    pair = issue(NAME, NOW)
    assert NAME == "webhook.kai-scheduler.svc"
    assert problem(pair, NAME, NOW) == ""
    assert problem(pair, NAME, NOW + VALIDITY - timedelta(seconds=1)) == ""
    assert age(pair, NOW + RENEW_AFTER) == RENEW_AFTER
    assert len(authorities(pair)) == 1


def test_a_replica_whose_clock_is_behind_takes_it_too() -> None:
    assert problem(issue(NAME, NOW), NAME, NOW - timedelta(days=1)) == ""


def test_the_authority_before_is_trusted_on_but_not_the_one_before_that() -> None:
    first = issue(NAME, NOW)
    second = issue(NAME, NOW + timedelta(days=1), first.authorities)
    third = issue(NAME, NOW + timedelta(days=2), second.authorities)
    assert authorities(second)[1:] == authorities(first)
    assert authorities(third)[1:] == authorities(second)[:1]
    assert [problem(pair, NAME, NOW) for pair in (second, third)] == ["", ""]


def test_an_authority_that_has_ended_is_left_out() -> None:
    first = issue(NAME, NOW)
    assert len(authorities(issue(NAME, NOW + VALIDITY, first.authorities))) == 1


def test_earlier_authorities_that_cannot_be_read_are_left_out() -> None:
    assert len(authorities(issue(NAME, NOW, b"what is this?"))) == 1


def test_what_is_wrong_is_said() -> None:
    pair, other = issue(NAME, NOW), issue(NAME, NOW)
    for wrong, said in (
        (Pair(b"", b"", b""), "it cannot be read"),
        (Pair(pair.certificate, pair.key, b""), "it cannot be read"),
        (Pair(pair.certificate, b"what is this?", pair.authorities), "it cannot be read"),
        (Pair(authorities(pair)[0].public_bytes(Encoding.PEM), pair.key, pair.authorities), "it cannot be read"),
        (Pair(pair.certificate, other.key, pair.authorities), "the key is not that of the certificate"),
        (Pair(pair.certificate, pair.key, other.authorities), "no authority in it has signed the certificate"),
    ):
        assert said in problem(wrong, NAME, NOW)
    assert problem(pair, "webhook.elsewhere.svc", NOW) == "the certificate is not for webhook.elsewhere.svc"
    assert problem(pair, NAME, NOW + VALIDITY) == "the certificate has ended at 2027-03-01 00:00:00 UTC"


@pytest.mark.parametrize("length", [1, 63])
def test_long_names_fit(length: int) -> None:
    name = service_name("webhook", "n" * length)
    assert problem(issue(name, NOW), name, NOW) == ""
