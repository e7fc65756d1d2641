"""The fields of ``RunOptions``, what ``kai-sched run`` was started with, and the default name of the Lease."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field

from kai_sched.api import names
from kai_sched.files.settings_folder import SettingsFolder
from kai_sched.model.config import Config, scheduler_and_pool


def default_folder() -> str:
    """Return the folder for recordings, below the one for temporary files: each user has one."""
    return os.path.join(tempfile.gettempdir(), f"kai-sched-recordings-{os.getuid()}")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The flags of `kai-sched run`. Addresses are "host:port"; an empty one switches the server off.

    Attributes
    ----------
    config
        The settings of scheduling by flags, before the objects of the cluster change them.
    shard
        The SchedulingShard that changes them; "": the process decides for all of them.
    installed
        What the settings folder holds.
    namespace
        Where the lease and the certificate are.
    lease
        The name of the lease; empty for the one that follows from the scheduler and the node pool.
    connections
        How many requests are under way at most.
    mark_evicted
        Whether pods get the condition DisruptionTarget before they are evicted.
    cycle_timeout_s
        The process ends if a cycle takes longer than so many seconds, or if cycles fail for long; 0: never.
    shutdown_delay_s
        For how many seconds after a signal the webhooks are still served: the cluster goes on sending requests.
    plugin_server_port
        The port of /get-snapshot on 127.0.0.1; 0: it is not served.
    authenticated_metrics
        Whether /metrics asks for a token (``http.metrics_page``).
    page_address
        Where the page of the cluster is served (``http.page_server``).
    recordings
        The folder for the inputs of the last cycles (``cycle.recorder``).
    """

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    namespace: str = names.NAMESPACE
    config: Config = field(default_factory=Config)
    shard: str = "default"
    installed: SettingsFolder = field(default_factory=SettingsFolder)
    lease: str = ""
    listen_address: str = ":8080"
    webhook_address: str = ""
    metrics_namespace: str = "kai"
    authenticated_metrics: bool = False
    connections: int = 64
    default_queues: bool = True
    mark_evicted: bool = False
    cycle_timeout_s: float = 120.0
    shutdown_delay_s: float = 5.0
    plugin_server_port: int = 8081
    page_address: str = ""
    recordings: str = field(default_factory=default_folder)

    def lease_name(self, config: Config) -> str:
        """Return the name of the lease: that of the flag, else of the scheduler and its node pool, if it has one."""
        return self.lease or scheduler_and_pool(config)
