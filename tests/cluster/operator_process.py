"""`kai-sched run` as a process of its own, as the tests start, watch and maltreat it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import urllib3
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.processes import Process, free_port
from tests.tree import ROOT

READY_S = 180.0  # a cold cache of kernels is compiled first
TICKS_S = os.sysconf("SC_CLK_TCK")


class Operator:
    """One replica. ``entry`` is the module that is run, and its arguments before ``command``.

    ``command``: what is run of it, and flags. Ours follow: what there is only once on this machine is our own.
    ``webhooks``: whether it serves them, or on which port. ``shutdown_delay_s`` None: as long as the command says.
    """

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *flags: str,
        webhooks: bool | int = False,
        shutdown_delay_s: float | None = 0.0,
        entry: Sequence[str] = ("kai_sched.cli.main",),
        packages: Sequence[Path] = (),
        command: Sequence[str] = ("run", "--log-json"),
    ) -> None:
        self.port, self.plugin_port = free_port(), free_port()
        self.webhook_port = (free_port() if webhooks is True else webhooks) if webhooks else None
        options = {
            "--kubeconfig": str(kubeconfig),
            "--listen-address": f"127.0.0.1:{self.port}",
            "--plugin-server-port": str(self.plugin_port),
            "--webhook-address": f"127.0.0.1:{self.webhook_port}" if webhooks else "",
        }
        if webhooks and shutdown_delay_s is not None:
            options["--shutdown-delay"] = str(shutdown_delay_s)
        words = [sys.executable, "-m", *entry, *command]
        for name, value in options.items():
            words += [name, value]
        environment = {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, *packages])), "PYTHONUNBUFFERED": "1"}
        self.process = Process(log.stem, [*words, *flags], log, environment)

    def wait_ready(self, timeout_s: float = READY_S) -> Operator:
        """Wait until it could schedule. Raises as Process.wait_until does."""
        self.process.wait_until(lambda: self.get("/readyz/scheduling")[0] == 200, "/readyz/scheduling", timeout_s)
        return self

    def get(self, path: str, timeout_s: float = 10.0) -> tuple[int, str]:
        """Status and text of one of its pages; status 0 where nobody answers."""
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s, retries=False)
        except urllib3.exceptions.HTTPError as failure:
            return 0, str(failure)
        return answer.status, answer.data.decode()

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The value of each sample on /metrics, by its name and its sorted labels."""
        status, text = self.get("/metrics")
        assert status == 200, text
        families = text_string_to_metric_families(text)
        samples = (sample for family in families for sample in family.samples)
        return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}

    def logs(self, event: str | None = None) -> list[dict[str, Any]]:
        """Its log lines that are JSON, those of one event where given."""
        found = []
        for line in self.process.log.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and event in (None, entry.get("event")):
                found.append(entry)
        return found

    def kill(self) -> None:
        """SIGKILL: it gets no chance to say goodbye."""
        self.process.kill()

    def pause(self) -> None:
        """SIGSTOP: it stands still, its connections stay open."""
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, after pause."""
        self.process.signal(signal.SIGCONT)

    def terminate(self, timeout_s: float = 30.0) -> int:
        """SIGTERM, and the exit code of an orderly end. Raises AssertionError where it does not end in time."""
        self.process.signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def end(self) -> None:
        """End it whatever its state."""
        self.process.end()

    @property
    def rss_mb(self) -> float:
        """Resident memory now, in millions of bytes."""
        return self._memory_mb("VmRSS")

    @property
    def rss_peak_mb(self) -> float:
        """The most there has been of it."""
        return self._memory_mb("VmHWM")

    def _memory_mb(self, field: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found, field
        return int(found[1]) * 1024 / 1e6

    @property
    def cpu_s(self) -> float:
        """CPU seconds since its start, in user and kernel together."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_S
