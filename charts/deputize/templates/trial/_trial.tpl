{{- define "deputize.trialPostgresHost" -}}
{{- printf "%s-postgres.%s.svc" (include "deputize.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* A Secret that a trial creates once. It is immutable and remains after an uninstallation. Argument:
     dict "root" $ "name" "…" "data" dict of texts. */}}
{{- define "deputize.trialSecret" -}}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "deputize.labels" (dict "root" .root "component" "trial") | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
type: Opaque
immutable: true
data:
  {{- range $key, $value := .data }}
  {{ $key }}: {{ $value | b64enc }}
  {{- end }}
{{- end -}}

{{/* Not empty if a trial has no Postgres yet: at the first installation, and after one that failed in a hook. */}}
{{- define "deputize.trialIsNew" -}}
{{- if .Values.trial.enabled -}}
{{- if .Release.IsInstall -}}
true
{{- else if lookup "v1" "Namespace" "" .Release.Namespace -}}
{{- if not (lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-postgres" (include "deputize.fullname" .))) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
