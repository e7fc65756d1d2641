"""How soon a cycle runs after a change: at once if the change may help a pending pod, else after a while. Everything
that may change a decision calls ``request``; the cycle loop waits here.

The trigger is built before the parts that use it. Requests that come together lead to one cycle.
"""

from __future__ import annotations

import asyncio

from kai_sched.model.inflight import Overlay

LAZY_S = 1.0
LAZY_BUSY_S = 3.0
SETTLE_S = 0.003  # changes seldom come alone


class CycleTrigger:
    """For one event loop.

    Parameters
    ----------
    overlay
        Has the binds and evictions under way. While it has any, a change that cannot help a pending pod waits longer.
    """

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._requested = asyncio.Event()
        self._lazy: asyncio.TimerHandle | None = None
        self._led = asyncio.Event()

    def request(self, matters: bool = True) -> None:
        """Ask for a cycle: at once, or within LAZY_S (LAZY_BUSY_S) if the change cannot unblock a pending pod."""
        if matters:
            self._requested.set()
        elif self._lazy is None:
            seconds = LAZY_S if self._overlay.assumed == {} else LAZY_BUSY_S
            self._lazy = asyncio.get_running_loop().call_later(seconds, self._requested.set)

    def lead(self) -> None:
        """This replica may act from now on: end the rest of a standby and ask for a cycle."""
        self._led.set()
        self.request()

    def stand_by(self) -> None:
        """This replica may not act: ``wait_led`` waits again."""
        self._led.clear()

    async def wait(self, timeout_s: float | None) -> None:
        """Return once a cycle is requested, or after ``timeout_s`` seconds (None: without a limit)."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._requested.wait()
        except TimeoutError:
            return
        await asyncio.sleep(SETTLE_S)

    def clear(self) -> None:
        """A cycle begins: later requests ask for another one."""
        self._requested.clear()
        if self._lazy is not None:
            self._lazy.cancel()
            self._lazy = None

    async def wait_led(self, timeout_s: float) -> None:
        """Return once this replica may act, or after ``timeout_s`` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._led.wait()
        except TimeoutError:
            pass
