"""Which settings, priority classes, topologies and ConfigMap of kinds apply to the rules of grouping now, and when the
ConfigMap is read again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from kai_sched.cluster.client import Api
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import object_path
from kai_sched.model.config import Config
from kai_sched.model.keys import split_key
from kai_sched.model.objects import PriorityClass, Topology
from kai_sched.model.read.kinds import Kind
from kai_sched.model.store import Store
from kai_sched.operator.intake.event_sink import EventSink
from kai_sched.reconcile.grouping.settings import GroupingSettings, KindDefaults, KindRules, read_kinds
from kai_sched.workload_kinds import installed_kinds

CONFIG_MAP: Kind = ("v1", "ConfigMap")

log = structlog.get_logger("grouping")


class _ConfigMapData(msgspec.Struct):
    data: dict[str, str] | None = None


_decode_config_map = msgspec.json.Decoder(_ConfigMapData).decode


class RuleSettings:
    """For one event loop. The ConfigMap is read again when its version has changed.

    What is wrong with workload kinds of other packages is logged once.

    Parameters
    ----------
    api
        The client of the API server.
    store
        Has the priority classes and topologies.
    sink
        Knows the version of the ConfigMap.
    config
        Returns the settings in force.
    """

    def __init__(self, api: Api, store: Store, sink: EventSink, config: Callable[[], Config]) -> None:
        self._api = api
        self._store = store
        self._sink = sink
        self._config = config
        plugins = installed_kinds()
        self._plugins = plugins.rules
        for fault in plugins.faults:
            log.warning("plugin.problem", plugin=fault.plugin, problem=fault.message)
        if plugins.kinds:
            log.info("plugin.kinds", kinds=[f"{kind} ({version})" for version, kind in plugins.kinds])
        self._kinds: tuple[str, KindDefaults, KindRules] = ("", {}, {})  # and the version that they are of

    async def current(self) -> GroupingSettings:
        """Return the settings of now. Raises ApiFailure if the ConfigMap cannot be read."""
        config = self._config()
        key = config.kinds_config_map
        version = f"{key}@{self._sink.known(CONFIG_MAP).get(key, '')}" if key else ""
        if version != self._kinds[0]:
            self._kinds = (version, *await self._read_kinds(key))
        topologies = {name: each.levels for name, each in self._store.all(Topology).items()}
        classes = self._store.all(PriorityClass).keys()
        return GroupingSettings(config, classes, *self._kinds[1:], self._plugins, topologies)

    async def _read_kinds(self, key: str) -> tuple[KindDefaults, KindRules]:
        if key not in self._sink.known(CONFIG_MAP):
            return {}, {}
        namespace, name = split_key(key)
        path = object_path("v1", "configmaps", namespace, name)
        data = read(_decode_config_map, await self._api.request("GET", path), path, "the ConfigMap of the kinds").data
        defaults, rules, notes = read_kinds(data or {}, f"ConfigMap {key}")
        for note in notes:
            log.warning("kinds.problem", object=note.subject, field=note.field, problem=note.message)
        return defaults, rules
