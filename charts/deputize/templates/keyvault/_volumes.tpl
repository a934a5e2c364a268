{{/* The vault's volumes, except those of the values. Argument: the root. */}}
{{- define "deputize.keyvaultVolumes" -}}
{{- $values := .Values.keyvault }}
{{- $name := include "deputize.keyvaultName" . }}
{{- $pin := include "deputize.keyvaultPin" . | fromYaml }}
{{- $database := include "deputize.keyvaultDatabaseSecret" . }}
{{- $ca := $values.database.ca.existingSecret }}
{{ include "deputize.tmpVolume" . }}
- name: keyvault-database
  secret:
    secretName: {{ $database }}
    defaultMode: 0440
    items: [{ key: {{ $values.database.existingSecret.key | quote }}, path: url }]
- name: keyvault-owner
  secret:
    secretName: {{ $database }}
    defaultMode: 0440
    items: [{ key: {{ $values.database.existingSecret.migrationKey | quote }}, path: url }]
{{- if $ca.name }}
- name: keyvault-database-ca
  secret:
    secretName: {{ $ca.name }}
    defaultMode: 0440
    items: [{ key: {{ $ca.key | quote }}, path: ca.crt }]
{{- end }}
- name: keyvault-tls
  secret:
    secretName: {{ include "deputize.keyvaultServerTlsSecret" . }}
    defaultMode: 0440
    items: [{ key: ca.crt, path: ca.crt }, { key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }]
{{- if hasKey $pin "name" }}
- name: keyvault-pin
  secret:
    secretName: {{ $pin.name }}
    defaultMode: 0440
    items: [{ key: {{ $pin.key | quote }}, path: pin }]
{{- else }}
- name: keyvault-init-pin
  secret:
    secretName: {{ $values.initPin.existingSecret.name | default (printf "%s-init-pin" $name) }}
    optional: true
    defaultMode: 0440
    items: [{ key: {{ $values.initPin.existingSecret.key | quote }}, path: pin }]
{{- end }}
- name: revoked
  configMap: { name: {{ $name }}-revoked }
{{- if $values.backup.enabled }}
{{- with $values.backup.recoveryKey.existingConfigMap }}
- name: recovery
  configMap: { name: {{ .name }}, items: [{ key: {{ .key | quote }}, path: recovery.pub }] }
{{- end }}
{{- end }}
{{- end -}}

{{/* The mounts of the running vault, except those that its init container has too. Argument: the root. */}}
{{- define "deputize.keyvaultMounts" -}}
- { name: keyvault-tls, mountPath: /run/secrets/deputize/keyvault-tls, readOnly: true }
- { name: revoked, mountPath: /etc/keyvault/revoked, readOnly: true }
{{- if include "deputize.keyvaultPin" . | fromYaml | dig "name" "" }}
- { name: keyvault-pin, mountPath: /run/secrets/deputize/keyvault-pin, readOnly: true }
{{- end }}
{{- if .Values.keyvault.backup.enabled }}
- { name: recovery, mountPath: /etc/keyvault/recovery, readOnly: true }
{{- end }}
{{- end -}}
