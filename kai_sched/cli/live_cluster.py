"""A running cluster as input of commands: which kubeconfig and context, what is read, and the dump that it gives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.cluster_reader import Cleaning, ClusterReader, Manifest, ReadObjects
from kai_sched.cluster.login import Login, LoginFailure
from kai_sched.cluster.nesting import allow_deep_objects
from kai_sched.cluster.paths import objects_path
from kai_sched.cluster.reflector import WatchSource
from kai_sched.files.dump import DumpMetadata, dump_document, kinds_config_map_of
from kai_sched.files.redaction import redacted
from kai_sched.files.run_times import WITH_DEADLINE, bounded
from kai_sched.model.config import Config
from kai_sched.model.problems import Problem
from kai_sched.operator.intake.sources import SOURCES

CONNECTIONS = 16
# Read for their deadlines alone, which say when others start.
BOUNDED = (
    WatchSource(("batch/v1", "Job"), objects_path("batch/v1", "jobs")),
    WatchSource(("ray.io/v1", "RayJob"), objects_path("ray.io/v1", "rayjobs"), optional=True),
)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A cluster that was read.

    Attributes
    ----------
    document
        Its dump (``files.dump``); without objects where a problem is fatal.
    problems
        What could not be read; a fatal one stops the command.
    name
        What messages call it: "cluster CONTEXT".
    """

    document: dict[str, Any]
    problems: tuple[Problem, ...]
    name: str

    @property
    def is_usable(self) -> bool:
        """Whether no problem is fatal."""
        return not any(problem.fatal for problem in self.problems)

    def content(self) -> bytes:
        """The dump for ``files.load``, without what ``problems`` say already."""
        metadata = {name: value for name, value in self.document["metadata"].items() if name != "unreadable"}
        return msgspec.json.encode({**self.document, "metadata": metadata})


def read_cluster(
    kubeconfig: str | None,
    context: str | None,
    namespace: str = "",
    config: Config | None = None,
    now_ns: Callable[[], int] = time.time_ns,
) -> LiveCluster:
    """Read what the scheduler needs, and write nothing. It raises nothing: what is wrong is in ``problems``.

    Parameters
    ----------
    kubeconfig, context
        As for ``kai-sched run``: None for the default ones.
    namespace
        The only namespace to read; empty: all.
    config
        The settings of the scheduler by its flags; by default those of ``kai-sched run`` without any.
    now_ns
        The time, in nanoseconds since the epoch: that of the dump is taken before the first request.
    """
    # As run has it: nobody has turned GPU sharing on, unless the Config of the cluster says so.
    config = config or Config(gpu_sharing=False, proves_shares=True)
    time_ns = now_ns()
    login = Login(kubeconfig, context)
    chosen = context or login.current_context()
    name = f"cluster {chosen}".strip()
    found = ReadObjects()
    problems: list[Problem] = []
    try:
        found = asyncio.run(_read(login, namespace, config))
    except LoginFailure as failure:
        problems.append(Problem("", "", "", str(failure), fatal=True))
    except ApiFailure as failure:
        problems.append(Problem(name, "", "", _unusable(failure, login, chosen), fatal=True))
    problems += [Problem(name, "", "", each.message, each.fatal) for each in found.unreadable]
    metadata = DumpMetadata(
        time_ns,
        chosen,
        (namespace,) if namespace else None,
        tuple(sorted(map(str, found.unreadable))),
    )
    return LiveCluster(dump_document(_once(found.objects), config, metadata), tuple(problems), name)


def _once(objects: Sequence[Manifest]) -> list[Manifest]:
    """Each object once, as it was read last: workloads that own pods without a group are read whole."""
    found: dict[object, Manifest] = {}
    for each in objects:
        meta = each.get("metadata") or {}
        found[each["kind"], each["apiVersion"], meta.get("namespace"), meta.get("name")] = each
    return list(found.values())


def _clean_listed(manifest: Manifest) -> Manifest | None:
    return bounded(manifest) if manifest["kind"] in WITH_DEADLINE else redacted(manifest)


async def _read(login: Login, namespace: str, config: Config) -> ReadObjects:
    allow_deep_objects()
    api = Api(login, await login.load(), CONNECTIONS)
    try:
        clean = Cleaning(listed=_clean_listed, owner=redacted)
        reader = ClusterReader(api, clean, lambda objects: kinds_config_map_of(objects, config), time.monotonic)
        return await reader.read((*SOURCES, *BOUNDED), config.scheduler_name, namespace)
    finally:
        await api.close()


def _unusable(failure: ApiFailure, login: Login, context: str) -> str:
    """Why there is no usable answer, and what to do."""
    source = f"kubeconfig {login.kubeconfig}" if login.kubeconfig else "the service account of the pod"
    entry = f"the context {context} of {source}" if context else source
    if failure.status == 401:
        return f"the API server does not accept the login of {entry}: renew it, or name another with --context"
    return f"{failure.message}: check {entry} and whether its cluster is up, or name another with --context"
