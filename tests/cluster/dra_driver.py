"""The example driver of Kubernetes for devices, which publishes ResourceSlices as the kubelet plugin of a node."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster import components
from tests.cluster.control_plane import WORKLOADS, ControlPlane
from tests.cluster.processes import Process


@contextmanager
def running(plane: ControlPlane, nodes: Iterable[str], *flags: str, devices: int = 2) -> Iterator[None]:
    """The driver on each of these nodes, with so many GPUs there; no kubelet asks it for anything.

    The driver leaves its slices behind when it ends.
    """
    with ExitStack() as stack:
        for name in nodes:
            # Paths of sockets are short.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-")))
            for part in ("plugins", "registry", "cdi"):
                (folder / part).mkdir()
            given = {
                "kubeconfig": plane.kubeconfig(WORKLOADS),
                "node-name": name,
                "num-devices": devices,
                "cdi-root": folder / "cdi",
                "kubelet-plugins-directory-path": folder / "plugins",
                "kubelet-registrar-directory-path": folder / "registry",
            }
            words = [*(f"--{flag}={value}" for flag, value in given.items()), *flags]
            process = Process(f"driver of {name}", [components.program("dra", "dra"), *words], folder / "driver.log")
            stack.callback(process.end)
        yield
