{{/* The API's CLUSTERS_FILE: this cluster, if an operator runs in it, and those of the values. */}}
{{- define "deputize.clustersFile" -}}
{{- $clusters := .Values.api.clusters -}}
{{- if .Values.operator.enabled -}}
{{- $own := dict "id" (include "deputize.clusterId" .) "operator" (include "deputize.operatorUser" .) -}}
{{- $clusters = prepend $clusters $own -}}
{{- end -}}
{{- toYaml (dict "clusters" $clusters) -}}
{{- end -}}

{{/* The volume with CLUSTERS_FILE and the kubeconfigs that it names, in one folder. */}}
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
