{{/* Refuses values of the vault that cannot work, each with its own message. */}}
{{- define "deputize.validateKeyvault" -}}
{{- $values := .Values.keyvault -}}
{{- $database := include "deputize.keyvaultDatabaseSecret" . -}}
{{- if not $database -}}
{{- fail "keyvault.database.existingSecret.name is empty. Create a Secret that has the URLs of the vault's own Postgres database, of its running role under the key url and of its owner under migrationUrl, and name it here." -}}
{{- end -}}
{{- if and .Values.trial.enabled $values.database.existingSecret.name -}}
{{- fail "trial.enabled=true and keyvault.database.existingSecret.name are both given. A trial has its own database; for production set trial.enabled=false." -}}
{{- end -}}
{{- if eq $values.tls.mode "existingSecret" -}}
{{- $wanted := list "serverSecret" "apiSecret" -}}
{{- if $values.backup.enabled -}}
{{- $wanted = append $wanted "backupSecret" -}}
{{- end -}}
{{- range $wanted -}}
{{- if not (get $values.tls .) -}}
{{- fail (printf "keyvault.tls.mode is existingSecret and keyvault.tls.%s is empty. Name the Secret that has ca.crt, tls.crt and tls.key." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if ge (int $values.tls.renewDays) (int $values.tls.days) -}}
{{- fail "keyvault.tls.renewDays must be less than keyvault.tls.days." -}}
{{- end -}}
{{- if and (or $values.tls.issuerRef.kind $values.tls.issuerRef.group) (not $values.tls.issuerRef.name) -}}
{{- fail "keyvault.tls.issuerRef has no name. Name cert-manager's issuer, or leave kind and group out, and the chart makes one." -}}
{{- end -}}
{{- if $values.backup.enabled -}}
{{- if not $values.backup.recoveryKey.existingConfigMap.name -}}
{{- fail (printf "keyvault.backup.enabled=true and keyvault.backup.recoveryKey.existingConfigMap.name is empty. Name a ConfigMap that has the public half of the recovery key under the key %s; its private half belongs elsewhere." $values.backup.recoveryKey.existingConfigMap.key) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.network.policies.enabled (not .Values.trial.enabled) -}}
{{- if not .Values.network.peers.keyvaultDatabase.to -}}
{{- fail "network.peers.keyvaultDatabase.to is empty. Name where the vault's Postgres is, or set network.policies.enabled=false and restrict the traffic yourself." -}}
{{- end -}}
{{- if and (eq $values.tls.mode "job") (not .Values.network.peers.apiServer.to) -}}
{{- fail "network.peers.apiServer.to is empty. The Job that makes the vault's certificates calls the API server: kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes shows where it is. Or set keyvault.tls.mode to certManager or existingSecret." -}}
{{- end -}}
{{- end -}}
{{- include "deputize.validateStorage" (dict "root" . "name" (include "deputize.keyvaultName" .) "path" "keyvault.storage" "storage" $values.storage) -}}
{{- include "deputize.validateKeyvaultPin" . -}}
{{- end -}}

{{/* Another PIN does not open an existing token. So if a token exists, its PIN must exist too and is never generated. */}}
{{- define "deputize.validateKeyvaultPin" -}}
{{- if and .Values.trial.enabled (not .Values.keyvault.pin.existingSecret.name) -}}
{{- $pin := get (include "deputize.keyvaultPin" . | fromYaml) "name" -}}
{{- $claim := printf "data-%s-0" (include "deputize.keyvaultName" .) -}}
{{- if lookup "v1" "PersistentVolumeClaim" .Release.Namespace $claim -}}
{{- if not (lookup "v1" "Secret" .Release.Namespace $pin) -}}
{{- fail (printf "The vault's token exists (PersistentVolumeClaim %s), but the Secret %s with its PIN does not. Restore the Secret from where you noted the PIN, or delete the claim, the database and all keys with them." $claim $pin) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
