"""The flags of the commands: their names, help texts and bounds.

Where the original has the same one, the name is the same (API 10.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from kai_sched.api.names import DEFAULT_SHARD
from kai_sched.cli.completion import (
    complete_added_nodes,
    complete_changes,
    complete_nodes,
    complete_queues,
    complete_workloads,
)


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser for an option that takes one of these words, in any case. Typer's message for enums is less clear."""

    def read(text: str) -> str:
        if text.lower() not in choices:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(choices)}")
        return text.lower()

    return read


def check_input(paths: list[str] | None, cluster: bool, kubeconfig: str | None, context: str | None) -> None:
    """Raises typer.BadParameter where neither files nor a cluster are named, or a context without ``--cluster``."""
    if not paths and not cluster:
        raise typer.BadParameter("name files with a cluster, or read a running one with --cluster")
    for flag, value in (("--kubeconfig", kubeconfig), ("--context", context)):
        if value is not None and not cluster:
            raise typer.BadParameter(f"{flag} is for --cluster: add it, or leave {flag} out")


def check_shards(all_shards: bool, shard: str, partition_label_value: str | None) -> None:
    """Raises typer.BadParameter where all shards and one of them are asked for, or a shard without a name."""
    if all_shards and (shard != DEFAULT_SHARD or partition_label_value):
        raise typer.BadParameter("--all-shards is for all of them: leave --shard and --partition-label-value out")
    if not shard:
        raise typer.BadParameter("--shard needs the name of a SchedulingShard")


def check_all_shards(all_shards: bool, config: str | None, partition_label_value: str | None) -> None:
    """Raises typer.BadParameter where all shards are decided and the settings of one are given."""
    for flag, value in (("--config", config), ("--partition-label-value", partition_label_value)):
        if all_shards and value is not None:
            raise typer.BadParameter(f"{flag} is for one shard: leave it or --all-shards out")


