# shellcheck shell=bash
# Which provider makes the clusters, and what both have in common: the lock, the closing page. A provider NAME is
# lib/NAME.sh with the functions NAME_up and NAME_down.

# provider_choose WANTED: `auto` is kind when a Docker daemon answers, else local. A fleet that is
# there keeps its provider.
provider_choose() {
  local recorded
  recorded=$(cat "$(fleet_dir)/provider" 2>/dev/null) || recorded=''
  case $1 in
    kind | local)
      if [[ -n $recorded && $recorded != "$1" ]]; then
        echo "fleet '$FLEET_NAME' has provider $recorded: remove it first with scripts/uninstall-all.sh --name $FLEET_NAME, or use another --name" >&2
        return 1
      fi
      echo "$1"
      ;;
    auto)
      if [[ -n $recorded ]]; then
        echo "$recorded"
      elif command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1; then
        echo kind
      else
        echo local
      fi
      ;;
    *)
      echo "unknown provider '$1'; choose auto, kind or local" >&2
      return 1
      ;;
  esac
}

provider_recorded() { cat "$(fleet_dir)/provider" 2>/dev/null || echo local; }

provider_load() {
  local library
  for library in "$1" argosy; do
    # shellcheck source=/dev/null
    [[ ! -e $SCRIPTS/lib/$library.sh ]] || source "$SCRIPTS/lib/$library.sh"
  done
  [[ $1 != local ]] || local_load
}

provider_steps() {
  local name=${1^^}_STEPS
  echo "${!name:-1}"
}

# One run at a time for each fleet. A step of a run that was killed may still be under way; it ends by itself.
fleet_lock() {
  local file=$FLEET_ROOT/.$FLEET_NAME.lock
  mkdir -p "$FLEET_ROOT"
  exec 9>"$file"
  if ! flock -n 9; then
    log_info "waiting for another run for fleet '$FLEET_NAME' to end"
    flock -w 300 9 || log_die "another install or uninstall of fleet '$FLEET_NAME' is still running after 300 s"
  fi
  # The run before may have been the one that removed the file.
  [[ $file -ef /proc/self/fd/9 ]] || fleet_lock
}

fleet_unlock() {
  rm -f "$FLEET_ROOT/.$FLEET_NAME.lock"
  rmdir "$FLEET_ROOT" 2>/dev/null || true
}

# closing_page PROVIDER ARGOSY(yes|no)
closing_page() {
  local cluster
  printf '\n[%s] Fleet %s is up (provider %s).\n\n' "$(log_elapsed)" "'$FLEET_NAME'" "$1"
  echo "What runs where"
  for cluster in "${FLEET_CLUSTERS[@]}"; do
    printf '  %-9s https://%s:6443   kubeconfig .fleet/kubeconfig/%s\n' "$cluster" "$(fleet_ip "$cluster")" "$cluster"
  done
  printf '  %-9s %s   bucket %s\n' S3 "http://$(fleet_s3_endpoint)" "$FLEET_BUCKET"
  closing_ui
  printf '\nTry\n'
  echo "  source .fleet/env                 # addresses, keys and kubeconfigs of this fleet"
  # shellcheck disable=SC2016
  echo '  export PATH=$ARGOSY_BINARIES:$ARGOSY_TOOLCHAIN:$PATH KUBECONFIG=$KUBECONFIG_CONTROL'
  if [[ $2 == yes ]]; then
    echo "  kubectl create -f samples/workflows/cluster1/dag.yaml && argo -n $FLEET_ARGO_NAMESPACE watch @latest"
    echo "  argosy get workflows && argo -n $FLEET_ARGO_NAMESPACE get @latest"
    echo "  kubectl -n $FLEET_ARGO_NAMESPACE get workflows -L argosy.dev/cluster"
    echo "  logs and artifacts of every step that has ended, wherever it ran: open the run in the Argo UI"
    echo "  argo logs -f NAME; argosy logs NAME; argosy suspend NAME   # argo logs shows running steps, argosy logs also ended ones"
  else
    echo "  argo -n $FLEET_ARGO_NAMESPACE list"
  fi
  echo "  scripts/fleet.sh status           # clusters, processes, links"
  printf '\nStop\n  scripts/uninstall-all.sh --name %s\n' "$FLEET_NAME"
}

closing_ui() {
  if toolchain_has ui; then
    printf '  %-9s %s\n' 'Argo UI' "$(fleet_ui_url)"
  elif [[ " ${TOOLCHAIN_PARTS[*]} " != *' ui '* ]]; then
    printf '  %-9s %s   (API only, as always with --argo 4)\n' Argo "$(fleet_ui_url)"
  else
    printf '  %-9s %s   (API only: the UI needs Node.js 20 and npm; install them and run this again)\n' Argo "$(fleet_ui_url)"
  fi
}
