"""From how many owners of a kind on they are listed instead of read one by one, when a replica begins to lead."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing

import structlog

from kai_sched.cluster.client import ApiFailure
from kai_sched.operator.grouping.owner_cache import CachedOwner, OwnerCache
from kai_sched.reconcile.grouping.owners import ObjectReference

log = structlog.get_logger("grouping")

WORTH = 20  # fewer owners of a kind in a namespace are read one by one
OTHERS = 20  # how many objects are read for each wanted one at most; beyond that, one by one costs less

KindInNamespace = tuple[str, str, str]  # apiVersion, kind, namespace


async def prefetch(cache: OwnerCache, wanted: Iterable[ObjectReference]) -> None:
    """Add the metadata of the wanted objects to the cache, and of those above them, where a list is worth it.

    What cannot be listed is left out: it is read alone later, and its problem is reported then. When cancelled, what
    was read so far stays in the cache.
    """
    places = _worth_listing(wanted, cache)
    while places:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_list(cache, place, names)) for place, names in places.items()]
        places = _worth_listing((above for task in tasks for above in task.result()), cache)


def _worth_listing(wanted: Iterable[ObjectReference], cache: OwnerCache) -> dict[KindInNamespace, set[str]]:
    """The names to list for."""
    places: dict[KindInNamespace, set[str]] = {}
    for each in wanted:
        place = each.api_version, each.kind, each.namespace
        if ObjectReference(*place, each.name) not in cache.entries:
            places.setdefault(place, set()).add(each.name)
    return {place: names for place, names in places.items() if len(names) >= WORTH}


async def _list(cache: OwnerCache, place: KindInNamespace, names: set[str]) -> list[ObjectReference]:
    """Cache the listed objects with these names, remove them from ``names``, and return their owners."""
    asked_s = cache.monotonic()  # everything that is listed is at least as new
    above: list[ObjectReference] = []
    read, most = 0, OTHERS * len(names)
    try:
        async with aclosing(cache.reader.pages(*place)) as pages:
            async for page in pages:
                for owner in page:
                    if owner.name in names:
                        names.remove(owner.name)
                        cache.entries[ObjectReference(*place, owner.name)] = CachedOwner(owner, True, asked_s)
                        above += owner.references
                read += len(page)
                if not names or read >= most:
                    break
    except ApiFailure as failure:
        log.info("owners.not_listed", kind=place[1], namespace=place[2], problem=str(failure))
    return above
