{{/* A Job of an earlier revision, as an object of this revision too. Otherwise a rollback after a failed upgrade finds a
     Job that the failed revision does not have, and tries to change fields that never change. Kubernetes deletes the Job
     a day after this upgrade. A failed Job is left out, so that Helm deletes it and does not wait for it. Argument: the
     Job as it is in the cluster. */}}
{{- define "deputize.keptJob" -}}
{{- $isFailed := false -}}
{{- range dig "status" "conditions" list . -}}
{{- if and (eq .type "Failed") (eq .status "True") -}}
{{- $isFailed = true -}}
{{- end -}}
{{- end -}}
{{- if not $isFailed -}}
{{- $generated := list "controller-uid" "job-name" "batch.kubernetes.io/controller-uid" "batch.kubernetes.io/job-name" -}}
{{- $labels := dict -}}
{{- range $name, $value := .spec.template.metadata.labels -}}
{{- if not (has $name $generated) -}}
{{- $_ := set $labels $name $value -}}
{{- end -}}
{{- end -}}
{{- $template := dict "metadata" (dict "labels" $labels) "spec" .spec.template.spec -}}
{{- $age := sub (now | unixEpoch | int64) (toDate "2006-01-02T15:04:05Z" .metadata.creationTimestamp | unixEpoch | int64) -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .metadata.name }}
  namespace: {{ .metadata.namespace }}
  labels:
    {{- toYaml .metadata.labels | nindent 4 }}
spec:
  backoffLimit: {{ .spec.backoffLimit | int64 }}
  activeDeadlineSeconds: {{ .spec.activeDeadlineSeconds | int64 }}
  ttlSecondsAfterFinished: {{ add $age 86400 }}
  template:
    {{- toYaml $template | nindent 4 }}
{{- end -}}
{{- end -}}
