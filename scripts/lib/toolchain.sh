# shellcheck shell=bash
# Builds the binaries of the local fleet from their Go modules, and mdBook, once per version, outside the checkout.
# Owns the cache and the recipe of each part; does not start anything.

TOOLCHAIN_PARTS=(etcd kubernetes helm s3 argo)
# Argo's major version: 3, with its web UI, or 4, without.
TOOLCHAIN_ARGO_MAJOR=${ARGOSY_ARGO:-3}
[[ $TOOLCHAIN_ARGO_MAJOR != 3 ]] || TOOLCHAIN_PARTS+=(ui)
# Built only when they are named: no fleet needs them, tests do. OCM's work agent, as it is today and of the line that
# KubeStellar ships; and what makes pages of docs/.
TOOLCHAIN_EXTRAS=(ocm ocm10 mdbook)
# The one part that is no Go module.
TOOLCHAIN_MDBOOK=0.5.4
TOOLCHAIN_ARGO=github.com/argoproj/argo-workflows/v$TOOLCHAIN_ARGO_MAJOR
TOOLCHAIN_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../toolchain" && pwd)
TOOLCHAIN_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/argosy/toolchain
# Part of every cache key: raise it when a recipe below changes what it builds.
TOOLCHAIN_RECIPE=1

# The Go module (of mdBook: the crate) whose version names the part.
toolchain_module() {
  case $1 in
    kubernetes) echo k8s.io/kubernetes ;;
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    s3) echo github.com/versity/versitygw ;;
    argo | ui) echo "$TOOLCHAIN_ARGO" ;;
    helm) echo helm.sh/helm/v3 ;;
    ocm | ocm10) echo open-cluster-management.io/ocm ;;
    mdbook) echo mdbook ;;
    *)
      echo "unknown part '$1'; parts are: ${TOOLCHAIN_PARTS[*]} ${TOOLCHAIN_EXTRAS[*]}" >&2
      return 1
      ;;
  esac
}

# Folder that holds the part's go.mod (the UI belongs to Argo's).
toolchain_folder() {
  case $1 in
    argo | ui) if [[ $TOOLCHAIN_ARGO_MAJOR == 3 ]]; then echo "$TOOLCHAIN_SOURCE/argo"; else echo "$TOOLCHAIN_SOURCE/argo$TOOLCHAIN_ARGO_MAJOR"; fi ;;
    *) echo "$TOOLCHAIN_SOURCE/$1" ;;
  esac
}

# Version of the part as its go.mod pins it, such as v1.34.4.
toolchain_version() {
  local module
  module=$(toolchain_module "$1")
  [[ $1 != mdbook ]] || { echo "v$TOOLCHAIN_MDBOOK" && return; }
  awk -v module="$module" '$1 == module && $2 ~ /^v/ {print $2; exit}' "$(toolchain_folder "$1")/go.mod"
}

# Folder of the finished part. Its name holds the version and a digest of everything that decides the result.
toolchain_target() {
  local folder digest pins=()
  folder=$(toolchain_folder "$1")
  [[ $1 == mdbook ]] || pins=("$folder/go.mod" "$folder/go.sum")
  digest=$(cat "${pins[@]}" - <<<"$TOOLCHAIN_RECIPE" | sha256sum | cut -c1-10)
  echo "$TOOLCHAIN_CACHE/$1-$(toolchain_version "$1")-$digest"
}

toolchain_has() { [[ -d $(toolchain_target "$1") ]]; }

# toolchain_ensure PART: builds the part unless it is there. A build that is cut off leaves only a staging folder,
# which the next build of the part removes; a second caller waits for the first.
toolchain_ensure() (
  local part=$1 target staging
  target=$(toolchain_target "$part")
  [[ -d $target ]] && return 0
  mkdir -p "$TOOLCHAIN_CACHE/locks"
  exec 9>"$TOOLCHAIN_CACHE/locks/$part.lock"
  if ! flock -n 9; then
    echo "waiting for another build of $part"
    flock 9
  fi
  [[ -d $target ]] && return 0
  staging=$TOOLCHAIN_CACHE/.staging-$part
  rm -rf "$staging"
  mkdir -p "$staging/out"
  echo "building $part $(toolchain_version "$part")"
  local began=$SECONDS
  "toolchain_build_$part" "$staging/out" "$staging" || return 1
  mv "$staging/out" "$target"
  rm -rf "$staging"
  echo "built $part in $((SECONDS - began)) s"
)

