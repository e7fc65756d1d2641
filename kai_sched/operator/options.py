"""How `kai-sched run` was started."""

from __future__ import annotations

from dataclasses import dataclass, field

from kai_sched.model.config import Config


@dataclass(frozen=True, slots=True)
class Options:
    """The flags. Addresses are "host:port"; an empty one is off.

    ``config`` is what the flags say of scheduling, before the cluster's own objects; ``shard`` is the SchedulingShard
    that changes it. ``namespace`` is where the lease and the certificate live. ``lease`` is empty for the name that
    follows from the scheduler's and the node pool's. ``connections`` are requests under way at a time.
    ``mark_evicted``: pods get the condition DisruptionTarget before they are evicted. ``shutdown_delay_s``: so many
    seconds after a signal the webhooks are still served, as the cluster goes on sending requests for a while.
    """

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    namespace: str = "kai-scheduler"
    config: Config = field(default_factory=Config)
    shard: str = "default"
    lease: str = ""
    listen_address: str = ":8080"
    webhook_address: str = ""
    metrics_namespace: str = "kai"
    connections: int = 64
    default_queues: bool = True
    mark_evicted: bool = False
    shutdown_delay_s: float = 5.0

    def lease_name(self, config: Config) -> str:
        """The scheduler's name, and the node pool where there is one (API 2.4), unless a flag says another."""
        pool = config.node_pool
        return self.lease or f"{config.scheduler_name}{f'-{pool}' if pool else ''}"
