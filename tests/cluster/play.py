"""A control plane to play with by hand, in the background: `make cluster-up`, `make cluster-down`.

It lives in .cluster/, where the administrator's kubeconfig lies too, under a process that holds its components until it
is told to end. With kube-controller-manager, so that namespaces, jobs and new nodes work as one expects.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster import components
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ADMIN, ControlPlane
from tests.cluster.processes import wait_until
from tests.tree import ROOT

FOLDER = ROOT / ".cluster"
KUBECONFIG = FOLDER / "kubeconfig"
HOLDER = FOLDER / "pid"
LOG = FOLDER / "log"
START_S = 180.0

# The commands are those of docs/install.md.
NEXT = """The cluster is up; it has our CRDs, no nodes and no scheduler. To go on:

    export KUBECONFIG=$PWD/.cluster/kubeconfig
    kubectl apply -f manifests/namespace.yaml -f manifests/priority-classes.yaml -f examples/teams/nodes.yaml
    .venv/bin/kai-sched run &

docs/install.md goes on with the first queue. Without a kubectl of your own: alias kubectl={kubectl}
`make cluster-down` ends it; the logs of its parts are in {folder}/plane."""


def up() -> None:
    """Start the control plane in the background, unless it runs, and say what to do next."""
    if _holder() is None:
        shutil.rmtree(FOLDER / "plane", ignore_errors=True)
        FOLDER.mkdir(exist_ok=True)
        KUBECONFIG.unlink(missing_ok=True)
        with LOG.open("wb") as log:
            holder = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, "hold"], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
        HOLDER.write_text(str(holder.pid))

        def ready() -> bool:
            if holder.poll() is not None:
                sys.exit(f"the cluster did not start:\n{LOG.read_text()}")
            return KUBECONFIG.exists()

        wait_until(ready, "the control plane", START_S)
    print(NEXT.format(folder=FOLDER, kubectl=components.program("kubernetes", "kubectl")))


def down() -> None:
    """End the control plane."""
    holder = _holder()
    if holder is None:
        print("no cluster of `make cluster-up` runs")
        return
    os.kill(holder, signal.SIGTERM)
    wait_until(lambda: _holder() is None, "the control plane to end", 60.0)
    print("the cluster is down")


def hold() -> None:
    """Be the process that the components belong to."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    plane = ControlPlane(FOLDER / "plane")
    try:
        plane.start()
        plane.start_controller_manager()
        cluster = Cluster(plane.server, plane.token(ADMIN), plane.authority, plane.admin_kubeconfig)
        cluster.add_crds()
        shutil.copy(plane.admin_kubeconfig, FOLDER / "new")
        Path(FOLDER / "new").rename(KUBECONFIG)  # at once with all its text
        while True:
            time.sleep(3600)
    finally:
        plane.stop()


def _holder() -> int | None:
    """The process that holds the components, if it runs; a number may be another process's by now."""
    try:
        pid = int(HOLDER.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if __spec__.name.encode() in command else None


if __name__ == "__main__":
    {"up": up, "down": down, "hold": hold}[sys.argv[1]]()
