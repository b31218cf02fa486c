# shellcheck shell=bash
# Certificates and kubeconfigs of one cluster, all signed by a CA of its own. Made once; a set that a cut-off run left
# unfinished is made anew.

CERTIFICATE_DAYS=365

# Prints the folder of a cluster's certificates.
certificates_dir() { echo "$(fleet_cluster_dir "$1")/pki"; }

certificates_ensure() {
  local cluster=$1 target staging ip
  target=$(certificates_dir "$cluster")
  ip=$(fleet_ip "$cluster")
  [[ -d $target ]] || {
    staging=$target.new
    rm -rf "$staging"
    mkdir -p "$staging"
    chmod 700 "$staging"
    certificates_make "$staging" "$ip" "$(fleet_node "$cluster")"
    mv "$staging" "$target"
  }
  certificates_kubeconfigs "$cluster"
}

certificates_make() {
  local dir=$1 ip=$2 node=$3 kubernetes
  kubernetes=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost
  certificate_authority "$dir" ca kubernetes-ca
  certificate_authority "$dir" front-proxy-ca front-proxy-ca
  certificate_signed "$dir" apiserver ca /CN=kube-apiserver serverAuth \
    "$kubernetes,IP:$ip,IP:127.0.0.1,IP:10.96.0.1"
  certificate_signed "$dir" kubelet-server ca "/CN=$node" serverAuth "DNS:$node,IP:$ip,IP:127.0.0.1"
  certificate_signed "$dir" apiserver-kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
  certificate_signed "$dir" front-proxy-client front-proxy-ca /CN=front-proxy-client clientAuth
  certificate_signed "$dir" admin ca /O=system:masters/CN=kubernetes-admin clientAuth
  certificate_signed "$dir" controller-manager ca /CN=system:kube-controller-manager clientAuth
  certificate_signed "$dir" scheduler ca /CN=system:kube-scheduler clientAuth
  certificate_signed "$dir" proxy ca /CN=system:kube-proxy clientAuth
  certificate_signed "$dir" kubelet ca "/O=system:nodes/CN=system:node:$node" clientAuth
  openssl genrsa -out "$dir/sa.key" 2048 2>/dev/null
  openssl rsa -in "$dir/sa.key" -pubout -out "$dir/sa.pub" 2>/dev/null
}

certificate_authority() {
  local dir=$1 name=$2 subject=$3
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$CERTIFICATE_DAYS" -subj "/CN=$subject" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,digitalSignature,keyCertSign,cRLSign \
    -keyout "$dir/$name.key" -out "$dir/$name.crt" 2>/dev/null
}

# certificate_signed DIR NAME CA SUBJECT USAGE [ALTERNATIVE-NAMES]
certificate_signed() {
  local dir=$1 name=$2 ca=$3 subject=$4 usage=$5 names=${6:-}
  {
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$usage"
    [[ -z $names ]] || echo "subjectAltName=$names"
  } >"$dir/$name.ext"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$subject" \
    -keyout "$dir/$name.key" -out "$dir/$name.csr" 2>/dev/null
  openssl x509 -req -in "$dir/$name.csr" -CA "$dir/$ca.crt" -CAkey "$dir/$ca.key" -CAcreateserial \
    -days "$CERTIFICATE_DAYS" -extfile "$dir/$name.ext" -out "$dir/$name.crt" 2>/dev/null
  rm "$dir/$name.csr" "$dir/$name.ext"
}

# One kubeconfig for each client in the cluster's folder, and the administrator's where users look for it.
certificates_kubeconfigs() {
  local cluster=$1 dir client server
  dir=$(fleet_cluster_dir "$cluster")
  server=https://$(fleet_ip "$cluster"):6443
  for client in controller-manager scheduler proxy kubelet; do
    kubeconfig_write "$cluster" "$client" "$server" "$dir/$client.kubeconfig"
  done
  mkdir -p "$(fleet_dir)/kubeconfig"
  kubeconfig_write "$cluster" admin "$server" "$(fleet_kubeconfig "$cluster")"
}

kubeconfig_write() {
  local cluster=$1 client=$2 server=$3 file=$4 pki
  pki=$(certificates_dir "$cluster")
  (umask 077 && cat >"$file.new") <<END
apiVersion: v1
kind: Config
clusters:
- name: $cluster
  cluster: {server: "$server", certificate-authority-data: $(base64 -w0 "$pki/ca.crt")}
users:
- name: $client
  user:
    client-certificate-data: $(base64 -w0 "$pki/$client.crt")
    client-key-data: $(base64 -w0 "$pki/$client.key")
contexts:
- name: $cluster
  context: {cluster: $cluster, user: $client}
current-context: $cluster
END
  mv "$file.new" "$file"
}
