"""Which grouping rule applies to which kind, and which owners are skipped (API 4.4); ``group_of`` groups a pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kai_sched.api import core, names
from kai_sched.reconcile.grouping import (
    grove,
    jobset,
    knative,
    kubeflow,
    kubernetes_groups,
    leader_worker_set,
    plain,
    ray,
)
from kai_sched.reconcile.grouping.declared import declared
from kai_sched.reconcile.grouping.draft import GroupingCase, Rule, View
from kai_sched.reconcile.grouping.manifest import Grouping, finish
from kai_sched.reconcile.grouping.owners import POD_VERSION, Chain, Owner, is_spark, named_group, owner_of_pod
from kai_sched.reconcile.grouping.settings import GroupingSettings

# By apiVersion and kind.
RULES: Mapping[tuple[str, str], Rule] = {
    (POD_VERSION, "Pod"): plain.pod,
    ("apps/v1", "Deployment"): plain.deployment,
    ("apps/v1", "ReplicaSet"): plain.base,
    ("apps/v1", "StatefulSet"): plain.stateful_set,
    ("batch/v1", "Job"): plain.job,
    ("batch/v1", "CronJob"): plain.cron_job,
    ("run.ai/v1", "RunaiJob"): plain.runai_job,
    ("kubeflow.org/v1", "TFJob"): kubeflow.training_job("TFJob"),
    ("kubeflow.org/v1", "PyTorchJob"): kubeflow.pytorch_job,
    ("kubeflow.org/v1", "XGBoostJob"): kubeflow.training_job("XGBoostJob"),
    ("kubeflow.org/v1", "JAXJob"): kubeflow.training_job("JAXJob"),
    ("kubeflow.org/v1", "MPIJob"): kubeflow.mpi_job,
    ("kubeflow.org/v2beta1", "MPIJob"): kubeflow.mpi_job,
    ("kubeflow.org/v1beta1", "Notebook"): plain.build,
    ("kubeflow.org/v1alpha1", "ScheduledWorkflow"): plain.base,
    ("ray.io/v1", "RayCluster"): ray.ray_cluster,
    ("ray.io/v1alpha1", "RayCluster"): ray.ray_cluster,
    ("ray.io/v1", "RayJob"): ray.ray_job,
    ("ray.io/v1alpha1", "RayJob"): ray.ray_job,
    ("ray.io/v1", "RayService"): ray.ray_service,
    ("ray.io/v1alpha1", "RayService"): ray.ray_service,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): jobset.job_set,
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): leader_worker_set.leader_worker_set,
    ("serving.knative.dev/v1", "Service"): knative.service,
    ("grove.io/v1alpha1", "PodCliqueSet"): grove.pod_gang,
    ("grove.io/v1alpha1", "PodGangSet"): grove.pod_gang,
    ("amlarc.azureml.com/v1alpha1", "AmlJob"): plain.aml_job,
    ("egx.nvidia.io/v1", "SPOTRequest"): plain.inference,
    ("machinelearning.seldon.io/v1", "SeldonDeployment"): plain.base,
    ("machinelearning.seldon.io/v1alpha2", "SeldonDeployment"): plain.base,
    ("kubevirt.io/v1", "VirtualMachineInstance"): plain.base,
    ("workspace.devfile.io/v1alpha2", "DevWorkspace"): plain.base,
    ("tekton.dev/v1", "PipelineRun"): plain.base,
    ("tekton.dev/v1", "TaskRun"): plain.base,
}
# These only order other workloads: what they own is grouped as if it stood alone. By apiVersion and kind, or by group
# and kind where any version will do.
SKIPPED = frozenset({("argoproj.io/v1alpha1", "Workflow"), ("trainer.kubeflow.org/v1alpha1", "TrainJob")})
SKIPPED_IN_GROUP = frozenset(
    {
        ("nvidia.com", "DynamoGraphDeployment"),
        ("run.ai", "TrainingWorkload"),
        ("run.ai", "InteractiveWorkload"),
        ("run.ai", "DistributedWorkload"),
        ("run.ai", "InferenceWorkload"),
        ("run.ai", "DistributedInferenceWorkload"),
    }
)


_NOT_SERVED = (
    f"the API server does not serve {' of '.join(reversed(names.KUBERNETES_GROUP))}, so what owns the pod decides: "
    "switch on the feature gate GenericWorkload of Kubernetes 1.37"
)


def gets_group(pod: core.WirePod, chain: Chain, settings: GroupingSettings) -> bool:
    """Whether the pod gets a PodGroup: it has an owner, belongs to Spark, or names a PodGroup of Kubernetes; or all
    pods get one.
    """
    if chain.skips:
        return False
    is_named = settings.kubernetes_groups and bool(named_group(pod.spec))
    return settings.config.group_bare_pods or bool(chain.owners) or is_named or is_spark(pod)


def group_of(pod: core.WirePod, chain: Chain, view: View, settings: GroupingSettings) -> Grouping:
    """Return the group that the pod belongs to. ``chain`` is the result of ``owners.resolve``.

    Raises GroupingError if an object lacks what the rule of its kind needs.
    """
    itself = owner_of_pod(pod)
    owner = chain.owners[-1] if chain.owners else itself
    case = _below_skipped(GroupingCase(itself, pod.spec or core.PodSpec(), chain.owners, owner, view, settings))
    if named_group(case.spec):
        if settings.kubernetes_groups:
            return finish(case, kubernetes_groups.pod_group(case))._replace(by=kubernetes_groups.decider(case))
        case.note(case.pod.subject, "spec.schedulingGroup", _NOT_SERVED)
    return finish(case, _rule(case.owner, settings)(case))


def _rule(owner: Owner, settings: GroupingSettings) -> Rule:
    key = owner.api_version, owner.kind
    rule: Rule | None = RULES.get(key) or settings.plugins.get(key)
    if rule is not None:
        return rule
    by_setting = settings.rules.get((owner.group, owner.kind))
    return plain.base if by_setting is None else declared(by_setting)


def _below_skipped(case: GroupingCase) -> GroupingCase:
    """The case without the skipped owners at the top; the next owner inherits what it lacks from them."""
    while case.owners and _is_skipped(case.owner):
        top, owners = case.owner, case.owners[:-1]
        heir = owners[-1] if owners else case.pod
        labels = {**_default_labels(top, case.settings), **top.labels, **heir.labels}
        heir = replace(heir, labels=labels, annotations={**top.annotations, **heir.annotations})
        case = replace(case, owners=(*owners[:-1], heir) if owners else (), owner=heir)
    return case


def _is_skipped(owner: Owner) -> bool:
    return (owner.api_version, owner.kind) in SKIPPED or (owner.group, owner.kind) in SKIPPED_IN_GROUP


def _default_labels(owner: Owner, settings: GroupingSettings) -> dict[str, str]:
    default = settings.default(owner.group, owner.kind)
    if default is None:
        return {}
    labels = {
        names.PRIORITY_CLASS_LABEL: default.priority_name or "",
        names.PREEMPTIBILITY_LABEL: default.preemptibility or "",
    }
    return {key: value for key, value in labels.items() if value}
