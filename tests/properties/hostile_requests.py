"""What is sent to the API server, seen where it arrives: the real client and writers before a server that notes."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from kai_sched.cluster.client import Api
from kai_sched.cluster.login import Credentials
from kai_sched.cluster.pod_binder import PodBinder
from kai_sched.cluster.pod_deleter import PodDeleter
from kai_sched.cluster.status_writer import StatusWriter
from kai_sched.cluster.volume_binder import VolumeBinder
from kai_sched.cluster.work_queue import FifoQueue
from kai_sched.cluster.write_queue import WriteQueue
from kai_sched.plan.effects import Bind, Evict, Write
from kai_sched.plan.receipts import receipt
from kai_sched.plan.result import CycleResult
from kai_sched.reconcile.eviction_notices import plan_writes, plans_of, victim_writes
from tests.properties.hostile_world import NOW_NS, World

_SEGMENT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?")
_QUERIES = re.compile(r"(limit=\d+(&continue=\w+)?)?")
PARTS_MAX = 10


class _NoLogin:
    in_cluster = False


class _Observer:
    """Has nothing against any bind or eviction, and does not mind how it ends."""

    def check(self, _: Bind | Evict) -> str:
        return ""

    def bound(self, *_: object) -> None:
        pass

    failed = ended = bound


class Recorder:
    """An API server that takes everything, with an event loop of its own. ``seen``: verb and target of each request,
    or the bytes of what is no request. ``answers`` and ``refused``: bodies, and statuses, by the end of the path."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.seen: list[tuple[str, str]] = []
        self.answers: dict[str, object] = {}
        self.refused: dict[str, int] = {}
        self._server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.api = self.loop.run_until_complete(self._connect())

    async def _connect(self) -> Api:
        port = self._server.sockets[0].getsockname()[1]
        credentials = Credentials(
            f"http://127.0.0.1:{port}", None, False, None, None, "Bearer", "token", None, None, ()
        )
        return Api(_NoLogin(), credentials, 8)  # type: ignore[arg-type]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"^Content-Length: (\d+)\r$", head, re.IGNORECASE | re.MULTILINE)
                body = await reader.readexactly(int(length[1])) if length else b""
                verb, _, rest = head.split("\r\n", 1)[0].partition(" ")
                self.seen.append((verb, rest.rpartition(" ")[0]))
                answer = self._answer(verb, rest.rpartition(" ")[0], body)
                refused = [self.refused[end] for end in self.refused if rest.rpartition(" ")[0].endswith(end)]
                writer.write(b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\n" % (*refused, 200)[0])
                writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(answer), answer))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, verb: str, target: str, body: bytes) -> bytes:
        for end, content in self.answers.items():
            if target.partition("?")[0].endswith(end):
                return json.dumps(content).encode()
        found = json.loads(body) if body and verb in ("POST", "PUT") else {}
        found = found if isinstance(found, dict) else {}
        meta = {**(found.get("metadata") or {}), "resourceVersion": str(10**6 + len(self.seen))}
        return json.dumps({**found, "metadata": meta}).encode()

    def close(self) -> None:
        """End it, and its connections."""

        async def end() -> None:
            await self.api.close()
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.loop.run_until_complete(end())
        self.loop.close()

    def carry_out(self, world: World, result: CycleResult, writes: Sequence[Write]) -> list[str]:
        """Send all that the cycle wants: binds with their volumes, evictions, and what people are told.

        Returns what is wrong with the requests that came, and those for sane pods that did not."""
        self.seen.clear()
        return self.loop.run_until_complete(self._carry_out(world, result, writes))

    async def _carry_out(self, world: World, result: CycleResult, writes: Sequence[Write]) -> list[str]:
        cluster, chance = world.store.cluster(), random.Random(1)
        binds: FifoQueue[Bind] = FifoQueue()
        evictions: FifoQueue[Evict] = FifoQueue()
        queue = WriteQueue(lambda *_: None)
        now_ns = lambda: NOW_NS  # noqa: E731 - what is called wants a function
        observer = _Observer()
        binder = PodBinder(self.api, binds, observer, chance)
        evicter = PodDeleter(self.api, evictions, observer, receipt, now_ns, chance, mark=True)
        writer = StatusWriter(self.api, queue, "kai-scheduler", lambda: False, now_ns, lambda _: "1", chance)
        changed, store = asyncio.Event(), world.store
        volumes = VolumeBinder(
            self.api, store, changed, chance, binder.submit, observer.failed, lambda _: "1", timeout_s=0.01
        )
        parts = [asyncio.create_task(each.run()) for each in (binder, evicter, writer)]
        also: list[asyncio.Task[None]] = []
        try:
            plans = plans_of(result.effects, cluster)
            for plan in plans:
                queue.submit(plan_writes(plan, cluster, NOW_NS))
                for eviction in plan.evictions:
                    queue.submit(victim_writes(eviction, plan, cluster))
            volumes.submit([each for each in result.effects if isinstance(each, Bind)], cluster)
            evictions.submit([each for each in result.effects if isinstance(each, Evict)])
            queue.submit(writes)
            await asyncio.sleep(0)
            for each in (binder, evicter, writer):
                waiting = asyncio.create_task(each.drained())
                also.append(waiting)
                done, _ = await asyncio.wait([waiting, *parts], timeout=10, return_when=asyncio.FIRST_COMPLETED)
                for part in done - {waiting}:
                    part.result()  # a part that has ended did so by an exception
                assert waiting in done, f"{type(each).__name__} has not ended"
        finally:
            await volumes.stop()
            for part in (*parts, *also):
                part.cancel()
            await asyncio.gather(*parts, *also, return_exceptions=True)
        return illegal(self.seen) + missing(self.seen, result)


def illegal(seen: Iterable[tuple[str, str]]) -> list[str]:
    """The requests whose path is not made of names that objects and kinds can have."""
    found = []
    for verb, target in seen:
        path, _, query = target.partition("?")
        segments = path.removeprefix("/").split("/")
        legal = all(_SEGMENT.fullmatch(segment) and ".." not in unquote(segment) for segment in segments)
        ours = path == "/apis" or path.startswith(("/api/", "/apis/"))
        if not (ours and legal and _QUERIES.fullmatch(query)):
            found.append(f"{verb} {target[:200]!r}")
        elif len(segments) > PARTS_MAX:
            found.append(f"{verb} {target[:200]!r} has too many parts")
    return found


def missing(seen: Iterable[tuple[str, str]], result: CycleResult) -> list[str]:
    """The binds and evictions of sane pods that did not come."""
    wanted = set()
    for effect in result.effects:
        space, _, name = effect.pod.partition("/")
        path = f"/api/v1/namespaces/{space}/pods/{name}"
        if space == "sane" and isinstance(effect, Bind):
            wanted.add(("POST", f"{path}/binding"))
        elif space == "sane" and isinstance(effect, Evict):
            wanted.add(("DELETE", path))
    return [f"no {verb} {path}" for verb, path in sorted(wanted - set(seen))]
