{{/* What the operator shows the API: a token for nobody else, renewed by the kubelet and read again from its file. */}}
{{- define "deputize.apiTokenVolume" -}}
- name: api-token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: { audience: deputize-api, expirationSeconds: 3600, path: token }
{{- end -}}
