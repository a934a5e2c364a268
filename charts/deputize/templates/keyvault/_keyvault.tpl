{{/* The names of the vault and its Secrets. The values name the Secrets that the chart does not create. Argument: the
     root. */}}
{{- define "deputize.keyvaultName" -}}
{{- printf "%s-keyvault" (include "deputize.fullname" .) -}}
{{- end -}}

{{- define "deputize.keyvaultServerTlsSecret" -}}
{{- .Values.keyvault.tls.serverSecret | default (printf "%s-tls" (include "deputize.keyvaultName" .)) -}}
{{- end -}}

{{- define "deputize.keyvaultBackupTlsSecret" -}}
{{- .Values.keyvault.tls.backupSecret | default (printf "%s-backup-tls" (include "deputize.keyvaultName" .)) -}}
{{- end -}}

{{/* The Secret and key of the PIN with which the vault unseals automatically. Empty if the vault starts sealed. */}}
{{- define "deputize.keyvaultPin" -}}
{{- if .Values.keyvault.pin.existingSecret.name -}}
{{- toYaml .Values.keyvault.pin.existingSecret -}}
{{- else if .Values.trial.enabled -}}
{ name: {{ include "deputize.fullname" . }}-trial-keyvault-pin, key: pin }
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{/* The host names of the vault, as a list. */}}
{{- define "deputize.keyvaultServerNames" -}}
{{- $name := include "deputize.keyvaultName" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $names := list "localhost" "127.0.0.1" $name
  (printf "%s.%s" $name $namespace) (printf "%s.%s.svc" $name $namespace)
  (printf "%s.%s.svc.cluster.local" $name $namespace)
  (printf "%s-0.%s-pods.%s.svc" $name $name $namespace) -}}
{{- concat $names .Values.keyvault.tls.serverNames | uniq | toYaml -}}
{{- end -}}

{{/* The clients that receive certificates: [{ role, name, secret }]. */}}
{{- define "deputize.keyvaultClients" -}}
- { role: api, name: api, secret: {{ include "deputize.keyvaultApiTlsSecret" . }} }
- { role: admin, name: admin, secret: {{ include "deputize.keyvaultName" . }}-admin-tls }
{{- if .Values.keyvault.backup.enabled }}
- { role: backup, name: backup, secret: {{ include "deputize.keyvaultBackupTlsSecret" . }} }
{{- end }}
{{- end -}}

{{/* A container of the vault's image. Argument: dict "root" $ "name" "…". */}}
{{- define "deputize.keyvaultContainer" -}}
name: {{ .name }}
image: {{ include "deputize.image" (dict "root" .root "image" .root.Values.keyvault.image) }}
imagePullPolicy: {{ .root.Values.keyvault.image.pullPolicy }}
securityContext:
  {{- include "deputize.containerSecurityContext" . | nindent 2 }}
{{- end -}}

{{/* Settings of the running vault and of `keyvault init`. */}}
{{- define "deputize.keyvaultSettings" -}}
{{- $values := .Values.keyvault -}}
KEYVAULT_DATA_DIR: /var/lib/keyvault/data
KEYVAULT_DATABASE_URL_FILE: /run/secrets/deputize/keyvault-database/url
KEYVAULT_PIN_FILE: /run/secrets/deputize/keyvault-pin/pin
KEYVAULT_HOST: {{ .Values.network.listen | quote }}
KEYVAULT_PORT: "8443"
KEYVAULT_HEALTH_HOST: {{ .Values.network.listen | quote }}
KEYVAULT_HEALTH_PORT: "9090"
KEYVAULT_TLS_CA_FILE: /run/secrets/deputize/keyvault-tls/ca.crt
KEYVAULT_TLS_CERT_FILE: /run/secrets/deputize/keyvault-tls/tls.crt
KEYVAULT_TLS_KEY_FILE: /run/secrets/deputize/keyvault-tls/tls.key
KEYVAULT_TLS_REVOKED_FILE: /etc/keyvault/revoked/revoked
KEYVAULT_AUDIT_HEADS_LOG_SECONDS: {{ $values.auditHeads.logSeconds | int64 | quote }}
KEYVAULT_LOG_LEVEL: {{ $values.logLevel | quote }}
KEYVAULT_CEILING: {{ without $values.ceiling "*" | join "," | quote }}
{{- if $values.backup.enabled }}
KEYVAULT_RECOVERY_KEY_FILE: /etc/keyvault/recovery/recovery.pub
{{- end }}
{{- with $values.hsm }}
KEYVAULT_PKCS11_MODULE: {{ .module | quote }}
KEYVAULT_PKCS11_PARAMETERS: {{ .parameters | quote }}
KEYVAULT_TOKEN_LABEL: {{ .tokenLabel | quote }}
KEYVAULT_TOKEN_ENVIRONMENT: {{ keys .environment | sortAlpha | join "," | quote }}
{{- range $name, $value := .environment }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "deputize.keyvaultEnv" -}}
{{- $settings := include "deputize.keyvaultSettings" . | fromYaml -}}
{{- range $name, $value := .Values.keyvault.settings -}}
{{- if or (hasKey $settings $name) (has (trimSuffix "_FILE" $name) (list "KEYVAULT_DATABASE_URL" "KEYVAULT_MIGRATION_DATABASE_URL")) -}}
{{- fail (printf "keyvault.settings has %s, which the chart sets. Use the value that is meant for it." $name) -}}
{{- end -}}
{{- $_ := set $settings $name $value -}}
{{- end -}}
{{- range $name, $value := $settings }}
{{- if $value | ne "" }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The arguments of the program that creates and renews certificates. */}}
{{- define "deputize.keyvaultCertificatesArgs" -}}
- cert
- secrets
- --authority={{ include "deputize.keyvaultName" . }}-authority
- --server={{ include "deputize.keyvaultServerTlsSecret" . }}
- --days={{ .Values.keyvault.tls.days | int64 }}
- --renew-days={{ .Values.keyvault.tls.renewDays | int64 }}
{{- range include "deputize.keyvaultServerNames" . | fromYamlArray }}
- --server-name={{ . }}
{{- end }}
{{- range include "deputize.keyvaultClients" . | fromYamlArray }}
- --client={{ .role }}/{{ .name }}={{ .secret }}
{{- end }}
- --label=app.kubernetes.io/name={{ include "deputize.name" . }}
- --label=app.kubernetes.io/instance={{ .Release.Name }}
- --label=app.kubernetes.io/component=keyvault
{{- end -}}