SOLVERS = ("auto", "compiled", "interpreted")
OUTPUTS = ("table", "wide", "name", "csv", "json", "yaml", "html")
SORTS = ("age", "name", "queue", "gpus")
MOST_CYCLES = 10_000
ANSWERS = ("text", "wide", "json", "yaml")
EXPLANATIONS = (*ANSWERS, "html")
LEVELS = ("debug", "info", "warning", "error")
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="The kubeconfig.  [default: KUBECONFIG, ~/.kube/config, or the pod's service account]"
    ),
]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="A context of the kubeconfig.")]
Cluster = Annotated[
    bool, typer.Option("--cluster", help="Read a running cluster (get and list), beside the files if there are any.")
]
Namespace = Annotated[str, typer.Option(metavar="NAME", help="Namespace of the lease and of the certificate.")]
# Of `kai-sched version` and `doctor`.
FactsOutput = Annotated[
    str, typer.Option("--output", "-o", parser=one_of("text", "json"), metavar="text|json", help="What to print.")
]
SystemNamespace = Annotated[str, typer.Option(metavar="NAME", help="Where the scheduler is installed.")]
SchedulerName = Annotated[str, typer.Option(metavar="NAME", help="The schedulerName of the pods to schedule.")]
Shard = Annotated[str, typer.Option(metavar="NAME", help="The SchedulingShard to serve.")]
AllShards = Annotated[
    bool, typer.Option("--all-shards", help="Decide for all SchedulingShards of the cluster, each by itself.")
]
AllShardsOffline = Annotated[
    bool, typer.Option("--all-shards", help="Decide for all SchedulingShards in the input, each by itself.")
]
PartitionLabelValue = Annotated[
    str, typer.Option(metavar="VALUE", help="The node pool to serve; empty: objects without the label of node pools.")
]
NodePoolLabelKey = Annotated[str, typer.Option(metavar="LABEL", help="The label of node pools.")]
QueueLabelKey = Annotated[str, typer.Option(metavar="LABEL", help="The label with the queue of a pod.")]
# Those that `simulate` has, too: if they are left out, the files say.
SchedulerNameOffline = Annotated[
    str | None, typer.Option("--scheduler-name", metavar="NAME", help="As for run.  [default: kai-scheduler]")
]
QueueLabelKeyOffline = Annotated[
    str | None, typer.Option("--queue-label-key", metavar="LABEL", help="As for run.  [default: as the files say]")
]
NodePoolLabelKeyOffline = Annotated[
    str | None, typer.Option("--nodepool-label-key", metavar="LABEL", help="As for run.  [default: as the files say]")
]
PartitionLabelValueOffline = Annotated[
    str | None,
    typer.Option("--partition-label-value", metavar="VALUE", help="As for run.  [default: as the files say]"),
]
SchedulerConf = Annotated[str | None, typer.Option(metavar="FILE", help="The scheduler's config file.")]
SettingsFolder = Annotated[
    str | None,
    typer.Option(metavar="FOLDER", help="Config, SchedulingShards and default queues to write into the cluster."),
]
ListenAddress = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="For /metrics, /healthz and /readyz (/readyz/scheduling); empty: none.")
]
WebhookAddress = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Address of the admission webhooks; empty: no webhooks.")
]
ShutdownDelay = Annotated[
    float,
    typer.Option(min=0, max=20, metavar="SECONDS", help="How long webhooks are served after a signal to stop."),
]
CycleTimeout = Annotated[
    float,
    typer.Option(
        min=0, metavar="SECONDS", help="End, so that another replica leads, where a cycle takes longer; 0: never."
    ),
]
PluginServerPort = Annotated[
    int,
    typer.Option(min=0, max=65_535, metavar="PORT", help="The port of /get-snapshot on 127.0.0.1; 0: none."),
]
AuthenticatedMetrics = Annotated[
    bool,
    typer.Option(
        "--authenticated-metrics/--no-authenticated-metrics",
        help="Show /metrics only to those who may get it, by their bearer token; with webhooks, over their TLS, too.",
    ),
]
PageAddress = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Address of the page of the cluster, for users who may get /page; plain HTTP; empty: none.",
    ),
]
Recordings = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Where the inputs of the last cycles are written on SIGUSR2, and after a cycle that failed."
        "  [default: kai-sched-recordings-UID in the folder for temporary files]",
    ),
]
LeaseName = Annotated[
    str, typer.Option(metavar="NAME", help="The lease.  [default: the scheduler's name, and the node pool]")
]
MetricsNamespace = Annotated[str, typer.Option(metavar="PREFIX", help="Prefix of the names of metrics.")]
Connections = Annotated[
    int,
    typer.Option(
        min=1, max=1000, metavar="N", help="Most requests at the same time. Binds use at most 48 of the default 64."
    ),
]
DefaultQueues = Annotated[
    bool, typer.Option(help="Create default-queue and its parent at the first start, and if no other queue exists.")
]
UpdatePodEvictionCondition = Annotated[
    bool,
    typer.Option("--update-pod-eviction-condition", help="Mark pods with DisruptionTarget before they are evicted."),
]
LogJson = Annotated[
    bool | None, typer.Option("--log-json/--log-text", help="How to log.  [default: text on a terminal]")
]
LogLevel = Annotated[
    str,
    typer.Option(
        parser=one_of(*LEVELS),
        metavar="|".join(LEVELS),
        help="Which lines are logged; debug adds cycles without effects.",
    ),
]
# Of `kai-sched reserve`. The kubelet sets the first two where the pod asks for it (downward API).
PodName = Annotated[str, typer.Option(envvar="POD_NAME", metavar="NAME", help="The pod that this runs in.")]
PodNamespace = Annotated[str, typer.Option(envvar="POD_NAMESPACE", metavar="NAME", help="The namespace of the pod.")]
FakeDevice = Annotated[
    bool, typer.Option("--fake-device", help="Make a device up, for nodes without GPUs; NVML is not asked.")
]
ServiceAccountFolder = Annotated[
    str, typer.Option(metavar="FOLDER", help="Where the token and the certificate of the service account are.")
]
TerminationLog = Annotated[str, typer.Option(metavar="FILE", help="Where the reason of a failure is written.")]

