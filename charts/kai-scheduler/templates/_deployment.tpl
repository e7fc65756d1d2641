{{/* A scheduler: Deployment and PodDisruptionBudget. Takes root, name, and shard: one of .Values.shards, or {}. */}}
{{- define "kai-scheduler.deployment" -}}
{{- $values := .root.Values }}
{{- $given := $values.scheduler }}
{{- $serves := and $values.admission.enabled (not .shard) }}
{{- $apart := $values.global.requireDefaultPodAntiAffinityTerm }}
{{- $app := dict "app" .name }}
{{- $here := dict "root" .root "name" .name "namespace" .root.Release.Namespace "own" $app }}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "kai-scheduler.metadata" $here | nindent 2 }}
spec:
  replicas: {{ .shard.replicas | default (include "kai-scheduler.replicas" .root) }}
  selector:
    matchLabels:
      app: {{ .name }}
  strategy:
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    metadata:
      labels:
        app: {{ .name }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $values.kaiConfigDeployer.enabled $values.podAnnotations }}
      annotations:
        {{- if $values.kaiConfigDeployer.enabled }}
        # Settings are read when a process starts.
        checksum/settings: {{ include "kai-scheduler.settings" .root | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      serviceAccountName: scheduler
      {{- with $values.global.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.global.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      # Binds that are under way end within 5 s, and webhooks are served for 5 s after the signal (--shutdown-delay).
      terminationGracePeriodSeconds: 30
      {{- with include "kai-scheduler.podSecurityContext" .root | fromYaml }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.global.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $given.affinity | default $values.global.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.global.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: {{ $apart | ternary "DoNotSchedule" "ScheduleAnyway" }}
          labelSelector:
            matchLabels:
              app: {{ .name }}
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app: {{ .name }}
      containers:
        - name: scheduler
          image: {{ include "kai-scheduler.image" (dict "root" .root "image" $given.image) }}
          {{- with $given.image.pullPolicy | default $values.global.imagePullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
          args:
            - run
            - {{ $values.global.jsonLog | ternary "--log-json" "--log-text" }}
            {{- if $serves }}
            - --webhook-address=:9443
            {{- end }}
            {{- if ne .root.Release.Namespace "kai-scheduler" }}
            - --namespace={{ .root.Release.Namespace }}
            {{- end }}
            {{- if ne $values.global.schedulerName "kai-scheduler" }}
            - --scheduler-name={{ $values.global.schedulerName }}
            {{- end }}
            {{- if .shard }}
            - --shard={{ .shard.name }}
            {{- else if $values.allShards }}
            - --all-shards
            {{- end }}
            {{- if $values.kaiConfigDeployer.enabled }}
            - --settings-folder=/etc/kai-scheduler
            {{- end }}
            {{- if not $values.defaultQueue.createDefaultQueue }}
            - --no-default-queues
            {{- end }}
            {{- if $values.monitoring.authenticated }}
            - --authenticated-metrics
            {{- end }}
            {{- if and $values.page.enabled (not .shard) }}
            - --page-address=127.0.0.1:8082
            {{- end }}
            {{- with $given.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: http-metrics
              containerPort: 8080
            {{- if $serves }}
            - name: webhook
              containerPort: 9443
            {{- end }}
          # A cycle may take seconds and its own thread; what is asked here is the event loop.
          livenessProbe:
            httpGet:
              path: /healthz
              port: http-metrics
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          # Whether webhooks are served. What scheduling waits for is told by /readyz/scheduling: a node that cannot be
          # listed must not take the webhooks away, without which nothing of ours can be created.
          readinessProbe:
            httpGet:
              path: /readyz
              port: http-metrics
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 3
          startupProbe:
            httpGet:
              path: /healthz
              port: http-metrics
            periodSeconds: 1
            timeoutSeconds: 2
            failureThreshold: 120
          # No limit on CPU: the solver is one thread that is idle most of the time and urgent when it is not.
          resources:
            {{- toYaml (.shard.resources | default $given.resources) | nindent 12 }}
          securityContext:
            {{- toYaml $values.global.securityContext | nindent 12 }}
          # Only what --recordings writes: the inputs of cycles that failed, or on a signal
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- if $values.kaiConfigDeployer.enabled }}
            - name: settings
              mountPath: /etc/kai-scheduler
              readOnly: true
            {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            sizeLimit: 256Mi
        {{- if $values.kaiConfigDeployer.enabled }}
        - name: settings
          configMap:
            name: kai-scheduler-settings
        {{- end }}
{{- if $given.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "kai-scheduler.metadata" (omit $here "own") | nindent 2 }}
spec:
  maxUnavailable: {{ $given.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app: {{ .name }}
{{- end }}
{{- end }}
