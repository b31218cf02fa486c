# shellcheck shell=bash
# Runs a sample on each cluster, with nothing but kubectl on the control cluster, and shows how it goes.
# Needs lib/argosy.sh. Does not look at what the cluster that runs it says.

SAMPLES_LIMIT=180    # seconds for a sample to succeed

# argosy_samples [NAME]: the sample for each of the clusters and for the control cluster, all at the same time.
argosy_samples() {
  local cluster
  SAMPLES_NAME=${1:-hello-world}
  for cluster in "$ARGOSY_PULL" "$ARGOSY_PUSH" control; do
    [[ -e $(sample_file "$cluster") ]] || {
      echo "there is no sample '$SAMPLES_NAME'; the samples are: $(sample_names)" >&2
      return 1
    }
  done
  in_parallel sample_run "$ARGOSY_PULL" "$ARGOSY_PUSH" control
}

sample_file() { echo "$ARGOSY_CHECKOUT/samples/workflows/$1/$SAMPLES_NAME.yaml"; }

sample_names() {
  (cd "$ARGOSY_CHECKOUT/samples/workflows/control" && printf '%s\n' *.yaml | sed 's/\.yaml$//' | paste -sd ' ')
}

# sample_run CLUSTER: creates the sample and follows its phase until it has succeeded.
sample_run() {
  local cluster=$1 name phase
  name=$(argosy_kubectl control create -f "$(sample_file "$cluster")" -o jsonpath='{.metadata.name}') || return 1
  phase=$(sample_follow "$cluster" "$name") || phase=
  [[ $phase == Succeeded ]] && return 0
  sample_failed "$cluster" "$name" "${phase:-not ended}"
}

# sample_follow CLUSTER WORKFLOW: shows each change of phase, prints the final one. Fails when there is none in time.
sample_follow() {
  local cluster=$1 name=$2 began=$SECONDS phase progress seen='' watch lines
  exec {lines}< <(sample_watch "$name")
  watch=$!
  while read -r phase progress <&"$lines"; do
    [[ $phase == "$seen" ]] && continue
    seen=$phase
    step_note "$(printf '%-9s %-28s %3d s  %-10s %s' "$cluster" "$name" $((SECONDS - began)) "$phase" "$progress")"
    case $phase in Succeeded | Failed | Error) break ;; esac
  done
  kill "$watch" 2>/dev/null || true
  exec {lines}<&-
  case $seen in Succeeded | Failed | Error) echo "$seen" ;; *) return 1 ;; esac
}

# One line for each state of the Workflow: phase (`-` while there is none) and progress.
sample_watch() {
  exec timeout "$SAMPLES_LIMIT" "$TOOLCHAIN_BIN/kubectl" --kubeconfig "$(fleet_kubeconfig control)" \
    -n "$FLEET_ARGO_NAMESPACE" get workflow "$1" --watch \
    -o 'go-template={{with .status}}{{with .phase}}{{.}}{{else}}-{{end}} {{.progress}}{{else}}-{{end}}{{"\n"}}'
}

# What is known about a sample that did not succeed.
sample_failed() {
  local cluster=$1 name=$2 phase=$3
  argosy_kubectl control -n "$FLEET_ARGO_NAMESPACE" get workflow "$name" -o yaml
  argosy_kubectl control -n "$FLEET_ARGO_NAMESPACE" get events --field-selector "involvedObject.name=$name"
  argosy_kubectl control -n "$ARGOSY_NAMESPACE" logs deployment/argosy-controller --tail=30
  echo "Workflow $FLEET_ARGO_NAMESPACE/$name for $cluster did not succeed within $SAMPLES_LIMIT s (phase: $phase)." \
    "See above for the Workflow with its conditions, its events, and the end of the controller's log." >&2
  return 1
}
