"""The PodGrouper: looks at the owners of pods, decides their groups by the rules, and writes groups and pods.

``Groups`` says what to look at and what to write. Both wait in queues; what fails comes again, 1 s later, doubling to
60 s. Only the replica that leads looks and writes. Decisions count at once; what is written goes behind the binds.
Cycles begin to act once all workloads that were there at the start have been looked at: with some of them still held
back, the first cycle would give the room to whoever was looked at first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
import structlog

from kai_sched.api import core, names
from kai_sched.cluster.client import NOT_LEADER, Api, ApiFailure
from kai_sched.cluster.failure import read
from kai_sched.cluster.grouping import create_group, get_group, mark_pod, replace_group
from kai_sched.cluster.owners import OwnerReader
from kai_sched.cluster.paths import object_path
from kai_sched.cluster.turns import Turn
from kai_sched.model.config import Config
from kai_sched.model.keys import group_key, split_key
from kai_sched.model.objects import PriorityClass
from kai_sched.model.read import POD, POD_GROUP, Kind
from kai_sched.model.store import Store
from kai_sched.operator.ahead import look_ahead
from kai_sched.operator.feed import Feed
from kai_sched.operator.look import Known, Look, Missing
from kai_sched.operator.loop import Clock
from kai_sched.operator.members import key_of
from kai_sched.operator.workqueue import WorkQueue
from kai_sched.plan.effects import Emit, Ref
from kai_sched.reconcile import events
from kai_sched.reconcile.grouping.faults import GroupingError, OwnerGone
from kai_sched.reconcile.grouping.manifest import Grouping
from kai_sched.reconcile.grouping.owners import Chain, Owner, Reference, is_spark, resolve
from kai_sched.reconcile.grouping.registry import group_of
from kai_sched.reconcile.grouping.settings import KindDefaults, KindRules, Settings, read_kinds
from kai_sched.reconcile.owner_keeper import Owners
from kai_sched.telemetry.faults import FAULTS

log = structlog.get_logger("grouping")

AHEAD_S = 2.5  # for looking up many owners at a time, before each is looked up alone
FIRST_LOOKS_S = 5.0  # then cycles begin to act, whatever is left to look at
LOOKERS = 8
WRITERS = 32
BUSY_PAUSE_S = 0.02
FRESH_S = 1.0  # what is known of an owner counts for so long; then it is looked at again
REVIEW_S = 30.0  # sizes may change without a pod telling: so often the owners of waiting pods are looked at,
REVIEWED_PER_SECOND = 20  # but no more of them
PROBLEMS_MAX = 10_000  # remembered, so that each is told once
BATCH = 20  # pods decided before others get their turn
CONFIG_MAP: Kind = ("v1", "ConfigMap")
_DELAY_AFTER_CONFLICT_S = 0.05
GONE_S = 10.0  # pods whose owner was deleted are given so long to go themselves, before their people are warned


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


_decode_config_map = msgspec.json.Decoder(_ConfigMap).decode


class Grouper:
    """For one event loop. ``busy`` says that binds wait, ``emit`` takes events."""

    def __init__(
        self,
        api: Api,
        store: Store,
        feed: Feed,
        config: Callable[[], Config],
        keeper: Owners,
        emit: Callable[[Iterable[Emit]], None],
        busy: Callable[[], bool],
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._api = api
        self._store = store
        self._feed = feed
        self._groups = feed.groups
        self._config = config
        self._keeper = keeper
        self._emit = emit
        self._busy = busy
        self._clock = clock
        self._chance = chance
        self._owners = OwnerReader(api, clock.monotonic)
        self._looks: WorkQueue[str] = WorkQueue(chance, patient=False)
        self._writes: WorkQueue[tuple[Kind, str]] = WorkQueue(chance, patient=True)
        self._asked_s: dict[str, float] = {}  # when a look at this source was asked for
        self._known: dict[Reference, Known] = {}
        self._whole: set[tuple[str, str]] = set()  # kinds whose objects were needed whole
        self._problems: dict[str, str] = {}  # told of, by uid
        self._gone_s: dict[str, float] = {}  # since when the owner is missing, by source
        self._kinds: tuple[str, KindDefaults, KindRules] = ("", {}, {})
        self.is_caught_up = False  # what was there when this replica began to lead has been looked at

    @property
    def pending(self) -> int:
        """What is to be looked at or written, and does not wait for its time."""
        return self._looks.pending + self._writes.pending

    async def _lead(self) -> None:
        """From now on look and write: at all that is there, as nobody may have done so for a while."""
        self._groups.look, self._groups.left = self._ask, self._keeper.forget
        self._groups.write = lambda kind, key: self._writes.add((kind, key))
        turn = Turn()
        for source in list(self._groups.sources()):
            self._ask(source)
            await turn.pause()

    def _ask(self, source: str, delay_s: float = 0.0) -> None:
        self._asked_s[source] = self._clock.monotonic() + delay_s
        self._looks.add(source, delay_s)

    async def run(self, caught_up: Callable[[], None]) -> None:
        """Until cancelled, from when this replica leads on. ``caught_up`` is called once, when cycles may act."""
        await self._lead()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._catch_up(caught_up))
            for number in range(WRITERS):
                tasks.create_task(self._work_writes(steady=number == 0))
            await self._look_ahead()
            for _ in range(LOOKERS):
                tasks.create_task(self._work_looks())
            tasks.create_task(self._review())

    async def _look_ahead(self) -> None:
        try:
            async with asyncio.timeout(AHEAD_S):
                await look_ahead(self._owners, self._groups.owners(), self._known, self._clock.monotonic)
        except TimeoutError:
            pass
        except Exception as error:
            FAULTS.note("grouper", "owners", error)  # they are looked up one by one then

    async def _catch_up(self, caught_up: Callable[[], None]) -> None:
        end_s = self._clock.monotonic() + FIRST_LOOKS_S
        while (late := self._looks.pending) and self._clock.monotonic() < end_s:  # noqa: ASYNC110 - as with busy
            await asyncio.sleep(BUSY_PAUSE_S)
        if late:
            log.warning("grouping.late", sources=late, seconds=FIRST_LOOKS_S)
        self.is_caught_up = True
        caught_up()

    async def _review(self) -> None:
        period_s = REVIEW_S
        while True:
            await asyncio.sleep(period_s)
            self._forget_old()
            sources = self._groups.waiting()
            period_s = max(REVIEW_S, len(sources) / REVIEWED_PER_SECOND)
            turn = Turn()
            for source in sources:
                self._ask(source, self._chance.uniform(0.001, period_s))
                await turn.pause()

    # Looking

    async def _work_looks(self) -> None:
        while True:
            source = await self._looks.take()
            try:
                is_done = await self._look(source)
            except ApiFailure as failure:
                log.warning("owner.unknown", problem=str(failure))
                is_done = False
            except Exception as error:
                FAULTS.note("grouper", source, error)
                is_done = False
            if is_done:
                self._looks.done(source)
            else:
                self._looks.failed(source)

    async def _look(self, source: str) -> bool:
        """Decide the pods of the source; whether all could be. Raises ApiFailure."""
        settings = await self._settings()
        self._forget_old()
        asked_s = self._asked_s.pop(source, self._clock.monotonic())
        known = {} if source in self._groups.doubtful else self._known
        self._groups.doubtful.discard(source)
        pods = self._groups.pods_of(source)
        look = Look(self._store, self._groups, known, asked_s)
        failed: dict[str, GroupingError] = {}
        unknown: ApiFailure | None = None
        for number, (key, pod) in enumerate(pods.items()):
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
            try:
                found = await self._place(pod, look, settings)
                self._groups.decided(source, pod, None if found is None else found[1])
                self._tell_notes(pod, found)
            except GroupingError as error:
                failed[key] = error
            except ApiFailure as failure:
                unknown = failure  # whoever names another owner of the same uid need not wait for that one
            except Exception as error:
                failed[key] = GroupingError(f"Pod {key}", "", FAULTS.note("grouper", f"Pod {key}", error))
        if unknown is not None:
            raise unknown
        if look.is_old:
            # What has changed since does not count yet.
            self._ask(source, 0.0 if failed else FRESH_S)
            if failed:
                self._groups.doubtful.add(source)
            return True
        stuck = {key for key in failed if self._groups.staying(source, pods[key]) is not None}
        self._tell_failed(source, {key: (pods[key], failed[key]) for key in failed if key in stuck})
        self._groups.settled(source, {key: pod for key, pod in pods.items() if key not in stuck})
        return not stuck

    async def _place(self, pod: core.WirePod, look: Look, settings: Settings) -> tuple[Chain, Grouping] | None:
        """The owners and the group of the pod; None where it is to have none. Raises GroupingError, ApiFailure."""
        while True:
            try:
                chain = resolve(pod, look.fetch)
                if chain.skips or not (chain.owners or is_spark(pod)):
                    return None
                return chain, group_of(pod, chain, look, settings)
            except Missing as missing:
                await self._get(missing.reference, look)

    async def _get(self, reference: Reference, look: Look) -> None:
        kind = reference.api_version, reference.kind
        if reference.whole:
            self._whole.add(kind)
        wanted = replace(reference, whole=kind in self._whole)
        if wanted in look.lost:
            raise look.lost[wanted]
        at_s = self._clock.monotonic()
        try:
            known = Known(await self._owners.fetch(wanted), True, at_s)
        except PermissionError:
            known = Known(None, False, at_s)
        except ApiFailure as failure:
            look.lost[wanted] = failure
            raise
        self._known.pop(wanted, None)
        look.found[wanted] = self._known[wanted] = known

    def _forget_old(self) -> None:
        """Those that were got first stand first. None before the first looks are over, which may take a while."""
        if not self.is_caught_up:
            return
        end_s = self._clock.monotonic() - FRESH_S
        for reference in list(self._known):
            if self._known[reference].at_s > end_s:
                break
            del self._known[reference]

    async def _settings(self) -> Settings:
        """What rules go by. Raises ApiFailure where the ConfigMap of the kinds cannot be read."""
        config = self._config()
        key = config.kinds_config_map
        version = f"{key}@{self._feed.known(CONFIG_MAP).get(key, '')}" if key else ""
        if version != self._kinds[0]:
            self._kinds = (version, *await self._read_kinds(key))
        return Settings(config, self._store.all(PriorityClass).keys(), *self._kinds[1:])

    async def _read_kinds(self, key: str) -> tuple[KindDefaults, KindRules]:
        if key not in self._feed.known(CONFIG_MAP):
            return {}, {}
        namespace, name = split_key(key)
        path = object_path("v1", "configmaps", namespace, name)
        data = read(_decode_config_map, await self._api.request("GET", path), path, "the ConfigMap of the kinds").data
        defaults, rules, notes = read_kinds(data or {}, f"ConfigMap {key}")
        for note in notes:
            log.warning("kinds.problem", object=note.subject, field=note.field, problem=note.message)
        return defaults, rules

    # Telling

    def _tell_notes(self, pod: core.WirePod, found: tuple[Chain, Grouping] | None) -> None:
        meta = pod.metadata or core.Meta()
        self._problems.pop(meta.uid or "", None)
        if found is None:
            return
        chain, grouping = found
        owner = _ref(chain.owners[-1]) if chain.owners else _pod_ref(key_of(pod), meta.uid or "")
        group = group_key(owner.namespace, grouping.name)
        if self._groups.has(group):  # else its pods went while this was found out
            self._keeper.observe(group, owner, grouping.queue)
        if grouping.notes:
            text = "; ".join(f"{note.subject}: {note.field}: {note.message}" for note in grouping.notes)
            self._tell(owner, text)

    def _tell_failed(self, source: str, failed: dict[str, tuple[core.WirePod, GroupingError]]) -> None:
        """Tell pods why they have no place; where their owner is gone, only once they had the time to go, too."""
        now_s = self._clock.monotonic()
        if any(isinstance(error, OwnerGone) for _, error in failed.values()):
            end_s = self._gone_s.setdefault(source, now_s) + GONE_S
            is_early = now_s < end_s
            if is_early:
                self._looks.add(source, end_s - now_s)
        else:
            is_early = False
            self._gone_s.pop(source, None)
        for pod, error in failed.values():
            told = self._groups.staying(source, pod)
            if told is not None and not (is_early and isinstance(error, OwnerGone)):
                self._tell(_pod_ref(*told), str(error))

    def _tell(self, ref: Ref, text: str) -> None:
        text = events.cut(text)
        if self._problems.get(ref.uid) != text:
            if len(self._problems) >= PROBLEMS_MAX:
                self._problems.clear()
            self._problems[ref.uid] = text
            log.warning("grouping.problem", object=f"{ref.kind} {ref.key}", problem=text)
            self._emit([events.emit(ref, names.WARNING, names.GROUPER_WARNING, text)])

    # Writing

    async def _work_writes(self, *, steady: bool) -> None:
        while True:
            kind, key = item = await self._writes.take()
            while not steady and self._busy():  # noqa: ASYNC110 - who is busy tells nobody when it ends
                await asyncio.sleep(BUSY_PAUSE_S)
            try:
                await (self._write_group(key) if kind == POD_GROUP else self._write_pod(key))
            except ApiFailure as failure:
                await self._write_failed(kind, key, failure)
            except Exception as error:
                FAULTS.note("grouper", f"{kind[1]} {key}", error)
                self._writes.failed(item)
            else:
                self._writes.done(item)

    async def _write_group(self, key: str) -> None:
        found = self._groups.group_write(key)
        if found is None:
            return
        is_there, body = found
        write = replace_group if is_there else create_group
        self._feed.changed(POD_GROUP, await write(self._api, key, body))

    async def _write_pod(self, key: str) -> None:
        metadata = self._groups.pod_write(key)
        if metadata is not None:
            self._groups.pod_written(key, metadata, await mark_pod(self._api, key, metadata))

    async def _write_failed(self, kind: Kind, key: str, failure: ApiFailure) -> None:
        item = (kind, key)
        if failure.reason == NOT_LEADER or (kind == POD and failure.status in (404, 409)):
            self._writes.done(item)  # the pod is gone
            return
        if failure.status == 409:
            before = self._feed.known(POD_GROUP).get(key)
            await self._see(key)
            if self._feed.known(POD_GROUP).get(key) != before:
                self._writes.done(item)
                self._writes.add(item, _DELAY_AFTER_CONFLICT_S)
                return
        wait_s = self._writes.failed(item)
        log.warning("grouping.write_failed", kind=kind[1], object=key, problem=str(failure), retry_s=round(wait_s, 1))
        if not 400 <= failure.status < 500 or failure.is_missing_right:
            return  # nothing that the object's people could mend
        uid = self._groups.uid_of(key) if kind == POD else ""
        ref = _pod_ref(key, uid) if uid else self._keeper.owner_of(key)
        if ref is not None:
            self._tell(ref, f"{kind[1]} {key} cannot be written: {failure.message}")

    async def _see(self, key: str) -> None:
        """Have a look at a PodGroup that somebody else has written."""
        try:
            self._feed.changed(POD_GROUP, await get_group(self._api, key))
        except ApiFailure as failure:
            log.info("group.unseen", group=key, problem=str(failure))


def _ref(owner: Owner) -> Ref:
    return Ref(owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid)


def _pod_ref(key: str, uid: str) -> Ref:
    namespace, name = split_key(key)
    return Ref("v1", "Pod", namespace, name, uid)
