# shellcheck shell=bash
# Messages and numbered steps. Owns how progress is shown; does not know what a step does.

LOG_BEGAN=${LOG_BEGAN:-$SECONDS}
LOG_DIR=${LOG_DIR:-/tmp}
STEP_NUMBER=0
STEP_TOTAL=0

# Time since the script began, as m:ss.
log_elapsed() {
  local seconds=$((SECONDS - LOG_BEGAN))
  printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

log_info() { printf '              %s\n' "$*"; }
log_warn() { printf 'warning:      %s\n' "$*" >&2; }

log_die() {
  printf 'error:        %s\n' "$*" >&2
  exit 1
}

# A line that a step shows to the user; everything else that it prints goes to its log.
step_note() { log_info "$*" >&3; }

# step TITLE FUNCTION [ARGUMENT…]: runs one numbered step in a process of its own, its output in
# LOG_DIR/NN-FUNCTION.log. A step that lasts says every 10 seconds how far it is. A failed step names its log and returns its exit code.
step() {
  local title=$1 function=$2 log began=$SECONDS pid ticker rc=0
  shift 2
  STEP_NUMBER=$((STEP_NUMBER + 1))
  log=$(printf '%s/%02d-%s.log' "$LOG_DIR" "$STEP_NUMBER" "$function")
  printf '[%s] %2d/%d  %s\n' "$(log_elapsed)" "$STEP_NUMBER" "$STEP_TOTAL" "$title"
  # A process group of its own, so that an interrupted script can end all of the step.
  set -m
  (set -e && "$function" "$@") 3>&1 >"$log" 2>&1 </dev/null &
  pid=$!
  set +m
  step_ticker "$pid" "$log" 9>&- &
  ticker=$!
  # shellcheck disable=SC2064 # these very processes
  trap "step_cut $pid $ticker '$log'" INT TERM HUP
  wait "$pid" || rc=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  trap - INT TERM HUP
  ((rc == 0)) || step_failed "$title" "$log" $((SECONDS - began)) "$rc"
}

# Shows, every 10 seconds, that a step goes on and the last line it wrote.
step_ticker() {
  local pid=$1 log=$2 began=$SECONDS
  while sleep 10 && kill -0 "$pid" 2>/dev/null; do
    log_info "… $((SECONDS - began)) s  $(tail -n 1 "$log" 2>/dev/null | tr -d '\r' | cut -c1-90)"
  done
}

step_cut() {
  trap - INT TERM HUP
  kill -TERM -- "-$1" "$2" 2>/dev/null || true
  printf '\nerror:        interrupted in step %d, log %s. Run the command again to continue, or scripts/uninstall-all.sh to remove the fleet.\n' \
    "$STEP_NUMBER" "$3" >&2
  exit 130
}

step_failed() {
  printf 'error:        step %d (%s) failed after %d s. Its log: %s\n' "$STEP_NUMBER" "$1" "$3" "$2" >&2
  tail -n 20 "$2" | sed 's/^/            | /' >&2
  return "$4"
}
