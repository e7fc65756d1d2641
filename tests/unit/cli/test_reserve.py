"""What reservation pods run: which device they report, and what they say where they cannot (API 7.3)."""

from __future__ import annotations

import email.message
import http.client
import io
import os
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kai_sched.cli.reserve import ReservationFault, fake_uuid, read_uuid, report
from kai_sched.cluster.failure import ApiFailure
from kai_sched.cluster.own_pod import OwnPod
from kai_sched.operator.http.authority import issue
from tests.unit.cli.command import COMMAND, ROOT, environment

ANNOTATION = "run.ai/reserve_for_gpu_index"
POD = "kai-resource-reservation/gpu-reservation-0123456789abcdef"
HEAVY = (
    "aiohttp",
    "kopf",
    "kubernetes_asyncio",
    "llvmlite",
    "numba",
    "numpy",
    "pydantic",
    "structlog",
    "uvloop",
    "yaml",
)


class NVMLError(Exception):
    """As pynvml has it."""


def nvml(*devices: str | bytes, broken: bool = False) -> SimpleNamespace:
    """The part of pynvml that is used, on a node with these devices. ``open`` counts who has not shut it down."""
    found = SimpleNamespace(NVMLError=NVMLError, open=0)

    def begin() -> None:
        if broken:
            raise NVMLError("NVML Shared Library Not Found")
        found.open += 1

    def end() -> None:
        found.open -= 1

    found.nvmlInit, found.nvmlShutdown = begin, end
    found.nvmlDeviceGetCount = lambda: len(devices)
    found.nvmlDeviceGetHandleByIndex = lambda index: index
    found.nvmlDeviceGetUUID = lambda handle: devices[handle]
    return found


class TestDevice:
    @pytest.mark.parametrize("uuid", ["GPU-1", b"GPU-1"])
    def test_the_one_that_is_visible(self, uuid: str | bytes) -> None:
        library = nvml(uuid)
        assert read_uuid(library) == "GPU-1"
        assert library.open == 0

    @pytest.mark.parametrize(
        ("library", "words"),
        [
            (nvml(), "no GPU is visible .* device plugin"),
            (nvml("GPU-1", "GPU-2"), "2 GPUs are visible .*NVIDIA_VISIBLE_DEVICES=all"),
            (nvml(""), "no UUID .* update the driver"),
            (nvml(broken=True), "NVML Shared Library Not Found.* spec.binder.resourceReservation.runtimeClassName"),
        ],
    )
    def test_anything_else_is_an_error_with_a_remedy(self, library: SimpleNamespace, words: str) -> None:
        with pytest.raises(ReservationFault, match=words):
            read_uuid(library)
        assert library.open == 0

    def test_a_made_up_one_belongs_to_the_pod(self) -> None:
        found = fake_uuid(POD)
        assert found == fake_uuid(POD) != fake_uuid(f"{POD}0")
        assert found.startswith("GPU-")
        assert len(found) == 40


@dataclass
class Written:
    """A pod whose annotations are here. Each failure is raised once."""

    found: dict[str, str] = field(default_factory=dict)
    failures: list[ApiFailure] = field(default_factory=list)
    key: str = POD

    def annotations(self) -> dict[str, str]:
        if self.failures:
            raise self.failures.pop(0)
        return self.found

    def annotate(self, name: str, value: str) -> None:
        assert name not in self.found
        self.found[name] = value

    def told(self, device: str, stopped: threading.Event | None = None) -> list[float]:
        """Have it report the device; return the pauses."""
        pauses: list[float] = []
        report(cast(OwnPod, self), device, stopped or threading.Event(), pauses.append)
        return pauses


class TestReport:
    def test_the_device_is_written_once(self) -> None:
        pod = Written({"other": "1"})
        assert pod.told("GPU-1") == pod.told("GPU-1") == []
        assert pod.found == {"other": "1", ANNOTATION: "GPU-1"}

    def test_another_device_is_a_contradiction_and_stays(self) -> None:
        pod = Written({ANNOTATION: "GPU-2"})
        with pytest.raises(ReservationFault, match="names GPU-2, but this container has GPU-1"):
            pod.told("GPU-1")
        assert pod.found == {ANNOTATION: "GPU-2"}

    def test_failures_are_told_once_and_it_goes_on(self, capsys: pytest.CaptureFixture[str]) -> None:
        forbidden = [ApiFailure("GET", "/pods/p", 403, "Forbidden", "no right") for _ in range(3)]
        pod = Written(failures=[*forbidden, ApiFailure("GET", "/pods/p", 0, "NoAnswer", "timed out")])
        pauses = pod.told("GPU-1")
        assert len(pauses) == 4
        assert all(0.1 <= pause <= 10 for pause in pauses)
        told = capsys.readouterr().err.splitlines()
        assert [line.partition(";")[0] for line in told] == [
            "warning: GET /pods/p: 403 Forbidden: no right",
            "warning: GET /pods/p: NoAnswer: timed out",
        ]
        assert pod.found[ANNOTATION] == "GPU-1"

    def test_a_signal_ends_the_attempts(self) -> None:
        stopped = threading.Event()
        stopped.set()
        pod = Written()
        pod.told("GPU-1", stopped)
        assert pod.found == {}


