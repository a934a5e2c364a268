{{/* The objects of extraObjects, after their templates ran, as one list. Refuses everything that is not one object, and
     Secrets, whose values would be in the release. Argument: the root. */}}
{{- define "deputize.extraObjects" -}}
{{- $objects := list -}}
{{- range $n, $value := .Values.extraObjects -}}
{{- $path := printf "extraObjects[%d]" $n -}}
{{- $text := tpl (toYaml $value) $ -}}
{{- $object := fromYaml $text -}}
{{- if and (hasKey $object "Error") (not (hasKey $object "kind")) -}}
{{- fail (printf "%s is not valid YAML after its templates ran: %s." $path ($object.Error | replace "\n" " ")) -}}
{{- end -}}
{{- if or (regexMatch "(?m)^---" $text) (hasKey $object "items") (eq (toString $object.kind | trim | lower) "list") -}}
{{- fail (printf "%s has several objects. Give each of them its own entry of extraObjects." $path) -}}
{{- end -}}
{{- $metadata := kindIs "map" $object.metadata | ternary $object.metadata dict -}}
{{- range list $object.apiVersion $object.kind $metadata.name -}}
{{- if not (and . (kindIs "string" .)) -}}
{{- fail (printf "%s is not an object: it needs apiVersion, kind and metadata.name, each of them a text." $path) -}}
{{- end -}}
{{- end -}}
{{- if not (kindIs "map" ($metadata.labels | default dict)) -}}
{{- fail (printf "%s has metadata.labels that are not a map of names and values." $path) -}}
{{- end -}}
{{- if has ($object.kind | trim | lower) (list "secret" "secretlist") -}}
{{- fail (printf "%s is a Secret: a secret does not belong into values. Create it beside the release, or with an ExternalSecret." $path) -}}
{{- end -}}
{{- $objects = append $objects $object -}}
{{- end -}}
{{- toYaml $objects -}}
{{- end -}}
