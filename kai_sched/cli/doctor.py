"""``kai-sched doctor``: the checks of this installation, whether a cluster or files are checked as well, what is
printed, and the exit status. The checks of the cluster are in ``cluster_checks``, other schedulers in ``migration``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.takeover import takeover_of_cluster, takeover_of_files
from kai_sched.cli.operator_packages import REMEDY, missing_part
from kai_sched.cli.version import COMPILED, INTERPRETED, InstallationFacts, facts
from kai_sched.report.text import plain
from kai_sched.workload_kinds import PluginKinds, installed_kinds

CONNECTIONS = 8  # requests at the same time


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What is checked, and how it is printed.

    ``paths`` are files with objects of a cluster; ``takeover`` asks a cluster about other schedulers, too.
    """

    paths: tuple[str, ...]
    takeover: bool
    kubeconfig: str | None
    context: str | None
    namespace: str
    output: str

    @property
    def names_cluster(self) -> bool:
        """Whether a cluster was named, so that it is an error where it does not answer."""
        return self.takeover or bool(self.kubeconfig or self.context)


def doctor(options: DoctorOptions) -> int:
    """Print the findings; return the exit status: 1 if something is an error, else 0.

    Without a cluster that answers only this installation is checked. That is an error only if one was named. With
    files no cluster is asked, unless it was named.
    """
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    found = check_installation(facts())
    if options.names_cluster or not options.paths:
        found += asyncio.run(_ask_cluster(options))
    if options.paths:
        found += takeover_of_files(options.paths)
    failed = any(each.gravity is Gravity.ERROR for each in found)
    if options.output == "json":
        print(json.dumps({"ok": not failed, "findings": [each.to_dict() for each in found]}, indent=2))
    else:
        for each in found:
            print(plain(str(each)))
    return 1 if failed else 0


def check_installation(known: InstallationFacts) -> list[Finding]:
    """Versions, and the cache of compiled kernels."""
    missing = [name for name, version in known.packages.items() if version is None]
    if missing:
        remedy = "install kai-sched again with what it needs"
        versions = Finding(Gravity.ERROR, "versions", f"{', '.join(missing)} not installed", remedy)
    else:
        packages = ", ".join(f"{name} {version}" for name, version in known.packages.items())
        text = f"kai-sched {known.version}, Python {known.python}, {packages}, {known.platform}, CPU {known.cpu}"
        versions = Finding(Gravity.OK, "versions", text)
    return [versions, _check_kernels(known), *_check_plugins(installed_kinds())]


def _check_kernels(known: InstallationFacts) -> Finding:
    if known.kernels == INTERPRETED:
        text = "interpreted, as KAI_SCHED_JIT=off is set: large clusters take long"
        return Finding(Gravity.WARNING, "kernels", text, "unset KAI_SCHED_JIT")
    if known.cache_folder is None:
        return Finding(Gravity.WARNING, "kernels", known.cache_problem or "cannot be compiled")
    where = f"{known.cache_folder} ({_megabytes(known.cache_folder)})"
    if known.kernels == COMPILED and known.for_any_cpu:
        text = f"compiled for any CPU, in {where}; kai-sched warmup compiles them for this one"
        return Finding(Gravity.OK, "kernels", text)
    if known.kernels == COMPILED:
        return Finding(Gravity.OK, "kernels", f"compiled, in {where}")
    return Finding(Gravity.WARNING, "kernels", f"not all are compiled, in {where}", "run kai-sched warmup")


def _check_plugins(plugins: PluginKinds) -> list[Finding]:
    """Workload kinds of other packages, and what is wrong with some of them."""
    kinds = ", ".join(f"{kind} ({version})" for version, kind in plugins.kinds)
    found = [Finding(Gravity.OK, "workload kinds", f"of other packages: {kinds}")] if kinds else []
    return found + [Finding(Gravity.WARNING, "workload kinds", str(each), "not used") for each in plugins.faults]


def _megabytes(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f} MB"


async def _ask_cluster(options: DoctorOptions) -> list[Finding]:
    gravity = Gravity.ERROR if options.names_cluster else Gravity.OK
    try:
        from kai_sched.cli.cluster_checks import check_cluster
        from kai_sched.cluster.client import Api, ApiFailure
        from kai_sched.cluster.login import LoginFailure
    except ModuleNotFoundError as error:
        if missing_part(error) is None:
            raise
        return [Finding(gravity, "no cluster", f"{error.name} is not installed", REMEDY)]
    remedy = "check --kubeconfig and --context, and whether the API server runs" if options.names_cluster else ""
    try:
        api = await Api.connect(options.kubeconfig, options.context, CONNECTIONS)
    except LoginFailure as failure:
        return [Finding(gravity, "no cluster", str(failure))]  # the text ends with the remedy
    try:
        found = await check_cluster(api, options.namespace, datetime.now(UTC))
        return [*found, *await takeover_of_cluster(api)] if options.takeover else found
    except ApiFailure as failure:
        return [Finding(gravity, "no cluster", f"{api.credentials().server}: {failure}", remedy)]
    finally:
        await api.close()
