"""A Prometheus that scrapes one replica each second and evaluates the alerts of the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.cluster import components
from tests.cluster.processes import Process, free_port, wait_until
from tests.monitoring_files import ALERTS


class Prometheus:
    """One Prometheus on loopback, its data in the folder. ``scrape`` are fields of the configuration of its job."""

    def __init__(self, folder: Path, target: str, **scrape: Any) -> None:
        self.port = free_port()
        # The labels that a ServiceMonitor gives, on which the alerts rely.
        labels = {"namespace": "kai-scheduler", "pod": "one"}
        job = {"job_name": "kai", "static_configs": [{"targets": [target], "labels": labels}], **scrape}
        intervals = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        configuration = {"global": intervals, "rule_files": [str(ALERTS)], "scrape_configs": [job]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
        command = [
            components.program("prometheus", "prometheus"),
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        self.process = Process("prometheus", command, folder / "prometheus.log")

    def get(self, path: str, **fields: str) -> Any:
        """The data of an answer of its API. Raises AssertionError where that is an error."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}"
        try:
            answer = urllib3.request("GET", url, fields=fields, retries=False, timeout=10.0)
        except urllib3.exceptions.HTTPError as failure:
            raise AssertionError(f"no answer: {failure}") from None
        assert answer.status != 503, "it is starting"
        content = answer.json()
        assert content["status"] == "success", content
        return content["data"]

    def query(self, text: str) -> list[dict[str, Any]]:
        """The series of an expression now. Raises AssertionError where it is wrong."""
        data = self.get("query", query=text)
        assert data["resultType"] == "vector", data
        found: list[dict[str, Any]] = data["result"]
        return found

    def wait_scraped(self) -> None:
        """Wait until its target answers and the rules are evaluated."""
        self.process.wait_until(lambda: self._scraped(), "a target that answers")

    def _scraped(self) -> bool:
        targets = self.get("targets")["activeTargets"]
        assert [each["lastError"] for each in targets if each["health"] != "up"] == []
        return bool(targets)

    def value(self, text: str, timeout_s: float = 30.0) -> float:
        """The value of an expression, once it has one series."""

        def one() -> tuple[float]:
            (series,) = self.query(text) or [None]
            assert series is not None, "no series"
            return (float(series["value"][1]),)

        return wait_until(one, text, timeout_s)[0]
