#!/usr/bin/env bash
# Breaks a local fleet that is up while workflows run on it: kills controller, agent, workflow-controllers, API servers and
# etcd, and cuts links, at random moments. Then counts pods and S3 objects: no step may have run twice, and no end may be lost.
#
#   scripts/chaos.sh [--minutes 5] [--seed 1] [--workflows 100] [--compare]
#
# --compare repeats each round with Argo alone on cluster1. Uses the fleet that was brought up last.
set -euo pipefail

CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ -e $CHECKOUT/.fleet/env ]] || { echo "no fleet is up; bring one up with scripts/install-all.sh" >&2 && exit 1; }
# shellcheck source=/dev/null
source "$CHECKOUT/.fleet/env"
# shellcheck source=lib/cargo.sh
source "$CHECKOUT/scripts/lib/cargo.sh"
cd "$CHECKOUT"
exec cargo run --quiet --locked --package argosy-tests --bin chaos -- "$@"
