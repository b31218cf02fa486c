{{- /* What the values say about every pod of this chart, whatever it runs. */}}
{{- define "argosy.pod" -}}
enableServiceLinks: false    # each Service would become environment variables, and every flag is one, too
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- /* Where the pods that go on running are placed. */}}
{{- define "argosy.spread" -}}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- else }}
affinity:
  podAntiAffinity:    # a node takes one replica with it, where there are others
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app.kubernetes.io/name: argosy-controller}}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "argosy.env" -}}
{{- with .Values.logFilter }}
- {name: ARGOSY_LOG, value: {{ . | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
