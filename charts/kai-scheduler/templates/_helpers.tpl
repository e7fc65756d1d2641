{{/*
The metadata of an object. Takes root, name, namespace (none for what belongs to the cluster), own labels, and keep:
whether the object stays when the release is uninstalled. manifests/ is rendered without what only Helm reads.
*/}}
{{- define "kai-scheduler.metadata" -}}
{{- $labels := .own | default dict }}
{{- $helm := .root.Values.helmMetadata }}
{{- if $helm }}
{{- $labels = merge (dict
  "app.kubernetes.io/name" "kai-scheduler"
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_")) $labels }}
{{- end -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
{{- with $labels }}
labels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and $helm .keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end }}

{{/* The name by which the API server knows the scheduler's account. */}}
{{- define "kai-scheduler.account" -}}
system:serviceaccount:{{ .Release.Namespace }}:scheduler
{{- end }}

{{/* The same of the account of reservation pods. */}}
{{- define "kai-scheduler.reservationAccount" -}}
system:serviceaccount:{{ .Values.global.resourceReservation.namespace }}:
{{- .Values.global.resourceReservation.serviceAccount }}
{{- end }}

{{/* The labels of a namespace in which pods run under the restricted standard. */}}
{{- define "kai-scheduler.restricted" -}}
{{- range list "audit" "enforce" "warn" }}
pod-security.kubernetes.io/{{ . }}: restricted
{{- end }}
{{- end }}

{{/* The subject of all bindings: the scheduler's account. */}}
{{- define "kai-scheduler.subject" -}}
- kind: ServiceAccount
  name: scheduler
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The image, by its digest where one is given. Takes root and image (name, tag, digest). */}}
{{- define "kai-scheduler.image" -}}
{{- $values := .root.Values }}
{{- $name := .image.name }}
{{- with $values.global.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" .) $name }}{{ end }}
{{- with .image.digest }}
{{- printf "%s@%s" $name . }}
{{- else }}
{{- printf "%s:%s" $name (.image.tag | default $values.global.tag | default .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* How many replicas of a scheduler run. */}}
{{- define "kai-scheduler.replicas" -}}
{{- $given := dig "replicaCount" nil (.Values.operator | default dict) }}
{{- kindIs "invalid" $given | ternary .Values.replicas $given }}
{{- end }}

{{/* Where the API server finds a webhook. Takes root and path. */}}
{{- define "kai-scheduler.webhook" -}}
{{- if .root.Values.admission.url -}}
url: {{ trimSuffix "/" .root.Values.admission.url }}{{ .path }}
{{- else -}}
service:
  name: kai-sched-webhook
  namespace: {{ .root.Release.Namespace }}
  path: {{ .path }}
{{- end }}
{{- end }}

{{/* The security context of pods and of containers; OpenShift gives users of its own. */}}
{{- define "kai-scheduler.podSecurityContext" -}}
{{- $context := .Values.global.podSecurityContext }}
{{- toYaml (.Values.openshift | ternary (omit $context "runAsUser" "runAsGroup" "fsGroup") $context) }}
{{- end }}

{{/* Whether pods may share GPUs: the mode says it, and without one gpuSharing. */}}
{{- define "kai-scheduler.sharing" -}}
{{- $mode := .Values.global.gpuSharingMode }}
{{- if ternary .Values.global.gpuSharing (ne $mode "Disabled") (empty $mode) }}true{{ end }}
{{- end }}

{{/* Whether reservation pods and scaling pods have namespaces of their own. */}}
{{- define "kai-scheduler.scaling" -}}
{{- if and (include "kai-scheduler.sharing" .) .Values.global.clusterAutoscaling }}true{{ end }}
{{- end }}

{{/* The spec of kai-config, as these values say. */}}
{{- define "kai-scheduler.configSpec" -}}
{{- $reservation := .Values.global.resourceReservation }}
{{- $global := dict "gpuSharing" (eq (include "kai-scheduler.sharing" .) "true") }}
{{- with .Values.global.gpuSharingMode }}{{ $_ := set $global "gpuSharingMode" . }}{{ end }}
{{- with .Values.global.nodePoolLabelKey }}{{ $_ := set $global "nodePoolLabelKey" . }}{{ end }}
{{- with .Values.podgrouper.queueLabelKey }}{{ $_ := set $global "queueLabelKey" . }}{{ end }}
{{- with .Values.global.gpuMemoryReserve }}{{ $_ := set $global "gpuMemoryReserve" . }}{{ end }}
{{- if ne .Values.global.fairShare "pool" }}
{{- if not .Values.allShards }}{{ fail "global.fairShare: cluster needs allShards: true" }}{{ end }}
{{- $_ := set $global "fairShare" .Values.global.fairShare }}
{{- end }}
{{- $spec := dict "global" $global }}
{{- if .Values.podgrouper.groupBarePods }}
{{- $_ := set $spec "podGrouper" (dict "args" (dict "groupBarePods" true)) }}
{{- end }}
{{- $admission := dict }}
{{- if .Values.global.blockNvidiaVisibleDevices }}
{{- $_ := set $admission "blockNvidiaVisibleDevices" true }}
{{- end }}
{{- if ne .Values.admission.gpuFractionRuntimeClassName "nvidia" }}
{{- $_ := set $admission "gpuFractionRuntimeClassName" .Values.admission.gpuFractionRuntimeClassName }}
{{- end }}
{{- with $admission }}{{ $_ := set $spec "admission" . }}{{ end }}
{{- $binder := dict }}
{{- with .Values.binder.plugins }}{{ $_ := set $binder "plugins" . }}{{ end }}
{{- if not (kindIs "invalid" .Values.binder.cdiEnabled) }}
{{- $_ := set $binder "cdiEnabled" .Values.binder.cdiEnabled }}
{{- end }}
{{- if include "kai-scheduler.sharing" . }}
{{- $pods := dict
  "podResources" .Values.binder.resourceReservationPodResources
  "reservationPodSecurityContext" (include "kai-scheduler.podSecurityContext" . | fromYaml)
  "reservationContainerSecurityContext" .Values.global.securityContext }}
{{- if ne $reservation.namespace "kai-resource-reservation" }}
{{- $_ := set $pods "namespace" $reservation.namespace }}
{{- end }}
{{- if ne $reservation.serviceAccount "kai-resource-reservation" }}
{{- $_ := set $pods "serviceAccountName" $reservation.serviceAccount }}
{{- end }}
{{- if ne $reservation.appLabel "kai-resource-reservation" }}
{{- $_ := set $pods "appLabel" $reservation.appLabel }}
{{- end }}
{{- with .Values.binder.runtimeClassName }}{{ $_ := set $pods "runtimeClassName" . }}{{ end }}
{{- if .Values.binder.resourceReservationImage.name }}
{{- $image := dict "root" . "image" .Values.binder.resourceReservationImage }}
{{- $_ := set $pods "image" (dict "name" (include "kai-scheduler.image" $image)) }}
{{- end }}
{{- $_ := set $binder "resourceReservation" $pods }}
{{- end }}
{{- with $binder }}{{ $_ := set $spec "binder" . }}{{ end }}
{{- if include "kai-scheduler.scaling" . }}
{{- $adjuster := dict "service" (dict "enabled" true) }}
{{- $arguments := dict }}
{{- if ne .Values.nodescaleadjuster.scalingPodNamespace "kai-scale-adjust" }}
{{- $_ := set $arguments "nodeScaleNamespace" .Values.nodescaleadjuster.scalingPodNamespace }}
{{- end }}
{{- if .Values.nodescaleadjuster.scalingPodImage.name }}
{{- $image := dict "root" . "image" .Values.nodescaleadjuster.scalingPodImage }}
{{- $_ := set $arguments "scalingPodImage" (dict "name" (include "kai-scheduler.image" $image)) }}
{{- end }}
{{- with $arguments }}{{ $_ := set $adjuster "args" . }}{{ end }}
{{- $_ := set $spec "nodeScaleAdjuster" $adjuster }}
{{- end }}
{{- toYaml $spec }}
{{- end }}

{{/* The spec of the SchedulingShard default, as these values say. */}}
{{- define "kai-scheduler.shardSpec" -}}
{{- $given := .Values.scheduler }}
{{- $spec := dict "placementStrategy" (dict "gpu" $given.placementStrategy "cpu" $given.placementStrategy) }}
{{- range $name := list "plugins" "actions" "args" "queueDepthPerAction" "minRuntime" }}
{{- with index $given $name }}{{ $_ := set $spec $name . }}{{ end }}
{{- end }}
{{- toYaml $spec }}
{{- end }}

{{/* The text if an object can have it as its name, else one like it: `object_name` in kai_sched/api/legal.py. */}}
{{- define "kai-scheduler.objectName" -}}
{{- $label := "[a-z0-9]([-a-z0-9]*[a-z0-9])?" }}
{{- if and (le (len .) 253) (regexMatch (printf "^%s([.]%s)*$" $label $label) .) }}
{{- . }}
{{- else }}
{{- $like := regexReplaceAll "[^a-z0-9]+" (lower .) "-" | trunc 200 | trimAll "-" }}
{{- printf "%s-%s" $like (sha256sum . | trunc 8) }}
{{- end }}
{{- end }}

{{/* The Leases of all schedulers: named after the scheduler, and those of shards after their node pool, too. */}}
{{- define "kai-scheduler.leases" -}}
{{- $name := .Values.global.schedulerName }}
{{- $leases := list (include "kai-scheduler.objectName" $name) }}
{{- range include "kai-scheduler.apart" . | fromJsonArray }}
{{- $leases = append $leases (printf "%s-%s" $name (.partitionLabelValue | default .name) | include "kai-scheduler.objectName") }}
{{- end }}
{{- join ", " $leases }}
{{- end }}

{{/* The ConfigMaps with the accounts of past usage, one for each shard. */}}
{{- define "kai-scheduler.usage-maps" -}}
{{- $name := .Values.global.schedulerName }}
{{- $maps := list (include "kai-scheduler.objectName" $name | printf "%s-usage") }}
{{- range .Values.shards }}
{{- $owner := printf "%s-%s" $name (.partitionLabelValue | default .name) | include "kai-scheduler.objectName" }}
{{- $maps = append $maps (printf "%s-usage" $owner) }}
{{- end }}
{{- join ", " $maps }}
{{- end }}

{{/* The shards that have a scheduler of their own. */}}
{{- define "kai-scheduler.apart" -}}
{{- .Values.allShards | ternary list .Values.shards | toJson }}
{{- end }}

{{/* All schedulers: the one for all nodes without a node pool, and those of shards. */}}
{{- define "kai-scheduler.apps" -}}
{{- $apps := list "kai-scheduler-default" }}
{{- range include "kai-scheduler.apart" . | fromJsonArray }}{{ $apps = append $apps (printf "kai-scheduler-%s" .name) }}{{ end }}
{{- toJson $apps }}
{{- end }}

{{/* The files that the schedulers read at their start: what they write into the cluster, and the default queues. */}}
{{- define "kai-scheduler.settings" -}}
config.yaml: |
  apiVersion: kai.scheduler/v1
  kind: Config
  metadata:
    name: kai-config
  spec:
    {{- include "kai-scheduler.configSpec" . | nindent 4 }}
{{- if or .Values.defaultShard.enabled .Values.shards }}
shards.yaml: |
  {{- if .Values.defaultShard.enabled }}
  apiVersion: kai.scheduler/v1
  kind: SchedulingShard
  metadata:
    name: default
  spec:
    {{- include "kai-scheduler.shardSpec" . | nindent 4 }}
  {{- end }}
  {{- range .Values.shards }}
  ---
  apiVersion: kai.scheduler/v1
  kind: SchedulingShard
  metadata:
    name: {{ .name }}
  spec:
    {{- $pool := dict "partitionLabelValue" (.partitionLabelValue | default .name) }}
    {{- merge $pool (.spec | default dict) | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- if .Values.defaultQueue.createDefaultQueue }}
queues.yaml: |
  apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata:
    name: {{ .Values.defaultQueue.parentName }}
  spec:
    resources:
      {{- toYaml .Values.defaultQueue.parentResources | nindent 6 }}
  ---
  apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata:
    name: {{ .Values.defaultQueue.childName }}
  spec:
    parentQueue: {{ .Values.defaultQueue.parentName }}
    resources:
      {{- toYaml .Values.defaultQueue.childResources | nindent 6 }}
{{- end }}
{{- end }}

{{/* The namespaces whose pods the scheduler makes itself. */}}
{{- define "kai-scheduler.ownNamespaces" -}}
['{{ .Values.global.resourceReservation.namespace }}', '{{ .Values.nodescaleadjuster.scalingPodNamespace }}']
{{- end }}
