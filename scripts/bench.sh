#!/usr/bin/env bash
# How long one Workflow takes from the control cluster to its cluster, and a status back.
#
#   scripts/bench.sh [--count N] [--target MS]   on servers of its own, beside the floor of this machine
#   scripts/bench.sh --fleet [--count N]         on the fleet that is up, with its real Argo
#
# Ends with 1 if a median of Argosy is above the target (30 ms).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

# The variables that name the fleet's kubeconfigs, unless they are set already.
load_fleet() {
  [[ -n ${KUBECONFIG_CONTROL:-} && -n ${KUBECONFIG_CLUSTER1:-} ]] && return 0
  [[ -f .fleet/env ]] || {
    echo "no fleet is up; run scripts/install-all.sh" >&2
    return 1
  }
  # shellcheck source=/dev/null
  source .fleet/env
}

load_toolchain() {
  scripts/toolchain.sh ensure etcd kubernetes
  ARGOSY_TOOLCHAIN=$(scripts/toolchain.sh path)
  export ARGOSY_TOOLCHAIN
}

case " $* " in
  *' --help '* | *' -h '*) usage && exit 0 ;;
  *' --fleet '*) load_fleet ;;
  *) load_toolchain ;;
esac
target=${CARGO_TARGET_DIR:-target}
echo 'building'
# The same command as in the installation, so that neither undoes the other's work. What measures need not be fast: it
# looks at both ends with the same code.
cargo build --quiet --release --locked --package argosy --bins
cargo build --quiet --locked --package argosy-tests --bin bench
ARGOSY_BINARIES=$target/release exec "$target/debug/bench" "$@"
