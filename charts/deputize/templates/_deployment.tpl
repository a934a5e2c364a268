{{/* A Deployment of a role. Argument: dict "root" $ "component" "api" "values" .Values.api "ports" "…" "volumes" "…"
     "mounts" "…" "annotations" "…" "isScaled" bool "keptReplicas" "4" "token" bool; texts are YAML. */}}
{{- define "deputize.deployment" -}}
{{- $root := .root -}}
{{- $files := include (printf "deputize.files.%s" .component) $root -}}
{{- $volumes := list (include "deputize.tmpVolume" .) (include "deputize.fileVolumes" $files) (.volumes | default "") | join "\n" | trim -}}
{{- $mounts := list (include "deputize.tmpMount" .) (include "deputize.fileMounts" $files) (.mounts | default "") | join "\n" | trim -}}
{{- include "deputize.validateVolumes" (dict "path" .component "containers" list
  "volumes" (concat (fromYamlArray $volumes) .values.extraVolumes)
  "mounts" (concat (fromYamlArray $mounts) .values.extraVolumeMounts)) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "deputize.serviceAccountName" . }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "deputize.labels" . | nindent 4 }}
  {{- if .keptReplicas }}
  annotations:
    deputize.io/kept-replicas: "true"
  {{- end }}
spec:
  {{- if not .isScaled }}
  replicas: {{ .values.replicas }}
  {{- else if .keptReplicas }}
  replicas: {{ .keptReplicas }}
  {{- end }}
  revisionHistoryLimit: 3
  strategy:
    type: RollingUpdate
    rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
  selector:
    matchLabels:
      {{- include "deputize.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "deputize.podLabels" . | nindent 8 }}
      {{- $annotations := merge (.annotations | default "{}" | fromYaml) .values.podAnnotations }}
      {{- with $annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "deputize.podCommon" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
      topologySpreadConstraints:
        {{- with .values.topologySpreadConstraints }}
        {{- toYaml . | nindent 8 }}
        {{- else }}
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          matchLabelKeys: [pod-template-hash]
          labelSelector:
            matchLabels:
              {{- include "deputize.selectorLabels" $ | nindent 14 }}
        {{- end }}
        {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "deputize.image" (dict "root" $root "image" $root.Values.image) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ .component }}]
          env:
            {{- include "deputize.env" . | nindent 12 }}
          ports:
            {{- with .ports }}
            {{- . | nindent 12 }}
            {{- end }}
            - { name: health, containerPort: 9090 }
          # Allows five minutes for a slow database or migration. Later, liveness depends on the process alone.
          startupProbe:
            httpGet: { path: /livez, port: health }
            periodSeconds: 2
            timeoutSeconds: 3
            failureThreshold: 150
          livenessProbe:
            httpGet: { path: /livez, port: health }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet: { path: /readyz, port: health }
            periodSeconds: 5
            timeoutSeconds: 3
            failureThreshold: 2
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "deputize.containerSecurityContext" . | nindent 12 }}
          volumeMounts:
            {{- $mounts | nindent 12 }}
            {{- with .values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        {{- $volumes | nindent 8 }}
        {{- with .values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}

{{/* The PodDisruptionBudget of a role. Argument: dict "root" $ "component" "api" "values" .Values.api. */}}
{{- define "deputize.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "deputize.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "deputize.labels" . | nindent 4 }}
spec:
  {{- $budget := .values.podDisruptionBudget }}
  {{- /* Only one of the two is allowed. The other may come from the defaults. */}}
  {{- toYaml (hasKey $budget "minAvailable" | ternary (omit $budget "maxUnavailable") $budget) | nindent 2 }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "deputize.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* A Service. Argument: dict "root" $ "component" "api" "name" "…" "ports" "…" "isHeadless" bool "type" "ClusterIP". */}}
{{- define "deputize.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "deputize.labels" . | nindent 4 }}
    deputize.io/port: {{ .port }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .type | default "ClusterIP" }}
  {{- if .isHeadless }}
  clusterIP: None
  publishNotReadyAddresses: true
  {{- end }}
  selector:
    {{- include "deputize.selectorLabels" . | nindent 4 }}
  ports:
    - { name: {{ .port }}, port: {{ .number }}, targetPort: {{ .port }}, protocol: TCP }
{{- end -}}
