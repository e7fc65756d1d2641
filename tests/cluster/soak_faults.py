"""Faults that the soak makes while one replica leads, which it has to outlast: one after the other, chosen at random.

What a fault does to workloads is told to the judge beforehand, on the thread of the load.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from kai_sched.api import names
from tests.cluster import sharing
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.operator_process import Operator
from tests.cluster.proxy import Proxy
from tests.cluster.soak_cluster import is_of_devices, make_node, remove_node, size_of
from tests.cluster.soak_load import Load
from tests.cluster.soak_replicas import ENDED, KILLED, Replicas

BETWEEN_S = (3.0, 12.0)
# Nodes: so few are away or closed at a time that there is room for all pods.
AWAY_MAX, CORDONED_MAX, DEVICES_AWAY_MAX = 10, 10, 2
# A leader gives up its lease 10 s after it was renewed, and the one that leads is measured to the end: where the API
# server takes longer to come back it is restarted no more.
OUTAGE_MAX_S = 6.0
REFUSED_S = 3.0
REFUSED_MAX = 30
WRITES = "/(pods|configmaps|resourceclaims|podgroups|bindrequests|events)(/|$)"
# Which requests fail, and how: before the API server does what is asked, or after. Those for the lease do not, as the
# replica that leads is to be measured to the end.
REFUSALS: tuple[Object, ...] = (
    {"method": "POST", "path": "/binding$", "status": 500},
    {"method": "POST", "path": "/binding$", "status": 504, "after": True},
    {"method": "POST", "path": "/binding$", "cut": True, "after": True},
    {"method": "POST|PATCH|PUT", "path": WRITES, "status": 429, "retry_after_s": 1},
    {"method": "POST|PATCH|PUT", "path": WRITES, "status": 503},
    {"method": "POST|PATCH|PUT|DELETE", "path": WRITES, "cut": True, "after": True},
    {"method": "POST|PATCH|PUT|DELETE", "path": WRITES, "delay_s": 1.0},
)


class RandomFaults:
    """``one`` makes the next one; ``mend`` brings back all nodes. ``standby`` is the replica that does not lead."""

    def __init__(
        self,
        cluster: Cluster,
        plane: ControlPlane,
        proxy: Proxy,
        load: Load,
        replicas: Replicas,
        chance: random.Random,
    ) -> None:
        self.made: Counter[str] = Counter()
        self.outages: list[tuple[float, float]] = []  # of the API server, in seconds since the epoch
        self.outage_s = 0.0  # the longest of these
        self._cluster, self._plane, self._proxy, self._load = cluster, plane, proxy, load
        self._judge = load.judge
        self.replicas = replicas
        self._chance = chance
        self.standby: Operator | None = None
        self._away: list[str] = []
        self._cordoned: list[str] = []
        self._weighted: dict[Callable[[], str], int] = {
            self._end_standby: 2,
            self._restart: 1,
            self._cordon: 2,
            self._delete_node: 3,
            self._unreserve: 4,
            self._refuse: 4,
            self._cut_watches: 1,
        }

    def pause_s(self) -> float:
        """For how long nothing happens now."""
        return self._chance.uniform(*BETWEEN_S)

    def one(self) -> None:
        """Make one fault of a kind, and count it."""
        [make] = self._chance.choices(list(self._weighted), list(self._weighted.values()))
        if name := make():
            self.made[name] += 1

    def mend(self) -> None:
        """All nodes are there again, and open."""
        while self._cordoned:
            self._open(self._cordoned[0])
        while self._away:
            self._bring_back(self._away[0])

    def _end_standby(self) -> str:
        if self.standby is not None:
            self.replicas.end(self.standby, self._chance.choice((KILLED, ENDED)))
        self.standby = self.replicas.start()
        return ""  # the replicas count it

    def restart_api_server(self, kill: bool) -> None:
        """Kill or end it, and start it again."""
        started = time.time()
        with self._load.clock.outage():
            self._plane.restart_apiserver(kill=kill)
        ended = time.time()
        self.outages.append((started, ended))
        self.outage_s = max(self.outage_s, ended - started)
        self.made["API server killed" if kill else "API server restarted"] += 1

    def _restart(self) -> str:
        if self.outage_s < OUTAGE_MAX_S:
            self.restart_api_server(self._chance.random() < 0.5)
        return ""

    def _cordon(self) -> str:
        """Close a node, and open another one where several are closed."""
        if len(self._cordoned) >= CORDONED_MAX or (self._cordoned and self._chance.random() < 0.3):
            self._open(self._chance.choice(self._cordoned))
            return "node opened"
        name = self._some_node()
        self._cluster.patch("Node", name, {"spec": {"unschedulable": True}})
        self._load.ask(lambda: self._judge.cordon(name, self._load.clock.now_s()))
        self._cordoned.append(name)
        return "node cordoned"

    def _delete_node(self) -> str:
        """Delete a node, or bring one back under the same name."""
        if len(self._away) >= AWAY_MAX or (self._away and self._chance.random() < 0.4):
            self._bring_back(self._chance.choice(self._away))
            return "node added"
        name = self._some_node()
        if is_of_devices(name) and sum(map(is_of_devices, self._away)) >= DEVICES_AWAY_MAX:
            return ""
        self._load.ask(lambda: self._judge.delete_node(name, self._load.clock.now_s()))
        remove_node(self._cluster, name)
        self._away.append(name)
        return "node deleted"

    def _some_node(self) -> str:
        """One with pods, where there is one: the scheduler fills nodes one after the other."""
        rooms = self._load.ask(lambda: {name: len(room.pods) for name, room in self._judge.rooms.items()})
        free = sorted(rooms.keys() - set(self._cordoned))
        used = [name for name in free if rooms[name]]
        return self._chance.choice(used or free)

    def _open(self, name: str) -> None:
        self._cordoned.remove(name)
        self._load.ask(lambda: self._judge.uncordon(name))
        self._cluster.patch("Node", name, {"spec": {"unschedulable": None}})

    def _bring_back(self, name: str) -> None:
        self._away.remove(name)
        self._load.ask(lambda: self._judge.add_node(name, *size_of(name)))
        make_node(self._cluster, name)

    def _unreserve(self) -> str:
        """Somebody deletes the reservation pod of a shared GPU."""
        found = [pod for pod in sharing.reservations(self._cluster) if pod["spec"].get("nodeName")]
        if not found:
            return ""
        pod = self._chance.choice(found)
        meta, node = pod["metadata"], pod["spec"]["nodeName"]
        group = meta["labels"][names.GPU_GROUP_LABEL]
        self._load.ask(lambda: self._judge.unreserve(node, group, self._load.clock.now_s()))
        self._cluster.delete("Pod", meta["name"], meta["namespace"], grace_s=self._chance.choice((None, 0)))
        return "reservation pod deleted"

    def _refuse(self) -> str:
        action = self._chance.choice(REFUSALS)
        with self._proxy.rule(**action, every=self._chance.randint(1, 4), times=REFUSED_MAX) as rule:
            time.sleep(REFUSED_S)
        self.made["requests that failed or waited"] += rule.hits
        return ""

    def _cut_watches(self) -> str:
        return "watches cut" if self._proxy.cut_streams() else ""
