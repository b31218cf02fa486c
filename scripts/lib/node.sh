# shellcheck shell=bash
# The node of one cluster: containerd, kubelet and kube-proxy, with folders, sockets, cgroups and pod network of their own.

NODE_PODS=10.244.0.0/16

node_start() {
  local cluster=$1
  containerd_start "$cluster"
  kubelet_start "$cluster"
  component_start "$cluster" kube-proxy "$TOOLCHAIN_BIN/kube-proxy" \
    --kubeconfig="$(fleet_cluster_dir "$cluster")/proxy.kubeconfig" --hostname-override="$(fleet_node "$cluster")" \
    --proxy-mode=iptables --cluster-cidr="$NODE_PODS" --conntrack-max-per-core=0 \
    --conntrack-tcp-timeout-established=0s --conntrack-tcp-timeout-close-wait=0s \
    --iptables-min-sync-period=100ms
}

containerd_socket() { echo "$(fleet_cluster_dir "$1")/containerd/containerd.sock"; }

# ctr_on CLUSTER ARGUMENT…: containerd's own client, in the namespace that Kubernetes uses.
ctr_on() {
  local cluster=$1
  shift
  ctr --address "$(containerd_socket "$cluster")" --namespace k8s.io "$@"
}

containerd_start() {
  local cluster=$1 dir
  dir=$(fleet_cluster_dir "$cluster")/containerd
  mkdir -p "$dir/cni"
  registry_mirror "$dir/registries"
  containerd_config "$dir" >"$dir/config.toml"
  pod_network_config "$cluster" "$dir" >"$dir/cni/10-pods.conflist"
  component_start "$cluster" containerd "$(command -v containerd)" --config "$dir/config.toml"
  wait_for 60 "containerd of $cluster (log: $(component_log "$cluster" containerd))" ctr_on "$cluster" version
}

containerd_config() {
  cat <<END
version = 2
root = "$1/root"
state = "$1/state"
oom_score = 0
[grpc]
  address = "$1/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$1/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$IMAGE_PAUSE"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$1/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "$1/cni"
    bin_dir = "/usr/lib/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "$1/runc"
END
}

# Point to point, not a bridge: every packet between pods is routed, so that service addresses are translated back
# also where the kernel has no br_netfilter. Addresses are leased in the cluster's own folder.
pod_network_config() {
  cat <<END
{"cniVersion": "0.4.0", "name": "$(fleet_cgroup "$1")", "plugins": [
  {"type": "ptp", "ipMasq": true, "mtu": 1500,
   "ipam": {"type": "host-local", "dataDir": "$2/addresses", "ranges": [[{"subnet": "$NODE_PODS"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
}

kubelet_start() {
  local cluster=$1 dir
  dir=$(fleet_cluster_dir "$cluster")/kubelet
  mkdir -p "$dir/volume-plugins" "$dir/pod-logs"
  # There is no cluster DNS; a look-up of a name fails at once instead of asking the host's servers.
  echo 'options timeout:1 attempts:1' >"$dir/resolv.conf"
  cgroup_create "$(fleet_cgroup "$cluster")"
  kubelet_config "$cluster" "$dir" >"$dir/config.yaml"
  component_start "$cluster" kubelet "$TOOLCHAIN_BIN/kubelet" --config="$dir/config.yaml" \
    --kubeconfig="$(fleet_cluster_dir "$cluster")/kubelet.kubeconfig" --root-dir="$dir/root" --cert-dir="$dir/certs" \
    --hostname-override="$(fleet_node "$cluster")" --node-ip="$(fleet_ip "$cluster")"
}

kubelet_config() {
  local pki
  pki=$(certificates_dir "$1")
  cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$pki/ca.crt"}}
authorization: {mode: Webhook}
tlsCertFile: "$pki/kubelet-server.crt"
tlsPrivateKeyFile: "$pki/kubelet-server.key"
containerRuntimeEndpoint: "unix://$(containerd_socket "$1")"
cgroupDriver: cgroupfs
cgroupRoot: "/$(fleet_cgroup "$1")"
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
featureGates: {KubeletInUserNamespace: true}
podLogsDir: "$2/pod-logs"
volumePluginDir: "$2/volume-plugins"
resolvConf: "$2/resolv.conf"
# An image that was collected could not come back: the registry has only those that nobody loads.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
maxPods: 250
registryPullQPS: 0
END
}

node_ready() {
  kubectl_on "$1" get node "$(fleet_node "$1")" \
    -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True
}

node_wait() {
  wait_for 120 "the node of $1 to be Ready (log: $(component_log "$1" kubelet))" node_ready "$1"
}
