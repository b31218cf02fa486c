# shellcheck shell=bash
# Takes a fleet down and leaves nothing behind: processes, containers, mounts, network, cgroups, folder, and the few
# files that containerd, the kubelet and CNI keep elsewhere. Every stage copes with what a cut-off run left.

fleet_down() {
  network_refuse_foreign "$(fleet_bridge)"
  in_parallel cluster_down "${FLEET_CLUSTERS[@]}"
  local name
  for name in $(process_names); do process_stop "$name"; done
  leftovers_clear "$(fleet_dir)"
  network_down
  rm -rf "$(fleet_dir)"
  [[ $(fleet_last) != "$FLEET_NAME" ]] || fleet_link_other
  host_restore
  kubelet_shared_remove
  rmdir "$FLEET_ROOT" 2>/dev/null || true
}

cluster_down() {
  local cluster=$1 dir component
  dir=$(fleet_cluster_dir "$cluster")
  process_stop "$cluster-kubelet" 15
  containers_remove "$cluster"
  process_stop "$cluster-containerd" 5
  # An API server waits long for its clients; nothing of what these hold is kept.
  for component in kube-proxy kube-scheduler kube-controller-manager kube-apiserver; do
    process_stop "$cluster-$component" 1
  done
  shims_remove "$cluster"
  unmount_below "$dir"
  namespace_clear "$cluster"
  cgroup_kill "$(fleet_cgroup "$cluster")"
  cgroup_remove "$(fleet_cgroup "$cluster")"
  elsewhere_remove "$cluster" "$dir"
}

# leftovers_clear FOLDER: ends what has no record any more of a fleet in that folder, and its mounts. Its processes are
# known by program and by the folder's path in their arguments.
leftovers_clear() {
  local cluster pid
  for pid in $(leftover_pids "$1"); do kill -KILL "$pid" 2>/dev/null || true; done
  for cluster in "${FLEET_CLUSTERS[@]}"; do
    namespace_clear "$cluster"
    cgroup_kill "$(fleet_cgroup "$cluster")"
    cgroup_remove "$(fleet_cgroup "$cluster")"
    elsewhere_remove "$cluster" "$1/$cluster"
  done
  unmount_below "$1"
}

leftover_pids() {
  local folder program
  for folder in /proc/[0-9]*; do
    program=$(readlink "$folder/exe" 2>/dev/null) || continue
    case ${program##*/} in
      etcd | versitygw | crane | kube-apiserver | kube-controller-manager | kube-scheduler | kubelet | kube-proxy) ;;
      containerd | containerd-shim-runc-v2) ;;
      *) continue ;;
    esac
    ! tr '\0' '\n' <"$folder/cmdline" 2>/dev/null | grep -qF -- "$1/" || echo "${folder#/proc/}"
  done
}

# Through the cluster's own containerd where it runs.
containers_remove() {
  local cluster=$1 task
  ctr_on "$cluster" version >/dev/null 2>&1 || return 0
  ctr_on "$cluster" tasks list -q | while read -r task; do
    ctr_on "$cluster" tasks kill --all --signal KILL "$task" || true
  done
  wait_for 10 "the containers of $cluster to end" containers_ended "$cluster" || true
  ctr_on "$cluster" tasks list -q | while read -r task; do
    ctr_on "$cluster" tasks delete --force "$task" || true
  done
}

containers_ended() { ! ctr_on "$1" tasks list | grep -q RUNNING; }

# Shims outlive containerd. Each is known by the exact socket it was given; the sockets' own files lie elsewhere and
# are named in the shims' folders.
shims_remove() {
  local cluster=$1 pid file
  for pid in $(shim_pids "$(containerd_socket "$cluster")"); do kill -KILL "$pid" 2>/dev/null || true; done
  for file in "$(fleet_cluster_dir "$cluster")"/containerd/state/io.containerd.runtime.v2.task/*/*/address; do
    [[ -e $file ]] && rm -f "$(sed 's#^unix://##' "$file")"
  done
  return 0
}

shim_pids() {
  local folder
  for folder in /proc/[0-9]*; do
    [[ $(readlink "$folder/exe" 2>/dev/null) == */containerd-shim-runc-v2 ]] || continue
    tr '\0' '\n' <"$folder/cmdline" 2>/dev/null | grep -qxF -- "$1" && echo "${folder#/proc/}"
  done
  return 0
}

# Deepest first.
unmount_below() {
  local target
  awk -v folder="$1/" 'index($5, folder) == 1 {print $5}' /proc/self/mountinfo | sort -r | while read -r target; do
    umount -l "$(printf '%b' "$target")" || true
  done
}

# Whatever still runs in the cluster's network namespace was started there by the fleet.
namespace_clear() {
  local pid netns
  netns=$(fleet_netns "$1")
  network_netns_alive "$netns" || return 0
  for pid in $(ip netns pids "$netns"); do kill -KILL "$pid" 2>/dev/null || true; done
}

cgroup_kill() {
  local pid
  for pid in $(cgroup_processes "$1"); do kill -KILL "$pid" 2>/dev/null || true; done
  wait_for 10 "the processes of cgroup $1 to end" cgroup_empty "$1"
}

cgroup_empty() { [[ -z $(cgroup_processes "$1") ]]; }

# elsewhere_remove CLUSTER FOLDER: links to container logs and cached CNI results.
elsewhere_remove() {
  local cluster=$1 link
  for link in /var/log/containers/*; do
    [[ ! -L $link || $(readlink "$link") != "$2/"* ]] || rm -f "$link"
  done
  rm -f "/var/lib/cni/results/$(fleet_cgroup "$cluster")-"*
  rmdir /var/log/containers /var/lib/cni/results /var/lib/cni /run/containerd/s /run/containerd 2>/dev/null || true
}

# The socket folder for device plugins is the same for every kubelet of a machine.
kubelet_shared_remove() {
  local folder=/var/lib/kubelet/device-plugins
  pgrep -x kubelet >/dev/null && return 0
  rm -f "$folder/kubelet.sock" "$folder/DEPRECATION" "$folder/kubelet_internal_checkpoint"
  rmdir "$folder" "${folder%/*}" 2>/dev/null || true
}
