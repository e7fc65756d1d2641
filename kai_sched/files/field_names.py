"""The names of all fields of workloads, pods and the other kinds that people write, as the API server knows them: of
Kubernetes 1.34, of pods as of 1.37, and of the operators of the workloads.

Each entry is a type with its fields. After "=" stands the type of what is in a field, or in the entries of its list, or
behind "{" of the values of its mapping. What is in other fields is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

FIELDS = """
Pod: apiVersion kind metadata=ObjectMeta spec=PodSpec status
ObjectMeta: annotations clusterName creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers
  generateName generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid
PodSpec: activeDeadlineSeconds affinity=Affinity automountServiceAccountToken containers=Container dnsConfig dnsPolicy
  enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride
  imagePullSecrets initContainers=Container nodeName nodeSelector os overhead preemptionPolicy priority
  priorityClassName readinessGates resourceClaims=PodResourceClaim resources=ResourceRequirements restartPolicy
  runtimeClassName schedulerName schedulingGates=PodSchedulingGate schedulingGroup=PodSchedulingGroup securityContext
  serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds
  tolerations=Toleration topologySpreadConstraints=TopologySpreadConstraint volumes=Volume workloadRef
Affinity: nodeAffinity=NodeAffinity podAffinity=PodAffinity podAntiAffinity=PodAntiAffinity
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution=PreferredSchedulingTerm
  requiredDuringSchedulingIgnoredDuringExecution=NodeSelector
PreferredSchedulingTerm: preference=NodeSelectorTerm weight
NodeSelectorTerm: matchExpressions=NodeSelectorRequirement matchFields=NodeSelectorRequirement
NodeSelectorRequirement: key operator values
NodeSelector: nodeSelectorTerms=NodeSelectorTerm
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution=WeightedPodAffinityTerm
  requiredDuringSchedulingIgnoredDuringExecution=PodAffinityTerm
WeightedPodAffinityTerm: podAffinityTerm=PodAffinityTerm weight
PodAffinityTerm: labelSelector=LabelSelector matchLabelKeys mismatchLabelKeys namespaceSelector=LabelSelector
  namespaces topologyKey
LabelSelector: matchExpressions=LabelSelectorRequirement matchLabels
LabelSelectorRequirement: key operator values
PodAntiAffinity: preferredDuringSchedulingIgnoredDuringExecution=WeightedPodAffinityTerm
  requiredDuringSchedulingIgnoredDuringExecution=PodAffinityTerm
Container: args command env=EnvVar envFrom image imagePullPolicy lifecycle livenessProbe name ports=ContainerPort
  readinessProbe resizePolicy resources=ResourceRequirements restartPolicy restartPolicyRules securityContext
  startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices
  volumeMounts=VolumeMount workingDir
EnvVar: name value valueFrom
ContainerPort: containerPort hostIP hostPort name protocol
ResourceRequirements: claims limits requests
VolumeMount: mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr
PodResourceClaim: name resourceClaimName resourceClaimTemplateName
PodSchedulingGate: name
PodSchedulingGroup: podGroupName
Toleration: effect key operator tolerationSeconds value
TopologySpreadConstraint: labelSelector=LabelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy
  nodeTaintsPolicy topologyKey whenUnsatisfiable
Volume: awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc
  flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi name nfs persistentVolumeClaim
  photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume
Deployment: apiVersion kind metadata=ObjectMeta spec=DeploymentSpec status
DeploymentSpec: minReadySeconds paused progressDeadlineSeconds replicas revisionHistoryLimit selector=LabelSelector
  strategy template=PodTemplateSpec
