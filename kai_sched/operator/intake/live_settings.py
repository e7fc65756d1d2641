"""The settings in force: which of flags, kai-config and SchedulingShard count, and which cannot change while the
process runs.

The status observer hands both objects over. Invariant: ``config`` is always usable.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog

from kai_sched.api import names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.paths import objects_path, only
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, Warn
from kai_sched.model.numa import PLUGIN
from kai_sched.model.read.config import config_from_operator, config_from_shard
from kai_sched.model.read.kinds import OPERATOR_CONFIG, SHARD, Kind, split_custom
from kai_sched.reconcile.admission.types import AdmissionSettings, admission_from_operator

log = structlog.get_logger("settings")

BACKOFF = Backoff(0.2, 10.0)
ReadConfig = Callable[[bytes, Config, Warn], Config]

# Objects are read with these fields, pods are grouped by them, and reservation pods are found by them, so that the
# devices of pods that run would look free: a change takes effect when the process is started again.
FIXED = ("scheduler_name", "queue_label", "node_pool_label", "node_pool", "group_bare_pods")
FIXED_RESERVATION = ("namespace", "app_label")
FIXED_PLUGIN = "plugins.numa"


class LiveSettings:
    """For one event loop.

    Attributes
    ----------
    config
        The settings of scheduling. An object with a mistake is ignored.
    admission
        The settings of the webhooks.
    problems
        The mistakes in each object.
    fixed
        Set once objects have been read with these settings: from then on the fields in FIXED, and where
        reservation pods are, do not change.
    """

    def __init__(self, base: Config, shard: str) -> None:
        self._base = base
        self._shard = shard
        self._operator: bytes | None = None
        self._own: bytes | None = None
        self.problems: dict[str, str] = {}
        self.config = replace(base, gpu_sharing=False)
        self.admission = AdmissionSettings(scheduler_name=base.scheduler_name)
        self.fixed = False

    def current(self) -> Config:
        """Return the settings in force."""
        return self.config

    def observe(self, kind: Kind, name: str, raw: bytes | None) -> None:
        """The Config or SchedulingShard of this name is so now; None: it is gone."""
        if kind == OPERATOR_CONFIG and name == names.CONFIG_NAME:
            self._operator = raw
        elif kind == SHARD and name == self._shard:
            self._own = raw
        else:
            return
        self._derive()

    def _derive(self) -> None:
        config = self._base
        self.admission = AdmissionSettings(scheduler_name=self._base.scheduler_name)
        if self._operator is not None:
            config = self._changed(config, self._operator, f"Config {names.CONFIG_NAME}", self._read_operator)
        if self._own is not None:
            config = self._changed(config, self._own, f"SchedulingShard {self._shard}", config_from_shard)
        if self.fixed:
            kept = _with_fixed(config, self.config)
            moved = [field for field in FIXED if getattr(config, field) != getattr(kept, field)]
            moved += ["reservation"] if config.reservation != kept.reservation else []
            moved += [FIXED_PLUGIN] if config.plugins.get(PLUGIN) != kept.plugins.get(PLUGIN) else []
            if moved:
                log.warning(
                    "settings.need_restart", fields=moved, remedy="restart the scheduler for them to take effect"
                )
            config = kept
        # In a cluster somebody has to turn it on, as it needs rights that not all have given.
        config = replace(config, gpu_sharing=config.gpu_sharing and self.admission.gpu_sharing)
        self.admission = self.admission.with_names(config)
        if config != self.config:
            log.info("settings.changed", actions=config.actions, plugins=sorted(config.plugins))
            self.config = config

    def _read_operator(self, raw: bytes, config: Config, warn: Warn) -> Config:
        config = config_from_operator(raw, config, warn)
        self.admission = admission_from_operator(raw)
        return config

    def _changed(self, config: Config, raw: bytes, what: str, read: ReadConfig) -> Config:
        problems: list[str] = []

        def warn(field: str, message: str) -> None:
            problems.append(f"{field}: {message}")

        try:
            config = read(split_custom(raw, warn)[1], config, warn)
        except FieldError as error:
            problems.append(f"{error}; none of it is used")
        text = "; ".join(problems)
        if text and text != self.problems.get(what):
            log.warning("settings.problem", object=what, problem=text)
        self.problems[what] = text
        return config


def _with_fixed(config: Config, since: Config) -> Config:
    """``config`` with the settings of ``since`` that cannot change while the process runs."""
    own = {field: getattr(since.reservation, field) for field in FIXED_RESERVATION}
    if config.plugins.get(PLUGIN) != since.plugins.get(PLUGIN):
        plugins = {name: arguments for name, arguments in config.plugins.items() if name != PLUGIN}
        if PLUGIN in since.plugins:
            plugins[PLUGIN] = since.plugins[PLUGIN]
        config = replace(config, plugins=plugins)
    reservation = replace(config.reservation, **own)
    return replace(config, reservation=reservation, **{field: getattr(since, field) for field in FIXED})


async def read_settings(
    api: Api, settings: LiveSettings, shard: str, waits: dict[str, Callable[[], str]], rng: random.Random
) -> None:
    """Read the settings from the cluster, before any other object is read. Return once the API server has answered.

    ``waits["settings"]`` is set to a function that says what it waits for.
    """
    wanted = ((OPERATOR_CONFIG, "configs", names.CONFIG_NAME), (SHARD, "schedulingshards", shard))
    for kind, plural, name in wanted:
        failures = 0
        while True:
            found: list[bytes] = []
            try:
                parts = api.list_pages(objects_path(kind[0], plural), only(name))
                async for items, _ in parts:
                    found += map(bytes, items)
            except ApiFailure as failure:
                if failure.status != 404:
                    log.warning("settings.unknown", object=f"{plural}/{name}", problem=str(failure))
                    waits["settings"] = partial(str, failure)
                    failures += 1
                    await asyncio.sleep(BACKOFF.wait_s(failures, rng))
                    continue
            settings.observe(kind, name, found[0] if found else None)
            break
    settings.fixed = True
