"""Who waits for which shared device until it is reserved, since when, and what the reservation pod has to tolerate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kai_sched.model.constraints import Toleration
from kai_sched.reconcile.gpu_reservation import GpuGroup


@dataclass(slots=True)
class _Waiters:
    """Those of one device, since the first of them came, whose tolerations count."""

    since: float
    tolerations: tuple[Toleration, ...]
    futures: list[asyncio.Future[str]] = field(default_factory=list)


class DeviceWaiters:
    """For one event loop.

    Parameters
    ----------
    monotonic
        The time in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting: dict[GpuGroup, _Waiters] = {}

    def __contains__(self, device: GpuGroup) -> bool:
        return device in self._waiting

    async def wait(self, device: GpuGroup, tolerations: tuple[Toleration, ...]) -> str:
        """Return the UUID of the device, once ``reserved`` has it. Raises what ``fail`` is given."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiters = self._waiting.setdefault(device, _Waiters(self._monotonic(), tolerations))
        waiters.futures.append(future)
        try:
            return await future
        finally:
            waiters.futures.remove(future)
            if not waiters.futures and self._waiting.get(device) is waiters:
                del self._waiting[device]

    def waited_s(self, device: GpuGroup) -> float:
        """For how long the first of them has waited; 0 where there is none."""
        waiters = self._waiting.get(device)
        return self._monotonic() - waiters.since if waiters else 0.0

    def tolerations(self, device: GpuGroup) -> tuple[Toleration, ...]:
        """The tolerations of the first of them."""
        waiters = self._waiting.get(device)
        return waiters.tolerations if waiters else ()

    def reserved(self, device: GpuGroup, uuid: str) -> None:
        """The device is reserved: nobody waits for it any more."""
        for future in self._take(device):
            future.set_result(uuid)

    def fail(self, device: GpuGroup, failure: Exception) -> None:
        """The device cannot be reserved: nobody waits for it any more."""
        for future in self._take(device):
            future.set_exception(failure)

    def _take(self, device: GpuGroup) -> list[asyncio.Future[str]]:
        waiters = self._waiting.pop(device, None)
        return [future for future in waiters.futures if not future.done()] if waiters else []
