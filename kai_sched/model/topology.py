"""Topologies, and what groups of pods ask of them (semantics 10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topology:
    """A Topology (kai.scheduler/v1alpha1): how nodes are grouped into domains, such as zones of racks.

    ``levels`` are the labels of nodes whose values name the domains, from the widest to the narrowest. ``aliases`` has
    another name of each; "" for none.
    """

    name: str
    uid: str = ""
    levels: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.name

    def level(self, name: str) -> int:
        """The number of the level with this label or alias, counted from 1; 0 if there is none."""
        for names in (self.levels, self.aliases):
            if name and name in names:
                return names.index(name) + 1
        return 0


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """The domains that pods must share, and those that they should share. Levels are labels or aliases; "" is none."""

    topology: str
    required_level: str = ""
    preferred_level: str = ""