PodTemplateSpec: metadata=ObjectMeta spec=PodSpec
ReplicaSet: apiVersion kind metadata=ObjectMeta spec=ReplicaSetSpec status
ReplicaSetSpec: minReadySeconds replicas selector=LabelSelector template=PodTemplateSpec
StatefulSet: apiVersion kind metadata=ObjectMeta spec=StatefulSetSpec status
StatefulSetSpec: minReadySeconds ordinals persistentVolumeClaimRetentionPolicy podManagementPolicy replicas
  revisionHistoryLimit selector=LabelSelector serviceName template=PodTemplateSpec updateStrategy
  volumeClaimTemplates=PersistentVolumeClaim
PersistentVolumeClaim: apiVersion kind metadata=ObjectMeta spec=PersistentVolumeClaimSpec status
PersistentVolumeClaimSpec: accessModes dataSource dataSourceRef resources=VolumeResourceRequirements
  selector=LabelSelector storageClassName volumeAttributesClassName volumeMode volumeName
VolumeResourceRequirements: limits requests
Job: apiVersion kind metadata=ObjectMeta spec=JobSpec status
JobSpec: activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy manualSelector
  maxFailedIndexes parallelism podFailurePolicy podReplacementPolicy selector=LabelSelector successPolicy suspend
  template=PodTemplateSpec ttlSecondsAfterFinished
CronJob: apiVersion kind metadata=ObjectMeta spec=CronJobSpec status
CronJobSpec: concurrencyPolicy failedJobsHistoryLimit jobTemplate=JobTemplateSpec schedule startingDeadlineSeconds
  successfulJobsHistoryLimit suspend timeZone
JobTemplateSpec: metadata=ObjectMeta spec=JobSpec
Node: apiVersion kind metadata=ObjectMeta spec=NodeSpec status
NodeSpec: configSource externalID podCIDR podCIDRs providerID taints=Taint unschedulable
Taint: effect key timeAdded value
RayCluster: apiVersion kind metadata=ObjectMeta spec=RayClusterSpec status
RayClusterSpec: authOptions autoscalerOptions=AutoscalerOptions enableInTreeAutoscaling gcsFaultToleranceOptions
  headGroupSpec=HeadGroupSpec headServiceAnnotations managedBy rayVersion suspend upgradeStrategy
  workerGroupSpecs=WorkerGroupSpec
HeadGroupSpec: enableIngress headService labels rayStartParams resources serviceType template=PodTemplateSpec
WorkerGroupSpec: groupName idleTimeoutSeconds labels maxReplicas minReplicas numOfHosts rayStartParams replicas
  resources scaleStrategy suspend template=PodTemplateSpec
AutoscalerOptions: env envFrom idleTimeoutSeconds image imagePullPolicy resources=ResourceRequirements securityContext
  upscalingMode version volumeMounts
RayJob: apiVersion kind metadata=ObjectMeta spec=RayJobSpec status
RayJobSpec: activeDeadlineSeconds backoffLimit clusterSelector deletionPolicy deletionStrategy entrypoint
  entrypointNumCpus entrypointNumGpus entrypointResources jobId managedBy metadata preRunningDeadlineSeconds
  rayClusterSpec=RayClusterSpec runtimeEnv runtimeEnvYAML shutdownAfterJobFinishes submissionMode submitterConfig
  submitterPodTemplate=PodTemplateSpec suspend ttlSecondsAfterFinished
RayService: apiVersion kind metadata=ObjectMeta spec=RayServiceSpec status
RayServiceSpec: deploymentUnhealthySecondThreshold excludeHeadPodFromServeSvc managedBy rayClusterConfig=RayClusterSpec
  rayClusterDeletionDelaySeconds serveConfigV2 serveDeploymentGraphSpec serveService serviceUnhealthySecondThreshold
  suspend upgradeStrategy
RunPolicy: activeDeadlineSeconds backoffLimit cleanPodPolicy managedBy schedulingPolicy=SchedulingPolicy suspend
  ttlSecondsAfterFinished
SchedulingPolicy: minAvailable minResources priorityClass queue scheduleTimeoutSeconds
ReplicaSpec: replicas restartPolicy template=PodTemplateSpec
ElasticPolicy: maxReplicas maxRestarts metrics minReplicas nProcPerNode rdzvBackend rdzvConf rdzvHost rdzvId rdzvPort
  standalone
