"""Workload kinds that are not built in: what one is made of, which of those that packages offer are used, and what is
wrong with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kai_sched.model.field_errors import shown
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase, Rule
from kai_sched.reconcile.grouping.registry import RULES
from kai_sched.reconcile.grouping.workload_errors import GroupingError

# What mistakes in a rule raise. Others come from requests that the rule makes, and pass through it.
_MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind with the rule that groups its pods.

    Attributes
    ----------
    api_version, kind
        Such as "example.com/v1" and "Solver".
    rule
        Returns the group of a pod, as the rules of ``registry.RULES`` do.
    controller
        Yields the objects that the controller of the kind would make (``files.controllers.workload``), so that
        ``simulate`` takes such a workload without its pods. None: it cannot.
    """

    api_version: str
    kind: str
    rule: Rule
    controller: Callable[[Any], Iterator[dict[str, Any]]] | None = None


@dataclass(frozen=True, slots=True)
class PluginFault:
    """Why something that a package offers is not used; ``plugin`` names it."""

    plugin: str
    message: str

    def __str__(self) -> str:
        return f"workload kind {self.plugin}: {self.message}"


@dataclass(frozen=True, slots=True)
class PluginKinds:
    """The kinds of packages by apiVersion and kind, and what is wrong with those that are not among them."""

    kinds: Mapping[tuple[str, str], WorkloadKind]
    faults: tuple[PluginFault, ...] = ()

    @property
    def rules(self) -> dict[tuple[str, str], Rule]:
        """The rule of each kind."""
        return {key: each.rule for key, each in self.kinds.items()}


def usable_kinds(offered: Sequence[tuple[str, object]]) -> PluginKinds:
    """The kinds that can be used. ``offered`` has, by the name of the plugin, a WorkloadKind or several."""
    kinds: dict[tuple[str, str], WorkloadKind] = {}
    faults: list[PluginFault] = []
    for name, found in offered:
        for each in found if isinstance(found, list | tuple) else [found]:
            message = _fault(each, kinds)
            if message or not isinstance(each, WorkloadKind):
                faults.append(PluginFault(name, message))
            else:
                kinds[each.api_version, each.kind] = replace(each, rule=_guarded(name, each.rule))
    return PluginKinds(kinds, tuple(faults))


def _fault(each: object, kinds: Mapping[tuple[str, str], WorkloadKind]) -> str:
    if not isinstance(each, WorkloadKind):
        return f"{type(each).__name__} is no WorkloadKind: let the entry point name one, or a list of them"
    for field in ("api_version", "kind"):
        if not isinstance(getattr(each, field), str) or not getattr(each, field):
            return f"{field} is {shown(getattr(each, field))}: give it a text"
    if not all(map(callable, (each.rule, each.controller or each.rule))):
        return "rule and controller are functions: give it such"
    what = f"{each.kind} ({each.api_version})"
    if (each.api_version, each.kind) in RULES:
        return f"{what} is built in: leave it out"
    if (each.api_version, each.kind) in kinds:
        return f"another plugin has {what} already: uninstall one of them"
    return ""


def _guarded(plugin: str, rule: Rule) -> Rule:
    """The rule, whose mistakes are told as those of the plugin, for the workload that they concern."""

    def call(case: GroupingCase) -> Draft:
        try:
            found: object = rule(case)
        except GroupingError:
            raise
        except _MISTAKES as error:
            text = f"the rule of the plugin {plugin} failed ({type(error).__name__}: {shown(str(error))})"
            raise GroupingError(case.owner.subject, "", f"{text}: ask who made it") from error
        if not isinstance(found, Draft):
            text = f"the rule of the plugin {plugin} returned {type(found).__name__} and not a Draft"
            raise GroupingError(case.owner.subject, "", f"{text}: ask who made it")
        return found

    return call
