{{/* Not empty if an autoscaler sets the number of API pods. Trials have none: few nodes, and often no metrics. */}}
{{- define "deputize.apiScales" -}}
{{- if and .Values.api.autoscaling.enabled (not .Values.trial.enabled) -}}true{{- end -}}
{{- end -}}

{{/* The number of API pods at the moment in which the values turn autoscaling on. Without it, Kubernetes would set the
     number to 1, because the chart no longer has the number. Helm would do the same in later revisions, unless the
     autoscaler owns the field. Empty if the autoscaler alone determines the number. */}}
{{- define "deputize.keptReplicas" -}}
{{- $name := printf "%s-api" (include "deputize.fullname" .) -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace $name -}}
{{- if $live -}}
{{- $isNew := not (lookup "autoscaling/v2" "HorizontalPodAutoscaler" .Release.Namespace $name) -}}
{{- $isKept := hasKey ($live.metadata.annotations | default dict) "deputize.io/kept-replicas" -}}
{{- $isOwner := true -}}
{{- range $live.metadata.managedFields -}}
{{- if and (eq .manager "helm") (eq .operation "Apply") -}}
{{- $isOwner = hasKey (get .fieldsV1 "f:spec" | default dict) "f:replicas" -}}
{{- end -}}
{{- end -}}
{{- if or $isNew (and $isKept $isOwner) -}}
{{- $live.spec.replicas | int | default .Values.api.autoscaling.minReplicas -}}
{{- end -}}
{{- end -}}
{{- end -}}
