"""Pauses Python's garbage collector while many objects are made (a cycle, loading files); its thresholds are in
``operator.garbage_collection``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the collector in the block. It would traverse all objects repeatedly and find no reference cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
