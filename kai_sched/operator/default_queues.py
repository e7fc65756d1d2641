"""The queues that a cluster gets at the first start, so that the first pod runs. Nobody restores them later."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any

import msgspec
import structlog
import yaml

from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.paths import objects_path
from kai_sched.model.read import QUEUE

log = structlog.get_logger("defaults")

PATH = objects_path(QUEUE[0], "queues")
BACKOFF = Backoff(1.0, 30.0)


async def create_default_queues(api: Api) -> None:
    """Create them, parents first. Until it works: right after the start our own webhook may not be reached yet."""
    text = (files("kai_sched.operator") / "default_queues.yaml").read_text()
    for queue in yaml.safe_load_all(text):
        await _create(api, queue)


async def _create(api: Api, queue: dict[str, Any]) -> None:
    failures, told = 0, ""
    while True:
        try:
            await api.request("POST", PATH, body=msgspec.json.encode(queue))
        except ApiFailure as failure:
            if failure.reason == "AlreadyExists":
                return
            if str(failure) != told:
                told = str(failure)
                log.warning("queue.not_created", queue=queue["metadata"]["name"], problem=told)
            failures += 1
            await asyncio.sleep(BACKOFF.wait_s(failures))
        else:
            log.info("queue.created", queue=queue["metadata"]["name"])
            return
