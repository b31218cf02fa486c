# shellcheck shell=bash
# The fleet's network: one bridge on the host and one network namespace per cluster. Nothing is forwarded off the
# machine: forwarding is on inside the namespaces only. Does not know what runs in them.

network_up() {
  local bridge cluster
  bridge=$(fleet_bridge)
  network_claim "$bridge"
  if [[ ! -e /sys/class/net/$bridge ]]; then
    ip link add "$bridge" type bridge
    ip link set "$bridge" alias "argosy $(fleet_dir)"
  fi
  ip address replace "$(fleet_host_ip)/24" dev "$bridge"
  ip link set "$bridge" up
  for cluster in "${FLEET_CLUSTERS[@]}"; do network_cluster_up "$cluster"; done
}

# A bridge of the same name belongs to this fleet, to one in another checkout, or to one whose folder is gone.
network_claim() {
  local owner
  owner=$(network_owner "$1")
  [[ -e /sys/class/net/$1 && $owner != "$(fleet_dir)" ]] || return 0
  network_refuse_foreign "$1"
  echo "removing the network of a fleet whose folder no longer exists: ${owner:-$1}"
  leftovers_clear "${owner:-$(fleet_dir)}"
  network_down
}

# Folder of the fleet that made the bridge; nothing if there is no such bridge.
network_owner() {
  local alias
  alias=$(cat "/sys/class/net/$1/ifalias" 2>/dev/null) || return 0
  echo "${alias#argosy }"
}

network_refuse_foreign() {
  local owner
  owner=$(network_owner "$1")
  [[ -n $owner && $owner != "$(fleet_dir)" && -s $owner/subnet ]] || return 0
  echo "a fleet named '$FLEET_NAME' was brought up from another checkout, ${owner%/.fleet/*}: remove it there with scripts/uninstall-all.sh, or use another --name" >&2
  return 1
}

network_cluster_up() {
  local cluster=$1 netns veth
  netns=$(fleet_netns "$cluster") veth=$(fleet_veth "$cluster")
  network_netns_alive "$netns" || {
    rm -f "/run/netns/$netns"
    ip netns add "$netns"
  }
  if ! ip -n "$netns" link show eth0 >/dev/null 2>&1; then
    # A half of a pair that a cut-off run left.
    ip link delete "$veth" 2>/dev/null || true
    ip link add "$veth" type veth peer name eth0 netns "$netns"
  fi
  ip link set "$veth" master "$(fleet_bridge)" up
  ip -n "$netns" link set lo up
  ip -n "$netns" address replace "$(fleet_ip "$cluster")/24" dev eth0
  ip -n "$netns" link set eth0 up
  ip -n "$netns" route replace default via "$(fleet_host_ip)"
  network_run "$cluster" sysctl -qw net.ipv4.ip_forward=1
}

# Whether the name stands for a mounted namespace and not for a left-over file.
network_netns_alive() { [[ -e /run/netns/$1 ]] && nsenter --net="/run/netns/$1" true 2>/dev/null; }

# network_run CLUSTER COMMAND…: in the cluster's network namespace, and in nothing else of its own: with a mount
# namespace too (ip netns exec) the kubelet's mounts would not be seen by containerd.
network_run() {
  local cluster=$1
  shift
  nsenter --net="/run/netns/$(fleet_netns "$cluster")" "$@"
}

# The host's end of the pair goes down and up: taking eth0 down inside would lose the default route.
network_cut() { ip link set "$(fleet_veth "$1")" down; }
network_heal() { ip link set "$(fleet_veth "$1")" up; }
network_is_cut() { ! ip link show "$(fleet_veth "$1")" | head -n 1 | grep -q '[<,]UP[,>]'; }

# Whether any fleet, of whatever checkout, is still on this machine.
network_any() { grep -qs '^argosy ' /sys/class/net/*/ifalias; }

network_down() {
  local cluster
  for cluster in "${FLEET_CLUSTERS[@]}"; do
    ip link delete "$(fleet_veth "$cluster")" 2>/dev/null || true
    ip netns delete "$(fleet_netns "$cluster")" 2>/dev/null || rm -f "/run/netns/$(fleet_netns "$cluster")"
  done
  ip link delete "$(fleet_bridge)" 2>/dev/null || true
  # iproute2 mounts this folder for the first namespace and leaves it so.
  if [[ -d /run/netns && -z $(ls -A /run/netns) ]]; then
    umount /run/netns 2>/dev/null || true
    rmdir /run/netns || true
  fi
}
