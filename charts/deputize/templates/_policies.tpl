{{/* The admission policies and their bindings for this release's operator, as one list. */}}
{{- define "deputize.policies" -}}
{{- $named := "system:serviceaccount:deputize-system:deputize-operator" -}}
{{- $text := .Files.Get "files/policies.yaml" | replace $named (include "deputize.operatorUser" .) -}}
{{- $policies := list -}}
{{- range splitList "\n---\n" $text -}}
{{- $policies = append $policies (fromYaml .) -}}
{{- end -}}
{{- toYaml $policies -}}
{{- end -}}

{{- define "deputize.policyNames" -}}
{{- $names := list -}}
{{- range include "deputize.policies" . | fromYamlArray -}}
{{- $names = append $names .metadata.name -}}
{{- end -}}
{{- uniq $names | toYaml -}}
{{- end -}}
