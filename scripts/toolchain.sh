#!/usr/bin/env bash
# Binaries of the local fleet: built once per version, kept outside the checkout.
#
#   scripts/toolchain.sh ensure [PART…]   build missing parts (etcd kubernetes helm s3 registry argo ui; and, only if
#                                         named, argo without its UI: cli; OCM's work agent: ocm ocm10; mdBook: mdbook;
#                                         cargo-deny: deny)
#   scripts/toolchain.sh path             print the folder with links to all binaries
#   scripts/toolchain.sh version PART     print the version of a part
set -euo pipefail

# shellcheck source=lib/toolchain.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/toolchain.sh"
# shellcheck source=lib/toolchain-argo.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/toolchain-argo.sh"

usage() {
  sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

ensure() {
  local part
  (($# > 0)) || set -- "${TOOLCHAIN_PARTS[@]}"
  for part in "$@"; do
    toolchain_module "$part" >/dev/null
    toolchain_ensure "$part"
  done
}

case ${1:-} in
  ensure) shift && ensure "$@" ;;
  path) toolchain_path ;;
  version) toolchain_version "${2:?name a part}" ;;
  *) usage >&2 && exit 2 ;;
esac
