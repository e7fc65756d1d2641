"""Long work lets others have their turn."""

from __future__ import annotations

import asyncio
import time

from kai_sched.cluster.time_slice import SLICE_S, TimeSlice


async def test_others_come_in_between_once_it_has_lasted_long() -> None:
    seen = 0

    async def other() -> None:
        nonlocal seen
        while True:
            seen += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    turn = TimeSlice()
    await turn.pause()
    assert seen == 0
    for done in range(1, 4):
        time.sleep(SLICE_S + 0.002)  # noqa: ASYNC251 - the work
        await turn.pause()
        assert seen == done
    running.cancel()
