"""The commands that ask about a cluster, from files or a running one: ``simulate``, ``top``, ``explain``, ``fit``
and ``diff``.

``main`` makes commands of these functions, whose parameters are the flags.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kai_sched.cli import flags
from kai_sched.cli.completion import complete_workloads

if TYPE_CHECKING:
    from kai_sched.cli.inputs import ChangeOptions, Input, InputOptions

# Cycles that a command runs, about, of which each is estimated too long rather than too short: whether compiled kernels
# are worth loading depends on it.
CYCLES_OF_AN_EXPLANATION = 300
CYCLES_OF_A_FIT = 2


def simulate(
    paths: flags.ClusterFiles = None,
    actions: flags.Actions = None,
    cycles: flags.Cycles = None,
    now: flags.Now = None,
    config: flags.Config = None,
    output: flags.OverviewOutput = "table",
    solver: flags.Solver = "auto",
    everything: flags.Everything = False,
    pending: flags.Pending = False,
    namespace: flags.OfNamespace = "",
    queue: flags.OfQueue = "",
    selector: flags.WithLabels = "",
    sort: flags.Sort = "age",
    headers: flags.Headers = True,
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
    all_shards: flags.AllShardsOffline = False,
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
    flags.check_all_shards(all_shards, config, partition_label_value)
    given = {
        "scheduler_name": scheduler_name,
        "queue_label": queue_label_key,
        "node_pool_label": nodepool_label_key,
        "node_pool": partition_label_value,
    }
    found = replace(_input(paths, config, now, solver, cluster, kubeconfig, context, given), all_shards=all_shards)
    changes = _changes(settings, add_nodes, drain, uncordon, remove, override)
    shown = Shown(output, everything, pending, namespace, queue, selector, sort, headers)
    raise typer.Exit(simulate(SimulateOptions(replace(found, actions=actions, changes=changes), cycles, shown)))


def top(
    paths: flags.ClusterFiles = None,
    every: flags.Every = 10.0,
    now: flags.Now = None,
    config: flags.Config = None,
    solver: flags.Solver = "auto",
    wide: flags.Wide = False,
    everything: flags.Everything = False,
    pending: flags.Pending = False,
    namespace: flags.OfNamespace = "",
    queue: flags.OfQueue = "",
    selector: flags.WithLabels = "",
    sort: flags.Sort = "age",
    all_shards: flags.AllShardsOffline = False,
    cluster: flags.Cluster = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
) -> None:
    """Show the table of simulate, read again every few seconds; q or Ctrl-C ends it, any other key reads at once.

    Lists objects of a running cluster (--cluster) and changes none. A pipe gets the table once. Exit status: 0, or 2
    if the input cannot be used.
    """
    from kai_sched.cli.simulate import Shown, SimulateOptions
    from kai_sched.cli.top import top

    flags.check_input(paths, cluster, kubeconfig, context)
    flags.check_all_shards(all_shards, config, None)
    found = replace(_input(paths, config, now, solver, cluster, kubeconfig, context, {}), all_shards=all_shards)
    shown = Shown("wide" if wide else "table", everything, pending, namespace, queue, selector, sort)
    raise typer.Exit(top(SimulateOptions(found, shown=shown), every))


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
    runtime: flags.RunTimes = None,
    settings: flags.Setting = None,
    add_nodes: flags.NewNodes = None,
    drain: flags.Drained = None,
    uncordon: flags.Uncordoned = None,
    remove: flags.Removed = None,
    override: flags.Overrides = None,
    all_shards: flags.AllShardsOffline = False,
    cluster: flags.Cluster = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
) -> None:
    """Say why a workload waits, what blocks it, and what would start it at whose expense.

    Every change that is proposed was simulated: with it the workload starts, with less of it it does not. With -o wide
    each has the flags of simulate that apply it. Exit status: 0, or 2 if the input cannot be used.
    """
    # Else a workload may be called as a file is: that the name is none is told once the cluster is read.
    if not cluster and not any(path == "-" or os.path.exists(path) for path in paths or ()):
        _refuse_file(name)
    flags.check_input(paths, cluster, kubeconfig, context)
    flags.check_all_shards(all_shards, config, None)
    options = _input(paths, config, now, solver, cluster, kubeconfig, context, {})
    changes = _changes(settings, add_nodes, drain, uncordon, remove, override)
    options = replace(options, changes=changes, run_times=tuple(runtime or ()), all_shards=all_shards)
    found = _read(options, CYCLES_OF_AN_EXPLANATION)
    from kai_sched.cli.questions import run_explain

    raise typer.Exit(run_explain(name, found, options, output))


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
    runtime: flags.RunTimes = None,
    settings: flags.Setting = None,
    add_nodes: flags.NewNodes = None,
    drain: flags.Drained = None,
    uncordon: flags.Uncordoned = None,
    remove: flags.Removed = None,
    override: flags.Overrides = None,
    all_shards: flags.AllShardsOffline = False,
    cluster: flags.Cluster = False,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
) -> None:
    """Say whether workloads would run on a cluster: where, after whom, and at whose expense.

    Exit status: 0, or 2 if the input cannot be used; with --exit-code also 3 and 4.
    """
    if not on and not cluster:
        raise typer.BadParameter("name files with the cluster by --on, or read a running one with --cluster")
    flags.check_input(on, cluster, kubeconfig, context)
    flags.check_all_shards(all_shards, config, None)
    options = _input([*(on or ()), *workloads], config, now, solver, cluster, kubeconfig, context, {})
    changes = _changes(settings, add_nodes, drain, uncordon, remove, override)
    options = replace(options, changes=changes, run_times=tuple(runtime or ()), all_shards=all_shards)
    found = _read(options, CYCLES_OF_A_FIT)
    from kai_sched.cli.questions import run_fit

    raise typer.Exit(run_fit(found, options, workloads, output, exit_code))


def diff(
    before: Annotated[
        str,
        typer.Argument(metavar="A", help="A file or folder with a cluster, or a plan (simulate -o json)."),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Another cluster, or another plan.")],
    output: flags.DataOutput = "text",
    now: flags.Now = None,
    config: flags.Config = None,
    solver: flags.Solver = "auto",
) -> None:
    """Say what differs between the plans for two clusters: who starts, who is evicted, whose share changes.

    Exit status: 0, or 2 if the input cannot be used.
    """
    from kai_sched.cli.inputs import BAD_INPUT, print_error
    from kai_sched.cli.plan_files import read_plans
    from kai_sched.model.field_errors import FieldError

    paths = [before, after]
    try:
        plans = read_plans(paths)
    except FieldError as error:
        print_error(error)
        raise typer.Exit(BAD_INPUT) from None
    if plans:
        from kai_sched.cli.questions import run_plan_diff

        raise typer.Exit(run_plan_diff(paths, plans, output))
    inputs = [_read(_input([path], config, now, solver, False, None, None, {}), CYCLES_OF_A_FIT) for path in paths]
    from kai_sched.cli.questions import run_diff

    raise typer.Exit(run_diff(paths, inputs, output))


def _refuse_file(name: str) -> None:
    """End the command where the name is a file: the arguments are in the wrong order."""
    from kai_sched.cli.inputs import BAD_INPUT, name_is_file, print_error

    if (error := name_is_file(name)) is not None:
        print_error(error)
        raise typer.Exit(BAD_INPUT)


def _read(options: InputOptions, cycles: int) -> Input:
    """The input, for so many cycles. Ends the command where it cannot be used."""
    from kai_sched.cli.inputs import BAD_INPUT, read_input

    found = read_input(options, cycles)
    if found is None:
        raise typer.Exit(BAD_INPUT)
    return found


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
