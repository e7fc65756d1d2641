"""The tables of claims for devices: what classes ask for as rows of requests and options, and a row for each claim with
what it has (semantics 8.6; ADR 14).

``claims`` says which claims there are, ``claims.devices`` which devices an option selects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.claims.devices import DeviceBook, selected_nodes, whole
from kai_sched.lowering.claims.extended import ExtendedBook
from kai_sched.lowering.claims.tables import ClaimKey, ClaimRows
from kai_sched.model.claims.objects import RESULTS_MAX, Allocation, ClaimRequests, DeviceOption
from kai_sched.model.claims.selectors import SelectorError
from kai_sched.model.objects import Node
from kai_sched.snapshot.claim_tables import DraClaims, DraDevices, DraRequests
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Ints, freeze


class ClaimTables(NamedTuple):
    """The tables of a snapshot about claims: devices of slices, what classes ask for, and the claims."""

    devices: DraDevices
    requests: DraRequests
    claims: DraClaims


@dataclass(slots=True)
class _Requests:
    """The rows of ``DraRequests`` as they are found."""

    book: DeviceBook
    extended: ExtendedBook
    rows: dict[ClaimRequests, int] = field(default_factory=dict)
    request_ptr: list[int] = field(default_factory=lambda: [0])
    option_ptr: list[int] = field(default_factory=lambda: [0])
    options: list[tuple[str, DeviceOption]] = field(default_factory=list)
    matchers: dict[bytes, int] = field(default_factory=dict)
    match: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    matcher: list[int] = field(default_factory=list)
    consumers: dict[bytes, int] = field(default_factory=dict)
    consumed: list[npt.NDArray[np.int64]] = field(default_factory=list)
    consumer: list[int] = field(default_factory=list)
    attributes: dict[str, int] = field(default_factory=dict)
    constraints: list[tuple[bool, int]] = field(default_factory=list)
    of_option: list[list[int]] = field(default_factory=list)
    needs: list[int] = field(default_factory=list)
    needed: dict[str, int] = field(default_factory=dict)
    slots: list[int] = field(default_factory=list)

    def row(self, asks: ClaimRequests) -> int:
        """The row of what a claim asks for, made when it is first asked for."""
        known = self.rows.get(asks)
        if known is not None:
            return known
        slots = 0
        first = len(self.constraints)
        for each in asks.constraints:
            attribute = self.attributes.setdefault(each.attribute, len(self.attributes))
            self.constraints.append((each.distinct, attribute))
        for request in asks.requests:
            most = 0
            for option in request.options:
                name = request.name if request.exact else f"{request.name}/{option.name}"
                matched = self._matched(option)
                applies = [
                    first + i
                    for i, each in enumerate(asks.constraints)
                    if not each.requests or request.name in each.requests or name in each.requests
                ]
                consumer = NULL
                if (matched & self.book.shared).any():
                    consumer = self.consume(self.book.consumed(option.capacity))
                self._option(name, option, self._matcher(matched), consumer, applies)
                count = int((matched == 1).sum()) if option.count is None else option.count
                most = max(most, min(count, RESULTS_MAX))
            slots += most
            self.option_ptr.append(len(self.options))
            known = self.needed.setdefault(request.resource, len(self.needed)) if request.resource else NULL
            self.needs.append(known)
        self.request_ptr.append(len(self.option_ptr) - 1)
        self.slots.append(min(slots, RESULTS_MAX))
        return self.rows.setdefault(asks, len(self.rows))

    def _matched(self, option: DeviceOption) -> Flags:
        """(V,) what the option selects: nothing if its class is gone or a selector fails.

        The request stands for a resource that some nodes offer, or its claim has devices already. All other pods that
        need it have a refusal (``claims.refusals``).
        """
        try:
            return self.book.matches(option)
        except (KeyError, SelectorError):
            return np.zeros(len(self.book.devices), np.uint8)

    def _option(self, name: str, option: DeviceOption, matcher: int, consumer: int, applies: list[int]) -> int:
        self.options.append((name, option))
        self.matcher.append(matcher)
        self.consumer.append(consumer)
        self.of_option.append(applies)
        return len(self.options) - 1

    def _matcher(self, matched: npt.NDArray[np.uint8]) -> int:
        known = self.matchers.setdefault(matched.tobytes(), len(self.match))
        if known == len(self.match):
            self.match.append(matched)
        return known

    def consume(self, amounts: npt.NDArray[np.int64]) -> int:
        """The row of ``consumed`` with these amounts (E,)."""
        known = self.consumers.setdefault(amounts.tobytes(), len(self.consumed))
        if known == len(self.consumed):
            self.consumed.append(amounts)
        return known

    def foreign(self, name: str, admin: bool, consumer: int) -> int:
        """An option of no request, for a device that was allocated otherwise than the claim asks for now."""
        return self._option(name, DeviceOption("", admin=admin), NULL, consumer, [])


def lower_claims(
    found: ClaimRows, classes: list[ClaimKey], brief: Flags, n_tasks: int, cache: Cache, nodes: list[Node]
) -> ClaimTables:
    """The tables. ``classes`` (C,) are the keys of the classes, ``brief`` (C,) is that column of ``DraRequests``."""
    n_nodes = len(nodes)
    if found.book is None or found.extended is None:
        return no_claims(len(classes), n_tasks, n_nodes)
    specs = _Requests(found.book, found.extended)
    class_ptr, spec, certain = [0], [], []
    for key in classes:
        for asks, name in key.specs if not key.refusal else ():
            spec.append(specs.row(asks))
            certain.append(found.rows[name] if name else NULL)
        class_ptr.append(len(spec))
    claims = _lower_rows(found, specs, n_tasks, cache, nodes)
    found.options = specs.options
    values = [found.book.values(name) for name in specs.attributes]
    constraint_ptr = np.zeros(len(specs.options) + 1, np.int32)
    np.cumsum([len(each) for each in specs.of_option], out=constraint_ptr[1:])
    n_devices, n_limits = len(found.book.devices), len(found.book.dimensions)
    lacking = [found.extended.offered(name) == 0 for name in specs.needed]
    requests = DraRequests(
        class_ptr=np.array(class_ptr, np.int32),
        brief=brief,
        spec=np.array(spec, np.int32),
        claim=np.array(certain, np.int32),
        request_ptr=np.array(specs.request_ptr, np.int32),
        needs=np.array(specs.needs, np.int32),
        needed=np.array(lacking, np.uint8).reshape(len(lacking), n_nodes),
        option_ptr=np.array(specs.option_ptr, np.int32),
        wanted=np.array([min(option.count or 0, RESULTS_MAX + 1) for _, option in specs.options], np.int32),
        admin=np.array([option.admin for _, option in specs.options], np.uint8),
        matcher=np.array(specs.matcher, np.int32),
        consumer=np.array(specs.consumer, np.int32),
        constraint_ptr=constraint_ptr,
        constraint=np.array([row for each in specs.of_option for row in each], np.int32),
        distinct=np.array([distinct for distinct, _ in specs.constraints], np.uint8),
        attribute=np.array([attribute for _, attribute in specs.constraints], np.int32),
        match=np.array(specs.match, np.uint8).reshape(len(specs.match), n_devices),
        consumed=np.array(specs.consumed, np.int64).reshape(len(specs.consumed), n_limits),
        value=np.array(values, np.int32).reshape(len(values), n_devices),
    )
    return ClaimTables(freeze(found.book.table([*specs.match, *values])), freeze(requests), freeze(claims))


def _lower_rows(found: ClaimRows, specs: _Requests, n_tasks: int, cache: Cache, nodes: list[Node]) -> DraClaims:
    """The table of claims; what is allocated to them takes options of ``specs``."""
    book = specs.book
    task_ptr = np.zeros(n_tasks + 1, np.int32)
    np.cumsum([len(rows) for rows in found.by_task] or np.zeros(n_tasks, np.int32), out=task_ptr[1:])
    slot_ptr, device, option, where = [0], list[int](), list[int](), list[int]()
    available: list[npt.NDArray[np.uint8]] = []
    others = np.zeros(len(found.claims), np.int32)
    held = np.zeros(len(found.claims), np.uint8)
    used = {row for rows in found.by_task for row in rows}
    for row, claim in enumerate(found.claims):
        allocation = found.allocations.get(row)
        had = _allocated(claim.asks, allocation, specs) if allocation is not None else []
        asked = specs.slots[specs.row(claim.asks)] if row in used and _usable(claim.asks, found) else 0
        slots = max(asked, len(had))
        device += [v for v, _ in had] + [NULL] * (slots - len(had))
        option += [o for _, o in had] + [NULL] * (slots - len(had))
        slot_ptr.append(len(device))
        others[row] = max(0, len(set(claim.consumers)) - found.on_nodes[row])
        held[row] = allocation is not None and (found.on_nodes[row] == 0 or others[row] > 0)
        where.append(NULL)
        if allocation is not None and found.certain[row]:
            there = np.ones(len(nodes), np.uint8)
            if allocation.nodes is not None:
                there = selected_nodes(allocation.nodes, cache, nodes)
            for v, _ in had:
                there = there & book.usable_from(v, len(nodes))
            if row in found.asked:
                names = {each.request for each in allocation.devices}
                there = there & specs.extended.made_for(names, found.asked[row])
            where[-1] = len(available)
            available.append(there)
    return DraClaims(
        task_ptr=task_ptr,
        claim=np.array([row for rows in found.by_task for row in rows], np.int32),
        shared=np.array(found.certain, np.uint8),
        others=others,
        held=held,
        nodes=np.array(where, np.int32),
        slot_ptr=np.array(slot_ptr, np.int32),
        device=np.array(device, np.int32),
        option=np.array(option, np.int32),
        available=np.array(available, np.uint8).reshape(len(available), len(nodes)),
    )


def _usable(asks: ClaimRequests, found: ClaimRows) -> bool:
    """Whether all options of the requests can be judged; otherwise its pods have a refusal."""
    if found.book is None or found.faults.get(asks):
        return False
    try:
        for request in asks.requests:
            for option in request.options if not request.resource else ():
                found.book.matches(option)
    except (KeyError, SelectorError):
        return False
    return not asks.fault


def _allocated(asks: ClaimRequests, allocation: Allocation, specs: _Requests) -> list[tuple[int, int]]:
    """The rows of the devices that are allocated, and of the option for each. Devices that are gone hold nothing."""
    known: Mapping[str, int] = {}
    if asks in specs.rows:
        spec = specs.rows[asks]
        first = specs.option_ptr[specs.request_ptr[spec]]
        end = specs.option_ptr[specs.request_ptr[spec + 1]]
        known = {specs.options[o][0]: o for o in range(first, end)}
    found = []
    for each in allocation.devices:
        v = specs.book.row_of.get((each.driver, each.pool, each.device))
        if v is None:
            continue
        consumer = NULL
        if specs.book.shared[v]:
            amounts = specs.book.consumed(()) * 0
            first = int(specs.book.limit_ptr[v])
            taken = dict(each.consumed)
            for d in range(first, int(specs.book.limit_ptr[v + 1])):
                name, scale = specs.book.dimensions[d]
                short = name.removeprefix(f"{each.driver}/")
                amounts[d] = whole(taken.get(name, taken.get(short, Fraction(0))) * scale)
            consumer = specs.consume(amounts)
        o = known.get(each.request, NULL)
        same = o != NULL and specs.options[o][1].admin == each.admin
        if not same or consumer != NULL:
            o = specs.foreign(each.request, each.admin, consumer)
        found.append((v, o))
    return found


# Their sizes are mostly those of the cycle before, and nothing is written to them.
@lru_cache(maxsize=8)
def no_claims(n_classes: int, n_tasks: int, n_nodes: int) -> ClaimTables:
    """The tables of a cluster without claims and slices."""

    def ints(size: int) -> Ints:
        return np.zeros(size, np.int32)

    flags, longs = np.zeros(0, np.uint8), np.zeros(0, np.int64)
    devices = DraDevices(
        ptr=ints(n_nodes + 1),
        entry=ints(0),
        wide=flags,
        shared=flags.copy(),
        alike=ints(0),
        limit_ptr=ints(1),
        limit=longs,
        counter_ptr=ints(1),
        counter=ints(0),
        amount=longs.copy(),
        total=longs.copy(),
    )
    requests = DraRequests(
        class_ptr=ints(n_classes + 1),
        brief=np.zeros(n_classes, np.uint8),
        spec=ints(0),
        claim=ints(0),
        request_ptr=ints(1),
        needs=ints(0),
        needed=np.zeros((0, n_nodes), np.uint8),
        option_ptr=ints(1),
        wanted=ints(0),
        admin=flags.copy(),
        matcher=ints(0),
        consumer=ints(0),
        constraint_ptr=ints(1),
        constraint=ints(0),
        distinct=flags.copy(),
        attribute=ints(0),
        match=np.zeros((0, 0), np.uint8),
        consumed=np.zeros((0, 0), np.int64),
        value=np.zeros((0, 0), np.int32),
    )
    claims = DraClaims(
        task_ptr=ints(n_tasks + 1),
        claim=ints(0),
        shared=flags.copy(),
        others=ints(0),
        held=flags.copy(),
        nodes=ints(0),
        slot_ptr=ints(1),
        device=ints(0),
        option=ints(0),
        available=np.zeros((0, n_nodes), np.uint8),
    )
    return ClaimTables(freeze(devices), freeze(requests), freeze(claims))
