#!/usr/bin/env bash
# Shows the state of a local fleet that is up, and breaks and repairs parts of it for tests.
#
#   scripts/fleet.sh [--name NAME] status                    clusters, processes, links
#   scripts/fleet.sh [--name NAME] cut CLUSTER               cut the cluster's network link
#   scripts/fleet.sh [--name NAME] heal CLUSTER              restore it
#   scripts/fleet.sh [--name NAME] kill CLUSTER COMPONENT    kill a process at once: one of the cluster, such as
#                                                            kube-apiserver, one of its pods, such as argosy-agent or
#                                                            workflow-controller, or etcd, which all clusters share
#   scripts/fleet.sh [--name NAME] start CLUSTER COMPONENT   start it again; the kubelet restarts pods
#   scripts/fleet.sh [--name NAME] remove CLUSTER            uninstall Argosy's chart, with the agent, from a cluster
#   scripts/fleet.sh [--name NAME] install [CLUSTER]         install the last build of Argosy again: restores what was
#                                                            removed or deleted by hand, on that cluster or on all
#   scripts/fleet.sh [--name NAME] upgrade                   install it with other annotations on its pods, so that all
#                                                            are replaced, as in an upgrade to the next version
# Without --name, the fleet that was brought up last is used.
set -euo pipefail

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
source "$SCRIPTS/lib/log.sh"
# shellcheck source=lib/fleet.sh
source "$SCRIPTS/lib/fleet.sh"
# shellcheck source=lib/local.sh
source "$SCRIPTS/lib/local.sh"
# shellcheck source=lib/argosy.sh
source "$SCRIPTS/lib/argosy.sh"

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
    remove) chart_remove "${2:?name a cluster: ${FLEET_CLUSTERS[*]}}" ;;
    install) shift && member_install "$@" ;;
    upgrade) ARGOSY_VALUES=(--set-string "podAnnotations.upgraded=$(date +%s)") && argosy_install 3>&2 ;;
    *) sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
}

# member_install [CLUSTER]
member_install() {
  (($# == 0)) || fleet_index "$1" >/dev/null
  argosy_install "$@" 3>&2
}

chart_remove() {
  local chart=argosy-agent
  fleet_index "$1" >/dev/null
  [[ $1 != control ]] || chart=argosy
  "$TOOLCHAIN_BIN/helm" --kubeconfig "$(fleet_kubeconfig "$1")" uninstall "$chart" --namespace "$ARGOSY_NAMESPACE" --wait --timeout 2m
}

link_set() {
  fleet_index "$2" >/dev/null
  "network_$1" "$2"
}

component_set() {
  local verb=$1 cluster=$2 component=$3
  fleet_index "$cluster" >/dev/null
  if [[ $verb == kill ]]; then
    case $component in
      argosy-* | workflow-controller | argo) pod_kill "$cluster" "$component" ;;
      etcd) process_kill etcd ;;
      *) process_kill "$cluster-$component" ;;
    esac
    return 0
  fi
  case $component in
    etcd) etcd_up ;;
    kube-apiserver) apiserver_start "$cluster" && apiserver_wait "$cluster" ;;
    kube-controller-manager) controller_manager_start "$cluster" ;;
    kube-scheduler) scheduler_start "$cluster" ;;
    containerd) containerd_start "$cluster" ;;
    kubelet | kube-proxy) node_start "$cluster" ;;
    *) log_die "there is no component '$component'" ;;
  esac
}

process_kill() {
  local pid
  pid=$(process_pid "$1") || log_die "$1 does not run"
  kill -KILL "$pid"
  wait_for 10 "the end of $1" process_gone "$1"
}

# The kernel keeps 15 characters of a program's name.
pod_kill() {
  local pid found=
  while read -r pid; do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "${2:0:15}" ]] || continue
    kill -KILL "$pid" && found=yes
  done < <(cgroup_processes "$(fleet_cgroup "$1")")
  [[ -n $found ]] || log_die "no pod of $1 runs $2"
}

fleet_status() {
  local cluster process
  echo "fleet $FLEET_NAME in $(fleet_dir)"
  for process in etcd s3 registry; do process_status "$process"; done
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
