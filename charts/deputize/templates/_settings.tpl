{{/* The Secrets that a role reads: a list of { name, secret, items: [{ key, path, env }] }. Each becomes a folder
     /run/secrets/deputize/<name>. Each item with an env becomes a setting that names its file. Argument: the root. */}}
{{- define "deputize.files.database" -}}
- name: database
  secret: {{ include "deputize.databaseSecret" . }}
  items:
    - { key: {{ .Values.database.existingSecret.key | quote }}, path: url, env: DATABASE_URL_FILE }
{{- with .Values.database.existingSecret.directKey }}
    - { key: {{ . | quote }}, path: directUrl, env: DATABASE_DIRECT_URL_FILE }
{{- end }}
{{- with .Values.database.ca.existingSecret }}
{{- if .name }}
- name: database-ca
  secret: {{ .name }}
  items: [{ key: {{ .key | quote }}, path: ca.crt }]
{{- end }}
{{- end }}
{{- end -}}

{{- define "deputize.files.sealingKey" -}}
- name: sealing-key
  secret: {{ include "deputize.sealingKeySecret" . }}
  items: [{ key: {{ .Values.sealingKey.existingSecret.key | quote }}, path: key, env: SEALING_KEY_FILE }]
{{- end -}}

{{- define "deputize.files.kafka" -}}
{{- with .Values.kafka }}
{{- if .enabled }}
{{- with .tls.ca.existingSecret }}
{{- if .name }}
- name: kafka-ca
  secret: {{ .name }}
  items: [{ key: {{ .key | quote }}, path: ca.crt, env: KAFKA_CA_FILE }]
{{- end }}
{{- end }}
{{- with .tls.client.existingSecret }}
{{- if .name }}
- name: kafka-client
  secret: {{ .name }}
  items:
    - { key: {{ .certKey | quote }}, path: tls.crt, env: KAFKA_CERT_FILE }
    - { key: {{ .keyKey | quote }}, path: tls.key, env: KAFKA_KEY_FILE }
{{- end }}
{{- end }}
{{- with .sasl.password.existingSecret }}
{{- if .name }}
- name: kafka-password
  secret: {{ .name }}
  items: [{ key: {{ .key | quote }}, path: password, env: KAFKA_PASSWORD_FILE }]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "deputize.files.api" -}}
{{ include "deputize.files.database" . }}
{{ include "deputize.files.sealingKey" . }}
{{- with .Values.smtp.existingSecret }}
{{- if .name }}
- name: smtp
  secret: {{ .name }}
  items: [{ key: {{ .key | quote }}, path: url, env: SMTP_URL_FILE }]
{{- end }}
{{- end }}
- name: keyvault-client
  secret: {{ include "deputize.keyvaultApiTlsSecret" . }}
  items:
    - { key: ca.crt, path: ca.crt, env: VAULT_CA_FILE }
    - { key: tls.crt, path: tls.crt, env: VAULT_CERT_FILE }
    - { key: tls.key, path: tls.key, env: VAULT_KEY_FILE }
{{- end -}}

{{- define "deputize.files.worker" -}}
{{ include "deputize.files.database" . }}
{{ include "deputize.files.sealingKey" . }}
{{ include "deputize.files.kafka" . }}
{{- end -}}

{{- define "deputize.files.migrate" -}}
{{ include "deputize.files.database" . }}
{{ include "deputize.files.kafka" . }}
{{- end -}}

{{- define "deputize.files.operator" -}}
[]
{{- end -}}

{{/* The volumes of such a list of Secrets. Argument: the list as YAML. */}}
{{- define "deputize.fileVolumes" -}}
{{- range fromYamlArray . }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      {{- range .items }}
      - { key: {{ .key | quote }}, path: {{ .path }} }
      {{- end }}
{{- end }}
{{- end -}}

{{- define "deputize.fileMounts" -}}
{{- range fromYamlArray . }}
- name: {{ .name }}
  mountPath: /run/secrets/deputize/{{ .name }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* The settings of roles, by name. Empty settings are left out. Argument: the root. */}}
{{- define "deputize.settings.events" -}}
{{- with .Values.kafka }}
EVENTS: {{ ternary "kafka" "embedded" .enabled }}
{{- if .enabled }}
KAFKA_BROKERS: {{ join "," .brokers | quote }}
KAFKA_PREFIX: {{ .prefix | quote }}
KAFKA_TLS: {{ .tls.enabled | quote }}
KAFKA_SASL_MECHANISM: {{ .sasl.mechanism | quote }}
KAFKA_USERNAME: {{ .sasl.username | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The settings of every long-running role. */}}
{{- define "deputize.settings.role" -}}
HEALTH_HOST: {{ .Values.network.listen | quote }}
HEALTH_PORT: "9090"
{{- end -}}

