{{/* Metadata of an object for the Prometheus Operator or Grafana. Argument: dict "root" $ "name" "deputize-api"
     "component" "api" "labels" dict "annotations" dict. */}}
{{- define "deputize.monitoringMetadata" -}}
name: {{ .name }}
namespace: {{ include "deputize.monitoringNamespace" .root }}
labels:
  {{- include "deputize.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "deputize.monitoringNamespace" -}}
{{- .Values.monitoring.namespace | default .Release.Namespace -}}
{{- end -}}

{{/* How Prometheus reads each part: by plain HTTP without a certificate, as probes do. */}}
{{- define "deputize.monitoringEndpoints" -}}
- port: health
  path: /metrics
  interval: {{ .Values.monitoring.serviceMonitor.interval }}
  scrapeTimeout: {{ .Values.monitoring.serviceMonitor.scrapeTimeout }}
{{- end -}}
