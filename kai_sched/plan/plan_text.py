"""A plan as bytes and as a digest: what a cycle has decided, without durations and without what is computed when it is
read.

Equal decisions give equal bytes, in any process: the operator logs the digest, and ``kai-sched replay`` compares it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any

import msgspec

from kai_sched.plan.result import CycleResult

DIGEST_LENGTH = 16  # hexadecimal digits


def _hook(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value))


# Any value of a plan, or of the inputs of a cycle, as JSON.
encode = msgspec.json.Encoder(enc_hook=_hook).encode


def plan_lines(result: CycleResult) -> list[bytes]:
    """The plan as JSON documents: one for each effect in its order, then one for each queue, then one for the rest.

    Amounts without a limit are null.
    """
    lines = [encode([type(effect).__name__, effect]) for effect in result.effects]
    lines += [encode(["Queue", queue]) for queue in result.queues]
    rest = {
        "pipelinedFree": sorted(result.pipelined_free),
        "nextDeadlineNs": result.next_deadline_ns,
        "searches": result.searches,
        "hardClaims": sorted(result.hard_claims),
        "leaving": result.leaving,
        "questions": result.questions,
    }
    return [*lines, encode(["Rest", rest])]


def digest_of(lines: Sequence[bytes]) -> str:
    """The digest of ``plan_lines``, as the operator logs it."""
    return sha256(b"\n".join(lines)).hexdigest()[:DIGEST_LENGTH]
