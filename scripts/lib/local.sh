# shellcheck shell=bash disable=SC2034
# The provider `local`: composes the libraries into the numbered steps that bring a fleet up without Docker.

LOCAL_STEPS=6

local_load() {
  local library
  for library in wait host packages toolchain toolchain-argo processes network cgroups certificates stores \
    control-plane images registry node argo teardown; do
    # shellcheck source=/dev/null
    source "$FLEET_CHECKOUT/scripts/lib/$library.sh"
  done
}

local_up() {
  step "Check the machine and install missing Debian packages" local_prepare
  step "Build Kubernetes, etcd, Argo, S3 server and helm (once per version)" local_toolchain
  TOOLCHAIN_BIN=$(toolchain_path)
  export TOOLCHAIN_BIN
  step "Make container images" local_images
  step "Network, etcd, S3 server and image registry" local_foundation
  fleet_write_env
  step "Start control, cluster1 and cluster2 and apply Argo" in_parallel cluster_up "${FLEET_CLUSTERS[@]}"
  fleet_link
  step "Wait for nodes and Argo" in_parallel cluster_wait "${FLEET_CLUSTERS[@]}"
}

local_prepare() {
  packages_install
  host_check
  host_prepare
}

# Downloads leave the processors idle: what TOOLCHAIN_MEANWHILE names is built at the same time, if anything. Whoever needs that builds it
# again, and says what is wrong with it.
local_toolchain() {
  local meanwhile
  "${TOOLCHAIN_MEANWHILE:-true}" &
  meanwhile=$!
  # shellcheck disable=SC2064 # this very process
  trap "kill $meanwhile 2>/dev/null || true" EXIT
  local_toolchain_parts || return 1
  wait "$meanwhile" || true
}

local_toolchain_parts() {
  local part
  for part in "${TOOLCHAIN_PARTS[@]}"; do
    toolchain_has "$part" && continue
    step_note "building $part $(toolchain_version "$part")"
    toolchain_ensure "$part" && continue
    [[ $part == ui ]] || return 1
    step_note "the Argo UI could not be built; argo-server will have its API only"
    toolchain_ensure cli || return 1
  done
}

local_images() {
  images_build "$(toolchain_version argo)"
  registry_images_build
}

local_foundation() {
  # Without records, whatever runs is left of a fleet whose folder was deleted.
  [[ -d $(fleet_dir)/run ]] || leftovers_clear "$(fleet_dir)"
  network_up
  stores_up
  registry_up
}

cluster_up() {
  local cluster=$1 images
  certificates_ensure "$cluster"
  apiserver_start "$cluster"
  containerd_start "$cluster"
  cluster_images "$cluster" &
  images=$!
  apiserver_wait "$cluster"
  controller_manager_start "$cluster"
  scheduler_start "$cluster"
  node_start "$cluster"
  # Pods come after their images: a kubelet that misses one waits long before it looks again.
  wait "$images"
  argo_apply "$cluster"
}

cluster_images() {
  local cluster=$1 version image
  version=$(toolchain_version argo)
  local images=("$IMAGE_PAUSE" "$IMAGE_BUSYBOX" "$(image_argo workflow-controller "$version")"
    "$(image_argo argoexec "$version")")
  [[ $cluster != control ]] || images+=("$(image_argo argocli "$version")")
  for image in "${images[@]}"; do image_load "$cluster" "$(image_tar "$image")"; done
}

cluster_wait() {
  node_wait "$1"
  argo_wait "$1"
}

local_down() {
  fleet_down
}
