# shellcheck shell=bash
# The image registry of a local fleet, beside its S3 server: it serves, under their public names, the images that the
# examples of Argo use, made of programs of this machine. Every node asks it for each image that is not loaded, and
# nobody else. Needs lib/images.sh and lib/toolchain-argo.sh; loads nothing into a cluster.

IMAGE_PYTHON=docker.io/library/python:alpine3.6
IMAGE_ARGOSAY=docker.io/argoproj/argosay:v2

# Names in the registry, each with the image that it stands for. busybox has what the examples ask of alpine.
REGISTRY_IMAGES=(
  "library/busybox:latest $IMAGE_BUSYBOX"
  "library/alpine:latest $IMAGE_BUSYBOX"
  "library/alpine:3.7 $IMAGE_BUSYBOX"
  "library/python:alpine3.6 $IMAGE_PYTHON"
  "argoproj/argosay:v2 $IMAGE_ARGOSAY"
)

registry_address() { echo "$(fleet_host_ip):5000"; }

# Manifests are kept in memory, so images are pushed whenever a fleet is brought up; a layer that is on disk is not sent again.
registry_up() {
  local dir entry
  dir=$(fleet_dir)
  mkdir -p "$dir/registry"
  process_start registry "$dir/log/registry.log" "$TOOLCHAIN_BIN/crane" registry serve --address "$(registry_address)" \
    --disk "$dir/registry"
  wait_for 30 "the image registry (log: $dir/log/registry.log)" \
    curl -fsS --max-time 2 -o /dev/null "http://$(registry_address)/v2/"
  for entry in "${REGISTRY_IMAGES[@]}"; do
    "$TOOLCHAIN_BIN/crane" push --insecure "$(image_tar "${entry#* }")" "$(registry_address)/${entry% *}" || return 1
  done
}

# registry_mirror FOLDER: containerd's settings of registries. Each name leads to the fleet's registry, and an image that
# is not there is missing at once.
registry_mirror() {
  mkdir -p "$1/_default"
  cat >"$1/_default/hosts.toml" <<END_OF_HOSTS
server = "http://$(registry_address)"
[host."http://$(registry_address)"]
  capabilities = ["pull", "resolve"]
END_OF_HOSTS
}

registry_images_build() {
  image_python
  image_argosay
}

# Python of the operating system with its standard library, and busybox.
image_python() (
  local root python library
  python=$(readlink -f /usr/bin/python3)
  library=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')
  image_current "$IMAGE_PYTHON" "$python" && return 0
  root=$(mktemp -d "$IMAGE_CACHE/.root-XXXXXX")
  trap 'rm -rf "$root"' EXIT
  image_skeleton "$root"
  image_applets "$root"
  install -D -m 755 "$python" "$root$python"
  image_libraries "$root" "$python"
  ln -s "$python" "$root/usr/local/bin/python"
  ln -s "$python" "$root/usr/local/bin/python3"
  tar -C / --exclude='*/dist-packages' --exclude='*/site-packages' --exclude=__pycache__ --exclude='*/test' --exclude='*/config-*' \
    -c "${library#/}" | tar -C "$root" -x
  image_archive "$root" "$IMAGE_PYTHON" '' null '["python3"]' "$(image_tar "$IMAGE_PYTHON")"
  image_made "$IMAGE_PYTHON" "$python"
)

# The script that Argo's own tests use.
image_argosay() (
  local root script
  script=$(toolchain_argo_source)/test/e2e/images/argosay/v2/argosay
  image_current "$IMAGE_ARGOSAY" "$script" && return 0
  root=$(mktemp -d "$IMAGE_CACHE/.root-XXXXXX")
  trap 'rm -rf "$root"' EXIT
  image_skeleton "$root"
  image_applets "$root"
  install -m 755 "$script" "$root/argosay"
  image_archive "$root" "$IMAGE_ARGOSAY" '' '["/argosay"]' null "$(image_tar "$IMAGE_ARGOSAY")"
  image_made "$IMAGE_ARGOSAY" "$script"
)
