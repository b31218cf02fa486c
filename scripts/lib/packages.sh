# shellcheck shell=bash
# Programs of the operating system that the local fleet needs. Installs the Debian packages of those that are missing;
# what is already there, from whatever package, is left alone.

# COMMAND or FILE, and the Debian package that has it.
PACKAGES_NEEDED=(
  containerd:containerd
  runc:runc
  /usr/lib/cni/ptp:containernetworking-plugins
  iptables:iptables
  ip:iproute2
  conntrack:conntrack
  /bin/busybox:busybox-static
  /usr/bin/python3:python3-minimal
  openssl:openssl
  curl:curl
  jq:jq
  nsenter:util-linux
  mount:mount
  sysctl:procps
  tar:tar
  cc:gcc
  make:make
  /usr/include/stdio.h:libc6-dev
  /etc/ssl/certs/ca-certificates.crt:ca-certificates
)

packages_missing() {
  local entry what package
  for entry in "${PACKAGES_NEEDED[@]}"; do
    what=${entry%:*} package=${entry##*:}
    if [[ $what == /* ]]; then
      [[ -e $what ]] || echo "$package"
    else
      command -v "$what" >/dev/null || echo "$package"
    fi
  done
  # A dynamically linked busybox cannot be the content of an image by itself.
  if [[ -e /bin/busybox ]] && ldd /bin/busybox >/dev/null 2>&1; then echo busybox-static; fi
  return 0
}

packages_install() {
  local missing
  mapfile -t missing < <(packages_missing | sort -u)
  if ((${#missing[@]} == 0)); then
    echo "no package is missing"
    return 0
  fi
  if ! command -v apt-get >/dev/null; then
    echo "these packages are missing, and this machine does not run Debian or Ubuntu; install them by hand: ${missing[*]}" >&2
    return 1
  fi
  step_note "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  mapfile -t missing < <(packages_missing | sort -u)
  ((${#missing[@]} == 0)) || {
    echo "packages still missing after apt-get install: ${missing[*]}" >&2
    return 1
  }
}
