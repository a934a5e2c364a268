{{/* Not empty: an autoscaler says how many APIs there are. A trial has few nodes and often no metrics. */}}
{{- define "deputize.apiScales" -}}
{{- if and .Values.api.autoscaling.enabled (not .Values.trial.enabled) -}}true{{- end -}}
{{- end -}}

{{/* The API's CLUSTERS_FILE: this cluster, where an operator runs, and those that the values name. */}}
{{- define "deputize.clustersFile" -}}
{{- $clusters := .Values.api.clusters -}}
{{- if .Values.operator.enabled -}}
{{- $own := dict "id" (include "deputize.clusterId" .) "operator" (include "deputize.operatorUser" .) -}}
{{- $clusters = prepend $clusters $own -}}
{{- end -}}
{{- toYaml (dict "clusters" $clusters) -}}
{{- end -}}

{{/* That file with the kubeconfigs that it names, in one folder. */}}
{{- define "deputize.clustersVolume" -}}
- name: clusters
  projected:
    defaultMode: 0440
    sources:
      - configMap:
          name: {{ include "deputize.fullname" . }}-clusters
      {{- with .Values.api.clustersKubeconfigs.existingSecret.name }}
      - secret:
          name: {{ . }}
      {{- end }}
{{- end -}}
