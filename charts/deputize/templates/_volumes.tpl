{{/* Refuses volumes, mounts and containers that the API server would refuse after others were installed. Argument: dict
     "path" "api" "volumes" list "mounts" list "containers" list of names. */}}
{{- define "deputize.validateVolumes" -}}
{{- $path := .path -}}
{{- $names := list -}}
{{- range .volumes -}}
{{- if has .name $names -}}
{{- fail (printf "%s.extraVolumes has a volume %s, and the pod has another volume of this name. Choose another name." $path .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $places := list -}}
{{- range .mounts -}}
{{- if not (has .name $names) -}}
{{- fail (printf "%s.extraVolumeMounts mounts the volume %s, which the pod does not have. Add it to %s.extraVolumes." $path .name $path) -}}
{{- end -}}
{{- $place := trimSuffix "/" .mountPath -}}
{{- if has $place $places -}}
{{- fail (printf "%s.extraVolumeMounts has the mountPath %s, where another volume is mounted. Choose another path." $path .mountPath) -}}
{{- end -}}
{{- $places = append $places $place -}}
{{- end -}}
{{- $containers := list -}}
{{- range .containers -}}
{{- if has . $containers -}}
{{- fail (printf "%s.extraInitContainers has a container %s, and the pod has another container of this name. Choose another name." $path .) -}}
{{- end -}}
{{- $containers = append $containers . -}}
{{- end -}}
{{- end -}}

{{/* The bytes of a quantity such as 1024Mi, which the API server shows as 1Gi. Empty for a fraction such as 1.5Gi. */}}
{{- define "deputize.bytes" -}}
{{- if regexMatch "^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$" . -}}
{{- $units := dict "" 1 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[A-Za-z]*$" .) | int64) -}}
{{- end -}}
{{- end -}}

{{/* Refuses another size or class for the volume of a StatefulSet. Kubernetes would refuse it after Helm has changed other
     objects. Argument: dict "root" $ "name" the StatefulSet's "path" "keyvault.storage" "storage" .Values.keyvault.storage. */}}
{{- define "deputize.validateStorage" -}}
{{- $found := lookup "apps/v1" "StatefulSet" .root.Release.Namespace .name -}}
{{- if $found -}}
{{- $claim := (first $found.spec.volumeClaimTemplates).spec -}}
{{- $size := $claim.resources.requests.storage -}}
{{- $class := $claim.storageClassName | default "" -}}
{{- $bytes := include "deputize.bytes" .storage.size -}}
{{- $stored := include "deputize.bytes" $size -}}
{{- if or (and $bytes $stored (ne $bytes $stored)) (ne $class .storage.storageClassName) -}}
{{- fail (printf "%s has the size %s and the storage class %q, but the StatefulSet %s has %s and %q, which Kubernetes never changes. docs/keyvault_runbook.md, Grow a volume, describes how to replace it." .path .storage.size .storage.storageClassName .name $size $class) -}}
{{- end -}}
{{- end -}}
{{- end -}}
