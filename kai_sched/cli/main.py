"""The commands of the command line, the defaults of their flags, and under which names the program is called.

A command imports what it needs when it runs, so that printing the help is fast.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kai_sched import __version__
from kai_sched.cli import flags
from kai_sched.cli.completion import answer_shell, complete_queues, complete_workloads, is_completion

if TYPE_CHECKING:
    from kai_sched.cli.inputs import ChangeOptions, InputOptions

MOST_CYCLES = 10_000
OUTPUTS = ("table", "wide", "name", "csv", "json", "yaml", "html")
SORTS = ("age", "name", "queue", "gpus")
SHELLS = ("bash", "zsh", "fish")
KUBECTL_PLUGIN = "kubectl-kai"
# How many more objects there may be before Python looks for reference cycles. Importing makes some 100,000 that stay;
# with Python's own threshold of 700, a fifth of the time of a short command would go into traversing them.
GARBAGE_THRESHOLD = 100_000

app = typer.Typer(
    help="A scheduler for Kubernetes AI clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


@app.command()
def version(output: flags.FactsOutput = "text") -> None:
    """Print the version; as JSON with those of Python, numba, numpy and llvmlite, the CPU and the kernel cache."""
    if output == "text":
        typer.echo(__version__)
        return
    import json

    from kai_sched.cli.version import facts

    typer.echo(json.dumps(facts().to_dict(), indent=2))


@app.command()
def doctor(
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    namespace: flags.SystemNamespace = "kai-scheduler",
    output: flags.FactsOutput = "text",
) -> None:
    """Check this installation, and what the API server has of kai-sched, where one answers.

    Prints a line for each check: ok, warning or error, what was looked at, and the remedy. Exit status: 0, or 1 where
    something is an error.
    """
    from kai_sched.cli.doctor import doctor

    raise typer.Exit(doctor(kubeconfig, context, namespace, output))


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), parser=flags.one_of(*SHELLS), help="The shell.")],
) -> None:
    """Print a script that completes commands, options, and names in files, for a shell.

    bash: source <(kai-sched completion bash). zsh: kai-sched completion zsh > "${fpath[1]}/_kai-sched".
    fish: kai-sched completion fish > ~/.config/fish/completions/kai-sched.fish. kubectl completes "kubectl kai" itself.
    """
    from kai_sched.cli.shell_scripts import SCRIPTS

    typer.echo(SCRIPTS[shell], nl=False)


@app.command()
def simulate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|FOLDER|-...", help="Kubernetes objects or scenarios, YAML or JSON; - is standard input."
        ),
    ] = None,
    actions: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Actions to run, in this order, separated by commas.  [default: all]"),
    ] = None,
    cycles: Annotated[
        int | None, typer.Option(min=1, max=MOST_CYCLES, metavar="N", help="How many cycles to run.  [default: 1]")
    ] = None,
    now: flags.Now = None,
    config: flags.Config = None,
    output: Annotated[
        str,
        typer.Option("--output", "-o", parser=flags.one_of(*OUTPUTS), metavar="|".join(OUTPUTS), help="What to print."),
    ] = "table",
    solver: flags.Solver = "auto",
    everything: Annotated[bool, typer.Option("--all", help="List running workloads as well.")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="List only what waits.")] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Only workloads of this namespace.")
    ] = "",
    queue: Annotated[
        str,
        typer.Option(
            "--queue",
            "-q",
            metavar="NAME",
            help="Only workloads of this queue, or of one below it.",
            autocompletion=complete_queues,
        ),
    ] = "",
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Only workloads with these labels: key=value,key.")
    ] = "",
    sort: Annotated[
        str, typer.Option("--sort", parser=flags.one_of(*SORTS), metavar="|".join(SORTS), help="How to sort workloads.")
    ] = "age",
    headers: Annotated[bool, typer.Option("--headers/--no-headers", help="Whether tables have titles.")] = True,
    settings: flags.Setting = None,
    add_nodes: flags.NewNodes = None,
    drain: flags.Drained = None,
    uncordon: flags.Uncordoned = None,
    remove: flags.Removed = None,
    override: flags.Overrides = None,
    scheduler_name: flags.SchedulerNameOffline = None,
    queue_label_key: flags.QueueLabelKeyOffline = None,
    nodepool_label_key: flags.NodePoolLabelKeyOffline = None,
    partition_label_value: flags.PartitionLabelValueOffline = None,
    cluster: flags.Cluster = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
) -> None:
    """Show what the scheduler would do with the objects in files.

    All files of plain Kubernetes objects together are one cluster, as "kubectl get nodes,pods,queues,podgroups
    -A -o json" prints it; each scenario file is a cluster of its own. Options override the actions, cycles and time
    of a scenario. With a change (--set, --add-nodes, --drain, --uncordon, --remove, --override), what it comes to is
    printed. Exit status: 0, or 2 if the input cannot be used.
    """
    from kai_sched.cli.simulate import Shown, SimulateOptions, simulate

    flags.check_input(paths, cluster, kubeconfig, context)
    given = {
        "scheduler_name": scheduler_name,
        "queue_label": queue_label_key,
        "node_pool_label": nodepool_label_key,
        "node_pool": partition_label_value,
    }
    found = _input(paths, config, now, solver, cluster, kubeconfig, context, given)
    changes = _changes(settings, add_nodes, drain, uncordon, remove, override)
    shown = Shown(output, everything, pending, namespace, queue, selector, sort, headers)
    raise typer.Exit(simulate(SimulateOptions(replace(found, actions=actions, changes=changes), cycles, shown)))


@app.command()
def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A workload: its name, namespace/name, kind/name, or a part of its name.",
            autocompletion=complete_workloads,
        ),
    ],
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER...", help="Files with the cluster, as for simulate.")
    ] = None,
    output: flags.ExplainOutput = "text",
    now: flags.Now = None,
    config: flags.Config = None,
    solver: flags.Solver = "auto",
    settings: flags.Setting = None,
    add_nodes: flags.NewNodes = None,
    drain: flags.Drained = None,
    uncordon: flags.Uncordoned = None,
    remove: flags.Removed = None,
    override: flags.Overrides = None,
    cluster: flags.Cluster = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
) -> None:
    """Say why a workload waits, what blocks it, and what would start it at whose expense.

    Every change that is proposed was simulated: with it the workload starts, with less of it it does not. With -o wide
    each has the flags of simulate that apply it. Exit status: 0, or 2 if the input cannot be used.
    """
    from kai_sched.cli.questions import run_explain

    flags.check_input(paths, cluster, kubeconfig, context)
    found = _input(paths, config, now, solver, cluster, kubeconfig, context, {})
    changes = _changes(settings, add_nodes, drain, uncordon, remove, override)
    raise typer.Exit(run_explain(name, replace(found, changes=changes), output))


@app.command()
def fit(
    workloads: Annotated[list[str], typer.Argument(metavar="WORKLOAD...", help="Files with workloads to try.")],
    on: Annotated[
        list[str] | None,
        typer.Option("--on", metavar="CLUSTER", help="Files with the cluster. May be given several times."),
    ] = None,
    output: flags.DataOutput = "text",
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 0 where it runs, 3 where it waits, 4 where it evicts others.")
    ] = False,
    now: flags.Now = None,
    config: flags.Config = None,
    solver: flags.Solver = "auto",
    settings: flags.Setting = None,
    add_nodes: flags.NewNodes = None,
    drain: flags.Drained = None,
    uncordon: flags.Uncordoned = None,
    remove: flags.Removed = None,
    override: flags.Overrides = None,
    cluster: flags.Cluster = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
) -> None:
    """Say whether workloads would run on a cluster: where, after whom, and at whose expense.

    Exit status: 0, or 2 if the input cannot be used; with --exit-code also 3 and 4.
    """
    from kai_sched.cli.questions import run_fit

    if not on and not cluster:
        raise typer.BadParameter("name files with the cluster by --on, or read a running one with --cluster")
    flags.check_input(on, cluster, kubeconfig, context)
    found = _input(on, config, now, solver, cluster, kubeconfig, context, {})
    changes = _changes(settings, add_nodes, drain, uncordon, remove, override)
    raise typer.Exit(run_fit(replace(found, changes=changes), workloads, output, exit_code))


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A file or folder with a cluster.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    output: flags.DataOutput = "text",
    now: flags.Now = None,
    config: flags.Config = None,
    solver: flags.Solver = "auto",
) -> None:
    """Say what differs between the plans for two clusters: who starts, who is evicted, whose share changes.

    Exit status: 0, or 2 if the input cannot be used.
    """
    from kai_sched.cli.questions import run_diff

    first, second = (_input([path], config, now, solver, False, None, None, {}) for path in (before, after))
    raise typer.Exit(run_diff(first, second, output))


def _input(
    paths: list[str] | None,
    config: str | None,
    now: str | None,
    solver: str,
    cluster: bool,
    kubeconfig: str | None,
    context: str | None,
    given: Mapping[str, str | None],
) -> InputOptions:
    """The options about the input, from those of a command."""
    from kai_sched.cli.inputs import ClusterOptions, InputOptions

    settings = {name: value for name, value in given.items() if value is not None}
    live = ClusterOptions(kubeconfig, context) if cluster else None
    return InputOptions(tuple(paths or ()), config, now, None, solver, settings, live)


def _changes(*values: list[str] | None) -> ChangeOptions:
    """The options about changes, in the order of the fields of ChangeOptions."""
    from kai_sched.cli.inputs import ChangeOptions

    return ChangeOptions(*(tuple(each or ()) for each in values))


@app.command()
def run(
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    namespace: flags.Namespace = "kai-scheduler",
    scheduler_name: flags.SchedulerName = "kai-scheduler",
    shard: flags.Shard = "default",
    partition_label_value: flags.PartitionLabelValue = "",
    nodepool_label_key: flags.NodePoolLabelKey = "kai.scheduler/node-pool",
    queue_label_key: flags.QueueLabelKey = "kai.scheduler/queue",
    scheduler_conf: flags.SchedulerConf = None,
    listen_address: flags.ListenAddress = ":8080",
    webhook_address: flags.WebhookAddress = "",
    shutdown_delay: flags.ShutdownDelay = 5.0,
    cycle_timeout: flags.CycleTimeout = 120.0,
    lease_name: flags.LeaseName = "",
    metrics_namespace: flags.MetricsNamespace = "kai",
    connections: flags.Connections = 64,
    default_queues: flags.DefaultQueues = True,
    update_pod_eviction_condition: flags.UpdatePodEvictionCondition = False,
    plugin_server_port: flags.PluginServerPort = 8081,
    page_address: flags.PageAddress = "",
    recordings: flags.Recordings = None,
    log_json: flags.LogJson = None,
    log_level: flags.LogLevel = "info",
) -> None:
    """Schedule the pods of a cluster, until a signal.

    Several may run: one leads, the others wait to take over. Exit status: 0 after a signal, 1 where the lease was lost
    or a part failed (start it again), 2 where it cannot start.
    """
    from kai_sched.cli.run import RunArguments, run
    from kai_sched.model.config import Config
    from kai_sched.operator.options import RunOptions, default_folder

    config = Config(
        scheduler_name=scheduler_name,
        queue_label=queue_label_key,
        node_pool_label=nodepool_label_key,
        node_pool=partition_label_value,
        proves_shares=True,
    )
    options = RunOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        config=config,
        shard=shard,
        lease=lease_name,
        listen_address=listen_address,
        webhook_address=webhook_address,
        shutdown_delay_s=shutdown_delay,
        cycle_timeout_s=cycle_timeout,
        metrics_namespace=metrics_namespace,
        connections=connections,
        default_queues=default_queues,
        mark_evicted=update_pod_eviction_condition,
        plugin_server_port=plugin_server_port,
        page_address=page_address,
        recordings=recordings or default_folder(),
    )
    raise typer.Exit(run(RunArguments(options, scheduler_conf, log_json, log_level)))


@app.command()
def reserve(
    pod_name: flags.PodName,
    pod_namespace: flags.PodNamespace,
    fake_device: flags.FakeDevice = False,
    service_account: flags.ServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount",
    termination_log: flags.TerminationLog = "/dev/termination-log",
) -> None:
    """Hold a GPU for the pods that share it: for reservation pods, which the scheduler makes.

    Writes the UUID of the device that this pod has into its annotation run.ai/reserve_for_gpu_index, and waits for a
    signal. Exit status: 0 after a signal, 1 where the pod does not see exactly one device.
    """
    from kai_sched.cli.reserve import ReserveOptions, reserve

    raise typer.Exit(reserve(ReserveOptions(pod_name, pod_namespace, fake_device, service_account, termination_log)))


@app.command()
def dump(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE|-", help="The file to write (gzip); - is standard output.")
    ],
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAME", help="Only objects of this namespace, and the cluster's."),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a cluster into a file, for simulate.

    Only gets and lists objects that the scheduler uses; values of environment variables, commands, secrets and contents
    of ConfigMaps are left out. Exit status: 0, or 2 if the cluster cannot be read or the file not be written.
    """
    from kai_sched.cli.dump import DumpOptions, dump

    raise typer.Exit(dump(DumpOptions(output, kubeconfig, context, namespace, force)))


