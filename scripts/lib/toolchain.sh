# shellcheck shell=bash
# Builds the binaries of the local fleet from their Go modules, and the tools of the tests, once per version, outside the
# checkout. Owns the cache and the recipe of each part; does not start anything.

TOOLCHAIN_PARTS=(etcd kubernetes helm s3 registry argo)
# Argo's major version: 3, whose command has the web UI, or 4, without.
TOOLCHAIN_ARGO_MAJOR=${ARGOSY_ARGO:-3}
if [[ $TOOLCHAIN_ARGO_MAJOR == 3 ]]; then TOOLCHAIN_PARTS+=(ui); else TOOLCHAIN_PARTS+=(cli); fi
# Built only when they are named. cli: Argo's command without the UI, for a machine that cannot build that. The others no fleet
# needs, but tests do: OCM's work agent, as it is today and of the line that KubeStellar ships; what makes pages of docs/; and
# what looks at the dependencies' licenses.
TOOLCHAIN_EXTRAS=(cli ocm ocm10 mdbook deny)
# The two parts that are crates.
TOOLCHAIN_MDBOOK=0.5.4
TOOLCHAIN_DENY=0.20.2
TOOLCHAIN_ARGO=github.com/argoproj/argo-workflows/v$TOOLCHAIN_ARGO_MAJOR
TOOLCHAIN_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../toolchain" && pwd)
TOOLCHAIN_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/argosy/toolchain
# Part of every cache key: raise it when a recipe below changes what it builds.
TOOLCHAIN_RECIPE=2

# The Go module, or the crate, whose version names the part.
toolchain_module() {
  case $1 in
    kubernetes) echo k8s.io/kubernetes ;;
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    s3) echo github.com/versity/versitygw ;;
    registry) echo github.com/google/go-containerregistry ;;
    argo | ui | cli) echo "$TOOLCHAIN_ARGO" ;;
    helm) echo helm.sh/helm/v3 ;;
    ocm | ocm10) echo open-cluster-management.io/ocm ;;
    mdbook) echo mdbook ;;
    deny) echo cargo-deny ;;
    *)
      echo "unknown part '$1'; parts are: ${TOOLCHAIN_PARTS[*]} ${TOOLCHAIN_EXTRAS[*]}" >&2
      return 1
      ;;
  esac
}

# Folder that holds the part's go.mod.
toolchain_folder() {
  case $1 in
    argo | ui | cli) if [[ $TOOLCHAIN_ARGO_MAJOR == 3 ]]; then echo "$TOOLCHAIN_SOURCE/argo"; else echo "$TOOLCHAIN_SOURCE/argo$TOOLCHAIN_ARGO_MAJOR"; fi ;;
    etcd | kubernetes | helm | ocm) echo "$TOOLCHAIN_SOURCE/fleet" ;;
    *) echo "$TOOLCHAIN_SOURCE/$1" ;;
  esac
}

# Version of the part as its go.mod pins it, such as v1.34.4.
toolchain_version() {
  local module
  module=$(toolchain_module "$1")
  case $1 in
    mdbook) echo "v$TOOLCHAIN_MDBOOK" && return ;;
    deny) echo "v$TOOLCHAIN_DENY" && return ;;
  esac
  awk -v module="$module" '$1 == module && $2 ~ /^v/ {print $2; exit}' "$(toolchain_folder "$1")/go.mod"
}

# Folder of the finished part. Its name holds the version and a digest of everything that decides the result.
toolchain_target() {
  local folder digest pins=()
  folder=$(toolchain_folder "$1")
  [[ ! -d $folder ]] || mapfile -t pins < <(find "$folder" -type f | sort)
  digest=$(cat "${pins[@]}" - <<<"$TOOLCHAIN_RECIPE" | sha256sum | cut -c1-10)
  echo "$TOOLCHAIN_CACHE/$1-$(toolchain_version "$1")-$digest"
}

toolchain_has() { [[ -d $(toolchain_target "$1") ]]; }

# toolchain_ensure PART: builds the part unless it is there. A build that is cut off leaves only a staging folder, which
# the next build of the part removes; what the compilers have in their own caches is not lost. A second caller waits for
# the first.
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
  if [[ -d $staging ]]; then
    echo "the last build of $part was interrupted; continuing with its compiled files"
    rm -rf "$staging"
  fi
  if ! mkdir -p "$staging/out"; then
    echo "$part could not be built: $TOOLCHAIN_CACHE cannot be written to" >&2
    return 1
  fi
  echo "building $part $(toolchain_version "$part")"
  # Outside the cache, whose disk may be full, and its own: builds into other caches may go on at the same time.
  local began=$SECONDS log
  log=$(mktemp "${TMPDIR:-/tmp}/argosy-$part-XXXXXX.log") || return 1
  # The compilers do not hold the lock, which they might outlive this script with.
  if ! (set -o pipefail && "toolchain_build_$part" "$staging/out" "$staging" 2>&1 9>&- | tee "$log" 9>&-); then
    rm -rf "$staging"
    toolchain_explain "$part" "$log" >&2
    return 1
  fi
  mv "$staging/out" "$target" || return 1
  rm -rf "$staging" "$log"
  echo "built $part in $((SECONDS - began)) s"
)

