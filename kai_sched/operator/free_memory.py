"""Gives memory that is free back to the system, once a minute.

A burst of pods needs more for a moment, and each cycle frees tables of another size. The C library keeps what is
between blocks in use, for each of its arenas: a fifth of all memory after some bursts.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

RELEASE_S = 60.0


async def run() -> None:
    """Run until cancelled; end at once where the C library keeps nothing back, or cannot be asked."""
    release = releaser()
    while release is not None:
        await asyncio.sleep(RELEASE_S)
        await asyncio.to_thread(release)


def releaser() -> Callable[[], object] | None:
    """What gives free memory back; None where the C library has no such function, as musl."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return lambda: trim(0)
