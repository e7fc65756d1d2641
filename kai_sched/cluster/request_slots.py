"""How many requests are under way to the API server at a time, and how many slots binds, deletes, writes and reads have
reserved.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque


class RequestKind(enum.Enum):
    """Kinds of requests that must not wait for each other."""

    BINDS = "binds"
    DELETES = "deletes"
    WRITES = "writes"
    READS = "reads"


# Of 64 slots, those that only this kind may use. The rest is shared: binds may take 48.
_RESERVED = {RequestKind.BINDS: 0, RequestKind.DELETES: 4, RequestKind.WRITES: 6, RequestKind.READS: 6}
_OF = 64
_FEW = 8  # with fewer slots there is no reserve


def request_kind(method: str, path: str) -> RequestKind:
    """Return the kind of a request."""
    if method == "GET":
        return RequestKind.READS
    if method == "DELETE":
        return RequestKind.DELETES
    return RequestKind.BINDS if path.endswith("/binding") else RequestKind.WRITES


class RequestSlots:
    """The slots of one client, for one event loop. Requests that wait get them in their order.

    Parameters
    ----------
    total
        How many requests may be under way.

    Attributes
    ----------
    binds
        How many binds may be under way.
    """

    def __init__(self, total: int) -> None:
        few = total < _FEW
        self._own = {kind: 0 if few or not part else max(1, total * part // _OF) for kind, part in _RESERVED.items()}
        self._shared = total - sum(self._own.values())
        self.binds = self._shared
        self._waiting: deque[tuple[RequestKind, asyncio.Future[bool]]] = deque()

    async def acquire(self, kind: RequestKind) -> bool:
        """Wait for a slot; return whether it is one of the reserve of the kind, which ``release`` has to know."""
        if self._own[kind]:
            self._own[kind] -= 1
            return True
        if self._shared:
            self._shared -= 1
            return False
        slot: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((kind, slot))
        try:
            return await slot
        except asyncio.CancelledError:
            if slot.cancelled():
                self._waiting.remove((kind, slot))
            else:  # the slot was assigned right before
                self.release(kind, slot.result())
            raise

    def release(self, kind: RequestKind, own: bool) -> None:
        """Give a slot back."""
        for index, (other, slot) in enumerate(self._waiting):
            if (other is kind or not own) and not slot.cancelled():
                del self._waiting[index]
                slot.set_result(own)
                return
        if own:
            self._own[kind] += 1
        else:
            self._shared += 1
