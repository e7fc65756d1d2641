"""Kinds of GPUs: what classes of pods ask for, what nodes with MIG devices take; and amounts that are not known."""

from __future__ import annotations

import enum

UNKNOWN_MEMORY = 1_000_000  # Nodes.device_memory where the node does not say: parts of a device instead of MiB
# Nodes.allocatable of a resource that the node does not offer and claims are made for: more than any pod asks for.
BY_DEVICES = float(2**50)
ROUNDING = 1e-6  # MiB; a part times the memory of a device is off by less


class GpuKind(enum.IntEnum):
    """What kind of GPUs a class requests, which decides about the type of node (semantics 12.2, steps 2 and 3)."""

    NONE = 0
    WHOLE = 1
    FRACTION = 2  # a part of a device, as a number
    MEMORY = 3  # a part of a device, as memory
    MIG = 4
    CLAIM = 6  # devices by claims alone
    EXTENDED = 7  # whole devices, where the node does not offer them by a claim that is made for the pod
    LEGACY_MIG = 5  # refused on nodes with MIG devices, and keeps MIG pods away from its node


class MigMode(enum.IntEnum):
    """What a node with MIG devices takes besides pods without GPUs (semantics 12.2, step 2)."""

    NO_MIG = 0  # it has none
    SINGLE = 1  # whole GPUs alone, which are MIG devices under that name
    MIXED = 2  # MIG devices alone
    ANY = 3  # the node does not say
