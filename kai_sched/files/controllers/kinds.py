"""Which kinds the simulated controllers make pods for, and the uids of what they make.

Apart from the controllers, which are imported only if the input needs one.
"""

from __future__ import annotations

# apiVersion and kind of each entry of ``registry.CONTROLLERS``.
WORKLOADS = frozenset(
    {
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("ray.io/v1", "RayCluster"),
        ("ray.io/v1alpha1", "RayCluster"),
        ("ray.io/v1", "RayJob"),
        ("ray.io/v1alpha1", "RayJob"),
        ("ray.io/v1", "RayService"),
        ("ray.io/v1alpha1", "RayService"),
        ("kubeflow.org/v1", "TFJob"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("kubeflow.org/v1", "XGBoostJob"),
        ("kubeflow.org/v1", "JAXJob"),
        ("kubeflow.org/v1", "MPIJob"),
        ("kubeflow.org/v2beta1", "MPIJob"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    }
)


def made_up_uid(kind: str) -> str:
    """A uid for an object that does not come from an API server. It is part of its group's name, so it is short."""
    return kind.lower()