{{/* The common settings of api and worker. */}}
{{- define "deputize.settings.service" -}}
DEVELOPMENT: {{ .Values.trial.enabled | quote }}
SERVICE_WORD: {{ .Values.api.serviceWord | quote }}
WEBHOOK_ALLOWED_CIDRS: {{ join "," (fromYamlArray (include "deputize.webhookCidrs" .)) | quote }}
{{- end -}}

{{- define "deputize.settings.api" -}}
{{ include "deputize.settings.role" . }}
{{ include "deputize.settings.service" . }}
HOST: {{ .Values.network.listen | quote }}
PORT: "8080"
BASE_URL: {{ include "deputize.baseUrl" . | quote }}
SERVICE_WORD_ALIASES: {{ join "," .Values.api.serviceWordAliases | quote }}
SERVICE_ADMINISTRATORS: {{ join "," .Values.api.serviceAdministrators | quote }}
DRAIN_SECONDS: {{ .Values.api.drainSeconds | int64 | quote }}
TRUSTED_PROXIES: {{ join "," .Values.api.trustedProxies | quote }}
MAIL_FROM: {{ .Values.smtp.from | quote }}
SUPPORT_CONTACT: {{ .Values.api.supportContact | quote }}
{{- with .Values.api.historyRetentionMonths | int64 }}
HISTORY_RETENTION_MONTHS: {{ . | quote }}
{{- end }}
VAULT_URL: {{ include "deputize.keyvaultUrl" . | quote }}
{{- if include "deputize.servesOperators" . }}
CLUSTERS_FILE: /run/secrets/deputize/clusters/clusters.yaml
OPERATOR_HOST: {{ .Values.network.listen | quote }}
OPERATOR_PORT: "8081"
{{- end }}
{{- end -}}

{{/* The selector of namespaces in the form of kubectl, or nothing. */}}
{{- define "deputize.namespaceSelector" -}}
{{- $rules := list -}}
{{- range $key, $value := .namespaceSelector.matchLabels -}}
{{- $rules = append $rules (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- range .namespaceSelector.matchExpressions -}}
{{- if eq .operator "Exists" -}}
{{- $rules = append $rules .key -}}
{{- else if eq .operator "DoesNotExist" -}}
{{- $rules = append $rules (printf "!%s" .key) -}}
{{- else -}}
{{- $rules = append $rules (printf "%s %s (%s)" .key (lower .operator) (join "," .values)) -}}
{{- end -}}
{{- end -}}
{{- join "," $rules -}}
{{- end -}}

{{- define "deputize.settings.operator" -}}
{{ include "deputize.settings.role" . }}
{{- with .Values.operator }}
API_URL: {{ .apiUrl | default (printf "http://%s-api.%s.svc:8080" (include "deputize.fullname" $) $.Release.Namespace) | quote }}
CONSOLE_URL: {{ .consoleUrl | default (printf "%s/console" (include "deputize.baseUrl" $ | trimSuffix "/")) | quote }}
OPERATOR_API_URL: {{ printf "http://%s-api-operator.%s.svc:8081" (include "deputize.fullname" $) $.Release.Namespace | quote }}
OPERATOR_TOKEN_FILE: /run/secrets/deputize/api-token/token
OPERATOR_NAMESPACE: {{ $.Release.Namespace | quote }}
CLUSTER_ID: {{ include "deputize.clusterId" $ | quote }}
WATCH_NAMESPACES: {{ join "," .watchNamespaces | quote }}
NAMESPACE_SELECTOR: {{ include "deputize.namespaceSelector" . | quote }}
ENDED_TTL: {{ .endedTtl | quote }}
ORPHAN_GRACE: {{ .orphanGrace | quote }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ .otlpEndpoint | quote }}
{{- end }}
{{- end -}}

