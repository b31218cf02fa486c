# shellcheck shell=bash
# Waiting for conditions, and doing the same for several clusters at once. Knows nothing of clusters themselves.

# wait_for SECONDS WHAT COMMAND…: until the command succeeds. On time-out says what was waited for and what the
# last try printed.
wait_for() {
  local limit=$1 what=$2 deadline output
  shift 2
  deadline=$((SECONDS + limit))
  until output=$("$@" 2>&1); do
    if ((SECONDS >= deadline)); then
      echo "waited $limit s for $what; output of the last attempt: ${output:-none}" >&2
      return 1
    fi
    sleep 0.2
  done
}

# in_parallel FUNCTION ARGUMENT…: runs FUNCTION once for each argument, at the same time; fails if one of them fails,
# after all have ended. Each line of output is preceded by the argument.
in_parallel() {
  local function=$1 argument rc=0 failed=()
  local -A pids=()
  shift
  for argument in "$@"; do
    (set -o pipefail && "$function" "$argument" 2>&1 | sed -u "s/^/$argument: /") &
    pids[$argument]=$!
  done
  for argument in "$@"; do
    wait "${pids[$argument]}" || failed+=("$argument")
  done
  if ((${#failed[@]} > 0)); then
    echo "$function failed for: ${failed[*]}" >&2
    rc=1
  fi
  return "$rc"
}