@app.command()
def replay(
    paths: Annotated[list[str], typer.Argument(metavar="FILE|-...", help="Files that run has recorded.")],
) -> None:
    """Decide cycles again that run has recorded, and compare the plans.

    With SIGUSR2, and after a cycle that failed, run writes the inputs of its last cycles (--recordings). Exit status:
    0 if all plans are the same, 1 if one is not, 2 if a file cannot be used.
    """
    from kai_sched.cli.replay import replay

    raise typer.Exit(replay(paths))


@app.command()
def warmup() -> None:
    """Compile the solver into the cache, so that no later command has to."""
    from kai_sched.library import warm_up
    from kai_sched.telemetry.progress import Progress

    text, kept = warm_up(Progress(sys.stderr))
    typer.echo(text, err=not kept)
    raise typer.Exit(0 if kept else 1)


def _print_warning(message: Warning | str, *_: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _run() -> None:
    """Run the command, under the name that the program was called by."""
    program = os.path.basename(sys.argv[0])
    if is_completion(program, sys.argv[1:]):
        typer.echo(answer_shell(program, sys.argv[1:], typer.main.get_command(app)), nl=False)
        return
    app(prog_name="kubectl kai" if program == KUBECTL_PLUGIN else None)


def main() -> None:
    """Run the command. If the reader of its output goes away, exit with status 1 and without a message."""
    warnings.showwarning = _print_warning  # type: ignore[assignment]
    gc.set_threshold(GARBAGE_THRESHOLD)  # `run` sets its own
    # Looking for plugins of pydantic reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        try:
            _run()
        finally:
            sys.stdout.flush()
            gc.freeze()  # else Python traverses all objects once more before it ends
    except OSError as error:
        # Errors of the input are reported elsewhere, so this one is of the output, which Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"error: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
