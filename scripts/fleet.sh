#!/usr/bin/env bash
# Looks at a local fleet that is up, and breaks and mends parts of it for tests.
#
#   scripts/fleet.sh [--name NAME] status                    clusters, processes, links
#   scripts/fleet.sh [--name NAME] cut CLUSTER               cut the cluster's network link
#   scripts/fleet.sh [--name NAME] heal CLUSTER              mend it
#   scripts/fleet.sh [--name NAME] kill CLUSTER COMPONENT    kill a process, such as kube-apiserver, at once
#   scripts/fleet.sh [--name NAME] start CLUSTER COMPONENT   start it again
# Without --name: the fleet that was brought up last.
set -euo pipefail

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
source "$SCRIPTS/lib/log.sh"
# shellcheck source=lib/fleet.sh
source "$SCRIPTS/lib/fleet.sh"
# shellcheck source=lib/local.sh
source "$SCRIPTS/lib/local.sh"

main() {
  local name
  name=$(fleet_last)
  if [[ ${1:-} == --name ]]; then
    name=${2:?--name needs a name}
    shift 2
  fi
  [[ -n $name ]] || log_die "no fleet is up; bring one up with scripts/install-all.sh"
  fleet_use "$name"
  [[ -d $(fleet_dir) ]] || log_die "there is no fleet '$name' in $FLEET_ROOT"
  local_load
  TOOLCHAIN_BIN=$(toolchain_path)
  case ${1:-} in
    status) fleet_status ;;
    cut | heal) link_set "$1" "${2:?name a cluster: ${FLEET_CLUSTERS[*]}}" ;;
    kill | start) component_set "$1" "${2:?name a cluster: ${FLEET_CLUSTERS[*]}}" "${3:?name a component}" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
}

link_set() {
  fleet_index "$2" >/dev/null
  "network_$1" "$2"
}

component_set() {
  local verb=$1 cluster=$2 component=$3 pid
  fleet_index "$cluster" >/dev/null
  if [[ $verb == kill ]]; then
    pid=$(process_pid "$cluster-$component") || log_die "$component of $cluster does not run"
    kill -KILL "$pid"
    wait_for 10 "the end of $component of $cluster" process_gone "$cluster-$component"
    return 0
  fi
  case $component in
    kube-apiserver) apiserver_start "$cluster" && apiserver_wait "$cluster" ;;
    kube-controller-manager) controller_manager_start "$cluster" ;;
    kube-scheduler) scheduler_start "$cluster" ;;
    containerd) containerd_start "$cluster" ;;
    kubelet | kube-proxy) node_start "$cluster" ;;
    *) log_die "no component '$component'" ;;
  esac
}

fleet_status() {
  local cluster process
  echo "fleet $FLEET_NAME in $(fleet_dir)"
  for process in etcd s3; do process_status "$process"; done
  for cluster in "${FLEET_CLUSTERS[@]}"; do
    echo "$cluster: $(cluster_status "$cluster")"
    for process in kube-apiserver kube-controller-manager kube-scheduler containerd kubelet kube-proxy; do
      process_status "$cluster-$process"
    done
  done
}

cluster_status() {
  network_is_cut "$1" && echo "link cut" && return 0
  apiserver_ready "$1" 2>/dev/null || { echo "API server does not answer" && return 0; }
  if node_ready "$1"; then echo "node Ready"; else echo "node not Ready"; fi
}

process_status() {
  local pid
  if pid=$(process_pid "$1"); then
    printf '  %-34s pid %s\n' "$1" "$pid"
  else
    printf '  %-34s does not run\n' "$1"
  fi
}

main "$@"
