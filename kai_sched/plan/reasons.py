"""Why a pod group is not (wholly) placed: a code from the field's vocabulary and a sentence with the numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is a literal of the API contract (6.3) or one of ours; ``message`` is for people, one line."""

    code: str
    message: str


OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"
NO_QUEUE = "QueueDoesNotExist"
NO_FIT = "PodSchedulingErrors"
NOT_READY = "NotReady"
# Ours (docs/differences.md): the original passes these over without a word.
QUEUE_NOT_LEAF = "QueueIsNotALeaf"
NOT_SUPPORTED = "NotSupported"
