#!/usr/bin/env bash
# Removes a fleet and everything that scripts/install-all.sh created for it, except the cached binaries.
#
#   scripts/uninstall-all.sh [--name demo]
set -euo pipefail

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
source "$SCRIPTS/lib/log.sh"
# shellcheck source=lib/fleet.sh
source "$SCRIPTS/lib/fleet.sh"
# shellcheck source=lib/provider.sh
source "$SCRIPTS/lib/provider.sh"

main() {
  local name=demo provider
  while (($# > 0)); do
    case $1 in
      --name) name=${2:?--name needs a name} && shift 2 ;;
      -h | --help) sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
      *) sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
    esac
  done
  fleet_use "$name"
  provider=$(provider_recorded)
  provider_load "$provider"
  fleet_lock
  # The fleet's own folder goes, so the log lies beside it until all is done.
  LOG_DIR=$(mktemp -d)
  STEP_TOTAL=1
  step "Take fleet '$name' down (provider $provider)" "${provider}_down"
  rm -rf "$LOG_DIR"
  fleet_unlock
  printf '[%s] fleet %s was removed; the cached binaries remain in %s\n' \
    "$(log_elapsed)" "'$name'" "${XDG_CACHE_HOME:-$HOME/.cache}/argosy"
}

main "$@"