PyTorchJob: apiVersion kind metadata=ObjectMeta spec=PyTorchJobSpec status
PyTorchJobSpec: elasticPolicy=ElasticPolicy nprocPerNode pytorchReplicaSpecs={ReplicaSpec runPolicy=RunPolicy
TFJob: apiVersion kind metadata=ObjectMeta spec=TFJobSpec status
TFJobSpec: enableDynamicWorker runPolicy=RunPolicy successPolicy tfReplicaSpecs={ReplicaSpec
XGBoostJob: apiVersion kind metadata=ObjectMeta spec=XGBoostJobSpec status
XGBoostJobSpec: runPolicy=RunPolicy xgbReplicaSpecs={ReplicaSpec
JAXJob: apiVersion kind metadata=ObjectMeta spec=JAXJobSpec status
JAXJobSpec: jaxReplicaSpecs={ReplicaSpec runPolicy=RunPolicy
MPIJob: apiVersion kind metadata=ObjectMeta spec=MPIJobSpec status
MPIJobSpec: cleanPodPolicy launcherCreationPolicy mainContainer mpiImplementation mpiReplicaSpecs={ReplicaSpec
  runLauncherAsWorker runPolicy=RunPolicy slotsPerWorker sshAuthMountPath
TrainJob: apiVersion kind metadata=ObjectMeta spec=TrainJobSpec status
TrainJobSpec: activeDeadlineSeconds annotations initializer labels managedBy podSpecOverrides podTemplateOverrides
  runtimePatches runtimeRef=RuntimeRef suspend trainer=Trainer
RuntimeRef: apiGroup kind name
Trainer: args command env image numNodes numProcPerNode resourcesPerNode=ResourceRequirements
JobSet: apiVersion kind metadata=ObjectMeta spec=JobSetSpec status
JobSetSpec: coordinator failurePolicy managedBy network replicatedJobs=ReplicatedJob startupPolicy successPolicy
  suspend ttlSecondsAfterFinished volumeClaimPolicies
ReplicatedJob: dependsOn groupName name replicas template=JobTemplateSpec
LeaderWorkerSet: apiVersion kind metadata=ObjectMeta spec=LeaderWorkerSetSpec status
LeaderWorkerSetSpec: leaderWorkerTemplate=LeaderWorkerTemplate networkConfig replicas rolloutStrategy startupPolicy
LeaderWorkerTemplate: leaderTemplate=PodTemplateSpec persistentVolumeClaimRetentionPolicy restartPolicy size
  subGroupPolicy=SubGroupPolicy volumeClaimTemplates=PersistentVolumeClaim workerTemplate=PodTemplateSpec
SubGroupPolicy: subGroupPolicyType subGroupSize
PriorityClass: apiVersion description globalDefault kind metadata=ObjectMeta preemptionPolicy value
StorageClass: allowVolumeExpansion allowedTopologies apiVersion kind metadata=ObjectMeta mountOptions parameters
  provisioner reclaimPolicy volumeBindingMode
PodGroup: apiVersion kind metadata=ObjectMeta spec status
ConfigMap: apiVersion binaryData data immutable kind metadata=ObjectMeta
"""


class Inner(NamedTuple):
    """The type of what is in a field; "" where that is not known. ``is_map``: the type of the values of a mapping."""

    type: str = ""
    is_map: bool = False


@cache
def field_types() -> Mapping[str, Mapping[str, Inner]]:
    """The fields of each type by name."""
    found: dict[str, dict[str, Inner]] = {}
    for word in FIELDS.split():
        if word.endswith(":"):
            fields = found.setdefault(word[:-1], {})
            continue
        name, _, inner = word.partition("=")
        fields[name] = Inner(inner.removeprefix("{"), inner.startswith("{"))
    return found