# Of the commands that ask about a cluster: which one, at which time, and what is changed before it is asked about.
Config = Annotated[str | None, typer.Option(metavar="FILE", help="The scheduler's config file.")]
Now = Annotated[
    str | None, typer.Option(metavar="TIME", help="The time of the first cycle, RFC 3339.  [default: as the files say]")
]
Solver = Annotated[
    str,
    typer.Option(
        parser=one_of(*SOLVERS),
        metavar="|".join(SOLVERS),
        help="How the solver runs; compiled is faster for large clusters, but is compiled at first use.",
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SETTING",
        help="Change a queue or a workload: queue/NAME.gpu.quota=8, workload/NAME.gpus=4. May be given several times.",
        autocompletion=complete_changes,
    ),
]
NewNodes = Annotated[
    list[str] | None,
    typer.Option(
        "--add-nodes",
        metavar="N:like=NODE",
        help="Add N nodes like one that exists.",
        autocompletion=complete_added_nodes,
    ),
]
Drained = Annotated[
    list[str] | None,
    typer.Option("--drain", metavar="NODE", help="Cordon a node, and evict its pods.", autocompletion=complete_nodes),
]
Uncordoned = Annotated[
    list[str] | None,
    typer.Option(
        "--uncordon",
        metavar="NODE",
        help="Let a node take pods, as if it were schedulable and ready.",
        autocompletion=complete_nodes,
    ),
]
Removed = Annotated[
    list[str] | None,
    typer.Option(
        "--remove",
        metavar="WORKLOAD",
        help="Take a workload away, as if it had ended.",
        autocompletion=complete_workloads,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="FILE", help="Objects that replace those of the same kind and name."),
]
RunTimes = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        metavar="KIND/NAME=2h",
        help="How long a workload runs from its start. May be given several times.",
        autocompletion=complete_workloads,
    ),
]
DataOutput = Annotated[
    str,
    typer.Option("--output", "-o", parser=one_of(*ANSWERS), metavar="|".join(ANSWERS), help="What to print."),
]

# Of `simulate`: what is run, and what of it is shown.
ClusterFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE|FOLDER|-...", help="Kubernetes objects or scenarios, YAML or JSON; - is standard input."
    ),
]
Actions = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Actions to run, in this order, separated by commas.  [default: all]"),
]
Cycles = Annotated[
    int | None, typer.Option(min=1, max=MOST_CYCLES, metavar="N", help="How many cycles to run.  [default: 1]")
]
OverviewOutput = Annotated[
    str, typer.Option("--output", "-o", parser=one_of(*OUTPUTS), metavar="|".join(OUTPUTS), help="What to print.")
]
Everything = Annotated[bool, typer.Option("--all", help="List running workloads as well.")]
Pending = Annotated[bool, typer.Option("--pending", help="List only what waits.")]
OfNamespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Only workloads of this namespace.")
]
OfQueue = Annotated[
    str,
    typer.Option(
        "--queue",
        "-q",
        metavar="NAME",
        help="Only workloads of this queue, or of one below it.",
        autocompletion=complete_queues,
    ),
]
WithLabels = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="Only workloads with these labels: key=value,key!=value,key in (a, b),key,!key.",
    ),
]
Sort = Annotated[
    str, typer.Option("--sort", parser=one_of(*SORTS), metavar="|".join(SORTS), help="How to sort workloads.")
]
Wide = Annotated[bool, typer.Option("--wide", help="All resources of queues, PodGroups and whole reasons.")]
Every = Annotated[
    float, typer.Option(min=1.0, metavar="SECONDS", help="How long to wait before reading the cluster again.")
]
Headers = Annotated[bool, typer.Option("--headers/--no-headers", help="Whether tables have titles.")]
ExplainOutput = Annotated[
    str,
    typer.Option("--output", "-o", parser=one_of(*EXPLANATIONS), metavar="|".join(EXPLANATIONS), help="What to print."),
]
