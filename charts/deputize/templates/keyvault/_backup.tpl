{{/* The name of the claim for the backups' volume. */}}
{{- define "deputize.keyvaultBackupClaim" -}}
{{- .Values.keyvault.backup.storage.existingClaim | default (printf "%s-backups" (include "deputize.keyvaultName" .)) -}}
{{- end -}}

{{/* The pod that creates a backup. Argument: dict "root" $ "restartPolicy" "…". */}}
{{- define "deputize.keyvaultBackupPod" -}}
{{- $root := .root -}}
{{- $values := $root.Values.keyvault.backup -}}
{{- $common := dict "root" $root "component" "keyvault-backup" "values" $root.Values.keyvault -}}
metadata:
  labels:
    {{- include "deputize.podLabels" $common | nindent 4 }}
spec:
  {{- include "deputize.podCommon" $common | nindent 2 }}
  restartPolicy: {{ .restartPolicy }}
  containers:
    - {{- include "deputize.keyvaultContainer" (dict "root" $root "name" "backup") | nindent 6 }}
      args:
        - backup
        - create
        - --out-dir=/backups
        - --keep={{ $values.keep | int64 }}
        - --url={{ include "deputize.keyvaultUrl" $root }}
        - --ca=/run/secrets/deputize/keyvault-backup/ca.crt
        - --cert=/run/secrets/deputize/keyvault-backup/tls.crt
        - --key=/run/secrets/deputize/keyvault-backup/tls.key
        - --json
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      volumeMounts:
        {{- include "deputize.tmpMount" . | nindent 8 }}
        - { name: backups, mountPath: /backups }
        - { name: keyvault-backup, mountPath: /run/secrets/deputize/keyvault-backup, readOnly: true }
  volumes:
    {{- include "deputize.tmpVolume" . | nindent 4 }}
    - name: backups
      persistentVolumeClaim: { claimName: {{ include "deputize.keyvaultBackupClaim" $root }} }
    - name: keyvault-backup
      secret:
        secretName: {{ include "deputize.keyvaultBackupTlsSecret" $root }}
        defaultMode: 0440
        items: [{ key: ca.crt, path: ca.crt }, { key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }]
{{- end -}}
