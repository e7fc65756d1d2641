"""Offline pods of TFJob, PyTorchJob, XGBoostJob, JAXJob and MPIJob: what the training operator and the MPI operator
would make.
"""

from __future__ import annotations

from collections.abc import Iterator

from kai_sched.api import names
from kai_sched.files.controllers.workload import ControlledWorkload, Controller, Manifest, count_of, with_labels
from kai_sched.reconcile.grouping.kubeflow import REPLICA_SPECS

# The roles that lead a job where they are there; the first found does.
_LEADERS = ("Chief", "Master", "Launcher")


def training_job(kind: str) -> Controller:
    """A controller that makes the pods of every role."""

    def control(workload: ControlledWorkload) -> Iterator[Manifest]:
        spec = workload.spec
        if spec.at("runPolicy").flag("suspend"):
            return
        roles = spec.at(REPLICA_SPECS[kind][0])
        waits = spec.text("launcherCreationPolicy") == "WaitForWorkersReady"
        leader = next((role for role in _LEADERS if roles.has(role)), "")
        for role, part in roles.each():
            if role == "Launcher" and waits:
                message = "the launcher starts once the workers are ready, so only the workers are scheduled"
                workload.warn("spec.launcherCreationPolicy", message)
                continue
            for i in range(count_of(part, "replicas", 1)):
                labels = _labels(workload, role, i)
                if role == leader:
                    labels[names.JOB_ROLE_LABEL] = "launcher" if role == "Launcher" else "master"
                elif kind == "MPIJob":
                    labels[names.JOB_ROLE_LABEL] = "worker"
                name = f"{workload.name}-{role.lower()}-{i}"
                template = part.at("template")
                if role == "Launcher" and workload.owner.version == "v2beta1":
                    body = {"parallelism": 1, "template": with_labels(template, labels)}
                    yield workload.child("batch/v1", "Job", f"{workload.name}-launcher", labels, spec=body)
                else:
                    yield workload.pod(name, template, labels)

    return control


def _labels(workload: ControlledWorkload, role: str, index: int) -> dict[str, str]:
    return {
        names.JOB_NAME_LABEL: workload.name,
        names.REPLICA_TYPE_LABEL: role.lower(),
        names.REPLICA_INDEX_LABEL: str(index),
    }
