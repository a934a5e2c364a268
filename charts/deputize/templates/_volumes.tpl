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
