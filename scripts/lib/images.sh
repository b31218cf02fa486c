# shellcheck shell=bash
# Container images made from binaries, without a builder: docker-archive tar files of one layer, kept in
# the cache. Loads them into a cluster's containerd. Does not build the binaries.

IMAGE_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/argosy/images
IMAGE_PAUSE=localhost/pause:3.10
IMAGE_BUSYBOX=docker.io/library/busybox:1.36

# image_from_binaries [--user UID] NAME:TAG TAR FILE_OR_FOLDER…: writes an image with the files in /usr/local/bin and the
# folders' content at the root, plus the loader and the libraries that ldd names for each binary. The first file is the
# entry point. It runs as an ordinary user unless told otherwise.
image_from_binaries() (
  local user=65532 output image root item entry=null
  if [[ $1 == --user ]]; then
    user=$2
    shift 2
  fi
  image=$1 output=$2
  shift 2
  mkdir -p "$IMAGE_CACHE"
  root=$(mktemp -d "$IMAGE_CACHE/.root-XXXXXX")
  trap 'rm -rf "$root"' EXIT
  image_skeleton "$root"
  for item in "$@"; do
    if [[ -d $item ]]; then
      cp -a "$item/." "$root/"
    else
      install -D -m 755 "$item" "$root/usr/local/bin/${item##*/}"
      image_libraries "$root" "$item"
      [[ $entry != null ]] || entry="[\"/usr/local/bin/${item##*/}\"]"
    fi
  done
  image_archive "$root" "$image" "$user" "$entry" null "$output"
)

# Where the tar file of an image lies: the name with its slashes and colon replaced.
image_tar() { echo "$IMAGE_CACHE/$(tr '/:' '__' <<<"$1").tar"; }

# What every program expects: /tmp, a few users, name look-up by files and DNS, public certificates.
image_skeleton() {
  local root=$1
  mkdir -p "$root"/{tmp,etc/ssl/certs,root,usr/local/bin,bin}
  chmod 755 "$root"
  chmod 1777 "$root/tmp"
  printf 'root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
  echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
  [[ ! -e /etc/ssl/certs/ca-certificates.crt ]] ||
    install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
}

image_libraries() {
  local root=$1 binary=$2 library
  ldd "$binary" >/dev/null 2>&1 || return 0
  while read -r library; do
    [[ -e $root$library ]] || install -D -m 755 "$(readlink -f "$library")" "$root$library"
  done < <(ldd "$binary" | grep -o '/[^ ]*')
}

# image_archive ROOT IMAGE USER ENTRYPOINT CMD TAR (entry point and command as JSON arrays or null)
image_archive() {
  local root=$1 image=$2 user=$3 entry=$4 cmd=$5 output=$6 work layer config
  work=$(mktemp -d "$IMAGE_CACHE/.archive-XXXXXX")
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$root" -cf "$work/layer.tar" .
  layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  jq -nc --arg user "$user" --arg layer "sha256:$layer" --arg arch "$(image_architecture)" \
    --argjson entry "$entry" --argjson cmd "$cmd" '{architecture: $arch, os: "linux", created: "1970-01-01T00:00:00Z",
      config: {User: $user, Entrypoint: $entry, Cmd: $cmd, WorkingDir: "/",
        Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
      rootfs: {type: "layers", diff_ids: [$layer]}, history: [{created: "1970-01-01T00:00:00Z"}]}' >"$work/config.json"
  config=$(sha256sum "$work/config.json" | cut -d' ' -f1)
  mv "$work/config.json" "$work/$config.json"
  jq -nc --arg config "$config.json" --arg image "$image" \
    '[{Config: $config, RepoTags: [$image], Layers: ["layer.tar"]}]' >"$work/manifest.json"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -cf "$work/image.tar" \
    manifest.json "$config.json" layer.tar
  # In one step, also where the file comes from another disk: one that is there is whole.
  mv "$work/image.tar" "$output.$$" || return 1
  mv "$output.$$" "$output" || return 1
  rm -rf "$work"
}

image_architecture() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
  esac
}

# image_load CLUSTER TAR: unless this very image was loaded into the cluster before.
image_load() {
  local cluster=$1 file=$2 loaded
  loaded=$(fleet_cluster_dir "$cluster")/loaded/$(image_digest "$file")
  [[ -e $loaded ]] && return 0
  ctr_on "$cluster" images import "$file" || return 1
  mkdir -p "${loaded%/*}"
  touch "$loaded"
}

# Name and content of the image in a tar file, as one word.
image_digest() {
  tar -xOf "$1" --occurrence=1 manifest.json | sha256sum | cut -d' ' -f1
}

# The images that every cluster has: busybox for users' workflows, the pause container, Argo's controller and executor;
# and argo-server's for the control cluster.
images_build() {
  local version=$1
  mkdir -p "$IMAGE_CACHE"
  # Left by builds that were killed; nothing of a build that is under way is that old.
  find "$IMAGE_CACHE" -maxdepth 1 -name '.*-??????' -mmin +60 -exec rm -rf {} +
  image_busybox
  image_of_argo 0 argoexec argoexec "$version"
  image_of_argo 8737 workflow-controller workflow-controller "$version"
  image_of_argo 8737 argocli argo "$version"
}

# image_of_argo UID IMAGE BINARY VERSION: with the users that upstream's images have.
image_of_argo() {
  local name binary=$TOOLCHAIN_BIN/$3
  name=$(image_argo "$2" "$4")
  image_current "$name" "$binary" && return 0
  image_from_binaries --user "$1" "$name" "$(image_tar "$name")" "$binary"
  image_made "$name" "$binary"
}

# image_argo COMPONENT VERSION: its name in the local fleet.
image_argo() { echo "localhost/$1:$2"; }

# Whether the tar file of an image was made of this binary (known by path, size and time of change).
image_current() {
  local file
  file=$(image_tar "$1")
  [[ -s $file && $(cat "$file.source" 2>/dev/null) == "$(image_source "$2")" ]]
}

image_made() { image_source "$2" >"$(image_tar "$1").source"; }

image_source() { stat --format '%n %s %Y' "$(readlink -f "$1")"; }

# busybox under its usual name, with a link for each applet, and the pause image from the same binary.
image_busybox() (
  local root
  image_current "$IMAGE_BUSYBOX" /bin/busybox && [[ -s $(image_tar "$IMAGE_PAUSE") ]] && return 0
  root=$(mktemp -d "$IMAGE_CACHE/.root-XXXXXX")
  trap 'rm -rf "$root"' EXIT
  image_skeleton "$root"
  install -m 755 "$(readlink -f /bin/busybox)" "$root/bin/busybox"
  image_archive "$root" "$IMAGE_PAUSE" 65535 '["/bin/busybox", "sleep", "2147483647"]' null "$(image_tar "$IMAGE_PAUSE")"
  image_applets "$root"
  image_archive "$root" "$IMAGE_BUSYBOX" '' null '["sh"]' "$(image_tar "$IMAGE_BUSYBOX")"
  image_made "$IMAGE_BUSYBOX" /bin/busybox
)

# busybox and its applets in the tree of an image.
image_applets() {
  local root=$1 applet
  install -m 755 "$(readlink -f /bin/busybox)" "$root/bin/busybox"
  for applet in $("$root/bin/busybox" --list); do
    [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
  done
}
