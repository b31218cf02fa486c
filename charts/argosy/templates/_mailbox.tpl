{{- /* pull: an identity for the agent that reaches its own mailbox and its own ManagedCluster, and nothing else. It is a certificate
that the agent asks for itself, beginning with a token of argosy-bootstrap, or where that is asked for, a token of argosy-agent, which never
ends. One that an earlier chart has made stays until somebody deletes it: an agent may live by it. */}}
{{- define "argosy.pull" }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: argosy-agent
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
automountServiceAccountToken: false
{{- if or .token (lookup "v1" "Secret" .cluster "argosy-agent-token") }}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata:
  name: argosy-agent-token
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
  annotations: {kubernetes.io/service-account.name: argosy-agent}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: argosy-agent
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
rules:
- apiGroups: [work.open-cluster-management.io]
  resources: [manifestworks]
  verbs: [get, list, watch, patch]
- apiGroups: [work.open-cluster-management.io]
  resources: [manifestworks/status]
  verbs: [patch]
- apiGroups: [control.kubestellar.io]
  resources: [workstatuses]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: argosy-agent
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: argosy-agent}
subjects:
- {kind: ServiceAccount, name: argosy-agent, namespace: {{ .cluster }}}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "argosy.dev:agent:{{ .cluster }}"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: argosy-agent:{{ .cluster }}
  labels: {{- .labels | nindent 4 }}
rules:
- apiGroups: [cluster.open-cluster-management.io]
  resources: [managedclusters]
  resourceNames: [{{ .cluster }}]
  verbs: [get, list, watch]
- apiGroups: [cluster.open-cluster-management.io]
  resources: [managedclusters/status]
  resourceNames: [{{ .cluster }}]
  verbs: [patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: argosy-agent:{{ .cluster }}
  labels: {{- .labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "argosy-agent:{{ .cluster }}"}
subjects:
- {kind: ServiceAccount, name: argosy-agent, namespace: {{ .cluster }}}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "argosy.dev:agent:{{ .cluster }}"}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: argosy-bootstrap
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
automountServiceAccountToken: false
---
# Which requests are approved, the controller says. Read by name only, and a name tells nothing: whoever may watch may read those of others.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: argosy-bootstrap:{{ .cluster }}
  labels: {{- .labels | nindent 4 }}
rules:
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests]
  verbs: [create, get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: argosy-bootstrap:{{ .cluster }}
  labels: {{- .labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "argosy-bootstrap:{{ .cluster }}"}
subjects:
- {kind: ServiceAccount, name: argosy-bootstrap, namespace: {{ .cluster }}}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "argosy.dev:agent:{{ .cluster }}"}
{{- end }}

{{- /* What a member may leave in its mailbox at most. */}}
{{- define "argosy.quota" }}
---
apiVersion: v1
kind: ResourceQuota
metadata:
  name: argosy-mailbox
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
spec:
  hard: {{- .hard | toYaml | nindent 4 }}
{{- end }}

{{- /* push: the controller renews the cluster's Lease, as the agent would. */}}
{{- define "argosy.push" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: argosy-controller
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: argosy-controller
  namespace: {{ .cluster }}
  labels: {{- .labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: argosy-controller}
subjects:
- {kind: ServiceAccount, name: argosy-controller, namespace: {{ .namespace }}}
{{- end }}
