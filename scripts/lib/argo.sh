# shellcheck shell=bash
# Argo Workflows on the clusters: upstream's manifests, with images, artifact repository and the UI's address set by
# overlays that are written into the fleet's folder. Knows nothing of Argosy.

# argo_apply CLUSTER: applies everything; does not wait for the pods.
argo_apply() {
  local cluster=$1 dir
  dir=$(fleet_cluster_dir "$cluster")/argo
  argo_overlay "$cluster" "$dir"
  kubectl_on "$cluster" apply --server-side --force-conflicts -k "$dir" >"$dir/applied"
}

argo_overlay() {
  local cluster=$1 dir=$2 version
  version=$(toolchain_version argo)
  mkdir -p "$dir"
  rm -rf "$dir/manifests"
  cp -r "$(toolchain_target argo)/manifests" "$dir/manifests"
  argo_kustomization "$cluster" "$version" >"$dir/kustomization.yaml"
  argo_missing_roles >"$dir/missing-roles.yaml"
  [[ $cluster == control ]] || argo_every_namespace "$dir/manifests" >"$dir/every-namespace.yaml"
  argo_controller_config "$cluster" >"$dir/workflow-controller-configmap.yaml"
  argo_secret >"$dir/s3-secret.yaml"
  argo_controller_patch "$cluster" "$version" >"$dir/workflow-controller-patch.yaml"
  [[ $cluster != control ]] || argo_server_patch "$version" >"$dir/argo-server-patch.yaml"
}

argo_kustomization() {
  local cluster=$1 version=$2 base=manifests/quick-start/base
  cat <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: $FLEET_ARGO_NAMESPACE
resources:
- namespace.yaml
- manifests/base/crds/minimal
- manifests/base/workflow-controller
- manifests/namespace-install/workflow-controller-rbac
- $base/executor/emissary/executor-role.yaml
- $base/executor-default-rolebinding.yaml
- $base/agent-role.yaml
- $base/agent-default-rolebinding.yaml
- $base/default.service-account-token-secret.yaml
- $base/artifactgc-role.yaml
- $base/artifactgc-default-rolebinding.yaml
- $base/memoizer-role.yaml
- $base/memoizer-default-rolebinding.yaml
- missing-roles.yaml
- $base/cluster-workflow-template-rbac.yaml
- s3-secret.yaml
END
  if [[ $cluster == control ]]; then
    printf -- '- %s\n' manifests/base/argo-server manifests/namespace-install/argo-server-rbac
  else
    # The file above binds this account's roles on every cluster.
    printf -- '- %s\n' manifests/base/argo-server/argo-server-sa.yaml every-namespace.yaml
  fi
  echo 'patches:'
  echo '- path: workflow-controller-configmap.yaml'
  echo '- {path: workflow-controller-patch.yaml, target: {kind: Deployment, name: workflow-controller}}'
  [[ $cluster != control ]] || argo_server_kustomization
  argo_namespace >"$(fleet_cluster_dir "$cluster")/argo/namespace.yaml"
}

argo_server_kustomization() {
  cat <<END
- {path: argo-server-patch.yaml, target: {kind: Deployment, name: argo-server}}
- target: {kind: Service, name: argo-server}
  patch: |
    - {op: add, path: /spec/type, value: NodePort}
    - {op: add, path: /spec/ports/0/nodePort, value: $FLEET_UI_PORT}
END
}

argo_namespace() {
  printf 'apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n' "$FLEET_ARGO_NAMESPACE"
}

# What the workflow-controller may not do by upstream's roles: write the cache of memoized steps, whose role is bound to the
# account of the pods, and finish the set of HTTP steps, without which such a run goes on until Argo looks again. And the
# account of the pods itself: a Secret with its token, which HTTP steps mount, is deleted where the account is not there yet.
argo_missing_roles() {
  cat <<END
apiVersion: v1
kind: ServiceAccount
metadata: {name: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: argo-tasksets}
rules:
- {apiGroups: [argoproj.io], resources: [workflowtasksets/status], verbs: [patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: argo-tasksets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: argo-tasksets}
subjects:
- {kind: ServiceAccount, name: argo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: argo-memoizer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: memoizer}
subjects:
- {kind: ServiceAccount, name: argo}
END
}

# The members' Argo runs Workflows of every namespace, as upstream's cluster-install does: the same rights, everywhere.
argo_every_namespace() {
  sed 's/^kind: Role$/kind: ClusterRole/; s/^  name: argo-role$/  name: argo-every-namespace/' \
    "$1/namespace-install/workflow-controller-rbac/workflow-controller-role.yaml"
  cat <<END
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: argo-every-namespace}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argo-every-namespace}
subjects:
- {kind: ServiceAccount, name: argo, namespace: $FLEET_ARGO_NAMESPACE}
END
}

