{{- /* Not in the schema, so that helm lint, which has no values, finds nothing. */}}
{{- define "argosy-agent.clusterName" -}}
{{ required "clusterName is missing: the name of this cluster's ManagedCluster on the control cluster (--set clusterName=NAME)" .Values.clusterName }}
{{- end }}

{{- define "argosy-agent.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "argosy-agent.labels" -}}
app.kubernetes.io/part-of: argosy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "argosy-agent.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "argosy-agent.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
