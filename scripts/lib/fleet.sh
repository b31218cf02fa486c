# shellcheck shell=bash disable=SC2034
# Names, folders and addresses of a fleet, all derived from its name. Starts nothing.

FLEET_CLUSTERS=(control cluster1 cluster2)
FLEET_CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
FLEET_ROOT=$FLEET_CHECKOUT/.fleet
FLEET_BUCKET=argo-artifacts
# The namespace and Secret names that Argo's own quick start uses.
FLEET_ARGO_NAMESPACE=argo
FLEET_S3_SECRET=my-minio-cred
FLEET_UI_PORT=32746

# shellcheck source-path=SCRIPTDIR source=cargo.sh
source "$FLEET_CHECKOUT/scripts/lib/cargo.sh"

# fleet_use NAME: the fleet that all functions speak of from now on.
fleet_use() {
  if [[ ! $1 =~ ^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$ ]]; then
    echo "a fleet's name is at most 20 lower-case letters, digits and dashes, and begins with a letter; got '$1'" >&2
    return 1
  fi
  FLEET_NAME=$1
  export FLEET_NAME
  [[ ! -s $(fleet_dir)/argo ]] || ARGOSY_ARGO=$(<"$(fleet_dir)/argo")
  export ARGOSY_ARGO
}

# fleet_use_argo MAJOR: the Argo that the fleet runs, kept in its folder. To be called before the toolchain's library is read.
fleet_use_argo() {
  mkdir -p "$(fleet_dir)"
  echo "$1" >"$(fleet_dir)/argo"
  fleet_use "$FLEET_NAME"
}

fleet_dir() { echo "$FLEET_ROOT/$FLEET_NAME"; }
fleet_cluster_dir() { echo "$FLEET_ROOT/$FLEET_NAME/$1"; }
fleet_kubeconfig() { echo "$FLEET_ROOT/$FLEET_NAME/kubeconfig/$1"; }

# Short form of the name for network devices, whose names hold 15 characters.
fleet_tag() {
  if ((${#FLEET_NAME} <= 8)); then
    echo "$FLEET_NAME"
  else
    echo "${FLEET_NAME:0:4}$(cksum <<<"$FLEET_NAME" | awk '{printf "%04x", $1 % 65536}')"
  fi
}

fleet_bridge() { echo "af-$(fleet_tag)"; }
fleet_veth() { echo "af-$(fleet_tag)-c$(fleet_index "$1")"; }
fleet_netns() { echo "argosy-$FLEET_NAME-$1"; }
fleet_cgroup() { echo "argosy-$FLEET_NAME-$1"; }
fleet_node() { echo "$1-control-plane"; }

# Place of a cluster in the list: 0 is the control cluster.
fleet_index() {
  local i
  for i in "${!FLEET_CLUSTERS[@]}"; do
    [[ ${FLEET_CLUSTERS[$i]} == "$1" ]] && echo "$i" && return 0
  done
  echo "no cluster '$1'; the fleet has: ${FLEET_CLUSTERS[*]}" >&2
  return 1
}

# First three octets of the fleet's addresses. The default fleet has 10.89.0; others 10.89.N by their name, or the
# next N that no interface has. Once chosen it is kept in the fleet's folder.
fleet_subnet() {
  local file n tries
  file=$(fleet_dir)/subnet
  if [[ ! -s $file ]]; then
    n=0
    [[ $FLEET_NAME == demo ]] || n=$(cksum <<<"$FLEET_NAME" | awk '{print 1 + $1 % 254}')
    for ((tries = 0; tries < 255; tries++)); do
      fleet_subnet_taken "10.89.$n" || break
      n=$(((n + 1) % 255))
    done
    mkdir -p "$(fleet_dir)"
    echo "10.89.$n" >"$file.new" && mv "$file.new" "$file"
  fi
  cat "$file"
}

# Whether an interface other than the fleet's own bridge has an address in the range.
fleet_subnet_taken() {
  ip -4 -o address show | awk -v range="$1." -v own="$(fleet_bridge)" \
    '$2 != own && index($4, range) == 1 {found = 1} END {exit !found}'
}

# Address of the fleet's bridge on the host; the S3 server and the image registry listen there.
fleet_host_ip() { echo "$(fleet_subnet).1"; }

fleet_ip() {
  local index
  index=$(fleet_index "$1") || return 1
  echo "$(fleet_subnet).$((10 + index))"
}

fleet_s3_endpoint() { echo "$(fleet_host_ip):9000"; }
fleet_ui_url() { echo "http://$(fleet_ip control):$FLEET_UI_PORT"; }

# Folder with the fleet's own copy of Argosy's binaries, as other checkouts build into the same target folder.
fleet_binaries() { echo "$(fleet_dir)/bin"; }

# The file that scripts and tests source: where everything of the fleet is.
fleet_write_env() {
  local file cluster key
  file=$(fleet_dir)/env
  {
    echo "# Made by scripts/install-all.sh. Use: source .fleet/env"
    fleet_export ARGOSY_FLEET_NAME "$FLEET_NAME"
    fleet_export ARGOSY_FLEET_DIR "$(fleet_dir)"
    fleet_export ARGOSY_FLEET_PROVIDER local
    fleet_export ARGOSY_TOOLCHAIN "$TOOLCHAIN_BIN"
    fleet_export ARGOSY_BINARIES "$(fleet_binaries)"
    fleet_export ARGO_UI_URL "$(fleet_ui_url)"
    fleet_export S3_ENDPOINT "http://$(fleet_s3_endpoint)"
    fleet_export S3_BUCKET "$FLEET_BUCKET"
    fleet_export S3_ACCESS_KEY "$(s3_access_key)"
    fleet_export S3_SECRET_KEY "$(s3_secret_key)"
    for cluster in "${FLEET_CLUSTERS[@]}"; do
      key=${cluster^^}
      fleet_export "KUBECONFIG_$key" "$(fleet_kubeconfig "$cluster")"
      fleet_export "IP_$key" "$(fleet_ip "$cluster")"
      fleet_export "NETNS_$key" "$(fleet_netns "$cluster")"
      fleet_export "VETH_$key" "$(fleet_veth "$cluster")"
    done
  } >"$file.new"
  mv "$file.new" "$file"
  # shellcheck source=/dev/null
  source "$file"
}

fleet_export() { printf 'export %s=%q\n' "$1" "$2"; }

# Links to the fleet that was brought up last.
fleet_link() {
  local name=${1:-$FLEET_NAME}
  ln -sfnT "$name/kubeconfig" "$FLEET_ROOT/kubeconfig"
  ln -sfnT "$name/env" "$FLEET_ROOT/env"
}

# Links to the fleet that was brought up last among those that are left.
fleet_link_other() {
  local file
  rm -f "$FLEET_ROOT/kubeconfig" "$FLEET_ROOT/env"
  # shellcheck disable=SC2012 # the names of fleets hold letters, digits and dashes only
  file=$(ls -t "$FLEET_ROOT"/*/env 2>/dev/null | head -n 1) || true
  [[ -z $file ]] || fleet_link "$(basename "${file%/env}")"
}

# Name of the fleet that was brought up last; nothing if there is none.
fleet_last() {
  local target
  target=$(readlink "$FLEET_ROOT/env") || return 0
  echo "${target%%/*}"
}

# Names of the fleets of this checkout.
fleet_names() {
  local folder
  for folder in "$FLEET_ROOT"/*/subnet; do
    [[ -e $folder ]] && basename "$(dirname "$folder")"
  done
  return 0
}
