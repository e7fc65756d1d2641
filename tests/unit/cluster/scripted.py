"""An API whose answers a test writes down, and that keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from kai_sched.cluster.client import ApiFailure

# What a request is answered with: a body, a failure, or something that is awaited for one of these.
Answer = bytes | ApiFailure | Callable[[], Awaitable[bytes]]


def failure(status: int, reason: str = "", retry_after_s: float | None = None) -> ApiFailure:
    return ApiFailure("POST", "/x", status, reason or f"R{status}", "by the test", retry_after_s)


class ScriptedApi:
    """Answers requests by method in the order of ``answers``, then with ``{}``."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[tuple[str, str, Any]] = []

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.asked]

    async def request(self, method: str, path: str, *, body: bytes | None = None, content_type: str = "") -> bytes:
        self.asked.append((method, path, None if body is None else json.loads(body)))
        self.content_type = content_type
        await asyncio.sleep(0)
        waiting = self.answers.get(method)
        answer = waiting.pop(0) if waiting else b"{}"
        if isinstance(answer, ApiFailure):
            raise answer
        return answer if isinstance(answer, bytes) else await answer()


class Naps:
    """In the place of a module's asyncio: its ``sleep`` returns at once and is noted, all else is as it was."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)
