"""`kai-sched doctor` on a real API server: as the administrator, and as an account without rights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.tree import ROOT

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:default"
REVIEW = ("create", "selfsubjectaccessreviews")


def doctor(kubeconfig: Path) -> tuple[int, list[str]]:
    """Exit status and lines of the command."""
    command = [sys.executable, "-m", "kai_sched.cli.main", "doctor", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_it_says_what_a_cluster_has_of_kai_sched(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    cluster.add_queues("team")
    status, lines = doctor(cluster.kubeconfig)
    assert status == 0
    assert "warning: scheduler: none runs in namespace kai-scheduler: " in "\n".join(lines)

    replica = operator("--no-default-queues")
    replica.process.wait_until(lambda: bool(replica.logs("lease.held")), "the lease being held")
    holder = replica.logs("lease.held")[0]["identity"]
    status, lines = doctor(cluster.kubeconfig)
    assert status == 0
    assert "ok: queues.scheduling.run.ai: v2" in lines
    assert "ok: queues: 2" in lines
    assert f"ok: scheduler: lease kai-scheduler/kai-scheduler is held by {holder}" in lines
    assert len([line for line in lines if line.startswith("warning: webhook ")]) == 4
    assert lines[-1].startswith("ok: rights: may list all ")

    mark = own_plane.audit.mark()
    token = own_plane.service_account_token(SYSTEM_NAMESPACE, "default")
    status, lines = doctor(own_plane.kubeconfig("nobody", token=token))
    assert status == 1
    assert "ok: queues.scheduling.run.ai: v2" in lines
    assert any(line.startswith("warning: queues: cannot be checked: ") for line in lines)
    assert lines[-1].startswith("error: rights: may not list configs, ")
    asked = own_plane.audit.since(mark, ACCOUNT)
    assert {(one.verb, one.subject) for one in asked} >= {("list", "queues"), ("list", "leases"), REVIEW}
    assert {(one.verb, one.subject) for one in asked if one.verb not in ("get", "list")} == {REVIEW}
