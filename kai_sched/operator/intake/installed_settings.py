"""Writes the objects of the settings folder into the cluster before the settings are read: who else reads the cluster
(``explain --cluster``, ``doctor``, dumps) then goes by the same settings.

Each is applied on the server: the cluster gets the fields that the folder sets, loses those that an earlier folder set,
and keeps all others. Every replica writes, as webhooks need the settings, too; the same content twice changes nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog

from kai_sched.cluster.client import APPLY, Api, ApiFailure
from kai_sched.cluster.paths import applied, object_path
from kai_sched.model.read.kinds import OPERATOR_CONFIG, SHARD
from kai_sched.operator.intake.live_settings import BACKOFF

log = structlog.get_logger("settings")

MANAGER = "kai-scheduler-settings"
PLURALS: Mapping[str, str] = {OPERATOR_CONFIG[1]: "configs", SHARD[1]: "schedulingshards"}


async def write_settings(
    api: Api, objects: Sequence[Mapping[str, Any]], waits: dict[str, Callable[[], str]], rng: random.Random
) -> None:
    """Write these objects. Each is tried until it is written: its definition may be installed at this moment.

    ``waits["settings"]`` is set to a function that says what it waits for.
    """
    for content in objects:
        kind, name = content["kind"], content["metadata"]["name"]
        path = applied(object_path(content["apiVersion"], PLURALS[kind], "", name), MANAGER)
        body, failures = msgspec.json.encode(content), 0
        while True:
            try:
                await api.request("PATCH", path, body=body, content_type=APPLY, guarded=False)
            except ApiFailure as failure:
                problem = f"{kind} {name} of the settings folder: {failure}"
                if not failures:
                    log.warning("settings.not_written", object=f"{kind} {name}", problem=str(failure))
                waits["settings"] = partial(str, problem)
                failures += 1
                await asyncio.sleep(BACKOFF.wait_s(failures, rng))
            else:
                log.info("settings.written", object=f"{kind} {name}")
                break
