"""Which request for devices no node can meet, whoever has the devices: what a pod is told of its claims beside the
number of nodes that cannot allocate them (semantics 8.6).

Cost: devices times distinct requests of the pods that are told; the answers about requests are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kai_sched.lowering.claims.devices import DeviceBook
from kai_sched.lowering.claims.refusals import request_for
from kai_sched.lowering.lower import Lowered
from kai_sched.model.claims.objects import ClaimRequests, DeviceOption, DeviceRequest
from kai_sched.model.claims.selectors import SelectorError
from kai_sched.model.constraints import Toleration

ANY_TAINT = (Toleration(operator="Exists"),)


def claims_text(t: int, lowered: Lowered, known: dict[ClaimRequests, list[tuple[str, str]]]) -> str:
    """What no node can give to the claims of task ``t``, whatever is free; "" where only others keep it from them.

    ``known`` has what was found before, by what a claim asks for; it grows.
    """
    claims, texts = lowered.claims, []
    if claims.book is None:
        return ""
    for row in claims.by_task[t]:
        claim = claims.claims[row]
        if row in claims.allocations:
            continue
        if claim.asks not in known:
            known[claim.asks] = list(_missing(claim.asks, claims.book))
        for request, text in known[claim.asks]:
            what = request if claim.extended else f"{request} of ResourceClaim {claim.key}"
            texts.append(f"{what}: {text}")
    return "; ".join(texts)


def _missing(asks: ClaimRequests, book: DeviceBook) -> Iterator[tuple[str, str]]:
    """(request, text) of the requests that no node can meet; of a prioritised list one for each option."""
    for request in asks.requests:
        found = [(option, _lack(option, book)) for option in request.options]
        if all(text for _, text in found):
            yield from ((_name(request, option), text) for option, text in found)


def _name(request: DeviceRequest, option: DeviceOption) -> str:
    if request.resource:
        return request_for(request.resource)
    return f"request {request.name}" + ("" if request.exact else f"/{option.name}")


def _lack(option: DeviceOption, book: DeviceBook) -> str:
    """What keeps every node from the devices of the option, if all of them were free; "" if some node has them."""
    wanted = 1 if option.count is None else option.count
    selected = replace(option, tolerations=ANY_TAINT, capacity=())
    for each, that in (
        (selected, f"that it and its DeviceClass {option.device_class} select"),
        (replace(option, capacity=()), "that it selects and whose taints it tolerates"),
        (option, "that it selects and that has the capacity it asks for"),
    ):
        try:
            most = _most(each, book)
        except SelectorError as error:
            return str(error)
        if most < wanted:
            if wanted == 1:
                return f"no node can use a device of a ResourceSlice {that}"
            return f"it asks for {wanted} devices, and no node can use more than {most} {that}"
    return ""


def _most(option: DeviceOption, book: DeviceBook) -> int:
    """The most devices that the option selects and that one node can use."""
    node_of = np.repeat(np.arange(book.ptr.size - 1), np.diff(book.ptr))
    return int(np.bincount(node_of[book.matches(option)[book.entry] == 1], minlength=1).max())
