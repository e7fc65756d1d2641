"""How much memory the process of the tests holds."""

from __future__ import annotations

import os
from pathlib import Path


def resident_bytes() -> int:
    """What the process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
