"""Memory that is free goes back to the system."""

from __future__ import annotations

import asyncio

import pytest

from kai_sched.operator import free_memory
from tests.unit.resident import resident_bytes

BLOCK_BYTES = 100_000  # below what the C library gets for itself alone from the system
BLOCKS = 2_000


async def test_what_lies_between_blocks_in_use_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "RELEASE_S", 0.01)
    blocks = [bytearray(BLOCK_BYTES) for _ in range(BLOCKS)]
    blocks = blocks[:: BLOCKS // 10]
    before = resident_bytes()
    releasing = asyncio.create_task(free_memory.run())
    await asyncio.sleep(0.5)
    releasing.cancel()
    assert resident_bytes() < before - BLOCK_BYTES * BLOCKS / 2
    assert len(blocks) == 10


async def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory.ctypes, "CDLL", lambda _: object())
    await asyncio.wait_for(free_memory.run(), 5.0)
