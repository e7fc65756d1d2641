"""The commands of the command line, the defaults of their flags, and under which names the program is called.

A command imports what it needs when it runs, so that printing the help is fast.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from typing import Annotated

import typer

from kai_sched import __version__
from kai_sched.cli import cluster_commands, flags
from kai_sched.cli.completion import answer_shell, is_completion
from kai_sched.cli.operator_packages import missing_part

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
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|FOLDER|-...", help="Files with objects of a cluster: checked for other schedulers."
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Also list what the cluster has of other schedulers, and what changes.")
    ] = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    namespace: flags.SystemNamespace = "kai-scheduler",
    output: flags.FactsOutput = "text",
) -> None:
    """Check this installation, and what the API server has of kai-sched, where one answers.

    With --cluster or with files, it also says what there is of KAI Scheduler, Kueue, Volcano and YuniKorn, and what
    changes when kai-sched takes over. It only gets and lists. Prints a line for each check: ok, warning or error, what
    was looked at, and the remedy. Exit status: 0, or 1 where something is an error.
    """
    from kai_sched.cli.doctor import DoctorOptions, doctor

    options = DoctorOptions(tuple(paths or ()), cluster, kubeconfig, context, namespace, output)
    raise typer.Exit(doctor(options))


@app.command()
def convert_kueue(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="FILE|FOLDER|-...", help="Files with objects of Kueue.")
    ] = None,
    cluster: flags.Cluster = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
) -> None:
    """Make Queues of the ClusterQueues and Cohorts of Kueue (v1beta1, v1beta2), and print them as YAML.

    What has no meaning in a Queue is listed on stderr, with object, field and remedy. Nothing is applied. Exit status:
    0, or 2 if the input cannot be used.
    """
    from kai_sched.cli.inputs import ClusterOptions
    from kai_sched.cli.migration.convert import convert_kueue

    flags.check_input(paths, cluster, kubeconfig, context)
    options = ClusterOptions(kubeconfig, context) if cluster else None
    raise typer.Exit(convert_kueue(tuple(paths or ()), options))


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


for command in (
    cluster_commands.simulate,
    cluster_commands.top,
    cluster_commands.explain,
    cluster_commands.fit,
    cluster_commands.diff,
):
    app.command()(command)


@app.command()
def run(
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    namespace: flags.Namespace = "kai-scheduler",
    scheduler_name: flags.SchedulerName = "kai-scheduler",
    shard: flags.Shard = "default",
    all_shards: flags.AllShards = False,
    partition_label_value: flags.PartitionLabelValue = "",
    nodepool_label_key: flags.NodePoolLabelKey = "kai.scheduler/node-pool",
    queue_label_key: flags.QueueLabelKey = "kai.scheduler/queue",
    scheduler_conf: flags.SchedulerConf = None,
    settings_folder: flags.SettingsFolder = None,
    listen_address: flags.ListenAddress = ":8080",
    webhook_address: flags.WebhookAddress = "",
    shutdown_delay: flags.ShutdownDelay = 5.0,
    cycle_timeout: flags.CycleTimeout = 120.0,
    lease_name: flags.LeaseName = "",
    metrics_namespace: flags.MetricsNamespace = "kai",
    authenticated_metrics: flags.AuthenticatedMetrics = False,
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

    Several may run, one leads. Exit status: 0 after a signal, 1 if it is to be started again, 2 if it cannot start.
    """
    flags.check_shards(all_shards, shard, partition_label_value)
    from kai_sched.cli.run import RunArguments, base_config, run
    from kai_sched.operator.options import RunOptions, default_folder

    options = RunOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        config=base_config(scheduler_name, queue_label_key, nodepool_label_key, partition_label_value),
        shard="" if all_shards else shard,
        lease=lease_name,
        listen_address=listen_address,
        webhook_address=webhook_address,
        shutdown_delay_s=shutdown_delay,
        cycle_timeout_s=cycle_timeout,
        metrics_namespace=metrics_namespace,
        authenticated_metrics=authenticated_metrics,
        connections=connections,
        default_queues=default_queues,
        mark_evicted=update_pod_eviction_condition,
        plugin_server_port=plugin_server_port,
        page_address=page_address,
        recordings=recordings or default_folder(),
    )
    raise typer.Exit(run(RunArguments(options, scheduler_conf, settings_folder, log_json, log_level)))


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
    except ModuleNotFoundError as error:
        if (text := missing_part(error)) is None:
            raise
        print(text, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        # Errors of the input are reported elsewhere, so this one is of the output, which Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"error: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
