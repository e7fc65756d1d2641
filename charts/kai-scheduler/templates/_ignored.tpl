{{/*
The values of KAI Scheduler's chart that are accepted without effect. NOTES.txt tells which of them are set, README.md
has all, and tests/test_chart.py compares them with values.schema.json.
*/}}
{{- define "kai-scheduler.ignored" -}}
admission.affinity: one process does all, with the affinity of the scheduler
admission.gpuPodRuntimeClassName: deprecated; set admission.gpuFractionRuntimeClassName
admission.image: one image does all; set scheduler.image
admission.podDisruptionBudget: one process does all; set scheduler.podDisruptionBudget
admission.ports: the ports are 9443 and 8080
admission.resources: one process does all; set scheduler.resources
binder.affinity: one process does all, with the affinity of the scheduler
binder.enabled: one process does all
binder.image: one image does all; set scheduler.image
binder.podDisruptionBudget: one process does all; set scheduler.podDisruptionBudget
binder.ports: the port is 8080
binder.resources: one process does all; set scheduler.resources
crdupgrader: the chart itself upgrades the definitions; see crds.install
global.fips: there is no such image
global.fipsMode: there is no such image
global.leaderElection: always on
global.namespaceLabelSelector: pods of all namespaces are grouped
global.podLabelSelector: all pods that name the scheduler are grouped
global.vpa: not supported
global.nvFractions: kai-gpu-fractioning is not installed; set global.gpuSharingMode
gpu-sharing: kai-gpu-fractioning is not installed
kaiConfig: see kaiConfigDeployer
nodescaleadjuster.affinity: one process does all, with the affinity of the scheduler
nodescaleadjuster.enabled: see global.clusterAutoscaling
nodescaleadjuster.image: one image does all; set scheduler.image
nodescaleadjuster.resources: one process does all; set scheduler.resources
numaPlacementExporter: not supported
operator.affinity: one process does all, with the affinity of the scheduler
operator.burst: requests are limited by what is under way, --connections
operator.enabled: there is no operator beside the scheduler
operator.image: one image does all; set scheduler.image
operator.logLevel: set scheduler.extraArgs to [--log-level=...]
operator.metricsBindAddress: the port is 8080
operator.probeBindAddress: the port is 8080
operator.qps: requests are limited by what is under way, --connections
operator.resources: one process does all; set scheduler.resources
podGroupController: one process does all
podgroupcontroller: one process does all
podgrouper.affinity: one process does all, with the affinity of the scheduler
podgrouper.enabled: one process does all
podgrouper.genericKartaFallback: not supported
podgrouper.image: one image does all; set scheduler.image
podgrouper.podDisruptionBudget: one process does all; set scheduler.podDisruptionBudget
podgrouper.resources: one process does all; set scheduler.resources
postCleanup: nothing has to be cleaned up; the chart has no hooks
prometheus: none is installed; name yours in usageDBConfig of the SchedulingShard
queueController: one process does all
queuecontroller: one process does all
scheduler.enabled: the scheduler always runs
scheduler.goMemLimit: not written in Go
scheduler.goMemLimitRatio: not written in Go
scheduler.ports: the port is 8080
scheduler.scenarioSearchBudgets: not supported
topologyMigration: there is nothing to migrate
{{- end }}
