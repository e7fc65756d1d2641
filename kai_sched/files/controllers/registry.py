"""Which simulated controller makes the offline pods of which kind of workload, built in or of another package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kai_sched.files.controllers import kubeflow, kubernetes, ray, sets, trainer
from kai_sched.files.controllers.workload import ControlledWorkload, Controller, Manifest
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from kai_sched.reconcile.grouping.workload_kind import PluginKinds

# By apiVersion and kind.
CONTROLLERS: Mapping[tuple[str, str], Controller] = {
    ("apps/v1", "Deployment"): kubernetes.deployment,
    ("apps/v1", "ReplicaSet"): kubernetes.replica_set,
    ("apps/v1", "StatefulSet"): kubernetes.stateful_set,
    ("batch/v1", "Job"): kubernetes.job,
    ("batch/v1", "CronJob"): kubernetes.cron_job,
    ("ray.io/v1", "RayCluster"): ray.ray_cluster,
    ("ray.io/v1alpha1", "RayCluster"): ray.ray_cluster,
    ("ray.io/v1", "RayJob"): ray.ray_job,
    ("ray.io/v1alpha1", "RayJob"): ray.ray_job,
    ("ray.io/v1", "RayService"): ray.ray_service,
    ("ray.io/v1alpha1", "RayService"): ray.ray_service,
    ("kubeflow.org/v1", "TFJob"): kubeflow.training_job("TFJob"),
    ("kubeflow.org/v1", "PyTorchJob"): kubeflow.training_job("PyTorchJob"),
    ("kubeflow.org/v1", "XGBoostJob"): kubeflow.training_job("XGBoostJob"),
    ("kubeflow.org/v1", "JAXJob"): kubeflow.training_job("JAXJob"),
    ("kubeflow.org/v1", "MPIJob"): kubeflow.training_job("MPIJob"),
    ("kubeflow.org/v2beta1", "MPIJob"): kubeflow.training_job("MPIJob"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): trainer.train_job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): sets.job_set,
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): sets.leader_worker_set,
}


def controllers_of(plugins: PluginKinds) -> dict[tuple[str, str], Controller]:
    """Those that are built in, and those of other packages."""
    others = {key: _guarded(each.controller) for key, each in plugins.kinds.items() if each.controller is not None}
    return {**CONTROLLERS, **others}


def _guarded(controller: Controller) -> Controller:
    """The controller of another package, whose mistakes are told for the workload that they concern."""

    def make(workload: ControlledWorkload) -> Iterator[Manifest]:
        try:
            yield from controller(workload)
        except GroupingError:
            raise
        except Exception as error:
            text = f"the controller of a plugin failed ({type(error).__name__}: {error}): ask who made it"
            raise GroupingError(workload.owner.subject, "", text) from error

    return make
