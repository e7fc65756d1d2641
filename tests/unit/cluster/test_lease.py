from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from kai_sched.cluster.client import Api
from kai_sched.cluster.lease import LeaderLease, LeaseTerms, boot_time
from tests.unit.cluster.conftest import ApiServer, status
from tests.unit.cluster.store import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kai/leases"
# The clocks of the tests are set by hand, only the pause between two attempts is real.
TERMS = LeaseTerms(lease_s=15.0, renew_deadline_s=10.0, retry_s=0.01)


class Leases:
    """One Lease that takes only writes of its last version. ``refused`` says who gets no further, and how."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.events: list[dict[str, Any]] = []
        self.refused: dict[str, int] = {}  # status by identity; 0 cuts the connection
        self.asked = Counter[str]()

    async def looked(self, who: str) -> None:
        """Wait until the contender has seen what is now the case and has acted on it."""
        asked = self.asked[who]
        await until(lambda: self.asked[who] >= asked + 3)

    @property
    def spec(self) -> dict[str, Any]:
        return {} if self.lease is None else self.lease["spec"]

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity", ""))

    def write(self, lease: dict[str, Any]) -> web.Response:
        self.version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        return web.json_response(self.lease)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        who = request.headers["Authorization"].removeprefix("Bearer ")
        self.asked[who] += 1
        body = await request.json() if request.method != "GET" else {}
        if who in self.refused:
            if not self.refused[who] and request.transport is not None:
                request.transport.abort()
            return status(self.refused[who] or 500, "Forbidden", f'User "{who}" cannot get resource "leases"')
        if request.path.endswith("/events"):
            self.events.append(body)
            return web.json_response(body)
        if request.method == "POST":
            assert request.path == LEASES
            return status(409, "AlreadyExists", "exists") if self.lease else self.write(body)
        assert request.path == f"{LEASES}/kai-sched"
        if self.lease is None:
            return status(404, "NotFound", "not found")
        if request.method == "GET":
            return web.json_response(self.lease)
        if body["metadata"]["resourceVersion"] != str(self.version):
            return status(409, "Conflict", "the object has been modified")
        return self.write(body)


class Contender:
    """A lease with a clock that is set by hand, and an account at the server that goes by its name."""

    def __init__(self, leases: Leases, folder: Path, name: str) -> None:
        self.now = 1000.0
        self._kubeconfig = folder / name
        self._kubeconfig.write_text(leases.kubeconfig.replace('"token": "first"', f'"token": "{name}"'))
        self.lease = LeaderLease(
            lambda: Api.connect(str(self._kubeconfig)),
            "kai",
            name,
            rng=Random(1),
            terms=TERMS,
            clock=lambda: self.now,
        )


@pytest_asyncio.fixture
async def leases(server: ApiServer) -> Leases:
    leases = Leases(server.kubeconfig.read_text())
    server.answer = leases.answer
    return leases


@pytest_asyncio.fixture
async def one(leases: Leases, tmp_path: Path) -> AsyncIterator[Contender]:
    contender = Contender(leases, tmp_path, "one")
    yield contender
    await contender.lease.release()


@pytest_asyncio.fixture
async def two(leases: Leases, tmp_path: Path) -> AsyncIterator[Contender]:
    contender = Contender(leases, tmp_path, "two")
    yield contender
    await contender.lease.release()


async def test_absent_lease_is_created(leases: Leases, one: Contender) -> None:
    assert not one.lease.held()
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    assert one.lease.held()
    assert one.lease.state == "leading"
    spec = leases.spec
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 15, 0)
    for field in ("acquireTime", "renewTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec[field])
    await until(lambda: bool(leases.events))
    assert (leases.events[0]["reason"], leases.events[0]["message"]) == ("LeaderElection", "one became leader")
    assert leases.events[0]["involvedObject"]["name"] == "kai-sched"


@pytest.mark.slow
async def test_renewals_keep_it(leases: Leases, one: Contender, two: Contender) -> None:
    """The second one waits for as long as the record changes, whatever its clock says."""
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    acquired = leases.spec["acquireTime"]
    two.lease.start("kai-sched")
    for _ in range(10):
        await leases.looked("one")
        await leases.looked("two")
        assert two.lease.state == "standby, one leads"
        one.now += 5.0
        two.now += 5.0
    assert (one.lease.held(), two.lease.held()) == (True, False)
    assert (leases.spec["acquireTime"], leases.spec["leaseTransitions"]) == (acquired, 0)
    assert len(leases.events) == 1


async def test_record_that_does_not_change_is_taken_over(leases: Leases, two: Contender) -> None:
    """Neither its renewTime in the future nor the past counts."""
    gone = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "leaseTransitions": 4}
    leases.write({"metadata": {"labels": {"keep": "me"}}, "spec": gone | {"renewTime": "2999-01-01T00:00:00.000000Z"}})
    two.lease.start("kai-sched")
    await leases.looked("two")
    two.now += 14.9
    await leases.looked("two")
    assert leases.holder == "gone"
    leases.write({"metadata": {"labels": {"keep": "me"}}, "spec": gone | {"renewTime": "1999-01-01T00:00:00.000000Z"}})
    await leases.looked("two")
    two.now += 14.9
    await leases.looked("two")
    assert leases.holder == "gone"
    two.now += 0.2
    await two.lease.wait_held()
    assert (leases.holder, leases.spec["leaseTransitions"]) == ("two", 5)
    assert leases.lease is not None
    assert leases.lease["metadata"]["labels"] == {"keep": "me"}


async def test_record_of_a_longer_lease_is_waited_for(leases: Leases, two: Contender) -> None:
    leases.write({"metadata": {}, "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 60}})
    two.lease.start("kai-sched")
    await leases.looked("two")
    two.now += 59.0
    await leases.looked("two")
    assert leases.holder == "gone"
    two.now += 2.0
    await two.lease.wait_held()


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": ""}, {"holderIdentity": None, "leaseTransitions": None}])
async def test_released_record_is_taken_at_once(leases: Leases, two: Contender, spec: dict[str, Any]) -> None:
    leases.write({"metadata": {}, "spec": spec})
    two.lease.start("kai-sched")
    await two.lease.wait_held()
    assert leases.holder == "two"


async def test_release_lets_the_standby_lead(leases: Leases, one: Contender, two: Contender) -> None:
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    two.lease.start("kai-sched")
    await leases.looked("two")
    lost = asyncio.create_task(one.lease.wait_lost())
    await one.lease.release()
    assert not one.lease.held()
    await lost
    await two.lease.wait_held()
    assert (leases.holder, leases.spec["leaseTransitions"]) == ("two", 1)
    asked = leases.asked["one"]
    await leases.looked("two")
    assert leases.asked["one"] == asked


async def test_process_that_was_stopped_does_not_lead(leases: Leases, one: Contender, two: Contender) -> None:
    """Its clock has gone on: it knows at once, before anything is sent, and stays the standby of who took over."""
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    two.lease.start("kai-sched")
    await leases.looked("two")
    leases.refused["one"] = 0
    await leases.looked("one")  # what it had sent before it was stopped is answered
    one.now += 16.0
    two.now += 16.0
    assert not one.lease.held()
    await two.lease.wait_held()
    await one.lease.wait_lost()
    leases.refused.clear()
    await until(lambda: one.lease.state == "standby, two leads")
    await leases.looked("one")
    assert (leases.holder, one.lease.held(), two.lease.held()) == ("two", False, True)


async def test_short_stop_without_a_rival(leases: Leases, one: Contender) -> None:
    """Who waits for the loss hears of it, though the lease is held again a moment later."""
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    lost = asyncio.create_task(one.lease.wait_lost())
    await leases.looked("one")
    one.now += 10.1
    assert not one.lease.held()
    await lost
    await one.lease.wait_held()
    assert (leases.holder, leases.spec["leaseTransitions"]) == ("one", 0)


async def test_renewals_that_fail(leases: Leases, one: Contender) -> None:
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    await until(lambda: bool(leases.events))
    leases.refused["one"] = 500
    await until(lambda: one.lease.failure is not None)
    one.now += 9.9
    await leases.looked("one")
    assert one.lease.held()
    one.now += 0.1
    assert not one.lease.held()
    await one.lease.wait_lost()
    leases.refused.clear()
    await one.lease.wait_held()
    assert one.lease.failure is None


async def test_write_of_another_is_no_loss(leases: Leases, one: Contender) -> None:
    """Somebody labels the Lease, somebody deletes it: the holder goes on."""
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    assert leases.lease is not None
    leases.write({**leases.lease, "metadata": {"labels": {"of": "people"}}})
    await leases.looked("one")
    leases.lease = None
    await until(lambda: leases.holder == "one")
    await until(one.lease.held)


async def test_one_wins_the_race(leases: Leases, one: Contender, two: Contender) -> None:
    one.lease.start("kai-sched")
    two.lease.start("kai-sched")
    await until(lambda: one.lease.held() or two.lease.held())
    for _ in range(5):
        await leases.looked("one")
        await leases.looked("two")
        assert [one.lease.held(), two.lease.held()].count(True) == 1


async def test_what_is_forbidden_is_named(leases: Leases, one: Contender) -> None:
    leases.refused["one"] = 403
    one.lease.start("kai-sched")
    await until(lambda: one.lease.failure is not None)
    assert one.lease.state == (
        "lease kai/kai-sched: GET /apis/coordination.k8s.io/v1/namespaces/kai/leases/kai-sched: 403 Forbidden: "
        'User "one" cannot get resource "leases"'
    )
    assert not one.lease.held()
    leases.refused.clear()
    await one.lease.wait_held()


async def test_no_login(leases: Leases, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    lease = LeaderLease(lambda: Api.connect(missing), "kai", "nobody", rng=Random(1), terms=TERMS)
    lease.start("kai-sched")
    await until(lambda: lease.failure is not None)
    assert "missing: no such file" in lease.state
    await lease.release()
    assert leases.asked == {}


async def test_release_before_the_start(one: Contender) -> None:
    await one.lease.release()
    assert not one.lease.held()


async def test_clock_of_the_machine_goes_on_while_it_sleeps() -> None:
    awake = time.monotonic()
    assert boot_time() >= awake


class Held:
    """Who led, whenever anybody asked the server."""

    def __init__(self, server: ApiServer, leases: Leases, *contenders: Contender) -> None:
        self.most = 0

        async def look(request: web.BaseRequest) -> web.StreamResponse:
            self.most = max(self.most, sum(each.lease.held() for each in contenders))
            return await leases.answer(request)

        server.answer = look


@pytest.mark.parametrize("taken", [False, True])
async def test_a_renewal_that_is_refused_ends_it_at_once(
    server: ApiServer, leases: Leases, one: Contender, taken: bool
) -> None:
    """Deleted, it is made anew before anything is sent under it; another's is left alone."""
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    held: list[bool] = []
    answer = leases.answer

    async def look(request: web.BaseRequest) -> web.StreamResponse:
        if request.method in ("GET", "POST") and "leases" in request.path:
            held.append(one.lease.held())
        return await answer(request)

    server.answer = look
    lost = asyncio.create_task(one.lease.wait_lost())
    if taken:
        leases.write({"metadata": {}, "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}})
        await lost
        assert one.lease.state == "standby, other leads"
        assert held[:1] == [False]
        return
    leases.lease = None
    await until(lambda: leases.holder == "one")
    await until(one.lease.held)
    assert held == [False, False], "neither when it looked nor when it made it anew"
    assert not lost.done(), "nobody else has led"
    lost.cancel()


async def test_a_standby_does_not_make_a_lease_that_was_deleted(
    leases: Leases, one: Contender, two: Contender, server: ApiServer
) -> None:
    """Whoever was seen to lead may do so until its time is over."""
    watched = Held(server, leases, one, two)
    one.lease.start("kai-sched")
    await one.lease.wait_held()
    two.lease.start("kai-sched")
    await leases.looked("two")
    leases.refused["one"] = 500  # it hears of nothing
    await leases.looked("one")
    leases.lease = None
    await leases.looked("two")
    assert (one.lease.held(), two.lease.held(), leases.lease) == (True, False, None)
    one.now += 15.1
    two.now += 15.1
    await two.lease.wait_held()
    assert watched.most == 1


def test_writes_of_a_leader_end_before_another_leads() -> None:
    terms = LeaseTerms()
    assert terms.renew_deadline_s + terms.guarded_s <= terms.lease_s
    assert terms.guarded_s == 5.0
