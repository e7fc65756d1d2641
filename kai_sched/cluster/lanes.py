"""How many requests are under way at a time, with a reserve for each kind: one that hangs does not block the others."""

from __future__ import annotations

import asyncio
import enum
from collections import deque


class Lane(enum.Enum):
    """Kinds of requests that must not wait for each other."""

    BINDS = "binds"
    DELETES = "deletes"
    WRITES = "writes"
    READS = "reads"


# Of 64 slots, those that only this lane may use. The rest is shared: binds may take 48.
_RESERVED = {Lane.BINDS: 0, Lane.DELETES: 4, Lane.WRITES: 6, Lane.READS: 6}
_OF = 64
_FEW = 8  # with fewer slots there is no reserve


def lane_of(method: str, path: str) -> Lane:
    """Return the lane of a request."""
    if method == "GET":
        return Lane.READS
    if method == "DELETE":
        return Lane.DELETES
    return Lane.BINDS if path.endswith("/binding") else Lane.WRITES


class Lanes:
    """The slots of one client, for one event loop. Requests that wait get slots in their order.

    Attributes
    ----------
    binds
        How many binds may be under way.
    """

    def __init__(self, slots: int) -> None:
        few = slots < _FEW
        self._own = {lane: 0 if few or not part else max(1, slots * part // _OF) for lane, part in _RESERVED.items()}
        self._shared = slots - sum(self._own.values())
        self.binds = self._shared
        self._waiting: deque[tuple[Lane, asyncio.Future[bool]]] = deque()

    async def acquire(self, lane: Lane) -> bool:
        """Wait for a slot; return whether it is one of the reserve of the lane, which ``release`` has to know."""
        if self._own[lane]:
            self._own[lane] -= 1
            return True
        if self._shared:
            self._shared -= 1
            return False
        slot: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((lane, slot))
        try:
            return await slot
        except asyncio.CancelledError:
            if slot.cancelled():
                self._waiting.remove((lane, slot))
            else:  # the slot was assigned right before
                self.release(lane, slot.result())
            raise

    def release(self, lane: Lane, own: bool) -> None:
        """Give a slot back."""
        for index, (other, slot) in enumerate(self._waiting):
            if (other is lane or not own) and not slot.cancelled():
                del self._waiting[index]
                slot.set_result(own)
                return
        if own:
            self._own[lane] += 1
        else:
            self._shared += 1
