"""The queues that a cluster without any queue gets, so that the first pod runs. Nobody restores them later."""

from __future__ import annotations

from importlib.resources import files

import msgspec
import structlog
import yaml

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.model.read import QUEUE

log = structlog.get_logger("defaults")

PATH = f"/apis/{QUEUE[0]}/queues"


async def create_default_queues(api: Api) -> None:
    """Create them, parents first. What fails is logged: the scheduler works without them."""
    text = (files("kai_sched.operator") / "default_queues.yaml").read_text()
    for queue in yaml.safe_load_all(text):
        name = queue["metadata"]["name"]
        try:
            await api.request("POST", PATH, body=msgspec.json.encode(queue))
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                log.warning("queue.not_created", queue=name, problem=str(failure))
        else:
            log.info("queue.created", queue=name)
