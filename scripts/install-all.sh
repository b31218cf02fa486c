#!/usr/bin/env bash
# Brings up a fleet of three Kubernetes clusters with Argo Workflows and a shared S3 server, installs Argosy and runs a
# sample on each cluster. If it is run again, it continues with the existing fleet.
#
#   scripts/install-all.sh [--provider auto|kind|local] [--name demo] [--argo 3|4] [--without-argosy]
set -euo pipefail

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
source "$SCRIPTS/lib/log.sh"
# shellcheck source=lib/fleet.sh
source "$SCRIPTS/lib/fleet.sh"
# shellcheck source=lib/provider.sh
source "$SCRIPTS/lib/provider.sh"

main() {
  local provider=auto name=demo argosy=yes argo=${ARGOSY_ARGO:-}
  while (($# > 0)); do
    case $1 in
      --provider) provider=${2:?--provider needs auto, kind or local} && shift 2 ;;
      --name) name=${2:?--name needs a name} && shift 2 ;;
      --argo) argo=${2:?--argo needs 3 or 4} && shift 2 ;;
      --without-argosy) argosy=no && shift ;;
      -h | --help) usage && exit 0 ;;
      *) usage >&2 && exit 2 ;;
    esac
  done
  [[ $argo =~ ^[34]?$ ]] || log_die "Argo's major version is 3 or 4; got '$argo'"
  fleet_use "$name"
  [[ -z $argo ]] || fleet_use_argo "$argo"
  provider=$(provider_choose "$provider")
  provider_load "$provider"
  fleet_lock
  LOG_DIR=$(fleet_dir)/log
  mkdir -p "$LOG_DIR"
  echo "$provider" >"$(fleet_dir)/provider"
  STEP_TOTAL=$(($(provider_steps "$provider") + $(argosy_steps "$argosy")))
  log_info "fleet '$name', provider $provider"
  # shellcheck disable=SC2034 # read by the provider
  [[ $argosy == no ]] || TOOLCHAIN_MEANWHILE=argosy_compile
  "${provider}_up"
  [[ $argosy == no ]] || argosy_up
  closing_page "$provider" "$argosy"
}

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

argosy_steps() { if [[ $1 == yes ]]; then echo 3; else echo 0; fi; }

argosy_up() {
  step "Build Argosy and its image" argosy_build
  step "Install Argosy, register cluster1 and cluster2, apply policies" argosy_install
  step "Run a sample on each cluster" argosy_samples
}

main "$@"
