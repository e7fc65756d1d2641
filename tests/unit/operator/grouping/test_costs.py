"""How long the grouper holds the event loop, and how often it computes what many pods have in common."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kai_sched.operator.grouping import workload_grouper
from kai_sched.reconcile.grouping.registry import group_of
from tests.unit.operator.grouped import Played, job, settle

pytestmark = pytest.mark.usefixtures("hundredths")


async def test_others_get_the_loop_between_pods_that_take_long(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    seen: list[int] = []

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def slow(*args: Any) -> Any:
        seen.append(turns)
        time.sleep(0.003)
        return group_of(*args)

    monkeypatch.setattr(workload_grouper, "group_of", slow)
    owner = played.api.put(job())
    for n in range(15):
        played.owned(owner, f"pod-{n}")
    running = asyncio.create_task(other())
    played.start()
    await settle(played)
    running.cancel()
    assert len(set(seen)) == len(seen) >= 15
