{{/* The operator's rights in the namespaces that it watches. */}}
{{- define "deputize.operatorRules" -}}
- apiGroups: [deputize.io]
  resources: [platforms, agents, delegations]
  verbs: [get, list, watch, patch]
{{- if .Values.operator.endedTtl }}
- apiGroups: [deputize.io]
  resources: [delegations]
  verbs: [delete]
{{- end }}
- apiGroups: [deputize.io]
  resources: [platforms/status, agents/status, delegations/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
- apiGroups: [""]
  resources: [namespaces]
  verbs: {{ ternary "[get, list, watch]" "[get]" (not (empty .Values.operator.namespaceSelector)) }}
{{- end -}}

{{/* The operator's rights in its own namespace: its Lease, the namespace bindings, and the record of its sweeps. */}}
{{- define "deputize.operatorHomeRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [deputize-operator]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [deputize-orphans]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* The API's right to read a decision that was made in the cluster. */}}
{{- define "deputize.apiRules" -}}
- apiGroups: [deputize.io]
  resources: [delegations]
  verbs: [get]
{{- end -}}

{{/* The API's rights in the whole cluster: to check tokens, and to compare the admission policies. */}}
{{- define "deputize.apiClusterRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- if .Values.admissionPolicies.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  resourceNames:
    {{- range $name := include "deputize.policyNames" . | fromYamlArray }}
    - {{ $name }}
    {{- end }}
  verbs: [get]
{{- end }}
{{- end -}}

{{/* A role and its binding. Argument: dict "root" $ "component" "api" "name" "…" "namespace" "…" (none: whole cluster)
     "rules" "…". */}}
{{- define "deputize.grant" -}}
{{- $kind := ternary "Role" "ClusterRole" (ne (.namespace | default "") "") -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "deputize.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "deputize.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "deputize.serviceAccountName" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