# toolchain_go_build FOLDER OUT LDFLAGS PACKAGE…: static binaries of the packages, pinned by FOLDER/go.mod.
toolchain_go_build() {
  local folder=$1 out=$2 ldflags=$3
  shift 3
  (cd "$folder" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w $ldflags" -o "$out/" "$@")
}

toolchain_build_etcd() {
  toolchain_go_build "$(toolchain_folder etcd)" "$1" '' go.etcd.io/etcd/server/v3 &&
    mv "$1/server" "$1/etcd"
}

toolchain_build_kubernetes() {
  local version major minor package=k8s.io/component-base/version name
  version=$(toolchain_version kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  local packages=()
  for name in kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy; do
    packages+=("k8s.io/kubernetes/cmd/$name")
  done
  toolchain_go_build "$(toolchain_folder kubernetes)" "$1" \
    "-X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitTreeState=clean" \
    "${packages[@]}"
}

toolchain_build_s3() {
  local version
  version=$(toolchain_version s3)
  toolchain_go_build "$(toolchain_folder s3)" "$1" "-X main.Version=$version" github.com/versity/versitygw/cmd/versitygw
}

toolchain_build_helm() {
  local version
  version=$(toolchain_version helm)
  toolchain_go_build "$(toolchain_folder helm)" "$1" \
    "-X helm.sh/helm/v3/internal/version.version=$version -X helm.sh/helm/v3/internal/version.gitTreeState=clean" \
    helm.sh/helm/v3/cmd/helm
}

toolchain_build_ocm() { toolchain_work_agent ocm "$1"; }

toolchain_build_ocm10() { toolchain_work_agent ocm10 "$1"; }

# toolchain_work_agent PART OUT
toolchain_work_agent() {
  toolchain_go_build "$(toolchain_folder "$1")" "$2" '' open-cluster-management.io/ocm/cmd/work &&
    mv "$2/work" "$2/$1-work"
}

# With the lock file that it was released with; without the server and the watch, which would double it. Not optimised: it
# is run for a second, and built for minutes.
toolchain_build_mdbook() {
  (cd "$TOOLCHAIN_SOURCE" && CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --version "$TOOLCHAIN_MDBOOK" --debug \
    --no-default-features --features search --root "$2/cargo" --target-dir "$2/target" mdbook) &&
    mv "$2/cargo/bin/mdbook" "$1/mdbook"
}

# Prints the one folder with links to all binaries that are built. Its name is a digest of all versions, so
# checkouts with different versions do not disturb each other.
toolchain_path() {
  local part file digest folder
  digest=$(for part in "${TOOLCHAIN_PARTS[@]}" "${TOOLCHAIN_EXTRAS[@]}"; do toolchain_target "$part"; done | sha256sum | cut -c1-10)
  folder=$TOOLCHAIN_CACHE/bin-$digest
  mkdir -p "$folder"
  # The order matters: the argo command with the UI replaces the one without.
  for part in "${TOOLCHAIN_PARTS[@]}" "${TOOLCHAIN_EXTRAS[@]}"; do
    toolchain_has "$part" || continue
    for file in "$(toolchain_target "$part")"/*; do
      [[ -f $file ]] || continue
      [[ $part == argo && ${file##*/} == argo ]] && toolchain_has ui && continue
      toolchain_link "$file" "$folder/${file##*/}"
    done
  done
  echo "$folder"
}

# toolchain_link FILE LINK: makes or replaces the link in one step, as others may be running what it points at.
toolchain_link() {
  [[ -e $2 && $2 -ef $1 ]] && return 0
  ln -sfn "$1" "$2.$$" && mv -fT "$2.$$" "$2"
}
