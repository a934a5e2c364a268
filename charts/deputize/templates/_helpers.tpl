{{/* Prefix of the names of all objects. Its limit is 35 because a CronJob's name has at most 52 characters. */}}
{{- define "deputize.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 35 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 35 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 35 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "deputize.name" -}}
{{- regexReplaceAll "[-_.]+$" (default .Chart.Name .Values.nameOverride | trunc 63) "" -}}
{{- end -}}

{{/* Labels that select pods. They never change. Argument: dict "root" $ "component" "api". */}}
{{- define "deputize.selectorLabels" -}}
app.kubernetes.io/name: {{ include "deputize.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of pods. None of them changes with the version, so an upgrade restarts no pod because of labels. */}}
{{- define "deputize.podLabels" -}}
{{ include "deputize.selectorLabels" . }}
app.kubernetes.io/part-of: deputize
{{- with .root.Values.global.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of objects. Argument: dict "root" $ "component" "api". */}}
{{- define "deputize.labels" -}}
{{ include "deputize.selectorLabels" . }}
app.kubernetes.io/part-of: deputize
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The selector of all pods of the release, as matchLabels. Argument: the root. */}}
{{- define "deputize.releaseSelector" -}}
app.kubernetes.io/name: {{ include "deputize.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* An image reference by digest, tag or the chart's version, in this order. Argument: dict "root" $ "image" .Values.image. */}}
{{- define "deputize.image" -}}
{{- $repository := .image.repository -}}
{{- with .root.Values.global.imageRegistry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The name of a component's ServiceAccount. */}}
{{- define "deputize.serviceAccountName" -}}
{{- printf "%s-%s" (include "deputize.fullname" .root) .component -}}
{{- end -}}

{{/* The operator's user name for the API server and the admission policies. */}}
{{- define "deputize.operatorUser" -}}
{{- $account := include "deputize.serviceAccountName" (dict "root" . "component" "operator") -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace $account -}}
{{- end -}}

{{/* The id of the cluster at the API. */}}
{{- define "deputize.clusterId" -}}
{{- if .Values.operator.clusterId -}}
{{- .Values.operator.clusterId -}}
{{- else if .Values.trial.enabled -}}
trial
{{- end -}}
{{- end -}}

{{/* A restricted pod's security context. */}}
{{- define "deputize.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* A restricted container's security context. */}}
{{- define "deputize.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The fields of every pod other than its containers. Argument: dict "root" $ "component" "api" "values"
     .Values.api, and "token" true if the pod calls the API server. */}}
{{- define "deputize.podCommon" -}}
serviceAccountName: {{ include "deputize.serviceAccountName" . }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- with .root.Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.global.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.global.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "deputize.podSecurityContext" . | nindent 2 }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The only folder to which a container may write. */}}
{{- define "deputize.tmpVolume" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}

{{- define "deputize.tmpMount" -}}
- name: tmp
  mountPath: /tmp
{{- end -}}

{{/* The names of Secrets. A trial has its own Secrets if the values name none. */}}
{{- define "deputize.databaseSecret" -}}
{{- if .Values.database.existingSecret.name -}}
{{- .Values.database.existingSecret.name -}}
{{- else if .Values.trial.enabled -}}
{{- printf "%s-trial-database" (include "deputize.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "deputize.sealingKeySecret" -}}
{{- if .Values.sealingKey.existingSecret.name -}}
{{- .Values.sealingKey.existingSecret.name -}}
{{- else if .Values.trial.enabled -}}
{{- printf "%s-trial-sealing-key" (include "deputize.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The vault's database: a Secret with the keys url and migrationUrl. */}}
{{- define "deputize.keyvaultDatabaseSecret" -}}
{{- $given := dig "database" "existingSecret" "name" "" .Values.keyvault -}}
{{- if $given -}}
{{- $given -}}
{{- else if .Values.trial.enabled -}}
{{- printf "%s-trial-keyvault-database" (include "deputize.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The vault's URL, and the Secret with ca.crt, tls.crt and tls.key with which the API calls it. */}}
{{- define "deputize.keyvaultService" -}}
{{- printf "%s-keyvault" (include "deputize.fullname" .) -}}
{{- end -}}

{{- define "deputize.keyvaultUrl" -}}
{{- printf "https://%s.%s.svc:8443" (include "deputize.keyvaultService" .) .Release.Namespace -}}
{{- end -}}

{{- define "deputize.keyvaultApiTlsSecret" -}}
{{- dig "tls" "apiSecret" "" .Values.keyvault | default (printf "%s-keyvault-api-tls" (include "deputize.fullname" .)) -}}
{{- end -}}
