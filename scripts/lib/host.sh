# shellcheck shell=bash
# Checks of the machine, and the few settings of its kernel that a fleet changes: recorded before the first fleet and
# put back after the last one. net.ipv4.ip_forward of the host is never touched.

# The kubelet sets the vm and kernel ones; three clusters use up most of the default inotify instances.
HOST_SETTINGS=(fs.inotify.max_user_instances vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes)
HOST_INOTIFY=512
# One record for all fleets of the machine, of whatever checkout; it is gone after a restart, as the settings are.
HOST_RECORD=/run/argosy/sysctl.before

host_check() {
  [[ $(uname -s) == Linux ]] || {
    echo "the local fleet needs Linux; elsewhere use --provider kind" >&2
    return 1
  }
  ((EUID == 0)) || {
    echo "the local fleet needs root (network namespaces, mounts, cgroups): run it with sudo" >&2
    return 1
  }
  host_check_path
  host_check_tools
}

# Unix socket paths hold 107 characters; containerd's is the longest one below the fleet's folder.
host_check_path() {
  local longest
  longest=$(fleet_cluster_dir cluster1)/containerd/containerd.sock.ttrpc
  ((${#longest} <= 107)) || {
    echo "the checkout's path is too long for unix sockets ($longest has ${#longest} characters, the limit is 107): use a shorter one" >&2
    return 1
  }
}

host_check_tools() {
  command -v go >/dev/null || {
    echo "Go is missing, but is needed to build Kubernetes, etcd and Argo: install Go 1.26 or later" >&2
    return 1
  }
}

host_prepare() {
  local name value record=$HOST_RECORD
  mkdir -p "${record%/*}"
  if [[ ! -s $record ]]; then
    for name in "${HOST_SETTINGS[@]}"; do
      value=$(sysctl -n "$name" 2>/dev/null) && echo "$name=$value"
    done >"$record.new" || true
    mv "$record.new" "$record"
  fi
  value=$(sysctl -n fs.inotify.max_user_instances)
  ((value >= HOST_INOTIFY)) || sysctl -qw "fs.inotify.max_user_instances=$HOST_INOTIFY" ||
    step_note "fs.inotify.max_user_instances is $value and cannot be raised; a second fleet may fail with 'too many open files'"
}

# Puts the settings back if no fleet is left.
host_restore() {
  local setting
  [[ -s $HOST_RECORD ]] && ! network_any || return 0
  while read -r setting; do
    [[ $(sysctl -n "${setting%%=*}") == "${setting#*=}" ]] || sysctl -qw "$setting" || true
  done <"$HOST_RECORD"
  rm -r "${HOST_RECORD%/*}"
}