{{- define "deputize.settings.worker" -}}
{{ include "deputize.settings.role" . }}
{{ include "deputize.settings.service" . }}
{{ include "deputize.settings.events" . }}
{{- end -}}

{{- define "deputize.settings.migrate" -}}
{{ include "deputize.settings.events" . }}
{{- if .Values.kafka.enabled }}
KAFKA_PARTITIONS: {{ .Values.kafka.partitions | int64 | quote }}
KAFKA_REPLICATION: {{ .Values.kafka.replication | int64 | quote }}
{{- end }}
{{- end -}}

{{/* Settings of a trial, which the values can override. Everybody there shares one address and signs in often. */}}
{{- define "deputize.trialSettings" -}}
{{- if and .root.Values.trial.enabled (eq .component "api") }}
SEND_CODE_PER_IP: "1000"
SEND_CODE_PER_ADDRESS: "1000"
SEND_CODE_PER_DAY: "1000"
VERIFY_CODE_PER_IP: "1000"
{{- end }}
{{- end -}}

{{/* A role's environment: its settings, further settings of the values, and the files of its secrets. Argument: dict
     "root" $ "component" "api" "values" .Values.api. */}}
{{- define "deputize.env" -}}
{{- $settings := include (printf "deputize.settings.%s" .component) .root | fromYaml -}}
{{- if .component | ne "migrate" -}}
{{- $_ := set $settings "LOG_LEVEL" (.values.logLevel | default .root.Values.global.logLevel) -}}
{{- end -}}
{{- range include (printf "deputize.files.%s" .component) .root | fromYamlArray -}}
{{- $folder := printf "/run/secrets/deputize/%s" .name -}}
{{- range .items -}}
{{- if .env -}}
{{- $_ := set $settings .env (printf "%s/%s" $folder .path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := .values.settings -}}
{{- if has (trimSuffix "_FILE" $name) (list "DATABASE_URL" "DATABASE_DIRECT_URL" "SEALING_KEY" "SMTP_URL" "OPERATOR_TOKEN" "KAFKA_KEY" "KAFKA_PASSWORD") -}}
{{- fail (printf "%s.settings has %s: a secret does not belong into values. Name a Secret that has it, by existingSecret." $.component $name) -}}
{{- end -}}
{{- if or (hasKey $settings $name) (eq $name "RECORDED_CLUSTER_ID") -}}
{{- fail (printf "%s.settings has %s, which the chart sets. Use the value that is meant for it." $.component $name) -}}
{{- end -}}
{{- $_ := set $settings $name $value -}}
{{- end -}}
{{- $settings = merge $settings (include "deputize.trialSettings" . | fromYaml) -}}
{{- range $name, $value := $settings }}
{{- if $value | ne "" }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- /* With another id than the recorded one, new API pods do not start, and the running ones serve the operator. */}}
{{- if and (eq .component "api") .root.Values.operator.enabled }}
- name: RECORDED_CLUSTER_ID
  valueFrom:
    configMapKeyRef: { name: deputize-cluster, key: clusterID, optional: true }
{{- end }}
{{- end -}}

{{/* The URL that people and applications use. */}}
{{- define "deputize.baseUrl" -}}
{{- .Values.api.baseUrl | default (ternary "http://localhost:8080" "" .Values.trial.enabled) -}}
{{- end -}}

{{/* Not empty if the API serves operators of this cluster or of others. */}}
{{- define "deputize.servesOperators" -}}
{{- if or .Values.operator.enabled .Values.api.clusters -}}true{{- end -}}
{{- end -}}

{{/* Private networks to which callbacks may lead: all of them in a trial, whose applications are in the cluster. */}}
{{- define "deputize.webhookCidrs" -}}
{{- $private := list "10.0.0.0/8" "100.64.0.0/10" "172.16.0.0/12" "192.168.0.0/16" "fc00::/7" -}}
{{- .Values.api.webhookAllowedCidrs | default (ternary $private list .Values.trial.enabled) | toYaml -}}
{{- end -}}
