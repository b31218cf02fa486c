{{- define "argosy-crds.labels" -}}
app.kubernetes.io/name: argosy-crds
app.kubernetes.io/part-of: argosy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
