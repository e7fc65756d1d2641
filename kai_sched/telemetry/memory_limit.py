"""How much memory the container may have: what its control group says, of version 2 or 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
UNLIMITED_BYTES = 2**60  # version 1 writes a number about as large as an address for no limit


def memory_limit_bytes(files: Sequence[Path] = FILES) -> float:
    """Return the limit in bytes, infinity where there is none or none can be read."""
    for file in files:
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdigit() and int(text) < UNLIMITED_BYTES:
            return float(text)
    return math.inf
