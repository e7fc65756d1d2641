"""Which simulated controller makes the offline pods of which kind of workload."""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.files.controllers import kubeflow, kubernetes, ray, sets, trainer
from kai_sched.files.controllers.workload import Controller

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
