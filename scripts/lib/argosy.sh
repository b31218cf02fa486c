# shellcheck shell=bash
# Argosy on a fleet: its image, its charts, the registration of the clusters, a sample on each of them.
# Needs lib/log.sh, lib/wait.sh, lib/fleet.sh and image_from_binaries and image_load of the provider. Brings up no cluster.

ARGOSY_CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ARGOSY_NAMESPACE=argosy
ARGOSY_PROGRAMS=(argosy-controller argosy-agent argosy)
# Of both charts, as flags of helm.
ARGOSY_VALUES=()
ARGOSY_PULL=cluster1
ARGOSY_PUSH=cluster2

# shellcheck source-path=SCRIPTDIR source=samples.sh
source "$ARGOSY_CHECKOUT/scripts/lib/samples.sh"

# A limit on the whole command: --request-timeout would cut the watches of wait and rollout.
argosy_kubectl() {
  local cluster=$1
  shift
  timeout 180 "$TOOLCHAIN_BIN/kubectl" --kubeconfig "$(fleet_kubeconfig "$cluster")" "$@"
}

argosy_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' "$ARGOSY_CHECKOUT/Cargo.toml"; }

# The tag names the content, so that pods are replaced when the binaries have changed, and only then.
argosy_image() {
  local digest
  digest=$(cd "$(fleet_binaries)" && sha256sum "${ARGOSY_PROGRAMS[@]}" | sha256sum | cut -c1-12) || return 1
  echo "localhost/argosy:$(argosy_version)-$digest"
}

argosy_image_tar() {
  local image
  image=$(argosy_image) || return 1
  echo "$(fleet_binaries)/argosy-image-${image##*:}.tar"
}

# The binaries. Takes the place of the process that it is called in.
argosy_compile() { cd "$ARGOSY_CHECKOUT" && exec cargo build --release --locked --package argosy --bins; }

# The binaries with cargo, the names by which kubectl calls argosy, and the image made of the binaries.
argosy_build() {
  local tar name files=()
  (argosy_compile) || return 1
  mkdir -p "$(fleet_binaries)"
  for name in "${ARGOSY_PROGRAMS[@]}"; do install -C -t "$(fleet_binaries)" "$CARGO_TARGET_DIR/release/$name" || return 1; done
  for name in kubectl-argosy kubectl_complete-argosy; do ln -sf argosy "$(fleet_binaries)/$name"; done
  tar=$(argosy_image_tar) || return 1
  [[ -e $tar ]] && return 0
  for name in "${ARGOSY_PROGRAMS[@]}"; do files+=("$(fleet_binaries)/$name"); done
  rm -f "$(fleet_binaries)"/argosy-image-*
  image_from_binaries "$(argosy_image)" "$tar" "${files[@]}"
}

# argosy_install [CLUSTER…]: everything from the charts to the clusters registered; of one whose agent runs in it, only what is
# there. Can be run again at any time.
argosy_install() {
  (($# > 0)) || set -- "$ARGOSY_PULL" "$ARGOSY_PUSH"
  in_parallel argosy_load control "$ARGOSY_PULL" || return 1
  if [[ $* != "$ARGOSY_PULL" ]]; then
    argosy_install_controller && argosy_kubectl control apply -f "$ARGOSY_CHECKOUT/samples/policies" || return 1
  fi
  in_parallel argosy_register "$@" && argosy_wait "$@"
}

argosy_load() { image_load "$1" "$(argosy_image_tar)"; }

argosy_install_controller() {
  local clusters
  printf -v clusters '[{"name":"%s","mode":"pull","labels":{"location-group":"edge"}},{"name":"%s","mode":"push","labels":{"location-group":"edge"}}]' \
    "$ARGOSY_PULL" "$ARGOSY_PUSH"
  argosy_chart control argosy --set-json "clusters=$clusters" --set "nodes.enabled=true,nodes.exec=true"
}

# argosy_chart CLUSTER CHART [VALUES…]: the definitions that the chart needs, then the chart.
argosy_chart() {
  local cluster=$1 chart=$2 image
  shift 2
  image=$(argosy_image) || return 1
  argosy_definitions "$cluster" "$chart" &&
    argosy_helm "$cluster" "$chart" \
      --set "image.repository=${image%:*},image.tag=${image##*:},artifactNamespace=$FLEET_ARGO_NAMESPACE,artifactSecrets={$FLEET_S3_SECRET}" \
      "${ARGOSY_VALUES[@]}" "$@"
}

# argosy_definitions CLUSTER CHART: those that were applied without helm before become the chart's.
argosy_definitions() {
  local values=()
  [[ $2 == argosy ]] || values=(--set "hub=false,agent=true")
  argosy_helm "$1" argosy-crds --take-ownership --wait "${values[@]}"
}

# argosy_helm CLUSTER CHART [FLAGS…]
argosy_helm() {
  local cluster=$1 chart=$2
  shift 2
  # Left by an upgrade that was cut off; helm would refuse to go on.
  argosy_kubectl "$cluster" -n "$ARGOSY_NAMESPACE" delete secret \
    -l "owner=helm,name=$chart,status in (pending-install,pending-upgrade,pending-rollback)" || return 1
  "$TOOLCHAIN_BIN/helm" --kubeconfig "$(fleet_kubeconfig "$cluster")" upgrade --install "$chart" "$ARGOSY_CHECKOUT/charts/$chart" \
    --namespace "$ARGOSY_NAMESPACE" --create-namespace --timeout 2m "$@"
}

argosy_register() {
  if [[ $1 == "$ARGOSY_PULL" ]]; then
    argosy_register_pull "$1"
  else
    argosy_register_push "$1"
  fi
}

# What KubeStellar's samples send besides Workflows, Deployments among it, may be sent to both members (objects.common).
# The agent runs in the cluster and asks for a certificate for its own mailbox on the control cluster, with a token that is good for
# an hour and for nothing else. On a fleet that is there it goes on with the certificate that it has.
argosy_register_pull() {
  argosy_bootstrap_kubeconfig "$1" | argosy_store_kubeconfig "$1" argosy-bootstrap-kubeconfig '{}' || return 1
  argosy_chart "$1" argosy-agent --set "mode=pull,clusterName=$1,identity=certificate,objects.common=true,serve=exec"
}

# argosy_bootstrap_kubeconfig MEMBER: a kubeconfig for the control cluster with a token of the member's bootstrap account.
argosy_bootstrap_kubeconfig() {
  local token authority
  token=$(argosy_kubectl control -n "$1" create token argosy-bootstrap --duration=1h) || return 1
  authority=$(argosy_kubectl control config view --raw --minify -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}') || return 1
  # shellcheck disable=SC2016 # jq's variables
  jq -n --arg server "https://$(fleet_ip control):6443" --arg authority "$authority" --arg token "$token" '{
    apiVersion: "v1", kind: "Config", "current-context": "control",
    clusters: [{name: "control", cluster: {$server, "certificate-authority-data": $authority}}],
    users: [{name: "argosy-bootstrap", user: {$token}}],
    contexts: [{name: "control", context: {cluster: "control", user: "argosy-bootstrap"}}]}'
}

# The controller has a token for the cluster.
argosy_register_push() {
  argosy_chart "$1" argosy-agent --set "mode=push,clusterName=$1,objects.common=true,serve=exec" || return 1
  argosy_kubeconfig "$1" "$ARGOSY_NAMESPACE" |
    argosy_store_kubeconfig control "$1-kubeconfig" "{\"argosy.dev/wec-kubeconfig\":\"$1\"}"
}

# argosy_kubeconfig CLUSTER NAMESPACE: a kubeconfig for the cluster's API with the token of the agent's service account
# in that namespace.
argosy_kubeconfig() {
  local cluster=$1 namespace=$2
  wait_for 30 "the token in Secret $namespace/argosy-agent-token on $cluster" argosy_has_token "$cluster" "$namespace" || return 1
  # shellcheck disable=SC2016 # jq's variables
  argosy_kubectl "$cluster" -n "$namespace" get secret argosy-agent-token -o json |
    jq --arg name "$cluster" --arg server "https://$(fleet_ip "$cluster"):6443" '{
      apiVersion: "v1", kind: "Config", "current-context": $name,
      clusters: [{name: $name, cluster: {server: $server, "certificate-authority-data": .data["ca.crt"]}}],
      users: [{name: "argosy-agent", user: {token: (.data.token | @base64d)}}],
      contexts: [{name: $name, context: {cluster: $name, user: "argosy-agent"}}]}'
}

