#!/usr/bin/env bash
# Measures how long Workflows take from the control cluster to their clusters, and statuses back, and the resources that this needs.
#
#   scripts/bench.sh [--quick] [--rows a,b…] [--modes pull,push]   on its own servers, beside the baseline
#   scripts/bench.sh --against DIR [--rows a,b…]                   three times in turns with the programs in DIR, too (A/B)
#   scripts/bench.sh --fleet [--count N] [--target MS]             on the fleet that is up, with its real Argo
#
# Prints a line for each row and mode, then the verdicts; all measurements are in results.json, and are printed with --verbose.
# Exits with 1 if a target is missed (not with --against); with --fleet, if a median is above the target (30 ms). The rows: docs/benchmarks/README.md.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=lib/cargo.sh
source scripts/lib/cargo.sh

usage() {
  sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
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
  # helm renders what virtual Nodes need (row i).
  scripts/toolchain.sh ensure etcd kubernetes helm
  ARGOSY_TOOLCHAIN=$(scripts/toolchain.sh path)
  export ARGOSY_TOOLCHAIN
}

case " $* " in
  *' --help '* | *' -h '*) usage && exit 0 ;;
  *' --fleet '*) load_fleet ;;
  *) load_toolchain ;;
esac
target=$CARGO_TARGET_DIR
echo 'building'
# The same command as in the installation, so that neither undoes the other's work.
cargo build --quiet --release --locked --package argosy --bins
# What measures shares the machine with what is measured, and the baseline is part of it: a slow one would flatter Argosy.
cargo build --quiet --release --locked --package argosy-tests --bin bench
ARGOSY_BINARIES=$target/release exec "$target/release/bench" "$@"
