"""The queues created for pods without a queue label: default-queue and its parent; ``Startup`` decides when."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec
import structlog
import yaml

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.paths import objects_path
from kai_sched.model.read.kinds import QUEUE

log = structlog.get_logger("defaults")

PATH = objects_path(QUEUE[0], "queues")
BACKOFF = Backoff(1.0, 30.0)


async def create_default_queues(api: Api, queues: Sequence[dict[str, Any]] = ()) -> None:
    """Create these queues, or the built-in ones where there are none, parents first.

    Retry without an end: after the start our webhook may not answer yet.
    """
    text = (files("kai_sched.operator") / "default_queues.yaml").read_text()
    for queue in queues or yaml.safe_load_all(text):
        await _create(api, queue)


async def _create(api: Api, queue: dict[str, Any]) -> None:
    failures, logged = 0, ""
    while True:
        try:
            await api.request("POST", PATH, body=msgspec.json.encode(queue))
        except ApiFailure as failure:
            if failure.reason == "AlreadyExists":
                return
            if str(failure) != logged:
                logged = str(failure)
                log.warning("queue.not_created", queue=queue["metadata"]["name"], problem=logged)
            failures += 1
            await asyncio.sleep(BACKOFF.wait_s(failures))
        else:
            log.info("queue.created", queue=queue["metadata"]["name"])
            return
