{{/* Pods of this release. Argument: dict "root" $ "components" list. */}}
{{- define "deputize.ownPods" -}}
- podSelector:
    matchLabels:
      {{- include "deputize.releaseSelector" .root | nindent 6 }}
    matchExpressions:
      - { key: app.kubernetes.io/component, operator: In, values: [{{ join ", " .components }}] }
{{- end -}}

{{/* A rule for peers. Empty without peers. Argument: dict "direction" "to" "peers" list "ports" list. */}}
{{- define "deputize.peerRule" -}}
{{- if .peers }}
- {{ .direction }}:
    {{- toYaml .peers | nindent 4 }}
  ports:
    {{- range .ports }}
    - { port: {{ . | int64 }}, protocol: TCP }
    {{- end }}
{{- end }}
{{- end -}}

{{/* A rule for pods of this release. Argument: dict "root" $ "direction" "to" "components" list "ports" list. */}}
{{- define "deputize.arrow" -}}
{{- include "deputize.peerRule" (merge (dict "peers" (include "deputize.ownPods" . | fromYamlArray)) .) }}
{{- end -}}

{{- define "deputize.dnsRule" -}}
- to:
    {{- toYaml .Values.network.peers.dns.to | nindent 4 }}
  ports:
    {{- range .Values.network.peers.dns.ports }}
    - { port: {{ . | int64 }}, protocol: UDP }
    - { port: {{ . | int64 }}, protocol: TCP }
    {{- end }}
{{- end -}}

{{/* The egress rule for the service's database. */}}
{{- define "deputize.databaseRule" -}}
{{- if .Values.trial.enabled }}
{{- include "deputize.arrow" (dict "root" . "direction" "to" "components" (list "postgres") "ports" (list 5432)) }}
{{- else }}
{{- with .Values.network.peers.database }}
{{- include "deputize.peerRule" (dict "direction" "to" "peers" .to "ports" (list .port)) }}
{{- end }}
{{- if .Values.database.existingSecret.directKey }}
{{- with .Values.network.peers.databaseDirect }}
{{- include "deputize.peerRule" (dict "direction" "to" "peers" .to "ports" (list .port)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "deputize.kafkaRule" -}}
{{- if .Values.kafka.enabled }}
{{- with .Values.network.peers.kafka }}
{{- include "deputize.peerRule" (dict "direction" "to" "peers" .to "ports" .ports) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The egress rule for the API server. In a trial, it may be anywhere. */}}
{{- define "deputize.apiServerRule" -}}
{{- with .Values.network.peers.apiServer }}
{{- $anywhere := list (dict "ipBlock" (dict "cidr" "0.0.0.0/0")) (dict "ipBlock" (dict "cidr" "::/0")) }}
{{- $to := .to | default (ternary $anywhere list $.Values.trial.enabled) }}
{{- include "deputize.peerRule" (dict "direction" "to" "peers" $to "ports" .ports) }}
{{- end }}
{{- end -}}

{{/* The egress rule for callbacks: the named peers, or all public networks and the allowed private ones. */}}
{{- define "deputize.callbacksRule" -}}
{{- with .Values.network.peers.callbacks }}
{{- if $.Values.trial.enabled }}
- to:
    # All pods except those of this release.
    - namespaceSelector: {}
      podSelector:
        matchExpressions:
          - { key: app.kubernetes.io/instance, operator: NotIn, values: [{{ $.Release.Name | quote }}] }
    - ipBlock: { cidr: 0.0.0.0/0, except: [169.254.0.0/16] }
    - ipBlock: { cidr: "::/0", except: ["fe80::/10"] }
{{- else if .to }}
{{- include "deputize.peerRule" (dict "direction" "to" "peers" .to "ports" .ports) }}
{{- else }}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: [10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16]
    - ipBlock: { cidr: "::/0", except: ["fc00::/7", "fe80::/10"] }
    {{- range $.Values.api.webhookAllowedCidrs }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  ports:
    {{- range .ports }}
    - { port: {{ . | int64 }}, protocol: TCP }
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "deputize.prometheusRule" -}}
{{- include "deputize.peerRule" (dict "direction" "from" "peers" .Values.network.peers.prometheus "ports" (list 9090)) }}
{{- end -}}

{{/* The egress rules of each role. The doctor of a role has the same. */}}
{{- define "deputize.egress.api" -}}
{{- $smtp := .Values.network.peers.smtp }}
{{- include "deputize.dnsRule" . }}
{{ include "deputize.databaseRule" . }}
{{ include "deputize.arrow" (dict "root" . "direction" "to" "components" (list "keyvault") "ports" (list 8443)) }}
{{- if .Values.smtp.existingSecret.name }}
{{ include "deputize.peerRule" (dict "direction" "to" "peers" $smtp.to "ports" (list $smtp.port)) }}
{{- end }}
{{- if include "deputize.servesOperators" . }}
{{ include "deputize.apiServerRule" . }}
{{- end }}
{{- end -}}

{{- define "deputize.egress.operator" -}}
{{- $tracing := .Values.network.peers.tracing }}
{{- include "deputize.dnsRule" . }}
{{ include "deputize.apiServerRule" . }}
{{ include "deputize.arrow" (dict "root" . "direction" "to" "components" (list "api") "ports" (list 8081)) }}
{{- if .Values.operator.otlpEndpoint }}
{{ include "deputize.peerRule" (dict "direction" "to" "peers" $tracing.to "ports" (list $tracing.port)) }}
{{- end }}
{{- end -}}

{{- define "deputize.egress.worker" -}}
{{ include "deputize.dnsRule" . }}
{{ include "deputize.databaseRule" . }}
{{ include "deputize.kafkaRule" . }}
{{ include "deputize.callbacksRule" . }}
{{- end -}}

{{/* The policy of migrate, for its hook and for a trial's Job. */}}
{{- define "deputize.migrateArrows" -}}
podSelector:
  matchLabels:
    {{- include "deputize.selectorLabels" (dict "root" . "component" "migrate") | nindent 4 }}
policyTypes: [Ingress, Egress]
egress:
  {{- include "deputize.dnsRule" . | nindent 2 }}
  {{- include "deputize.databaseRule" . | nindent 2 }}
  {{- include "deputize.kafkaRule" . | nindent 2 }}
{{- end -}}

{{/* A policy for a component's pods. Argument: dict "root" $ "component" "api" "ingress" "…" "egress" "…". */}}
{{- define "deputize.networkPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "deputize.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "deputize.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "deputize.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- with trim .ingress }}
  ingress:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with trim .egress }}
  egress:
    {{- . | nindent 4 }}
  {{- end }}
{{- end -}}