argo_secret() {
  cat <<END
apiVersion: v1
kind: Secret
metadata: {name: $FLEET_S3_SECRET}
stringData: {accesskey: "$(s3_access_key)", secretkey: "$(s3_secret_key)"}
END
}

# One bucket for the fleet: a key begins with the cluster and holds the workflow's UID, so that workflows of one name do
# not overwrite each other. The key is recorded in the run's status; the control cluster's argo-server opens it there,
# as endpoint, bucket and Secret are the same on every cluster.
argo_controller_config() {
  cat <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: workflow-controller-configmap}
data:
  artifactRepository: |
    archiveLogs: true
    s3:
      bucket: $FLEET_BUCKET
      endpoint: $(fleet_s3_endpoint)
      insecure: true
      keyFormat: "$1/{{workflow.namespace}}/{{workflow.name}}/{{workflow.uid}}/{{pod.name}}"
      accessKeySecret: {name: $FLEET_S3_SECRET, key: accesskey}
      secretKeySecret: {name: $FLEET_S3_SECRET, key: secretkey}
  images: |
    # Argo asks no mirror for an image's command.
    busybox:1.36: {cmd: [sh]}
    argoproj/argosay:v2: {entrypoint: [/argosay]}
END
  [[ $1 != control ]] || argo_columns
}

# The UI's list of Workflows shows the cluster that each one is sent to.
argo_columns() {
  cat <<END
  columns: |
    - {name: Cluster, type: label, key: argosy.dev/cluster}
END
}

argo_controller_patch() {
  local image executor scope='--namespaced, '
  image=$(image_argo workflow-controller "$2")
  executor=$(image_argo argoexec "$2")
  [[ $1 == control ]] || scope=''
  cat <<END
- {op: replace, path: /spec/template/spec/containers/0/image, value: "$image"}
- {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: IfNotPresent}
- op: replace
  path: /spec/template/spec/containers/0/args
  value: [$scope--executor-image, "$executor", --executor-image-pull-policy, IfNotPresent]
END
}

# Plain HTTP, reachable from this machine only; the dialogues that cover the UI at first are off.
argo_server_patch() {
  cat <<END
- {op: replace, path: /spec/template/spec/containers/0/image, value: "$(image_argo argocli "$1")"}
- {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: IfNotPresent}
- op: replace
  path: /spec/template/spec/containers/0/args
  value: [server, --namespaced, --auth-mode=server, --secure=false]
- op: replace
  path: /spec/template/spec/containers/0/env
  value:
  - {name: FIRST_TIME_USER_MODAL, value: "false"}
  - {name: FEEDBACK_MODAL, value: "false"}
  - {name: NEW_VERSION_MODAL, value: "false"}
- op: replace
  path: /spec/template/spec/containers/0/readinessProbe
  value: {httpGet: {port: 2746, scheme: HTTP, path: /}, periodSeconds: 1}
END
}

# argo_wait CLUSTER: until the deployments' pods are up, and on the control cluster until the UI answers this machine.
argo_wait() {
  local cluster=$1 name
  local deployments=(workflow-controller)
  [[ $cluster != control ]] || deployments+=(argo-server)
  for name in "${deployments[@]}"; do
    kubectl_on "$cluster" -n "$FLEET_ARGO_NAMESPACE" rollout status "deployment/$name" --timeout=180s || {
      kubectl_on "$cluster" -n "$FLEET_ARGO_NAMESPACE" describe pods -l "app=$name" | tail -n 40
      return 1
    }
  done
  [[ $cluster != control ]] || wait_for 60 "the Argo UI at $(fleet_ui_url)" \
    curl -fsS --max-time 3 -o /dev/null "$(fleet_ui_url)/"
}