# toolchain_explain PART LOG: why the build of a part has failed, as far as that is the machine's doing.
toolchain_explain() {
  if grep -qiE 'no space left on device|disk quota exceeded' "$2"; then
    echo "$1 could not be built: the disk of one of these folders is full: $TOOLCHAIN_CACHE, $(go env GOCACHE), $(go env GOMODCACHE)" \
      "or ${TMPDIR:-/tmp}. Free some space and run this command again; it continues with the compiled files."
  elif grep -qE 'dial tcp|no such host|i/o timeout|TLS handshake timeout|network is unreachable|module lookup disabled|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|[Cc]ould not resolve host|failed to download' "$2"; then
    echo "$1 could not be built: its sources cannot be downloaded (Go modules come from $(go env GOPROXY), others from the registries" \
      "that npm and cargo are configured for). Connect the machine and run this command again; it continues with the downloaded files."
  else
    echo "$1 could not be built; output of the build: $2"
  fi
}

# toolchain_go_build FOLDER OUT LDFLAGS PACKAGE…: static binaries of the packages, pinned by FOLDER/go.mod. Without the tables
# of debuggers, which take a quarter of the time, and with less collecting of garbage in the compiler.
toolchain_go_build() {
  local folder=$1 out=$2 ldflags=$3
  shift 3
  (cd "$folder" && GOGC=${GOGC:-400} CGO_ENABLED=0 go build -trimpath -buildvcs=false -gcflags=all=-dwarf=false \
    -ldflags "-s -w $ldflags" -o "$out/" "$@")
}

toolchain_build_etcd() {
  toolchain_go_build "$(toolchain_folder etcd)" "$1" '' go.etcd.io/etcd/server/v3 &&
    mv "$1/server" "$1/etcd"
}

# The programs of control plane and node are one binary under several names, which is linked once; kubectl, which is called
# often, is one of its own.
toolchain_build_kubernetes() {
  local out=$1 version major minor package=k8s.io/component-base/version name
  version=$(toolchain_version kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  toolchain_go_build "$(toolchain_folder kubernetes)" "$out" \
    "-X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitTreeState=clean" \
    ./kubernetes k8s.io/kubernetes/cmd/kubectl || return 1
  for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
    ln "$out/kubernetes" "$out/$name" || return 1
  done
  rm "$out/kubernetes"
}

toolchain_build_s3() {
  local version
  version=$(toolchain_version s3)
  toolchain_go_build "$(toolchain_folder s3)" "$1" "-X main.Version=$version" github.com/versity/versitygw/cmd/versitygw
}

# One program serves images and pushes them.
toolchain_build_registry() {
  toolchain_go_build "$(toolchain_folder registry)" "$1" '' github.com/google/go-containerregistry/cmd/crane
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

# Without the server and the watch, which would double it.
toolchain_build_mdbook() { toolchain_crate mdbook "$@" --no-default-features --features search; }

toolchain_build_deny() { toolchain_crate deny "$@"; }

# toolchain_crate PART OUT STAGING [FLAG…]: the binary of a crate, with the lock file that it was released with. Not optimized:
# it is run for a second, and built for minutes. A build that is cut off goes on with what cargo has compiled.
toolchain_crate() {
  local crate version out=$2 staging=$3 target=$TOOLCHAIN_CACHE/.target-$1
  crate=$(toolchain_module "$1")
  version=$(toolchain_version "$1")
  shift 3
  (cd "$TOOLCHAIN_SOURCE" && CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --version "${version#v}" --debug "$@" \
    --root "$staging/cargo" --target-dir "$target" "$crate") &&
    mv "$staging/cargo/bin/$crate" "$out/$crate" &&
    rm -rf "$target"
}

# Prints the one folder with links to all binaries that are built. Its name is a digest of all versions, so
# checkouts with different versions do not disturb each other.
toolchain_path() {
  local part file digest folder
  digest=$(for part in "${TOOLCHAIN_PARTS[@]}" "${TOOLCHAIN_EXTRAS[@]}"; do toolchain_target "$part"; done | sha256sum | cut -c1-10)
  folder=$TOOLCHAIN_CACHE/bin-$digest
  mkdir -p "$folder"
  for part in "${TOOLCHAIN_PARTS[@]}" "${TOOLCHAIN_EXTRAS[@]}"; do
    toolchain_has "$part" || continue
    for file in "$(toolchain_target "$part")"/*; do
      [[ -f $file ]] || continue
      [[ $part == cli && $TOOLCHAIN_ARGO_MAJOR == 3 ]] && toolchain_has ui && continue
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
