# shellcheck shell=bash
# Kubernetes' control plane of one cluster as processes in the cluster's network namespace.

CONTROL_PLANE_SERVICES=10.96.0.0/16

# component_start CLUSTER COMPONENT COMMAND…: in the cluster's namespace, logging to the cluster's folder.
component_start() {
  local cluster=$1 component=$2
  shift 2
  process_start "$cluster-$component" "$(component_log "$cluster" "$component")" \
    nsenter "--net=/run/netns/$(fleet_netns "$cluster")" "$@"
}

component_log() { echo "$(fleet_dir)/log/$1-$2.log"; }

audit_log() { echo "$(fleet_dir)/log/$1-audit.log"; }

# What Argosy asks of a cluster, whoever it is there: by this the tests know which of its rights it uses.
audit_policy() {
  cat <<POLICY
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:argosy", "system:serviceaccounts:cluster1", "system:serviceaccounts:cluster2", "argosy.dev:agents"]
- level: None
POLICY
}

apiserver_start() {
  local cluster=$1 pki ip policy
  pki=$(certificates_dir "$cluster")
  ip=$(fleet_ip "$cluster")
  policy=$(fleet_cluster_dir "$cluster")/audit-policy.yaml
  audit_policy >"$policy"
  component_start "$cluster" kube-apiserver "$TOOLCHAIN_BIN/kube-apiserver" \
    --etcd-servers="unix://$(etcd_socket)" --etcd-prefix="/$cluster" \
    --secure-port=6443 --bind-address=0.0.0.0 --advertise-address="$ip" \
    --service-cluster-ip-range="$CONTROL_PLANE_SERVICES" --allow-privileged=true \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --client-ca-file="$pki/ca.crt" \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --kubelet-client-certificate="$pki/apiserver-kubelet-client.crt" \
    --kubelet-client-key="$pki/apiserver-kubelet-client.key" \
    --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
    --requestheader-client-ca-file="$pki/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$pki/front-proxy-client.crt" --proxy-client-key-file="$pki/front-proxy-client.key" \
    --audit-policy-file="$policy" --audit-log-path="$(audit_log "$cluster")" --audit-log-mode=batch --audit-log-maxsize=1000 \
    --profiling=false
}

controller_manager_start() {
  local cluster=$1 dir pki
  dir=$(fleet_cluster_dir "$cluster")
  pki=$(certificates_dir "$cluster")
  component_start "$cluster" kube-controller-manager "$TOOLCHAIN_BIN/kube-controller-manager" \
    --kubeconfig="$dir/controller-manager.kubeconfig" --bind-address=127.0.0.1 --leader-elect=false \
    --use-service-account-credentials=true --root-ca-file="$pki/ca.crt" \
    --service-account-private-key-file="$pki/sa.key" \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --requestheader-client-ca-file="$pki/front-proxy-ca.crt" --profiling=false
}

scheduler_start() {
  local cluster=$1
  component_start "$cluster" kube-scheduler "$TOOLCHAIN_BIN/kube-scheduler" \
    --kubeconfig="$(fleet_cluster_dir "$cluster")/scheduler.kubeconfig" \
    --bind-address=127.0.0.1 --leader-elect=false --profiling=false
}

# kubectl as administrator of a cluster of the fleet.
kubectl_on() {
  local cluster=$1
  shift
  "$TOOLCHAIN_BIN/kubectl" --kubeconfig "$(fleet_kubeconfig "$cluster")" --request-timeout=30s "$@"
}

apiserver_ready() { kubectl_on "$1" get --raw /readyz >/dev/null; }

apiserver_wait() {
  wait_for 120 "the API server of $1 (log: $(component_log "$1" kube-apiserver))" apiserver_ready "$1"
}