@dataclass
class Server:
    """An API server with one pod. ``answers`` are statuses that come before the true answer."""

    account: Path
    annotations: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    port: int = 0

    def environment(self) -> dict[str, str]:
        namespace, _, name = POD.partition("/")
        place = {"KUBERNETES_SERVICE_HOST": "localhost", "KUBERNETES_SERVICE_PORT": str(self.port)}
        return {**place, "POD_NAME": name, "POD_NAMESPACE": namespace}

    def answer(self, verb: str, path: str, body: bytes, token: str) -> tuple[int, dict[str, Any]]:
        self.seen.append((verb, path, token))
        if self.answers:
            return self.answers.pop(0), {"kind": "Status", "reason": "Forbidden", "message": "as the test says"}
        if verb == "PATCH":
            self.annotations |= msgspec.json.decode(body)["metadata"]["annotations"]
        return 200, {"kind": "Pod", "metadata": {"annotations": self.annotations or None}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One that speaks TLS and is trusted by the service account in ``account``."""
    pair = issue("localhost", datetime.now(UTC))
    for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", pair.authorities)):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "token").write_text("secret\n")
    found = Server(tmp_path)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, thing = found.answer(self.command, self.path, body, self.headers["Authorization"])
            raw = msgspec.json.encode(thing)
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_PATCH = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        found.port = listener.server_port
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        yield found
        listener.shutdown()
        thread.join()


class TestOwnPod:
    def test_it_is_read_and_patched_with_the_service_account(self, server: Server) -> None:
        pod = OwnPod.here(POD, server.environment(), str(server.account))
        assert pod.annotations() == {}
        pod.annotate("a", "1")
        assert pod.annotations() == {"a": "1"}
        path = f"/api/v1/namespaces/{POD.replace('/', '/pods/')}"
        assert server.seen == [(verb, path, "Bearer secret") for verb in ("GET", "PATCH", "GET")]

    def test_what_goes_wrong_is_a_failure_of_the_api(self, server: Server) -> None:
        pod = OwnPod.here(POD, server.environment(), str(server.account))
        server.answers = [403]
        with pytest.raises(ApiFailure, match="403 Forbidden: as the test says"):
            pod.annotations()
        (server.account / "token").unlink()
        with pytest.raises(ApiFailure, match="NoAnswer"):
            pod.annotations()

    def test_a_refusal_that_is_cut_off_is_one_too(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """Anything else would end the process, and the device would not be reserved."""
        pod = OwnPod.here(POD, server.environment(), str(server.account))

        class Cut(io.BytesIO):
            def read(self, _: int | None = -1, /) -> bytes:
                raise http.client.IncompleteRead(b"")

        def refuse(*_: object, **_more: object) -> None:
            raise urllib.error.HTTPError(pod.server, 503, "", email.message.Message(), Cut())

        monkeypatch.setattr(urllib.request, "urlopen", refuse)
        with pytest.raises(ApiFailure, match="NoAnswer"):
            pod.annotations()

    def test_it_needs_a_cluster(self) -> None:
        with pytest.raises(ValueError, match="run it in a pod"):
            OwnPod.here(POD, {})
        assert OwnPod.here(POD, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}).server == (
            "https://[fd00::1]:443"
        )


def start(server: Server, *arguments: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "reserve", "--service-account", str(server.account), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=environment(**server.environment())
    )


def test_it_reports_and_waits_for_the_signal(server: Server) -> None:
    process = start(server, "--fake-device")
    assert process.stdout is not None
    assert process.stdout.readline() == f"{POD} holds {fake_uuid(POD)}\n"
    assert server.annotations == {ANNOTATION: fake_uuid(POD)}
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 0


def test_a_fault_is_told_in_the_termination_log_and_does_not_spin(server: Server) -> None:
    log = server.account / "termination-log"
    log.write_text("x" * 1000)
    process = start(server, "--termination-log", str(log), "--service-account", "/nowhere")
    assert process.stderr is not None
    told = process.stderr.readline()
    assert told.startswith("error: NVML does not answer: ")
    assert process.poll() is None, "it waits before the kubelet starts it again"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert log.read_text() == told.removeprefix("error: ").rstrip("\n")


def test_it_imports_little() -> None:
    """Each shared device has such a process, for as long as it is shared."""
    code = (
        "import sys, kai_sched.cli.main, kai_sched.cli.reserve, pynvml\n"
        f"print(sorted(set({HEAVY!r}) & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"


def test_the_library_has_what_is_used_of_it() -> None:
    """On a machine without a driver the library says so by its own error."""
    import pynvml

    used = [name for name in vars(nvml()) if name.startswith("nvml")]
    assert all(hasattr(pynvml, name) for name in used)
    assert issubclass(pynvml.NVMLError, Exception)
    if not os.path.exists("/dev/nvidiactl"):
        with pytest.raises(ReservationFault, match="NVML does not answer"):
            read_uuid(pynvml)
