"""Complete lists of our own kinds: at the start, and again from time to time.

Kopf hands on the events of these kinds one by one, and cannot tell what was deleted while it was not looking, as across
a restart of the API server. A list says what there is; what it does not name is gone.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.turns import Turn
from kai_sched.operator.feed import Feed
from kai_sched.operator.handlers import OWN_KINDS, OwnKind

PERIOD_S = 60.0
RETRY_FIRST_S = 0.2
RETRY_LAST_S = 5.0
INSTALL = "install the custom resource definitions: kubectl apply -k manifests"


class OwnLists:
    """Lists every kind each ``period_s``. ``state`` by plural: "" is fine."""

    def __init__(self, api: Api, feed: Feed, chance: random.Random, period_s: float = PERIOD_S) -> None:
        self._api = api
        self._feed = feed
        self._chance = chance
        self._period_s = period_s
        self.state: dict[str, str] = {own.plural: f"{own.plural}: not listed yet" for own in OWN_KINDS}

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed, or need not be."""
        return not any(self.state.values())

    async def run(self) -> None:
        """Until cancelled."""
        retry_s = RETRY_FIRST_S
        while True:
            for own in OWN_KINDS:
                await self._list(own)
            wait_s = self._period_s * self._chance.uniform(0.9, 1.1)
            if not self.synced:
                wait_s, retry_s = retry_s, min(RETRY_LAST_S, 2.0 * retry_s)
            else:
                retry_s = RETRY_FIRST_S
            await asyncio.sleep(wait_s)

    async def _list(self, own: OwnKind) -> None:
        self._feed.begin(own.kind)
        turn = Turn()
        try:
            async with aclosing(self._api.list_pages(own.path, {})) as pages:
                async for items, _ in pages:
                    for raw in items:
                        self._feed.item(own.kind, raw)
                        await turn.pause()
                    await asyncio.sleep(0)
        except ApiFailure as failure:
            if failure.status != 404:
                self.state[own.plural] = str(failure)
                return
            self.state[own.plural] = "" if own.optional else f"{own.plural} are not known to the API server: {INSTALL}"
        else:
            self.state[own.plural] = ""
        self._feed.finish(own.kind)
