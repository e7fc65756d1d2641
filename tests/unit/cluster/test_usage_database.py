"""What is asked of a Prometheus, and what becomes of its answers. tests/cluster/test_usage.py has a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from kai_sched.cluster.usage_database import UsageFailure, query, usage_of_queues
from kai_sched.model.config import UsageDatabase, UsageSettings
from kai_sched.model.objects import UsedShares

NOW_S = 1_000_000.0
DATABASE = UsageDatabase(
    allocation=("held_cpu", "held_memory", "held_gpus"), capacity=("all_cpu", "all_memory", "all_gpus"), timeout_s=2.0
)

SETTINGS = UsageSettings("prometheus", window_s=3600.0, database=DATABASE)


def at(url: str) -> UsageSettings:
    return replace(SETTINGS, database=replace(DATABASE, url=url))


def vector(*series: tuple[dict[str, str], str]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [NOW_S, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def of_queues(**values: str) -> dict[str, Any]:
    return vector(*(({"queue_name": name}, value) for name, value in values.items()))


@dataclass
class Server:
    """Answers by the first word that occurs in a query."""

    answers: dict[str, Any]
    url: str = ""
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        fields = await request.post()
        text = str(fields["query"])
        self.asked.append(text)
        assert fields["time"] == "1000000.000"
        found = next(content for word, content in self.answers.items() if word in text)
        return web.Response(text=found, status=500) if isinstance(found, str) else web.json_response(found)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server(
        {
            "held_cpu": of_queues(a="50"),
            "held_memory": of_queues(a="NaN", b="1"),
            "held_gpus": of_queues(a="4", b="2"),
            "all_cpu": vector(({}, "100")),
            "all_memory": vector(({}, "0")),
            "all_gpus": vector(({}, "8")),
        }
    )
    application = web.Application()
    application.router.add_post("/api/v1/query", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


async def test_parts_of_what_there_was(server: Server) -> None:
    found = await usage_of_queues(at(server.url), NOW_S)
    assert found == {"a": UsedShares(0.5, 0.0, 0.5), "b": UsedShares(0.0, 0.0, 0.25)}
    assert server.asked[0] == "sum_over_time((max by (queue_name) (held_cpu))[3600s:60s])"


async def test_the_address_may_be_in_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS, database=replace(DATABASE, url_variable="USAGE_DATABASE"))
    with pytest.raises(UsageFailure, match="USAGE_DATABASE is not set"):
        await usage_of_queues(settings, NOW_S)
    monkeypatch.setenv("USAGE_DATABASE", f"{server.url}/")
    assert len(await usage_of_queues(settings, NOW_S)) == 2


def test_a_half_life_and_windows_that_follow_each_other() -> None:
    half = replace(SETTINGS, half_life_s=1800.0)
    assert query("x", half, NOW_S) == ("sum_over_time(((x) * (0.5 ^ ((1000000.000 - time()) / 1800)))[3600s:60s])")
    tumbling = replace(SETTINGS, tumbling_from_s=NOW_S - 3600.0 - 120.0)
    assert query("x", tumbling, NOW_S) == "sum_over_time((x)[120s:60s])"
    # NOW_S is the 12th of January 1970 at 13:46:40.
    cron = replace(SETTINGS, cron="30 13 * * *")
    assert query("x", cron, NOW_S) == "sum_over_time((x)[1000s:60s])"


@pytest.mark.parametrize(
    ("word", "content", "said"),
    [
        ("held_gpus", "<html>", "does not answer sum_over_time"),
        ("held_gpus", {"status": "error", "error": "parse error"}, "refuses .*parse error"),
        ("all_gpus", vector(), "all_gpus has 0 series instead of 1: correct the capacity metric"),
        ("all_gpus", vector(({"a": "1"}, "1"), ({"a": "2"}, "1")), "all_gpus has 2 series"),
        (
            "all_gpus",
            {"status": "success", "data": {"resultType": "scalar", "result": []}},
            "is a scalar, not a vector",
        ),
        ("all_gpus", {"status": "success", "data": {"resultType": "vector", "result": [1]}}, "does not answer"),
        ("all_gpus", vector(({}, "x")), "does not answer"),
    ],
)
async def test_what_is_no_answer_is_told(server: Server, word: str, content: Any, said: str) -> None:
    server.answers[word] = content
    with pytest.raises(UsageFailure, match=said):
        await usage_of_queues(at(server.url), NOW_S)


async def test_nobody_answers(unused_tcp_port_factory: Callable[[], int]) -> None:
    settings = at(f"http://127.0.0.1:{unused_tcp_port_factory()}")
    with pytest.raises(UsageFailure, match="does not answer"):
        await usage_of_queues(settings, NOW_S)
