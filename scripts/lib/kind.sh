# shellcheck shell=bash
# The provider `kind`: the three clusters as kind clusters on a Docker daemon of this (Linux) machine. Argo and its
# images are made and applied as for `local`; the S3 server is MinIO on the control cluster. Redefines what depends on
# where the clusters run: names, addresses, how an image gets into a node.

# shellcheck disable=SC2034 # read by lib/provider.sh
KIND_STEPS=6
KIND_VERSION=v0.30.0
# The node image that this version of kind was released with.
KIND_NODE_IMAGE=kindest/node:v1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a
KIND_S3_PORT=30900
KIND_CONSOLE_PORT=30901
KIND_INOTIFY=512

kind_load() {
  local library
  for library in wait toolchain toolchain-argo stores control-plane images argo; do
    # shellcheck source=/dev/null
    source "$FLEET_CHECKOUT/scripts/lib/$library.sh"
  done
}
kind_load

kind_up() {
  step "Check Docker and the other requirements" kind_check
  step "Build Argo, helm and kind (once per version)" kind_toolchain
  TOOLCHAIN_BIN=$(fleet_dir)/bin
  export TOOLCHAIN_BIN
  step "Make container images" images_build "$(toolchain_version argo)"
  step "Create control, cluster1 and cluster2" in_parallel kind_create "${FLEET_CLUSTERS[@]}"
  # From here on the addresses are known.
  kind_write_env
  fleet_link
  step "Load images and apply Argo" in_parallel kind_argo_up "${FLEET_CLUSTERS[@]}"
  step "Wait for Argo and the S3 server" in_parallel kind_wait "${FLEET_CLUSTERS[@]}"
}

kind_down() {
  local cluster
  kind_ensure || return 1
  for cluster in "${FLEET_CLUSTERS[@]}"; do "$(kind_binary)" delete cluster --name "$(kind_name "$cluster")" || return 1; done
  rm -rf "$(fleet_dir)"
  [[ $(fleet_last) != "$FLEET_NAME" ]] || fleet_link_other
}

kind_check() {
  local command value
  [[ $(uname -s) == Linux ]] || {
    echo "the images contain binaries that are built on this machine, so it must run Linux" >&2
    return 1
  }
  for command in docker go jq curl openssl tar; do
    command -v "$command" >/dev/null || {
      echo "$command is missing; install it and run this again" >&2
      return 1
    }
  done
  timeout 10 docker info >/dev/null || {
    echo "the Docker daemon does not answer 'docker info': start it, or use --provider local" >&2
    return 1
  }
  value=$(</proc/sys/fs/inotify/max_user_instances)
  ((value >= KIND_INOTIFY)) || step_note "fs.inotify.max_user_instances is $value; if pods fail with 'too many open files':" \
    "sudo sysctl -w fs.inotify.max_user_instances=$KIND_INOTIFY"
  mkdir -p "$(fleet_dir)/kubeconfig"
  echo kind >"$(fleet_dir)/provider"
  kind_ports
}

# Ports of this machine; asked for once, for a second fleet by ARGOSY_HTTPS_PORT and ARGOSY_HTTP_PORT.
kind_ports() {
  local file
  file=$(fleet_dir)/ports
  [[ -s $file ]] || echo "${ARGOSY_HTTPS_PORT:-9443} ${ARGOSY_HTTP_PORT:-9080}" >"$file"
}

kind_binary() { echo "$TOOLCHAIN_CACHE/kind-$KIND_VERSION/kind"; }

kind_ensure() {
  [[ -x $(kind_binary) ]] ||
    GOBIN=$(dirname "$(kind_binary)") CGO_ENABLED=0 go install -trimpath "sigs.k8s.io/kind@$KIND_VERSION"
}

kind_toolchain() {
  local part bin file id
  kind_ensure || return 1
  for part in "${TOOLCHAIN_PARTS[@]}"; do
    case $part in etcd | kubernetes | s3 | registry) continue ;; esac
    toolchain_ensure "$part" && continue
    [[ $part == ui ]] || return 1
    step_note "the Argo UI could not be built; argo-server will have its API only"
    toolchain_ensure cli || return 1
  done
  bin=$(fleet_dir)/bin
  mkdir -p "$bin"
  for file in "$(toolchain_path)"/*; do ln -sfn "$file" "$bin/"; done
  # The kubectl of the nodes: the same version, and nothing to build.
  id=$(docker create "$KIND_NODE_IMAGE") || return 1
  rm -f "$bin/kubectl"
  docker cp "$id:/usr/bin/kubectl" "$bin/kubectl"
  docker rm "$id"
}

kind_write_env() {
  fleet_write_env
  sed -i -e 's/^\(export ARGOSY_FLEET_PROVIDER=\).*/\1kind/' -e '/^export \(NETNS\|VETH\)_/d' "$(fleet_dir)/env"
}

