"""What queues held in the past, as a Prometheus knows it: one query for each resource, and one for what there was
(semantics 2.7).
"""

from __future__ import annotations

import math
import os

import aiohttp
import msgspec

from kai_sched.model.config import UsageSettings
from kai_sched.model.objects import UsedShares

QUEUE_LABEL = "queue_name"
QUERY = "api/v1/query"  # of Prometheus


class UsageFailure(Exception):
    """The database did not answer, or something else; the text says which query, and the remedy."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[_Series] = []


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error: str = ""


_decode = msgspec.json.Decoder(_Answer).decode


async def usage_of_queues(settings: UsageSettings, now_s: float) -> dict[str, UsedShares]:
    """What part of the cluster each queue had that the database knows. Raises UsageFailure: half of it is no answer."""
    database = settings.database
    url = database.url or os.environ.get(database.url_variable, "").rstrip("/")
    if not url:
        raise UsageFailure(f"the environment variable {database.url_variable} is not set: set it to the address")
    timeout = aiohttp.ClientTimeout(total=database.timeout_s)
    shares: list[dict[str, float]] = []
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for held, whole in zip(database.allocation, database.capacity, strict=True):
            # By queue, as each replica, and each start of one, makes series of its own.
            text = query(f"max by ({QUEUE_LABEL}) ({held})", settings, now_s)
            found = await _ask(session, url, text, now_s)
            capacity = await _ask(session, url, query(whole, settings, now_s), now_s)
            if len(capacity) != 1:
                raise UsageFailure(f"{whole} has {len(capacity)} series instead of 1: correct the capacity metric")
            ((_, total),) = capacity
            shares.append({labels.get(QUEUE_LABEL, ""): value / total if total > 0 else 0.0 for labels, value in found})
    queues = sorted(set().union(*shares) - {""})
    return {queue: UsedShares(*(part.get(queue, 0.0) for part in shares)) for queue in queues}


def query(expression: str, settings: UsageSettings, now_s: float) -> str:
    """The sum of the samples that count, each by its age where there is a half-life."""
    resolution_s = settings.database.resolution_s
    window_s = max(resolution_s, now_s - settings.since_s(now_s))
    sample = f"({expression})"
    if settings.half_life_s > 0:
        sample = f"({sample} * (0.5 ^ (({now_s:.3f} - time()) / {settings.half_life_s:g})))"
    return f"sum_over_time({sample}[{math.ceil(window_s)}s:{math.ceil(resolution_s)}s])"


async def _ask(session: aiohttp.ClientSession, url: str, text: str, now_s: float) -> list[tuple[dict[str, str], float]]:
    """Labels and value of each series."""
    fields = {"query": text, "time": f"{now_s:.3f}"}
    try:
        async with session.post(f"{url}/{QUERY}", data=fields) as answer:
            found = _decode(await answer.read())
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, msgspec.MsgspecError) as error:
        problem = str(error) or type(error).__name__
        raise UsageFailure(f"{url} does not answer {text}: {problem[:200]}") from None
    if found.status != "success" or found.data is None:
        raise UsageFailure(f"{url} refuses {text}: {found.error[:200]}")
    if found.data.result_type != "vector":
        raise UsageFailure(f"{text} is a {found.data.result_type[:20]}, not a vector: correct the metric")
    try:
        values = [(series.metric, float(series.value[1])) for series in found.data.result]
    except ValueError as error:
        raise UsageFailure(f"{url} does not answer {text} with numbers: {str(error)[:200]}") from None
    return [(labels, value if math.isfinite(value) else 0.0) for labels, value in values]
