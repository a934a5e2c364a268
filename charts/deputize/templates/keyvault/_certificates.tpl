{{/* The ServiceAccount of the Job that creates certificates. Its rights cover exactly these Secrets, by name. The first
     write of a Secret is a patch too, because a create cannot be limited to a name. Argument: dict "root" $ "component" "…"
     "annotations" dict. */}}
{{- define "deputize.keyvaultCertificatesRights" -}}
{{- $root := .root -}}
{{- $name := include "deputize.serviceAccountName" . -}}
{{- $metadata := dict "name" $name "namespace" $root.Release.Namespace "labels" (include "deputize.labels" . | fromYaml) -}}
{{- with .annotations }}{{- $_ := set $metadata "annotations" . }}{{- end -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- toYaml $metadata | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- toYaml $metadata | nindent 2 }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames:
      - {{ include "deputize.keyvaultName" $root }}-authority
      - {{ include "deputize.keyvaultServerTlsSecret" $root }}
      {{- range include "deputize.keyvaultClients" $root | fromYamlArray }}
      - {{ .secret }}
      {{- end }}
    verbs: [get, create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- toYaml $metadata | nindent 2 }}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }} }
subjects: [{ kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }} }]
{{- if $root.Values.network.policies.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- toYaml $metadata | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "deputize.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  egress:
    {{- include "deputize.dnsRule" $root | nindent 4 }}
    {{- include "deputize.apiServerRule" $root | nindent 4 }}
{{- end }}
{{- end -}}

{{- define "deputize.keyvaultCertificatesJob" -}}
{{- $root := .root -}}
{{- $common := dict "root" $root "component" .component "values" $root.Values.keyvault "token" true -}}
backoffLimit: 4
activeDeadlineSeconds: 300
template:
  metadata:
    labels:
      {{- include "deputize.podLabels" $common | nindent 6 }}
  spec:
    {{- include "deputize.podCommon" $common | nindent 4 }}
    restartPolicy: Never
    containers:
      - {{- include "deputize.keyvaultContainer" (dict "root" $root "name" "certificates") | nindent 8 }}
        args:
          {{- include "deputize.keyvaultCertificatesArgs" $root | nindent 10 }}
        resources:
          {{- toYaml $root.Values.keyvault.tls.resources | nindent 10 }}
        volumeMounts:
          {{- include "deputize.tmpMount" . | nindent 10 }}
    volumes:
      {{- include "deputize.tmpVolume" . | nindent 6 }}
{{- end -}}
