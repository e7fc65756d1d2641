"""Looks up many owners in few requests, for a replica that begins to lead: each alone takes long in a large cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing

import structlog

from kai_sched.cluster.client import ApiFailure
from kai_sched.cluster.owners import OwnerReader
from kai_sched.operator.look import Known
from kai_sched.reconcile.grouping.owners import Reference

log = structlog.get_logger("grouping")

WORTH = 20  # fewer of a kind in a namespace are looked up one by one
OTHERS = 20  # so many are read for each that is wanted; beyond, one by one costs less

Place = tuple[str, str, str]  # apiVersion, kind, namespace


async def look_ahead(
    reader: OwnerReader, wanted: Iterable[Reference], known: dict[Reference, Known], monotonic: Callable[[], float]
) -> None:
    """Add to ``known`` the metadata of the wanted objects, and of those above them, where that is worth it.

    What cannot be had so is left out: whoever looks it up alone is told why. When cancelled, what was had so far stays.
    """
    places = _worthy(wanted, known)
    while places:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_list(reader, *each, known, monotonic)) for each in places.items()]
        places = _worthy((above for task in tasks for above in task.result()), known)


def _worthy(wanted: Iterable[Reference], known: dict[Reference, Known]) -> dict[Place, set[str]]:
    """The names to list for, by place."""
    places: dict[Place, set[str]] = {}
    for each in wanted:
        place = each.api_version, each.kind, each.namespace
        if Reference(*place, each.name) not in known:
            places.setdefault(place, set()).add(each.name)
    return {place: names for place, names in places.items() if len(names) >= WORTH}


async def _list(
    reader: OwnerReader,
    place: Place,
    names: set[str],
    known: dict[Reference, Known],
    monotonic: Callable[[], float],
) -> list[Reference]:
    """Add what is found of these names, which are used up, and return what is above it."""
    asked_s = monotonic()  # all that is read is at least as new
    above: list[Reference] = []
    read, most = 0, OTHERS * len(names)
    try:
        async with aclosing(reader.pages(*place)) as pages:
            async for page in pages:
                for owner in page:
                    if owner.name in names:
                        names.remove(owner.name)
                        known[Reference(*place, owner.name)] = Known(owner, True, asked_s)
                        above += owner.references
                read += len(page)
                if not names or read >= most:
                    break
    except ApiFailure as failure:
        log.info("owners.not_listed", kind=place[1], namespace=place[2], problem=str(failure))
    return above
