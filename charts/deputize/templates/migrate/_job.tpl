{{/* The spec of the Job that migrates the database to this version's schema, while the former version runs. Argument:
     dict "root" $ "name" the ServiceAccount's. */}}
{{- define "deputize.migrateJobSpec" -}}
{{- $root := .root -}}
{{- $values := $root.Values.migrate -}}
{{- $common := dict "root" $root "component" "migrate" "values" $values -}}
{{- $files := include "deputize.files.migrate" $root -}}
backoffLimit: {{ $values.backoffLimit }}
activeDeadlineSeconds: {{ $values.activeDeadlineSeconds }}
template:
  metadata:
    labels:
      {{- include "deputize.podLabels" $common | nindent 6 }}
  spec:
    {{- $pod := include "deputize.podCommon" $common | fromYaml }}
    {{- $_ := set $pod "serviceAccountName" .name }}
    {{- toYaml $pod | nindent 4 }}
    restartPolicy: Never
    containers:
      - name: migrate
        image: {{ include "deputize.image" (dict "root" $root "image" $root.Values.image) }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        args: [migrate]
        env:
          {{- include "deputize.env" $common | nindent 10 }}
        resources:
          {{- toYaml $values.resources | nindent 10 }}
        securityContext:
          {{- include "deputize.containerSecurityContext" . | nindent 10 }}
        volumeMounts:
          {{- include "deputize.tmpMount" . | nindent 10 }}
          {{- include "deputize.fileMounts" $files | nindent 10 }}
    volumes:
      {{- include "deputize.tmpVolume" . | nindent 6 }}
      {{- include "deputize.fileVolumes" $files | nindent 6 }}
{{- end -}}

{{/* Annotations of objects that exist only while a hook runs. Argument: dict "weight" "…". */}}
{{- define "deputize.hookAnnotations" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
