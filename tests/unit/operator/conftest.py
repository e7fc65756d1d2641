"""What tests of the operator share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kai_sched.cluster import owner_reader
from kai_sched.cluster.backoff import Backoff
from kai_sched.operator.grouping import groups, owner_cache, problem_reporter, requests
from tests.unit.operator.grouped import Played


@pytest.fixture
def hundredths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds of the grouper become hundredths."""
    monkeypatch.setattr(owner_cache, "FRESH_S", 0.05)
    monkeypatch.setattr(owner_reader, "FAILED_AGAIN_S", 0.02)
    monkeypatch.setattr(groups, "SHRUNK_S", 0.05)
    monkeypatch.setattr(requests, "BACKOFF", Backoff(0.02, 60.0, low=0.8))
    monkeypatch.setattr(problem_reporter, "GONE_S", 0.1)


@pytest_asyncio.fixture
async def played() -> AsyncIterator[Played]:
    """A grouper that does not lead yet."""
    played = Played()
    yield played
    await played.stop()
