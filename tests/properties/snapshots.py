"""Snapshots to bytes, to compare them to the letter."""

from __future__ import annotations

from typing import Any

import numpy as np

from kai_sched import Cache, Cluster, Config
from kai_sched.lowering.lower import lower


def snapshot_of(view: Cluster, config: Config, now_ns: int, cache: Cache | None = None) -> str:
    """All numbers of the snapshot, by table; with ``cache`` as a cycle that uses it would make it."""
    return _text(lower(view, config, now_ns, cache or Cache()).snapshot)


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tolist()}\n"
    if isinstance(value, tuple):
        return f"{type(value).__name__}\n" + "".join(map(_text, value))
    return repr(value)
