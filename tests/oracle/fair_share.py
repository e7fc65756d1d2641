"""The division of capacity among queues, written from semantics 2.3 to 2.5 and nothing else: slow and obvious.

One ``Claim`` is one queue's view of one resource. Amounts are millicores, bytes or devices, the unit of a remainder
is 1 of them, and unlimited is -1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

UNLIMITED = -1.0


@dataclass
class Claim:
    """What a queue brings to the division. ``age`` orders siblings: the smaller the older (creation time, then UID)."""

    quota: float
    limit: float
    weight: float
    request: float
    priority: int = 100
    age: Any = 0
    usage: float = 0.0
    fair: float = 0.0
    remainder: float = 0.0

    @property
    def requestable(self) -> float:
        return self.request if self.limit == UNLIMITED else min(self.limit, self.request)


def divide(amount: float, claims: Sequence[Claim], k_value: float = 1.0) -> list[float]:
    """The fair share of each claim, also left in ``fair``. Quotas are granted even where they exceed the amount.

    Claims are served by age, so that sums of floats come out the same whatever order they are given in.
    """
    given, claims = claims, sorted(claims, key=lambda claim: claim.age)
    for claim in claims:
        claim.fair = min(amount if claim.quota == UNLIMITED else claim.quota, claim.requestable)
        claim.remainder = 0.0
    remaining = amount - sum(claim.fair for claim in claims)
    buckets = [
        [claim for claim in claims if claim.priority == priority]
        for priority in sorted({claim.priority for claim in claims}, reverse=True)
    ]
    if remaining <= 0:
        return [claim.fair for claim in given]
    for bucket in buckets:
        remaining = _over_quota(remaining, bucket, k_value)
    for bucket in buckets:
        remaining = _remainders(remaining, bucket)
    return [claim.fair for claim in given]


def _over_quota(remaining: float, bucket: Sequence[Claim], k_value: float) -> float:
    """Rounds of one priority bucket (2.3, step 2a); what is left over."""
    again = True
    while again and remaining > 0:
        amount = remaining
        total_weight = sum(claim.weight for claim in bucket if claim.requestable - claim.fair > 0)
        if total_weight == 0:
            break
        hungry = [claim for claim in bucket if not _satisfied(claim)]
        portions = []
        for claim in hungry:
            part = claim.weight / total_weight
            portions.append(max(0.0, part + k_value * (part - claim.usage)))
        total_portion = sum(portions)
        if total_portion == 0:
            break
        again = False
        for claim, portion in zip(hungry, portions, strict=True):
            if remaining <= 0:
                break
            if claim.weight <= 0:
                continue
            share = amount * portion / total_portion
            want = max(0.0, claim.requestable - claim.fair)
            if want <= share:
                given = want
                claim.remainder = 0.0
            else:
                given = float(math.floor(share))
                if share != given:
                    claim.remainder = share - given
            claim.fair += given
            remaining -= given
            again = again or (given > 0 and want < share)
    return remaining


def _satisfied(claim: Claim) -> bool:
    return claim.request <= claim.fair or (claim.limit != UNLIMITED and claim.limit <= claim.fair)


def _remainders(remaining: float, bucket: Sequence[Claim]) -> float:
    """One unit at most for each stored remainder, largest first, then the oldest queue (2.3, step 3)."""
    for claim in sorted((c for c in bucket if c.remainder > 0), key=lambda c: (-c.remainder, c.age)):
        if remaining <= 0:
            break
        given = min(1.0, remaining)
        claim.fair += given
        remaining -= given
    return remaining


def allocatable_share(quota: float, limit: float, fair: float) -> float:
    """How much the queue can count on (2.5); -1 when that is unlimited."""
    if quota == UNLIMITED:
        return limit
    share = max(quota, fair)
    return share if limit == UNLIMITED else min(share, limit)
