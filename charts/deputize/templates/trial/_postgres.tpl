{{- define "deputize.trialPostgresHost" -}}
{{- printf "%s-postgres.%s.svc" (include "deputize.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* What the container reads that makes the trial's databases: their URLs, which have names, roles and passwords. */}}
{{- define "deputize.trialDatabaseFiles" -}}
{{- $name := include "deputize.fullname" . -}}
- name: trial-postgres
  secret: {{ $name }}-trial-postgres
  items: [{ key: url, path: url }]
- name: trial-database
  secret: {{ include "deputize.databaseSecret" . }}
  items: [{ key: url, path: url }]
- name: trial-keyvault-database
  secret: {{ include "deputize.keyvaultDatabaseSecret" . }}
  items: [{ key: url, path: url }, { key: migrationUrl, path: migration-url }]
{{- end -}}

{{- define "deputize.trialPrepareContainer" -}}
- name: databases
  image: {{ include "deputize.image" (dict "root" $ "image" .Values.image) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [node, /etc/deputize/databases.mjs]
  resources:
    {{- toYaml .Values.migrate.resources | nindent 4 }}
  securityContext:
    {{- include "deputize.containerSecurityContext" . | nindent 4 }}
  volumeMounts:
    {{- include "deputize.tmpMount" . | nindent 4 }}
    - { name: databases, mountPath: /etc/deputize, readOnly: true }
    {{- include "deputize.fileMounts" (include "deputize.trialDatabaseFiles" .) | nindent 4 }}
{{- end -}}

{{/* A Secret that a trial makes once: what is there already is taken again, and it stays when the release goes. Argument:
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
  {{- $found := (lookup "v1" "Secret" .root.Release.Namespace .name).data }}
  {{- range $key, $value := .data }}
  {{ $key }}: {{ get ($found | default dict) $key | default ($value | b64enc) }}
  {{- end }}
{{- end -}}