# Goes on with the cluster that is there. One whose creation was cut off is made anew.
kind_create() {
  local cluster=$1 dir name
  dir=$(fleet_cluster_dir "$cluster")
  name=$(kind_name "$cluster")
  if [[ -e $dir/ip ]] && docker start "$(fleet_node "$cluster")"; then
    wait_for 120 "the API server of $cluster" apiserver_ready "$cluster" && kind_check_ip "$cluster"
    return
  fi
  rm -rf "$dir"
  mkdir -p "$dir"
  "$(kind_binary)" delete cluster --name "$name" || return 1
  kind_config "$cluster" >"$dir/kind.yaml"
  "$(kind_binary)" create cluster --name "$name" --image "$KIND_NODE_IMAGE" --config "$dir/kind.yaml" \
    --kubeconfig "$(fleet_kubeconfig "$cluster")" --wait 180s && fleet_ip "$cluster" >"$dir/ip"
}

# Docker may give addresses anew when it is restarted; certificates and the other clusters know the old one.
kind_check_ip() {
  local recorded
  recorded=$(<"$(fleet_cluster_dir "$1")/ip")
  [[ $(fleet_ip "$1") == "$recorded" ]] || {
    echo "$1 had the address $recorded and now has $(fleet_ip "$1"): run scripts/uninstall-all.sh --name $FLEET_NAME, then run this command again" >&2
    return 1
  }
}

# The control cluster has the addresses that KubeStellar's demos have.
kind_config() {
  local https http
  echo '{kind: Cluster, apiVersion: kind.x-k8s.io/v1alpha4, nodes: [{role: control-plane'
  if [[ $1 == control ]]; then
    read -r https http <"$(fleet_dir)/ports"
    echo ", extraPortMappings: [{containerPort: $FLEET_UI_PORT, hostPort: $https, listenAddress: 127.0.0.1},"
    echo "  {containerPort: $KIND_CONSOLE_PORT, hostPort: $http, listenAddress: 127.0.0.1}]"
  fi
  echo '}]}'
}

kind_argo_up() {
  local cluster=$1 image version images=(workflow-controller argoexec)
  [[ $cluster != control ]] || images+=(argocli)
  version=$(toolchain_version argo)
  docker exec "$(fleet_node "$cluster")" crictl pull "$IMAGE_BUSYBOX" || return 1
  for image in "${images[@]}"; do
    image_load "$cluster" "$(image_tar "$(image_argo "$image" "$version")")" || return 1
  done
  kind_argo_apply "$cluster"
}

# As for `local`, but argo-server speaks TLS, and the control cluster has the S3 server.
kind_argo_apply() {
  local cluster=$1 dir
  dir=$(fleet_cluster_dir "$cluster")/argo
  argo_overlay "$cluster" "$dir" || return 1
  [[ $cluster != control ]] || sed -i 's/, --secure=false//; s/scheme: HTTP,/scheme: HTTPS,/' "$dir/argo-server-patch.yaml"
  kubectl_on "$cluster" apply --server-side --force-conflicts -k "$dir" || return 1
  [[ $cluster != control ]] ||
    kubectl_on "$cluster" apply --server-side --force-conflicts -f "$FLEET_CHECKOUT/scripts/kind/minio.yaml"
}

kind_wait() {
  local cluster=$1 name deployments=(workflow-controller) https
  [[ $cluster != control ]] || deployments+=(argo-server minio)
  for name in "${deployments[@]}"; do
    timeout 200 "$TOOLCHAIN_BIN/kubectl" --kubeconfig "$(fleet_kubeconfig "$cluster")" -n "$FLEET_ARGO_NAMESPACE" \
      rollout status "deployment/$name" --timeout=180s && continue
    kubectl_on "$cluster" -n "$FLEET_ARGO_NAMESPACE" describe pods -l "app=$name" | tail -n 40
    return 1
  done
  [[ $cluster == control ]] || return 0
  read -r https _ <"$(fleet_dir)/ports"
  # argo-server signs its own certificate; the name is resolved here, so that no DNS is needed for this.
  wait_for 60 "the Argo UI at $(fleet_ui_url)" curl -fsSk --max-time 3 -o /dev/null \
    --resolve "argo.localtest.me:$https:127.0.0.1" "$(fleet_ui_url)/"
  step_note "S3 console: http://minio.localtest.me:$(cut -d' ' -f2 "$(fleet_dir)/ports"), keys in .fleet/env"
}

# Redefined for kind from here on.

kind_name() { echo "$FLEET_NAME-$1"; }
fleet_node() { echo "$(kind_name "$1")-control-plane"; }

# Of the node in Docker's network: the nodes, their pods and this machine reach it.
fleet_ip() { docker inspect --format '{{.NetworkSettings.Networks.kind.IPAddress}}' "$(fleet_node "$1")"; }

fleet_s3_endpoint() { echo "$(fleet_ip control):$KIND_S3_PORT"; }
fleet_ui_url() { echo "https://argo.localtest.me:$(cut -d' ' -f1 "$(fleet_dir)/ports")"; }

# busybox comes from its registry, straight into the nodes.
image_busybox() { :; }

image_load() {
  local cluster=$1 file=$2 loaded
  loaded=$(fleet_cluster_dir "$cluster")/loaded/$(image_digest "$file")
  [[ -e $loaded ]] && return 0
  "$(kind_binary)" load image-archive "$file" --name "$(kind_name "$cluster")" || return 1
  mkdir -p "${loaded%/*}"
  touch "$loaded"
}
