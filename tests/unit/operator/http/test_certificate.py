"""The manager of the certificate: one Secret for all replicas, trusted before it is shown, renewed in time."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from kai_sched.cluster.client import ApiFailure
from kai_sched.operator.http.authority import RENEW_AFTER, VALIDITY, Pair, problem
from kai_sched.operator.http.certificate import SETTLE, CertificateManager
from tests.unit.operator.grouped import until
from tests.unit.operator.secrets import ADMISSION, NAMESPACE, PODS, QUEUES, SECRET, SECRETS, Server, failure, webhook

START = datetime(2026, 3, 1, tzinfo=UTC)
HOST = "kai-sched-webhook.kai-scheduler.svc"
MATCH = "has(object.spec.schedulerName) && object.spec.schedulerName == 'kai-scheduler'"


class Replica:
    """A manager with a clock of its own, and what it was told to show, in order."""

    def __init__(self, server: Server, now: datetime = START) -> None:
        self.now = now
        self.shown: list[Pair] = []
        self.manager = CertificateManager(server.api(), NAMESPACE, lambda: self.now, self.shown.append)


def cluster(**objects: dict[str, Any]) -> Server:
    """A server with two of the four configurations, and more or others by their path."""
    configurations = {
        QUEUES: {"webhooks": [webhook("queue-validation.kai.scheduler")]},
        PODS: {"webhooks": [webhook("admission.kai-scheduler.svc")]},
    }
    return Server({**configurations, **objects})


async def test_the_first_replica_makes_the_secret_and_has_it_trusted() -> None:
    server = cluster()
    replica = Replica(server)
    await replica.manager.sync()
    (pair,) = replica.shown
    assert pair == server.pair()
    assert problem(pair, HOST, START) == ""
    assert server.objects[SECRET]["type"] == "kubernetes.io/tls"
    assert server.bundles(QUEUES) == {"queue-validation.kai.scheduler": pair.authorities}
    assert server.bundles(PODS) == {"admission.kai-scheduler.svc": pair.authorities}


async def test_writes_do_not_depend_on_being_the_leader() -> None:
    server = cluster()
    await Replica(server).manager.sync()
    assert server.guarded == [False, False, False]


async def test_the_second_replica_shows_the_same() -> None:
    server = cluster()
    first, second = Replica(server), Replica(server)
    await first.manager.sync()
    await second.manager.sync()
    assert first.shown == second.shown


async def test_whoever_loses_the_race_takes_what_the_winner_made() -> None:
    server = cluster()
    winner = Server({})

    def overtake(method: str, path: str) -> None:
        if (method, path) == ("POST", SECRETS) and SECRET not in server.objects:
            server.put(SECRET, winner.objects[SECRET])

    await Replica(winner).manager.sync()
    theirs = winner.pair()
    server.before = overtake
    loser = Replica(server)
    await loser.manager.sync()
    assert server.pair() == theirs
    assert loser.shown == [theirs]


async def test_a_second_look_without_news_writes_and_shows_nothing() -> None:
    server = cluster()
    replica = Replica(server)
    await replica.manager.sync()
    server.requests.clear()
    replica.now += timedelta(days=1)
    await replica.manager.sync()
    assert {method for method, _ in server.requests} == {"GET"}
    assert len(replica.shown) == 1


async def test_it_is_renewed_in_time_and_the_old_one_stays_trusted() -> None:
    server = cluster()
    replica = Replica(server)
    await replica.manager.sync()
    old = server.pair()
    replica.now += RENEW_AFTER - timedelta(minutes=1)
    await replica.manager.sync()
    assert server.pair() == old
    replica.now += timedelta(minutes=1)
    await replica.manager.sync()
    new = server.pair()
    assert new.certificate != old.certificate
    assert new.authorities.endswith(old.authorities)
    assert server.bundles(QUEUES) == {"queue-validation.kai.scheduler": new.authorities}


async def test_a_new_certificate_is_shown_once_all_have_heard_of_its_authority() -> None:
    server = cluster()
    first, second = Replica(server), Replica(server)
    await first.manager.sync()
    await second.manager.sync()
    first.now = second.now = START + RENEW_AFTER
    await first.manager.sync()
    await second.manager.sync()
    assert (len(first.shown), len(second.shown)) == (1, 1)
    first.now = second.now = START + RENEW_AFTER + SETTLE
    await first.manager.sync()
    await second.manager.sync()
    assert first.shown[1:] == second.shown[1:] == [server.pair()]


async def test_a_replica_that_cannot_have_it_trusted_goes_on_with_the_old_one() -> None:
    server = cluster()
    replica = Replica(server)
    await replica.manager.sync()

    def forbid(method: str, path: str) -> None:
        if method == "PATCH":
            raise failure(method, path, 403, "Forbidden")

    server.before = forbid
    for moment in (RENEW_AFTER, RENEW_AFTER + SETTLE):
        replica.now = START + moment
        with pytest.raises(ApiFailure, match="403"):
            await replica.manager.sync()
    assert len(replica.shown) == 1
    replica.now = START + VALIDITY
    with pytest.raises(ApiFailure, match="403"):
        await replica.manager.sync()
    assert replica.shown[1:] == [server.pair()], "what has ended is worse than what is not trusted"


async def test_without_trust_the_first_one_is_shown_and_the_failure_told() -> None:
    server = cluster()

    def forbid(method: str, path: str) -> None:
        if path.startswith(ADMISSION):
            raise failure(method, path, 403, "Forbidden")

    server.before = forbid
    replica = Replica(server)
    with pytest.raises(ApiFailure, match="403"):
        await replica.manager.sync()
    assert replica.shown == [server.pair()]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"tls.crt": "?", "tls.key": "", "ca.crt": ""},
        {"tls.crt": "c2VjcmV0", "tls.key": "c2VjcmV0", "ca.crt": "c2VjcmV0"},
        {"tls.crt": "c2VjcmV0", "tls.key": "c2VjcmV0"},
    ],
)
async def test_a_secret_that_is_no_good_is_written_anew_and_keeps_its_type(data: dict[str, str] | None) -> None:
    server = cluster()
    server.put(SECRET, {"metadata": {"name": "kai-sched-webhook-tls", "labels": {"a": "b"}}, "type": "Opaque"})
    if data is not None:
        server.put(SECRET, {**server.objects[SECRET], "data": data})
    replica = Replica(server)
    await replica.manager.sync()
    assert problem(server.pair(), HOST, START) == ""
    assert server.objects[SECRET]["metadata"]["labels"] == {"a": "b"}
    assert replica.shown == [server.pair()]


async def test_a_secret_that_is_deleted_is_made_again() -> None:
    server = cluster()
    replica = Replica(server)
    await replica.manager.sync()
    old = server.pair()
    del server.objects[SECRET]
    await replica.manager.sync()
    assert server.pair() != old
    assert server.bundles(QUEUES) == {"queue-validation.kai.scheduler": server.pair().authorities}


async def test_webhooks_of_others_are_left_alone() -> None:
    by_url = {"name": "by-url", "clientConfig": {"url": "https://127.0.0.1:9443/validate"}}
    hooks = [webhook("theirs", service="admission"), webhook("far", namespace="elsewhere"), webhook("ours"), by_url]
    server = cluster(**{QUEUES: {"webhooks": hooks}, PODS: {}})
    await Replica(server).manager.sync()
    bundle = server.pair().authorities
    assert server.bundles(QUEUES) == {"theirs": b"", "far": b"", "ours": bundle, "by-url": bundle}


async def test_configurations_that_come_later_are_trusted_at_the_next_look() -> None:
    server = Server({})
    replica = Replica(server)
    await replica.manager.sync()
    server.objects[QUEUES] = {"webhooks": [webhook("late")]}
    await replica.manager.sync()
    assert server.bundles(QUEUES) == {"late": server.pair().authorities}


async def test_running_it_tells_what_is_wrong_and_gets_over_it() -> None:
    server = cluster()
    replica = Replica(server)
    looks: list[str] = []
    enough = asyncio.Event()

    def refuse_at_first(method: str, path: str) -> None:
        if (method, path) != ("GET", SECRET):
            return
        looks.append(replica.manager.problem())
        if len(looks) == 1:
            raise failure(method, path, 500, "InternalError")
        if len(looks) == 4:
            enough.set()

    server.before = refuse_at_first
    task = asyncio.create_task(replica.manager.run(period_s=0.001, retry_s=0.001))
    async with asyncio.timeout(30):
        await enough.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    told = f"GET {SECRET}: 500 InternalError: as told"
    # The second look finds no Secret and makes one; the third is a new round.
    assert looks == ["", told, "", ""]
    assert replica.shown == [server.pair()]


async def test_configurations_for_another_schedulers_pods_are_told_once() -> None:
    named = {**webhook("admission.kai-scheduler.svc"), "matchConditions": [{"name": "n", "expression": MATCH}]}
    server = cluster(**{PODS: {"webhooks": [named]}})
    for scheduler, expected in (("kai-scheduler", []), ("", []), ("mine", ["webhooks.other_scheduler"])):
        manager = CertificateManager(
            server.api(), NAMESPACE, lambda: START, lambda _pair: None, lambda name=scheduler: name
        )
        with capture_logs() as lines:
            await manager.sync()
            await manager.sync()
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == expected


async def test_a_change_is_looked_at_at_once() -> None:
    server = cluster()
    replica = Replica(server)
    changes = replica.manager.watches(Random(1))[0]._sink
    running = asyncio.create_task(replica.manager.run(period_s=60.0))
    try:
        await asyncio.sleep(0.01)
        server.objects[PODS] = {"webhooks": [webhook("admission.kai-scheduler.svc")]}
        assert server.bundles(PODS) == {"admission.kai-scheduler.svc": b""}
        changes.changed(("v1", "MutatingWebhookConfiguration"), Raw(b"{}"))
        await until(lambda: server.bundles(PODS) == {"admission.kai-scheduler.svc": server.pair().authorities})
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_configuration_of_any_shape_does_not_end_it() -> None:
    server = cluster(**{PODS: {"webhooks": [{"name": "no client"}]}})
    replica = Replica(server)
    running = asyncio.create_task(replica.manager.run(period_s=60.0, retry_s=0.01))
    try:
        await until(lambda: "clientConfig" in replica.manager.problem())
        server.objects[PODS] = {"webhooks": []}
        await until(lambda: not replica.manager.problem())
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
