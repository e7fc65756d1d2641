"""The border to the process that evaluates expressions: what an expression that harms it costs, and what it knows."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_sched.selectors import worker_process
from kai_sched.selectors.wire import Reply
from kai_sched.selectors.worker_process import DELAYED, UNEVALUATED, WorkerProcess
from tests.unit.selectors.commands import DEEP, GARBAGE, LARGE, SLOW, python

DEVICE = b'{"driver":"a","attributes":{},"capacity":{}}'


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    worker = WorkerProcess()
    yield worker
    worker.close()


def pid(worker: WorkerProcess) -> int:
    assert worker._process is not None
    return worker._process.pid


def test_a_process_answers_many_requests(worker: WorkerProcess) -> None:
    assert worker.ask("device.driver == 'a'", [DEVICE, DEVICE]) == Reply("", [True, True])
    first = pid(worker)
    assert worker.ask("device.driver == 'b'", [DEVICE]) == Reply("", [False])
    assert worker.ask("device.driver ==", [DEVICE]).fault.startswith("cannot be compiled")
    assert worker.ask("true", []) == Reply("", [])
    assert pid(worker) == first


def with_settings(worker: WorkerProcess, **values: float) -> None:
    """Let its processes have other bounds."""
    texts = "".join(f"worker.{name} = {value}; " for name, value in values.items())
    start = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from kai_sched.selectors import worker; {texts}"
    worker._command[worker._command.index("-c") + 1] = f"{start}worker.main()"


@pytest.mark.slow
@pytest.mark.parametrize(("expression", "cpu_s"), [(SLOW, 0.5), (LARGE, 60.0)], ids=["time", "memory"])
def test_an_expression_that_takes_too_much_costs_itself_alone(
    worker: WorkerProcess, expression: str, cpu_s: float
) -> None:
    with_settings(worker, CPU_S=cpu_s)
    assert worker.ask("true", [DEVICE]) == Reply("", [True])
    first = pid(worker)
    assert worker.ask(expression, [DEVICE]) == Reply(UNEVALUATED, [])
    assert worker.ask("true", [DEVICE]) == Reply("", [True])
    assert pid(worker) != first


def test_depth_is_no_crash(worker: WorkerProcess) -> None:
    assert worker.ask(DEEP, [DEVICE]).fault
    assert worker.ask("true", [DEVICE]) == Reply("", [True])


def test_a_process_that_has_become_large_is_followed_by_another(worker: WorkerProcess) -> None:
    worker.ask("true", [DEVICE])
    first = pid(worker)
    worker.end()
    with_settings(worker, RESTART_ABOVE=0)
    worker.ask("true", [DEVICE])
    second = pid(worker)
    assert worker.ask("true", [DEVICE]) == Reply("", [True])
    assert len({first, second, pid(worker)}) == 3


def test_the_size_of_the_scheduler_does_not_matter(worker: WorkerProcess) -> None:
    """What a new process inherits as its largest size is that of who starts it."""
    held = bytearray(200 * 2**20)
    held[::4096] = b"x" * len(held[::4096])
    worker.ask("true", [DEVICE])
    first = pid(worker)
    worker.ask("true", [DEVICE])
    assert pid(worker) == first


@pytest.mark.slow
def test_who_is_innocent_is_served_by_a_new_process(worker: WorkerProcess) -> None:
    """The process fails with the second request, whatever that is."""
    reply = r"sink.write(struct.pack('>I', 11) + b'[\"\",[true]]'[:11]); sink.flush();"
    worker._command = python(f"source.read1(10000); {reply} source.read(4)")
    assert worker.ask("true", [DEVICE]) == Reply("", [True])
    assert worker.ask("true", [DEVICE]) == Reply("", [True])


@pytest.mark.slow
@pytest.mark.parametrize("what", GARBAGE)
def test_what_is_no_answer_counts_as_none(what: str) -> None:
    worker = WorkerProcess(python(GARBAGE[what]))
    assert worker.ask("true", [DEVICE]) == Reply(UNEVALUATED, [])
    worker.close()


@pytest.mark.slow
def test_a_process_that_hangs_is_killed_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "REQUEST_S", 0.3)
    worker = WorkerProcess(python("time.sleep(1000)"))
    began = time.monotonic()
    assert worker.ask("true", [DEVICE]) == Reply(DELAYED, [])
    assert worker.ask("true", [b'{"long":"' + b"x" * 1_000_000 + b'"}']) == Reply(DELAYED, [])
    assert time.monotonic() - began < 10.0
    worker.close()


def test_who_is_served_by_processes_that_others_kill_is_not_at_fault() -> None:
    worker = WorkerProcess(python("os.kill(os.getpid(), 9)"))
    assert worker.ask("true", [DEVICE]) == Reply(DELAYED, [])
    worker.close()


@pytest.mark.parametrize("command", [["false"], [*python("")[:3], "print('?', flush=True)"], ["/no/such/program"]])
def test_a_process_that_does_not_start_is_no_answer(command: list[str]) -> None:
    worker = WorkerProcess(command)
    for _ in range(2):
        with pytest.raises(OSError, match=r"does not start|No such file"):
            worker.ask("true", [DEVICE])
    worker.close()


@pytest.mark.parametrize(
    "code", ["os.abort()", "sink.write(struct.pack('>I', 16) + b'[\"\",[true],true]'); sink.flush()"]
)
def test_those_who_ask_next_find_a_new_process(code: str) -> None:
    """Whoever ends the process pays for the start of the next one."""
    worker = WorkerProcess(python(code))
    worker.ask("true", [DEVICE])
    first = pid(worker)
    assert worker._is_fresh
    assert Path(f"/proc/{first}").exists()
    worker.close()


def test_the_process_has_no_secrets_and_cannot_reach_out(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No environment, no files beyond its pipes, no dump of its memory; nothing that the scheduler has open."""
    monkeypatch.setenv("TOKEN", "secret")
    with Path("/proc/self/status").open() as held:
        os.set_inheritable(held.fileno(), True)
        worker.ask("true", [DEVICE])
        own = Path(f"/proc/{pid(worker)}")
        assert (own / "environ").read_bytes() == b""
        assert sorted(os.listdir(own / "fd")) == ["0", "1", "2", "3"]
        assert (own / "fd" / "3").readlink() == own / "statm"
        limits = {line[:25].strip(): line[26:].split()[:2] for line in (own / "limits").read_text().splitlines()}
        for name in ("Max core file size", "Max processes", "Max file size"):
            assert limits[name] == ["0", "0"], name
        assert limits["Max open files"] == ["3", "3"]
        assert limits["Max address space"] == [str(256 * 2**20)] * 2


def test_the_process_knows_nothing_of_the_scheduler(worker: WorkerProcess) -> None:
    """What it imports of this project; nothing that talks to a cluster, and no library for it."""
    code = (
        "import json, sys; from kai_sched.selectors import worker; "
        "print(json.dumps(sorted(name for name in sys.modules if name.startswith('kai_sched.'))))"
    )
    worker._command[worker._command.index("-c") + 1] = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]); " + code
    )
    done = subprocess.run(worker._command, capture_output=True, text=True, env={}, check=True)
    assert json.loads(done.stdout) == [
        *("kai_sched.api", "kai_sched.api.legal", "kai_sched.model", "kai_sched.model.claims"),
        *("kai_sched.model.claims.selector_text", "kai_sched.model.field_errors", "kai_sched.model.resources"),
        *("kai_sched.selectors", "kai_sched.selectors.expressions"),
        *("kai_sched.selectors.wire", "kai_sched.selectors.worker"),
    ]


def test_closing_ends_the_process(worker: WorkerProcess) -> None:
    worker.ask("true", [DEVICE])
    own = Path(f"/proc/{pid(worker)}")
    worker.close()
    assert not own.exists()
    assert worker.ask("true", [DEVICE]) == Reply(UNEVALUATED, [])
