#!/usr/bin/env bash
# Checks the samples without a cluster: the three variants of each differ only in their cluster, and Argo accepts them.
#
#   scripts/check-samples.sh
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/toolchain.sh
source "$ROOT/scripts/lib/toolchain.sh"
# shellcheck source-path=SCRIPTDIR source=lib/toolchain-argo.sh
source "$ROOT/scripts/lib/toolchain-argo.sh"

# What a sample says about its cluster: the label, the suspension that holds it, nothing for the control cluster.
expected() {
  case $1 in
    cluster1) cat ;;
    cluster2) sed 's/cluster1/cluster2/' ;;
    control) sed '/^  labels:$/d; /^    kubestellar\.io\/cluster: /d; /^  suspend: true$/d' ;;
  esac
}

main() {
  local cluster name rc=0
  local -A names=()
  cd "$ROOT/samples/workflows"
  for name in {cluster1,cluster2,control}/*.yaml; do names[${name#*/}]=1; done
  for name in "${!names[@]}"; do
    for cluster in cluster1 cluster2 control; do
      diff --label "expected $cluster/$name" --label "$cluster/$name" -u \
        <(expected "$cluster" <"cluster1/$name") "$cluster/$name" || rc=1
    done
  done
  toolchain_ensure ui || toolchain_ensure cli
  "$(toolchain_path)/argo" lint --offline --kinds=workflows cluster1 cluster2 control best-cluster || rc=1
  "$(toolchain_path)/argo" lint --offline --kinds=workflows,workflowtemplates ../dependencies || rc=1
  echo "${#names[@]} samples, each for cluster1, cluster2 and the control cluster, and those for the best cluster and with dependencies"
  return "$rc"
}

main
