"""Which devices the claims of a pod have at the end of a cycle, as an allocation that the API takes, and which GPUs
evictions free with them (semantics 8.6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256

from kai_sched.lowering.lower import Lowered
from kai_sched.model.claims.objects import AllocatedDevice, Allocation, Device, DeviceOption, ResourceClaim
from kai_sched.model.constraints import NodeSelector, Requirement
from kai_sched.model.selectors import NODE_NAME
from kai_sched.plan.effects import ClaimUse
from kai_sched.snapshot.tables import Status
from kai_sched.solver.solution import Solution


def claim_uses(t: int, node: str, lowered: Lowered, solution: Solution) -> tuple[ClaimUse, ...]:
    """The claims of task ``t``, which is bound to the node or waits for it, in the order of the pod; that for its
    extended resources comes last, if the node does not offer them."""
    found = []
    for row in _rows(t, lowered):
        use, asked = _use(row, node, lowered, solution), lowered.claims.asked.get(row)
        if asked is not None and lowered.claims.extended is not None:
            made = lowered.claims.extended.needed_on(int(solution.node[t]), asked)
            use = replace(use, made=made)
            if not made.requests:
                continue
        found.append(use)
    return tuple(found)


def freed_gpus(evicted: list[int], lowered: Lowered) -> Iterator[float]:
    """The GPUs that each of the evicted tasks frees by its claims, in the order of the evictions.

    The last user of a claim frees its devices; GPUs of which claims have parts do not count.
    """
    users: Counter[int] | None = None
    for t in evicted:
        rows = _rows(t, lowered)
        if rows and users is None:
            users = _users(lowered)
        gpus = 0
        for row in rows:
            assert users is not None
            users[row] -= 1
            if users[row] <= 0:
                gpus += _whole_gpus(row, lowered)
        yield float(gpus)


def _rows(t: int, lowered: Lowered) -> list[int]:
    table = lowered.snapshot.dra_claims
    rows: list[int] = table.claim[table.task_ptr[t] : table.task_ptr[t + 1]].tolist()
    return rows


def _users(lowered: Lowered) -> Counter[int]:
    """How many pods use each claim and stay, unless they are evicted; pods that are no tasks among them."""
    table, status = lowered.snapshot.dra_claims, lowered.snapshot.tasks.status
    users = Counter(dict(enumerate(table.others.tolist())))
    for t in ((status > Status.PENDING) & (status <= Status.RUNNING)).nonzero()[0].tolist():
        users.update(_rows(t, lowered))
    return users


def _whole_gpus(row: int, lowered: Lowered) -> int:
    """How many GPUs of nodes the claim has for itself; those for extended resources are in the request of the pod."""
    book, allocation = lowered.claims.book, lowered.claims.allocations.get(row)
    if book is None or allocation is None or lowered.claims.claims[row].extended:
        return 0
    names = [(each.driver, each.pool, each.device) for each in allocation.devices if not each.admin]
    return sum(bool(book.is_gpu[book.row_of[name]]) for name in names if name in book.row_of)


def _use(row: int, node: str, lowered: Lowered, solution: Solution) -> ClaimUse:
    claim, book = lowered.claims.claims[row], lowered.claims.book
    known, slots = lowered.claims.allocations.get(row), solution.claimed_by(row)
    if known is not None and slots == solution.claimed_first(row):
        return ClaimUse(claim.key, claim.uid, known, claim.allocation is None)
    devices, found = [], []
    for v, o in slots:
        assert book is not None, "devices of slices have a book"
        driver, pool, device = book.devices[v]
        name, option = lowered.claims.options[o]
        devices.append(device)
        share_id = _share_id(claim, driver, pool, device) if device.shared else ""
        consumed = _consumed(driver, device, option) if device.shared else ()
        found.append(AllocatedDevice(name, driver, pool, device.name, option.admin, consumed, share_id))
    return ClaimUse(claim.key, claim.uid, Allocation(tuple(found), _nodes(devices, node)), True)


def _nodes(devices: list[Device], node: str) -> NodeSelector | None:
    """The nodes from which all of the devices can be used; None: all nodes."""
    if any(device.node or device.binds_to_node for device in devices):
        return ((Requirement(NODE_NAME, "In", (node,)),),)
    terms = {term for device in devices if device.selector is not None for term in device.selector}
    # A slice has one term at most; the nodes of all devices are those that match all terms.
    requirements = sorted({each for term in terms for each in term}, key=lambda each: (each.key, each.op, each.values))
    return (tuple(requirements),) if requirements else None


def _consumed(driver: str, device: Device, option: DeviceOption) -> tuple[tuple[str, Fraction], ...]:
    asked = dict(option.capacity)
    found = []
    for name, capacity in sorted(device.capacity.items()):
        short = name.removeprefix(f"{driver}/")
        amount = capacity.consumed(asked.get(name, asked.get(short)))
        if amount is not None:
            found.append((short, amount))
    return tuple(found)


def _share_id(claim: ResourceClaim, driver: str, pool: str, device: Device) -> str:
    """The id of this part of the device: a UUID that depends on the claim and the device alone."""
    text = sha256(f"{claim.uid or claim.key} {driver} {pool} {device.name}".encode()).hexdigest()
    # The version and the variant are those of a random UUID.
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:32]}"
