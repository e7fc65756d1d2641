"""The settings in force: which of flags, kai-config and SchedulingShard count, and which cannot change while the
process runs.

The status observer hands both objects over. Invariant: ``config`` is always usable.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import structlog

from kai_sched.api import names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.paths import objects_path, only
from kai_sched.model.config import CLUSTER, POOL, Config
from kai_sched.model.field_errors import FieldError, Warn
from kai_sched.model.numa import PLUGIN
from kai_sched.model.read.config import config_from_operator, config_from_shard, pool_of_shard
from kai_sched.model.read.kinds import OPERATOR_CONFIG, SHARD, Kind, split_custom
from kai_sched.model.shards import Shards, shards_of
from kai_sched.operator.intake.object_head import read_name
from kai_sched.reconcile.admission.types import AdmissionSettings, admission_from_operator

log = structlog.get_logger("settings")

BACKOFF = Backoff(0.2, 10.0)
ReadConfig = Callable[[bytes, Config, Warn], Config]

# Objects are read with these fields, pods are grouped by them, and reservation pods are found by them, so that the
# devices of pods that run would look free: a change takes effect when the process is started again.
FIXED = ("scheduler_name", "queue_label", "node_pool_label", "group_bare_pods")
FIXED_POOL = "node_pool"  # of a process for one shard
FIXED_RESERVATION = ("namespace", "app_label")
FIXED_PLUGIN = "plugins.numa"


NO_CLUSTER = "cluster needs one process for all shards, so each node pool has its own: start it with --all-shards"


class LiveSettings:
    """For one event loop.

    Parameters
    ----------
    base
        The settings by flags.
    shard
        The SchedulingShard that is served; "": all of them.

    Attributes
    ----------
    config
        The settings of the process: those of its shard, or for all shards at once. An object with a mistake is ignored.
    shards
        The settings of each shard that is served, by name, in the order of names. Where all are served, one with a
        mistake keeps the settings that it had; one that had none is not served.
    admission
        The settings of the webhooks.
    problems
        The mistakes in each object that is there.
    reviews
        Set once kai-config has been read: from then on pods can be reviewed, by ``admission``.
    fixed
        Set once objects have been read with these settings: from then on the fields in FIXED, and where
        reservation pods are, do not change.
    """

    def __init__(self, base: Config, shard: str) -> None:
        self._base = base
        self._shard = shard
        self._operator: bytes | None = None
        self._own: dict[str, bytes] = {}  # by name of the shard
        self._readable: dict[str, bytes] = {}  # as each could be read last
        self.problems: dict[str, str] = {}
        self.config = replace(base, gpu_sharing=False)
        self.shards: Mapping[str, Config] = {shard: self.config}
        self.admission = self._admission = AdmissionSettings(scheduler_name=base.scheduler_name)
        self.reviews = self.fixed = False
        if not shard:
            self._derive()

    def current(self) -> Config:
        """Return the settings of the process that are in force."""
        return self.config

    def known(self) -> list[tuple[Kind, str]]:
        """Return the kinds and names of the objects that count."""
        config = [(OPERATOR_CONFIG, names.CONFIG_NAME)] if self._operator is not None else []
        return config + [(SHARD, name) for name in self._own]

    def observe(self, kind: Kind, name: str, raw: bytes | None) -> None:
        """The Config or SchedulingShard of this name is so now; None: it is gone."""
        if kind == OPERATOR_CONFIG and name == names.CONFIG_NAME:
            self._operator = raw
        elif kind == SHARD and self._shard in ("", name):
            if raw is None:
                self._own.pop(name, None)
                self._readable.pop(name, None)
            else:
                self._own[name] = raw
        else:
            return
        if raw is None:  # one that is made anew with the same mistake is told again
            what = f"{kind[1]} {name}"
            self.problems = {each: text for each, text in self.problems.items() if each.partition(",")[0] != what}
        self._derive()

    def _derive(self) -> None:
        before = self.config, self.shards
        config = self._base
        self._admission = AdmissionSettings(scheduler_name=self._base.scheduler_name)
        if self._operator is not None:
            config = self._changed(config, self._operator, f"Config {names.CONFIG_NAME}", self._read_operator)
        if self._shard:
            for raw in self._own.values():
                # With a mistake elsewhere it is still of its pool: else it would decide for the one of another process.
                own = self._read(config, raw, f"SchedulingShard {self._shard}", config_from_shard)
                config = own or replace(config, node_pool=pool_of_shard(raw) or config.node_pool)
            self.config = self._in_force(config)
            self.shards = {self._shard: self.config}
        else:
            found = self._all_shards(config)
            self.config = self._in_force(found.whole)
            self.shards = {name: self._of_shard(each) for name, each in found.configs.items()}
        # Webhooks look at it in other threads, so it is replaced once, by what is complete.
        self.admission = self._admission.with_names(self.config)
        if (self.config, self.shards) != before:
            pools = {name: each.node_pool for name, each in self.shards.items()}
            log.info("settings.changed", actions=self.config.actions, plugins=sorted(self.config.plugins), shards=pools)

    def _all_shards(self, base: Config) -> Shards:
        given: dict[str, Config] = {}
        for name, raw in sorted(self._own.items()):
            what = f"SchedulingShard {name}"
            found = self._read(base, raw, what, config_from_shard)
            if found is not None:
                given[name], self._readable[name] = found, raw
            elif name in self._readable:
                given[name] = config_from_shard(split_custom(self._readable[name], _ignore)[1], base, _ignore)
        label = given.get(names.DEFAULT_SHARD, base).node_pool_label
        if self.fixed:  # Which shards are served follows from the label in force.
            base = replace(base, node_pool_label=self.config.node_pool_label)
            given = {name: replace(each, node_pool_label=base.node_pool_label) for name, each in given.items()}
        shards = shards_of(base, given)
        shards = replace(shards, whole=replace(shards.whole, node_pool_label=label))
        for name in given:
            self._note(f"SchedulingShard {name}, of several", shards.problems.get(name, ""))
        return shards

    def _in_force(self, config: Config) -> Config:
        """The settings of the process; those that cannot change while it runs are kept."""
        if self.fixed:
            kept = _with_fixed(config, self.config, self._fixed_fields)
            moved = [field for field in self._fixed_fields if getattr(config, field) != getattr(kept, field)]
            moved += ["reservation"] if config.reservation != kept.reservation else []
            moved += [FIXED_PLUGIN] if config.plugins.get(PLUGIN) != kept.plugins.get(PLUGIN) else []
            if moved:
                log.warning(
                    "settings.need_restart", fields=moved, remedy="restart the scheduler for them to take effect"
                )
            config = kept
        if self._shard and config.fair_share == CLUSTER:
            self._note(f"Config {names.CONFIG_NAME}, spec.global.fairShare", NO_CLUSTER)
            config = replace(config, fair_share=POOL)
        # In a cluster somebody has to turn it on, as it needs rights that not all have given.
        return replace(config, gpu_sharing=config.gpu_sharing and self._admission.gpu_sharing)

    @property
    def _fixed_fields(self) -> tuple[str, ...]:
        return (*FIXED, FIXED_POOL) if self._shard else FIXED

    def _of_shard(self, config: Config) -> Config:
        """The settings of one of all shards, with those of the process in force."""
        has_numa, plugins = PLUGIN in config.plugins, config.plugins
        config = _with_fixed(config, self.config, self._fixed_fields)
        config = replace(config, gpu_sharing=self.config.gpu_sharing)
        return config if has_numa else replace(config, plugins=plugins)

    def _read_operator(self, raw: bytes, config: Config, warn: Warn) -> Config:
        config = config_from_operator(raw, config, warn)
        self._admission = admission_from_operator(raw)
        return config

    def _changed(self, config: Config, raw: bytes, what: str, read: ReadConfig) -> Config:
        found = self._read(config, raw, what, read)
        return config if found is None else found

    def _read(self, config: Config, raw: bytes, what: str, read: ReadConfig) -> Config | None:
        """The config as the object changes it; None for one with a mistake. Problems are told."""
        problems: list[str] = []
        found: Config | None = None

        def warn(field: str, message: str) -> None:
            problems.append(f"{field}: {message}")

        try:
            found = read(split_custom(raw, warn)[1], config, warn)
        except FieldError as error:
            problems.append(f"{error}; none of it is used")
        self._note(what, "; ".join(problems))
        return found

    def _note(self, what: str, text: str) -> None:
        """Log what is wrong with an object, once."""
        if text and text != self.problems.get(what):
            log.warning("settings.problem", object=what, problem=text)
        self.problems[what] = text


def _ignore(field: str, message: str) -> None:
    """What was told before is not told again."""


def _with_fixed(config: Config, since: Config, fields: tuple[str, ...]) -> Config:
    """``config`` with the settings of ``since`` that cannot change while the process runs."""
    own = {field: getattr(since.reservation, field) for field in FIXED_RESERVATION}
    if config.plugins.get(PLUGIN) != since.plugins.get(PLUGIN):
        plugins = {name: arguments for name, arguments in config.plugins.items() if name != PLUGIN}
        if PLUGIN in since.plugins:
            plugins[PLUGIN] = since.plugins[PLUGIN]
        config = replace(config, plugins=plugins)
    reservation = replace(config.reservation, **own)
    return replace(config, reservation=reservation, **{field: getattr(since, field) for field in fields})


class SettingsReader:
    """Reads the settings from the cluster, before any other object is read: first kai-config, then the shards.

    ``waits["settings"]`` is set to a function that says what it waits for.
    """

    def __init__(
        self, api: Api, settings: LiveSettings, waits: dict[str, Callable[[], str]], rng: random.Random
    ) -> None:
        self._api = api
        self._settings = settings
        self._waits = waits
        self._rng = rng

    async def read_config(self) -> None:
        """Return once the API server has answered."""
        await self._read(OPERATOR_CONFIG, "configs", names.CONFIG_NAME)
        self._settings.reviews = True

    async def read_shards(self, shard: str) -> None:
        """Return once the API server has answered; ``shard`` is as for ``LiveSettings``."""
        await self._read(SHARD, "schedulingshards", shard)
        self._settings.fixed = True

    async def _read(self, kind: Kind, plural: str, name: str) -> None:
        failures = 0
        while True:
            found: list[bytes] = []
            try:
                parts = self._api.list_pages(objects_path(kind[0], plural), only(name) if name else {})
                async for items, _ in parts:
                    found += map(bytes, items)
            except ApiFailure as failure:
                if failure.status != 404:
                    log.warning("settings.unknown", object=f"{plural}/{name}", problem=str(failure))
                    self._waits["settings"] = partial(str, failure)
                    failures += 1
                    await asyncio.sleep(BACKOFF.wait_s(failures, self._rng))
                    continue
            if not found and name:
                self._settings.observe(kind, name, None)
            for raw in found:
                self._settings.observe(kind, read_name(raw)[1], raw)
            return