argosy_has_token() {
  argosy_kubectl "$1" -n "$2" get secret argosy-agent-token -o json | jq -e '.data.token and .data["ca.crt"]'
}

# argosy_store_kubeconfig CLUSTER NAME LABELS: a Secret in Argosy's namespace with the kubeconfig from standard input.
argosy_store_kubeconfig() {
  local cluster=$1 name=$2 labels=$3
  argosy_kubectl "$cluster" create namespace "$ARGOSY_NAMESPACE" --dry-run=client -o yaml |
    argosy_kubectl "$cluster" apply --server-side -f - || return 1
  # shellcheck disable=SC2016 # jq's variables
  jq --arg name "$name" --arg namespace "$ARGOSY_NAMESPACE" --argjson labels "$labels" '{
      apiVersion: "v1", kind: "Secret", metadata: {$name, $namespace, $labels}, data: {kubeconfig: (tojson | @base64)}}' |
    argosy_kubectl "$cluster" apply --server-side --force-conflicts -f -
}

# argosy_wait CLUSTER…: until the controller and the agent are ready and the clusters are seen alive.
argosy_wait() {
  local clusters=("${@/#/managedcluster/}") line
  argosy_rollout control argosy-controller || return 1
  [[ " $* " != *" $ARGOSY_PULL "* ]] || argosy_rollout "$ARGOSY_PULL" argosy-agent || return 1
  argosy_kubectl control wait --for=condition=ManagedClusterConditionAvailable --timeout=60s "${clusters[@]}" || {
    argosy_kubectl control get managedclusters -o yaml
    argosy_kubectl control -n "$ARGOSY_NAMESPACE" logs deployment/argosy-controller --tail=30
    echo "a cluster was not reported available within 60 s: see its conditions and the controller's log above" >&2
    return 1
  }
  argosy_kubectl control wait --for=condition=ArtifactRepositoryReady --timeout=20s "${clusters[@]}" ||
    step_note "warning: not every cluster's artifact repository is ready: kubectl describe managedclusters shows the reason"
  argosy_kubectl control get managedclusters | while read -r line; do step_note "$line"; done
}

# argosy_rollout CLUSTER DEPLOYMENT: until it is ready; else says what its pods say.
argosy_rollout() {
  argosy_kubectl "$1" -n "$ARGOSY_NAMESPACE" rollout status "deployment/$2" --timeout=120s && return 0
  argosy_kubectl "$1" -n "$ARGOSY_NAMESPACE" describe pods -l "app.kubernetes.io/name=$2" | tail -n 40
  argosy_kubectl "$1" -n "$ARGOSY_NAMESPACE" logs -l "app.kubernetes.io/name=$2" --tail=30 --all-containers
  echo "$2 on $1 is not ready after 120 s: see its pods and its log above" >&2
  return 1
}
