{{- define "edl.suffix" -}}
{{- if and .Values.namespaces (ne .Values.namespace "edl-system") }}-{{ .Values.namespace }}{{ end -}}
{{- end -}}
