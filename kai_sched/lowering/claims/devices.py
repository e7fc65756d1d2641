"""The devices of ResourceSlices as tables: which nodes may use each, capacities that claims consume, counters of pools,
and which devices an option of a request selects (semantics 8.6); ``claims.selectors`` has what selectors say.

A pool counts if all slices of its newest generation are there. What depends on slices, classes, taint rules and nodes
only is kept until one of them changes: the answers about an option are a row of numbers, made once.

Cost: one step for each device and distinct option, after a change; nothing without slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.claims.selectors import SelectorBook
from kai_sched.lowering.constraints import truth_of, untolerated
from kai_sched.model.claims.objects import Device, DeviceOption, ResourceSlice, is_gpu_name
from kai_sched.model.claims.pools import newest_slices, pool_fault
from kai_sched.model.claims.selectors import SelectorAnswers, UnansweredError
from kai_sched.model.constraints import NodeSelector, Taint
from kai_sched.model.objects import Node
from kai_sched.model.resources import GPU_NAMES
from kai_sched.model.store import Cluster
from kai_sched.snapshot.claim_tables import TAINTED, DraDevices
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Floats, Ints, Longs

DeviceKey = tuple[str, str, str]  # driver, pool, name
AMOUNT_MAX = 2**61  # two of them can be added up
KEPT_BYTES = 32 * 2**20  # of answers about options, and of what options consume; users write any number of them
SCALES = (10**9, 10**6, 10**3, 1)  # Kubernetes quantities are multiples of one nano


class DeviceBook:
    """The devices of one state of slices, classes and nodes, and what options say about them.

    Attributes
    ----------
    devices, row_of
        (V,) the devices with their drivers and pools, and the row of each by its names.
    gpus
        (N,) how many of the node's own devices count as GPUs.
    local
        (V,) the node that the device is part of; NULL for others.
    counted, is_gpu
        (V,) whether the device is one of these GPUs, and whether a claim has it for itself, too.
    """

    def __init__(self, cluster: Cluster, cache: Cache, nodes: list[Node]) -> None:
        self._cluster = cluster
        self.devices: list[tuple[str, str, Device]] = []
        self.row_of: dict[DeviceKey, int] = {}
        self._matches: dict[DeviceOption, Flags] = {}
        self._unanswered: dict[DeviceOption, str] = {}  # which expression of the option is, in this cycle
        self._consumed: dict[tuple[tuple[str, Fraction], ...], Longs] = {}
        self._values: dict[str, Ints] = {}
        counters: dict[tuple[str, str, str, str], Fraction] = {}
        for (driver, pool), slices in sorted(_complete_pools(cluster.resource_slices.values()).items()):
            for each in slices:
                for counter_set, name, amount in each.counters:
                    counters[driver, pool, counter_set, name] = amount
                for device in each.devices:
                    self.row_of[driver, pool, device.name] = len(self.devices)
                    self.devices.append((driver, pool, device))
        self.selectors = SelectorBook([(driver, device) for driver, _, device in self.devices])
        self._is_open = True  # whether taints and GPUs may change with the next answers
        self._taints: dict[int, tuple[Taint, ...]] = {}
        self._place(cache, nodes)
        self._tables(counters)

    def begin(self, answers: SelectorAnswers, n_nodes: int) -> None:
        """A cycle begins, with these answers about selectors."""
        self._unanswered.clear()
        if self.selectors.begin(answers):
            self._matches.clear()
            self._is_open = True
        if not self._is_open:
            return
        taints = self._tainted()
        if taints != self._taints:
            self._matches.clear()
        self._taints = taints
        self._count_gpus(n_nodes)
        self._is_open = bool(self.selectors.questions)

    def _tainted(self) -> dict[int, tuple[Taint, ...]]:
        """The taints of the devices that have any, by row: their own, and those of rules, by the names of these."""
        found = {v: device.taints for v, (_, _, device) in enumerate(self.devices) if device.taints}
        for _, rule in sorted(self._cluster.device_taint_rules.items()):
            of_class = self._cluster.device_classes.get(rule.device_class)
            if not rule.selects or (rule.device_class and of_class is None):
                continue
            selected = self.selectors.selected_or_unknown((*(of_class.selectors if of_class else ()), *rule.selectors))
            for v in np.flatnonzero(selected).tolist():
                driver, pool, device = self.devices[v]
                named = zip((rule.driver, rule.pool, rule.device), (driver, pool, device.name), strict=True)
                if all(wanted in ("", name) for wanted, name in named):
                    found[v] = (*found.get(v, ()), rule.taint)
        return found

    def _place(self, cache: Cache, nodes: list[Node]) -> None:
        """Which nodes may use each device: ``ptr``, ``entry``, and the nodes of each device."""
        rows = {node.name: n for n, node in enumerate(nodes)}
        by_node: list[list[int]] = [[] for _ in nodes]
        self.local = np.full(len(self.devices), NULL, np.int32)
        self._spread: dict[int, Flags] = {}
        known: dict[NodeSelector, Flags] = {}
        for v, (_, _, device) in enumerate(self.devices):
            if device.node:
                n = rows.get(device.node, NULL)
                self.local[v] = n
                if n != NULL:
                    by_node[n].append(v)
                continue
            if device.everywhere:
                found = np.ones(len(nodes), np.uint8)
            elif device.selector is not None:
                if device.selector not in known:
                    known[device.selector] = selected_nodes(device.selector, cache, nodes)
                found = known[device.selector]
            else:
                found = np.zeros(len(nodes), np.uint8)
            self._spread[v] = found
            for n in np.flatnonzero(found).tolist():
                by_node[n].append(v)
        self.ptr = np.zeros(len(nodes) + 1, np.int32)
        np.cumsum([len(listed) for listed in by_node], out=self.ptr[1:])
        self.entry = np.array([v for listed in by_node for v in listed], np.int32)

    def usable_from(self, v: int, n_nodes: int) -> Flags:
        """(N,) 1 where pods on the node may use device ``v``."""
        if v in self._spread:
            return self._spread[v]
        found = np.zeros(n_nodes, np.uint8)
        if self.local[v] != NULL:
            found[self.local[v]] = 1
        return found

    def _count_gpus(self, n_nodes: int) -> None:
        """Until there are answers, what may be a GPU counts as one: with fewer GPUs, shares would be smaller."""
        is_gpu = np.array([is_gpu_name(driver) for driver, _, _ in self.devices], bool)
        for _, each in sorted(self._cluster.device_classes.items()):
            if each.selectors and (each.counts_as_gpus or each.extended_resource in GPU_NAMES):
                is_gpu |= self.selectors.selected_or_unknown(each.selectors) == 1
        own = is_gpu & (self.local != NULL)
        self.counted: npt.NDArray[np.bool_] = own
        self.gpus: Floats = np.bincount(self.local[own], minlength=n_nodes).astype(np.float64)
        self.is_gpu: npt.NDArray[np.bool_] = own & (self.shared == 0)

    def _tables(self, counters: dict[tuple[str, str, str, str], Fraction]) -> None:
        number = {key: u for u, key in enumerate(sorted(counters))}
        scales = {key: _scale(amount) for key, amount in counters.items()}
        limit_ptr, limits, counter_ptr, used, amounts = [0], [], [0], [], []
        self.dimensions: list[tuple[str, int]] = []  # name and scale of each row of the axis of capacities
        profiles: dict[object, int] = {}
        profile = np.zeros(len(self.devices), np.int32)
        for v, (driver, pool, device) in enumerate(self.devices):
            if device.shared:
                for name, each in sorted(device.capacity.items()):
                    self.dimensions.append((name, _scale(each.value)))
                    limits.append(whole(each.value * self.dimensions[-1][1]))
            limit_ptr.append(len(limits))
            for counter_set, name, amount in device.counters:
                key = driver, pool, counter_set, name
                if key in number:
                    used.append(number[key])
                    amounts.append(whole(amount * scales[key]))
                else:  # what nobody has cannot be taken
                    key = driver, pool, counter_set, ""
                    scales[key], counters[key] = 1, Fraction(0)
                    used.append(number.setdefault(key, len(number)))
                    amounts.append(1)
            counter_ptr.append(len(used))
            begin, end = counter_ptr[v], counter_ptr[v + 1]
            place = (int(self.local[v]), tuple(used[begin:end]), tuple(amounts[begin:end]))
            alone = device.shared or not device.node
            profile[v] = profiles.setdefault(v if alone else place, len(profiles))
        total = [whole(counters[key] * scales[key]) for key in number]
        self._profile = profile
        self.limit_ptr, self._limit = np.array(limit_ptr, np.int32), np.array(limits, np.int64)
        self._counters = np.array(counter_ptr, np.int32), np.array(used, np.int32), np.array(amounts, np.int64)
        self._total = np.array(total, np.int64)
        self._wide = self._concern_several_nodes()
        self.shared = np.array([each.shared for _, _, each in self.devices], np.uint8)

    def _concern_several_nodes(self) -> Flags:
        """(V,) 1 where pods of several nodes may use the device, or others that take of the same counters."""
        n_nodes, (counter_ptr, counter, _) = self.ptr.size - 1, self._counters
        node = np.repeat(np.arange(n_nodes), np.diff(self.ptr))
        user = np.repeat(np.arange(len(self.devices)), np.diff(counter_ptr))
        first, last = np.full(len(self.devices), n_nodes), np.full(len(self.devices), NULL)
        np.minimum.at(first, self.entry, node)
        np.maximum.at(last, self.entry, node)
        lowest, highest = np.full(self._total.size, n_nodes), np.full(self._total.size, NULL)
        np.minimum.at(lowest, counter, first[user])
        np.maximum.at(highest, counter, last[user])
        np.minimum.at(first, user, lowest[counter])
        np.maximum.at(last, user, highest[counter])
        return (first < last).astype(np.uint8)

    def table(self, rows: list[npt.NDArray[np.generic]]) -> DraDevices:
        """The table of devices. ``rows`` (\\*, V) are all that requests tell devices apart by."""
        order = np.array([self._profile, *rows]).reshape(len(rows) + 1, len(self.devices))
        if order.shape[1]:
            _, alike = np.unique(order, axis=1, return_inverse=True)
        else:
            alike = np.zeros(0, np.int32)
        return DraDevices(
            ptr=self.ptr.copy(),
            entry=self.entry.copy(),
            wide=self._wide.copy(),
            shared=self.shared.copy(),
            alike=alike.reshape(-1).astype(np.int32),
            limit_ptr=self.limit_ptr.copy(),
            limit=self._limit.copy(),
            counter_ptr=self._counters[0].copy(),
            counter=self._counters[1].copy(),
            amount=self._counters[2].copy(),
            total=self._total.copy(),
        )

    def matches(self, option: DeviceOption) -> Flags:
        """(V,) 1 where the option selects the device; TAINTED: without tolerating its taints. SelectorError."""
        found = self._matches.get(option)
        if found is None:
            if (len(self._matches) + 1) * (len(self.devices) + 500) > KEPT_BYTES:
                self._matches.clear()
            if (expression := self._unanswered.get(option)) is not None:
                raise UnansweredError(expression)
            try:
                found = self.selectors.selected(self.expressions(option))
            except UnansweredError as error:
                self._unanswered[option] = error.expression
                raise
            if option.capacity or self._taints or self.shared.any():
                for v in np.flatnonzero(found).tolist():
                    found[v] = self._match(option, v)
            self._matches[option] = found
        return found

    def expressions(self, option: DeviceOption) -> tuple[str, ...]:
        """The selectors that apply to the option: those of its class, and its own."""
        return (*self._cluster.device_classes[option.device_class].selectors, *option.selectors)

    def _match(self, option: DeviceOption, v: int) -> int:
        """As ``matches``, for a device that all selectors select."""
        driver, _, device = self.devices[v]
        asked = dict(option.capacity)
        for name, amount in asked.items():
            own = device.capacity.get(name if "/" in name else f"{driver}/{name}")
            if own is None or amount > own.value:
                return 0
        for name, each in device.capacity.items() if device.shared else ():
            if each.consumed(_asked(name, driver, asked)) is None:
                return 0
        return TAINTED if untolerated(option.tolerations, self._taints.get(v, ())) else 1

    def consumed(self, capacity: tuple[tuple[str, Fraction], ...]) -> Longs:
        """(E,) what a use takes of each capacity if it asks for these amounts."""
        found = self._consumed.get(capacity)
        if found is None:
            if (len(self._consumed) + 1) * (8 * len(self.dimensions) + 500) > KEPT_BYTES:
                self._consumed.clear()
            asked, amounts, d = dict(capacity), [], 0
            for driver, _, device in self.devices:
                for name, each in sorted(device.capacity.items()) if device.shared else ():
                    used = each.consumed(_asked(name, driver, asked))
                    scale = self.dimensions[d][1]
                    amounts.append(AMOUNT_MAX if used is None else whole(used * scale))
                    d += 1
            found = self._consumed[capacity] = np.array(amounts, np.int64)
        return found

    def values(self, attribute: str) -> Ints:
        """(V,) equal numbers for devices with equal values of the attribute; NULL where there is none."""
        found = self._values.get(attribute)
        if found is None:
            numbers: dict[object, int] = {}
            column = []
            for driver, _, device in self.devices:
                value = device.attributes.get(attribute if "/" in attribute else f"{driver}/{attribute}")
                key = None if value is None else (type(value), value)
                column.append(NULL if key is None else numbers.setdefault(key, len(numbers)))
            found = self._values[attribute] = np.array(column, np.int32)
        return found


def selected_nodes(selector: NodeSelector, cache: Cache, nodes: list[Node]) -> Flags:
    """(N,) 1 where the node selector matches the node."""
    found = np.zeros(len(nodes), np.uint8)
    for term in selector:
        if term:
            found |= np.minimum.reduce([truth_of(requirement, cache, nodes) for requirement in term])
    return found


def _asked(name: str, driver: str, asked: dict[str, Fraction]) -> Fraction | None:
    """What is asked of the capacity, by its full name or the one within the driver."""
    found = asked.get(name)
    return asked.get(name.removeprefix(f"{driver}/")) if found is None else found


def whole(amount: Fraction) -> int:
    """The amount, rounded up; ``AMOUNT_MAX`` at most."""
    return min(math.ceil(amount), AMOUNT_MAX)


def _scale(amount: Fraction) -> int:
    """The finest unit in which the amount is a number of the tables: parts of it may be finer than it is itself."""
    return next((scale for scale in SCALES if amount * scale < AMOUNT_MAX), 1)


def _complete_pools(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], list[ResourceSlice]]:
    """The slices of the newest generation of each pool, by name, if all of them are there."""
    return {key: known for key, known in newest_slices(slices).items() if pool_fault(known) is None}
