"""How deep the objects of an API server may be nested: deeper than Python recurses unless it is told to.

Whoever creates objects chooses the depth of some fields, and what reads them passes all levels by recursion, be they of
use or not: one such object would break a whole list.
"""

from __future__ import annotations

import sys

NESTING_MAX = 10_000  # of the JSON that Go writes
RECURSION_MAX = NESTING_MAX + 2_000


def allow_deep_objects() -> None:
    """Let the process read all that an API server may answer. It may recurse deeper from now on."""
    sys.setrecursionlimit(max(RECURSION_MAX, sys.getrecursionlimit()))
