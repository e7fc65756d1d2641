"""The replicas of the soak: processes with the command, the account and the memory of the Deployment, and their ends.

As a Service does, the address of the webhooks goes to the replicas that say they are ready.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.balancer import Balancer
from tests.cluster.conftest import SYSTEM_NAMESPACE
from tests.cluster.installed import MANIFESTS
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

TAKE_OVER_S, END_S = 60.0, 40.0
BOUND_BEFORE_S = (4.0, 8.0)  # what a leader gets to do before its end
PROBE_S = 0.5  # the manifests say 2 s, on machines with more than two cores
WRONG = ("cycle.failed", "operator.part_ended", "operator.kopf_ended")
KILLED, ENDED, PAUSED = "killed", "told to end", "stopped past its lease"
HOW = (KILLED, ENDED, PAUSED)


def container() -> dict[str, Any]:
    """The container of the Deployment in manifests/."""
    documents = yaml.safe_load_all((MANIFESTS / "deployment.yaml").read_text())
    [deployment] = [each for each in documents if each["kind"] == "Deployment"]
    [found] = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def memory_limit_mb(content: dict[str, Any]) -> float:
    """The memory that the container may use, in millions of bytes."""
    text = content["resources"]["limits"]["memory"]
    assert text.endswith("Gi"), text
    return float(text[:-2]) * 2**30 / 1e6


class ReadyAddress:
    """A context: new connections of the balancer go to the replicas whose page /readyz says yes."""

    def __init__(self, balancer: Balancer, replicas: Callable[[], Sequence[Operator]]) -> None:
        self._balancer = balancer
        self._replicas = replicas
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ready-address", daemon=True)

    def __enter__(self) -> ReadyAddress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30.0)

    def _run(self) -> None:
        while not self._ended.wait(PROBE_S):
            there = [one for one in self._replicas() if one.process.exit_code is None]
            self._balancer.use([one.webhook_port for one in there if one.get("/readyz", timeout_s=1.0)[0] == 200])


class Replicas:
    """The processes, and how they end. ``kubeconfig`` has the token of the account."""

    def __init__(self, folder: Path, kubeconfig: Path, chance: random.Random) -> None:
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._chance = chance
        self._container = container()
        self.memory_limit_mb = memory_limit_mb(self._container)
        self.started: list[Operator] = []
        self.ends: Counter[str] = Counter()
        self.faults: list[str] = []

    def start(self) -> Operator:
        """One more."""
        log = self._folder / f"operator-{len(self.started) + 1}.log"
        # The image's ENTRYPOINT comes before the arguments.
        command = [*self._container.get("command", [])[1:], *self._container["args"]]
        flags = ("--namespace", SYSTEM_NAMESPACE)
        replica = Operator(self._kubeconfig, log, *flags, webhooks=True, shutdown_delay_s=None, command=command)
        self.started.append(replica)
        return replica

    def end(self, replica: Operator, how: str) -> None:
        """End a replica; one that is told to has to end in an orderly way."""
        self.ends[how] += 1
        if how == KILLED:
            replica.kill()
            return
        try:
            code = replica.terminate(END_S)
        except AssertionError as late:
            self.faults.append(str(late))
            replica.kill()
            return
        # One that has not begun has nothing to put in order.
        if code != 0 and not (code == -signal.SIGTERM and not replica.process.tail()):
            self.faults.append(f"{replica.process.name} ended with {code} after SIGTERM:\n{replica.process.tail(5)}")

    def revive(self, pair: list[Operator]) -> list[Operator]:
        """As the kubelet does where one has ended: it could not renew its lease while the API server was away."""
        return [one if one.process.exit_code is None else self.start().wait_ready() for one in pair]

    def end_all(self) -> None:
        """End those that run, whatever their state."""
        for replica in self.started:
            replica.end()

    def outlast(self, leading: Operator, others: list[Operator]) -> None:
        """Stop the leader until another one leads, and let it go on: it has to notice, and to end with 1."""
        self.ends[PAUSED] += 1
        leading.pause()
        self.leader(others)
        leading.resume()
        try:
            code = leading.process.wait(END_S)
        except AssertionError as late:
            self.faults.append(f"after its lease was another's: {late}")
            leading.kill()
            return
        if code != 1:
            self.faults.append(f"{leading.process.name} ended with {code} after it was stopped past its lease")

    def leader(self, among: list[Operator]) -> Operator:
        """Who of these holds the lease. Raises AssertionError where none takes it in time."""

        def found() -> Operator | None:
            return next((one for one in among if one.process.exit_code is None and one.logs("lease.held")), None)

        return wait_until(found, "a replica that leads", TAKE_OVER_S, poll_s=0.5)

    def take_turns(self, pair: list[Operator], rounds: int) -> Operator:
        """The leader of two replicas ends in each way, so many times; returns a third, which leads from now on."""
        for how in [how for _ in range(rounds) for how in self._chance.sample(HOW, len(HOW))]:
            leading = self.leader(pair)
            time.sleep(self._chance.uniform(*BOUND_BEFORE_S))
            pair = [one for one in pair if one is not leading]
            if how == PAUSED:
                self.outlast(leading, pair)
            else:
                self.end(leading, how)
            pair.append(self.start().wait_ready())
        self.leader(pair)
        stays = self.start().wait_ready()
        for one in pair:
            self.end(one, KILLED)
        return self.leader([stays])

    def look(self, stays: Operator) -> None:
        """See what they said, at the end."""
        if stays.process.exit_code is not None:
            self.faults.append(f"the replica that was not ended has ended:\n{stays.process.tail()}")
        for replica in self.started:
            wrong = Counter(line["event"] for line in replica.logs() if line.get("event") in WRONG)
            text = replica.process.log.read_text(errors="replace")
            if wrong or "Traceback" in text:
                self.faults.append(f"{replica.process.name} logged {dict(wrong) or 'a traceback'}")
