"""How kopf is set up."""

from __future__ import annotations

import logging

import pytest

from kai_sched.operator.kopf_frame import kopf_settings


@pytest.mark.parametrize(
    ("message", "level"),
    [
        ("Request attempt #1 failed; will retry: GET /apis -> APITooManyRequestsError()", "WARNING"),
        ("Request attempt #9 failed; escalating: GET /apis -> APIServerError()", "ERROR"),
    ],
)
def test_a_request_that_kopf_sends_again_is_no_error(
    caplog: pytest.LogCaptureFixture, message: str, level: str
) -> None:
    kopf_settings()
    for name in ("kopf._core.reactor.observation", "kopf._cogs.clients.watching"):
        logging.getLogger(name).error(message)
    assert [record.levelname for record in caplog.records] == [level, level]
