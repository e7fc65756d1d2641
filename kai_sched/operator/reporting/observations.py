"""What the event loop hears, kept for the thread that computes statuses: of each object the latest."""

from __future__ import annotations

import msgspec

from kai_sched.reconcile.keeper import StatusKeeper
from kai_sched.reconcile.owner_keeper import Owned, Owners
from kai_sched.reconcile.pod_conditions import PodCondition

# What is told of one object: a queue's or group's uid, status and fault, a pod's uid and condition, a group's owner.
# None: it is gone.
Facts = tuple[str, bytes, str] | tuple[str, PodCondition | None] | Owned | None
Found = dict[tuple[str, str], Facts]

QUEUE, POD_GROUP, POD, OWNER = "Queue", "PodGroup", "Pod", "owner"


class Observations:
    """For the event loop, until they are taken. There are no more of them than there are objects.

    It takes what ``StatusKeeper`` takes; ``owners`` is told of owners and their groups.
    """

    def __init__(self) -> None:
        self._found: Found = {}
        self._pods: set[str] = set()  # that were told of: all others need not be forgotten
        self.owners = Owners(self._observe_owner)

    def take(self) -> Found:
        """All since the last time."""
        found, self._found = self._found, {}
        return found

    def observe_queue(self, name: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """See StatusKeeper."""
        self._found[QUEUE, name] = (uid, raw_status, fault)

    def observe_pod_group(self, key: str, uid: str, raw_status: bytes, fault: str = "") -> None:
        """See StatusKeeper."""
        self._found[POD_GROUP, key] = (uid, raw_status, fault)

    def observe_pod(self, key: str, uid: str, condition: PodCondition | None) -> None:
        """See StatusKeeper."""
        self._pods.add(key)
        self._found[POD, key] = (uid, condition)

    def forget_queue(self, name: str) -> None:
        """See StatusKeeper."""
        self._found[QUEUE, name] = None

    def forget_pod_group(self, key: str) -> None:
        """See StatusKeeper."""
        self._found[POD_GROUP, key] = None

    def forget_pod(self, key: str) -> None:
        """See StatusKeeper."""
        if key in self._pods:
            self._pods.discard(key)
            self._found[POD, key] = None

    def _observe_owner(self, group: str, owned: Owned | None) -> None:
        self._found[OWNER, group] = owned


def observe_all(found: Found, keeper: StatusKeeper) -> None:
    """Tell the keeper. A status that is no JSON object counts as none."""
    for (kind, key), facts in found.items():
        try:
            _observe(keeper, kind, key, facts)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            assert isinstance(facts, tuple), "only statuses are decoded"
            _observe(keeper, kind, key, (facts[0], b"", facts[2] if len(facts) == 3 else ""))


def _observe(keeper: StatusKeeper, kind: str, key: str, facts: Facts) -> None:
    match kind, facts:
        case "Queue", None:
            keeper.forget_queue(key)
        case "Queue", (str(uid), bytes(status), str(fault)):
            keeper.observe_queue(key, uid, status, fault)
        case "PodGroup", None:
            keeper.forget_pod_group(key)
        case "PodGroup", (str(uid), bytes(status), str(fault)):
            keeper.observe_pod_group(key, uid, status, fault)
        case "Pod", None:
            keeper.forget_pod(key)
        case "Pod", (str(uid), PodCondition() | None as condition):
            keeper.observe_pod(key, uid, condition)
        case "owner", Owned() | None:
            keeper.observe_owner(key, facts)
