"""The choices that ``Settings`` has numbers for: placement of pods, order of devices, generators of scenarios;
and those of kubelets: policies of NUMA zones."""

from __future__ import annotations

import enum


class Generator(enum.IntEnum):
    """How scenarios are made of accumulated victims in the search of ``victims: original`` (semantics 4.5)."""

    NONE = 0
    NODE_LOCAL = 1
    MULTI_NODE = 2


class Placement(enum.IntEnum):
    """What is preferred of two nodes: the one with less room, the one of which a larger part is free, or neither."""

    OFF = 0
    BINPACK = 1
    SPREAD = 2


class GpuOrder(enum.IntEnum):
    """Which of the devices of a node a pod with a share prefers: any, used ones, or unused ones (semantics 8.4)."""

    OFF = 0
    PACK = 1
    SPREAD = 2


class ZonePolicy(enum.IntEnum):
    """How the kubelet of a node aligns pods to its NUMA zones (semantics 12.4); from RESTRICTED on it refuses some."""

    NONE = 0
    BEST_EFFORT = 1
    RESTRICTED = 2
    SINGLE = 3
