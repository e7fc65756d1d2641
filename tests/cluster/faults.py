"""What the tests of faults have in common: who was bound how often, what a replica has seen, what it says of itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from tests.cluster.audit import AuditLog
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import OPERATOR
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until

Key = tuple[str, str, str]  # namespace, name, uid


def bindings(audit: AuditLog, mark: int) -> Counter[Key]:
    """How often each pod was bound since the mark."""
    return Counter(
        (entry.namespace, entry.name, entry.raw["objectRef"].get("uid", "")) for entry in audit.bindings(mark)
    )


def evictions(audit: AuditLog, mark: int, user: str = OPERATOR) -> Counter[str]:
    """How often the operator has deleted each pod since the mark."""
    asked = audit.since(mark, user, "pods")
    return Counter(entry.name for entry in asked if entry.verb == "delete" and entry.status == 200)


def assert_bound_once(cluster: Cluster, audit: AuditLog, mark: int, names: Iterable[str]) -> None:
    """Those pods of namespace default that are bound are these, and each was bound by one request."""
    assert cluster.bound().keys() == set(names)
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.list("Pod", "default")}
    found = bindings(audit, mark)
    # A request whose sender dies can be carried out and yet not be logged as answered: what counts is never twice.
    assert found.keys() <= {("default", name, uids[name]) for name in names}
    assert set(found.values()) == {1}


def wait_seen(operator: Operator, what: str, **facts: object) -> None:
    """Wait for the operator's last cycle to have had so many pods, nodes ..."""

    def seen() -> bool:
        last = operator.logs("cycle.done")[-1:]
        assert last, "a cycle"
        assert facts.items() <= last[0].items(), f"{last[0]}"
        return True

    wait_until(seen, what)


def wait_decided(operator: Operator, count: int) -> None:
    """Wait until its cycles have decided on so many binds."""
    wait_until(lambda: sum(line["bound"] for line in operator.logs("cycle.done")) >= count, f"{count} decided binds")


def wait_not_ready(operator: Operator, check: str, *texts: str) -> str:
    """Wait until /readyz/scheduling says no, and that check says all these; what it says."""

    def says() -> str:
        status, text = operator.get("/readyz/scheduling")
        assert status == 503, f"{status} {text}"
        sentence = str(json.loads(text)["checks"].get(check, "not asked yet"))
        assert all(part in sentence for part in texts), text
        return sentence

    return wait_until(says, f"/readyz/scheduling: {check}: {texts}", 60)


def wait_ready(operator: Operator) -> None:
    """Wait until /readyz/scheduling says yes."""
    wait_until(lambda: operator.get("/readyz/scheduling")[0] == 200, "/readyz/scheduling: 200", 60)
