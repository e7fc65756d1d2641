"""A container of the image without a container runtime: its root file system read-only, its user, its environment.

It shares the network with this machine, so that it reaches an API server on loopback. Needs root.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Arguments: the root, the user, how many mounts, each as two words, then the command. /run and /tmp can be written, as
# the manifests say of /tmp; only a mount lies in /run.
START = """
root=$1 user=$2 count=$3; shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=755 run "$root/run"
while [ "$count" -gt 0 ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    count=$((count - 1)); shift 2
done
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" --groups= "$root" "$@"
"""


# As compiled kernels are asked for by a process that has much to solve; what numba had to compile is counted.
COUNT_COMPILED = """
from kai_sched.solver import jit
from kai_sched.solver.warmup import compile_all
from numba.core.dispatcher import Dispatcher
import gc

assert jit.warm() and jit.is_for_any_cpu(), "the kernels of the wheel are not used"
compile_all()
kernels = [thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)]
kernels = [kernel for kernel in kernels if kernel.py_func.__module__.startswith("kai_sched.")]
print(sum(sum(k.stats.cache_hits.values()) for k in kernels), sum(sum(k.stats.cache_misses.values()) for k in kernels))
"""


@dataclass(frozen=True)
class Container:
    """How a container of the image is started. ``settings`` are those of ``Builder.settings``."""

    root: Path
    settings: Mapping[str, Any]

    def command(
        self,
        *arguments: str,
        program: str | None = None,
        environment: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
    ) -> list[str]:
        """The words that start it: the entry point, or another program of the image, with these arguments.

        ``mounts`` are folders of this machine and where they are in the container, below /tmp or /run.
        """
        places = [word for here, there in (mounts or {}).items() for word in (str(here), there)]
        own = [f"{name}={value}" for name, value in (environment or {}).items()]
        entry = [program] if program else self.settings["Entrypoint"]
        words = ["env", "-i", *self.settings["Env"], *own, *entry, *arguments]
        head = ["unshare", "--mount", "sh", "-ec", START, "start", str(self.root), self.settings["User"]]
        return [*head, str(len(places) // 2), *places, *words]

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run it to its end. Options as of ``command``."""
        return subprocess.run(
            self.command(*arguments, **options), capture_output=True, text=True, timeout=300, check=False
        )
