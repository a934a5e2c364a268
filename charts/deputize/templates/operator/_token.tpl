{{/* The token with which the operator calls the API. It is valid for the API only. The kubelet renews its file. */}}
{{- define "deputize.apiTokenVolume" -}}
- name: api-token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: { audience: deputize-api, expirationSeconds: 3600, path: token }
{{- end -}}
