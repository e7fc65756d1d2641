"""What a cycle wants done, as data. Nothing here acts; the operator's executor and the offline world do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind this pod (and no other of the same name: ``uid``) to the node now."""

    pod: str  # "namespace/name"
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pod has a place, but on room that others are still leaving. Nothing is sent; the next cycle decides anew."""

    pod: str
    uid: str
    node: str


Effect = Bind | Pipeline
