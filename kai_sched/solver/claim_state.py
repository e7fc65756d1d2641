"""The columns of the working state and of scratch space for claims for devices, and how much of the undo log they take.

Axes: I claims, Y slots of claims, V devices of slices, E capacities that are consumed, U counters of pools, W devices
of a pod at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Flags, Ints, Longs, Snapshot


class ClaimState(NamedTuple):
    """What claims have, and what is used of devices of slices (``kernels.claims``): now, and once pods have left.

    ``now`` counts what pods hold at present, those that are leaving included; ``later`` what is held once they have
    left, promised devices included. By claim (I,) the tasks that use it, by slot (Y,) its devices, by device (V,) the
    claims that have it, by capacity (E,) and counter (U,) the amounts that are used.
    """

    users_now: Longs  # (I,)
    users_later: Longs  # (I,)
    device: Longs  # (Y,) NULL: none
    option: Longs  # (Y,) the option of a request that it was allocated for
    uses_now: Longs  # (V,)
    uses_later: Longs  # (V,)
    used_now: Longs  # (E,) in the unit of the capacity
    used_later: Longs  # (E,)
    counted_now: Longs  # (U,) in the unit of the counter
    counted_later: Longs  # (U,)
    elsewhere: Longs  # (1,) written when something changes that concerns several nodes, so that a rollback notices


class Picks(NamedTuple):
    """Devices that are picked for the claims of a pod, (W,), and where the search for more stands (``kernels.claims``).

    A pick has the claim in the order of its class, the request, the option, its place among the devices of the option
    and how many these are, where in the devices of the node the next candidate is, the device, one that did not lead
    to a solution, and the size of the undo log before it. ``saved_device`` and ``saved_option`` (Y,) keep slots.
    """

    claim: Longs
    request: Longs
    option: Longs
    place: Longs
    wanted: Longs
    cursor: Longs
    device: Longs
    failed: Longs
    mark: Longs
    length: Longs  # (3,) how many picks there are; 1 where the search was cut; the steps that it has taken
    saved_device: Longs  # (Y,)
    saved_option: Longs  # (Y,)


class ClaimSteps(NamedTuple):
    """What searches for devices of claims took beyond their free steps, and which were cut (``claims.steps``)."""

    queue: Ints  # (C,) the queue of the first task of the class that is in a job; else one more than there are
    spent: Longs  # (C,) steps of the class
    spent_by_queue: Longs  # (Q + 1,) of all classes of the queue
    spent_in_all: Longs  # (1,) of all classes
    cut: Flags  # (C,) 1: a search was cut by the steps of the class, 2: others had taken all; 0: none was


def make_claim_steps(snapshot: Snapshot) -> ClaimSteps:
    """Return the steps at the start of a cycle: none is taken."""
    n_classes, n_queues = snapshot.classes.signature.size, snapshot.queues.parent.size
    queue = np.full(n_classes, n_queues, np.int32)
    if snapshot.dra_requests.spec.size:
        tasks = np.flatnonzero(snapshot.tasks.job != NULL)[::-1]
        queues = snapshot.jobs.queue[snapshot.tasks.job[tasks]]
        queue[snapshot.tasks.cls[tasks]] = np.where(queues == NULL, n_queues, queues)
    spent, cut = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.uint8)
    return ClaimSteps(
        queue=queue,
        spent=spent,
        spent_by_queue=np.zeros(n_queues + 1, np.int64),
        spent_in_all=np.zeros(1, np.int64),
        cut=cut,
    )


def claim_writes(snapshot: Snapshot) -> int:
    """Return how many writes the claims of one pod need: its slots, what is used now and later, and for each
    claim two counts of its users and five marks that other nodes are concerned."""
    if not snapshot.dra_claims.claim.size:  # no pod uses one
        return 0
    claims = int(np.diff(snapshot.dra_claims.task_ptr).max(initial=0))
    slots = max(longest_claims(snapshot), _longest_claim(snapshot))
    return 7 * claims + slots * (2 + 2 * _writes_of_use(snapshot)) if slots else 0


def booking_writes(snapshot: Snapshot) -> int:
    """Return how many writes one claim needs at the start of a cycle that has devices, whether a pod uses it or not:
    their uses now and later, and for both a mark that other nodes are concerned."""
    if not snapshot.dra_claims.device.size:  # no claim can have one
        return 2
    return 2 * _longest_claim(snapshot) * _writes_of_use(snapshot) + 2


def _longest_claim(snapshot: Snapshot) -> int:
    return int(np.diff(snapshot.dra_claims.slot_ptr).max(initial=0))


def _writes_of_use(snapshot: Snapshot) -> int:
    """Of a device in one ledger: that it is used, its capacities, and the counters of its pool."""
    devices = snapshot.dra_devices
    return 1 + int(np.diff(devices.limit_ptr).max(initial=0)) + int(np.diff(devices.counter_ptr).max(initial=0))


def longest_claims(snapshot: Snapshot) -> int:
    """Return the most devices that the claims of one task can have."""
    claims = snapshot.dra_claims
    if not claims.claim.size:
        return 0
    sizes = np.diff(claims.slot_ptr)[claims.claim]
    of_task = np.repeat(np.arange(claims.task_ptr.size - 1), np.diff(claims.task_ptr))
    return int(np.bincount(of_task, weights=sizes, minlength=1).max(initial=0))


def make_picks(snapshot: Snapshot) -> Picks:
    """Return space for the devices of the claims of a pod."""
    n_picks, n_slots = longest_claims(snapshot) + 1, snapshot.dra_claims.device.size
    claim, request, option, place, wanted, cursor, device, failed, mark = np.zeros((9, n_picks), np.int64)
    saved_device, saved_option = np.zeros((2, n_slots), np.int64)
    length = np.zeros(3, np.int64)
    return Picks(
        claim=claim,
        request=request,
        option=option,
        place=place,
        wanted=wanted,
        cursor=cursor,
        device=device,
        failed=failed,
        mark=mark,
        length=length,
        saved_device=saved_device,
        saved_option=saved_option,
    )
