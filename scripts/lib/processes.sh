# shellcheck shell=bash
# Processes of the fleet, each known by its recorded pid, start time and boot, so that a pid that was given away to
# another process is never taken for ours. Does not know what the processes do.

process_record() { echo "$(fleet_dir)/run/$1"; }

# Start time of a process in clock ticks since boot (field 22 of its stat, counted after the command's bracket).
process_start_time() {
  local stat fields
  stat=$(<"/proc/$1/stat") || return 1
  read -ra fields <<<"${stat##*) }"
  echo "${fields[19]}"
}

# process_pid NAME: prints the pid if that process still runs.
process_pid() {
  local pid start boot
  read -r pid start boot 2>/dev/null <"$(process_record "$1")" || return 1
  [[ $boot == "$(</proc/sys/kernel/random/boot_id)" ]] || return 1
  [[ $(process_start_time "$pid" 2>/dev/null) == "$start" ]] || return 1
  [[ $(process_state "$pid") != Z ]] || return 1
  echo "$pid"
}

process_state() { sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null; }

process_running() { process_pid "$1" >/dev/null; }

# process_start NAME LOG COMMAND…: starts it in a session of its own unless it runs. The record is written by the
# new process before it becomes the command, so a script that is cut off leaves no process without one.
process_start() {
  local name=$1 log=$2 record pid
  shift 2
  process_running "$name" && return 0
  record=$(process_record "$name")
  mkdir -p "${record%/*}" "${log%/*}"
  rm -f "$record"
  (
    exec </dev/null >>"$log" 2>&1 3>&- 8>&- 9>&-
    cd /
    # Read once: inside $(…) it would be the pid of the substitution, which started later.
    pid=$BASHPID
    echo "$pid $(process_start_time "$pid") $(</proc/sys/kernel/random/boot_id)" >"$record"
    exec setsid "$@"
  ) &
  # The record must be there when the caller asks for the process.
  wait_for 5 "the record of $name" test -s "$record"
}

# process_stop NAME [SECONDS]: TERM, then KILL when it has not ended within the time (10 s).
process_stop() {
  local name=$1 limit=${2:-10} pid
  if pid=$(process_pid "$name"); then
    kill "$pid" 2>/dev/null || true
    if ! wait_for "$limit" "the end of $name" process_gone "$name" 2>/dev/null; then
      kill -KILL "$pid" 2>/dev/null || true
      wait_for 5 "the end of $name after KILL" process_gone "$name"
    fi
  fi
  rm -f "$(process_record "$name")"
}

process_gone() { ! process_running "$1"; }

# Names of all processes that have a record.
process_names() {
  local record
  for record in "$(fleet_dir)"/run/*; do
    [[ -e $record ]] && basename "$record"
  done
  return 0
}
