# shellcheck shell=bash
# The results of a run of the tests: the time of each part, the slowest tests, and how many passed, failed and were skipped.
# Needs LOG_DIR with the logs of the parts, and the folder RESULTS. Runs nothing.

RESULTS_SLOWEST=10
# Lines that are printed of why a test failed.
RESULTS_REASON=20

# results_part KIND CODE SECONDS TITLE LOG: a part has ended with this exit code. Of KIND check, it is one command and counts as one
# test; of KIND tests, its tests count, and the part itself where it failed without one of them.
results_part() {
  printf '%4d s  %s\n' "$3" "$4" >>"$RESULTS/times"
  if (($2 == 0)); then
    [[ $1 != check ]] || echo "$4" >>"$RESULTS/checks-passed"
  elif ! results_failures "$5" >>"$RESULTS/failed"; then
    echo "$4" >>"$RESULTS/failed"
  fi
}

# Names of the tests that failed, by a part's log; fails where there are none.
results_failures() { sed -nE 's/^test (.*) \.\.\. FAILED.*/\1/p' "$1" | grep .; }

# results_skip WHAT [COUNT]: something, or so many tests, that were not run, and why.
results_skip() { printf '%s %s\n' "${2:-1}" "$1" >>"$RESULTS/skipped"; }

# Seconds and name of each test, a line each. Tests of the fleet wait for their turn, and tell themselves how long they
# took after that.
results_tests() {
  [[ ! -e $RESULTS/turns ]] || awk '{print $2, "fleet", $3}' "$RESULTS/turns"
  cat "$LOG_DIR"/*part_{unit,charts,integration}.log 2>/dev/null |
    sed -nE 's/^test (.*) \.\.\. (ok|FAILED) <([0-9.]+)s>$/\3 \1/p'
}

results_summary() {
  local passed failed skipped
  passed=$(($(results_count 4) + $(results_lines checks-passed)))
  skipped=$(results_count 8)
  # Such as those of OCM's agent of another line.
  if ((skipped > 0)); then results_skip "tests that are ignored by default" "$skipped"; fi
  touch "$RESULTS/skipped"
  skipped=$(awk '{sum += $1} END {print sum + 0}' "$RESULTS/skipped")
  failed=$(results_lines failed)
  printf '\nTimes\n'
  sed 's/^/  /' "$RESULTS/times"
  printf '  %4d s  total, including the removal of the fleet\n' "$SECONDS"
  printf '\nSlowest tests\n'
  { results_tests || true; } | sort -rn |
    awk -v most="$RESULTS_SLOWEST" 'NR <= most {printf "  %6.1f s  ", $1; $1 = ""; print substr($0, 2)}'
  results_list Skipped skipped
  results_list Failed failed
  results_reasons
  ((failed == 0)) || results_list "Requests that passed without the webhook, the last ones" unasked
  printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
}

results_list() {
  [[ ! -s $RESULTS/$2 ]] || { printf '\n%s\n' "$1" && sed 's/^/  /' "$RESULTS/$2"; }
}

# Of each test that failed, the first lines of its own words.
results_reasons() {
  local name
  while IFS= read -r name; do
    awk -v name="$name" -v most="$RESULTS_REASON" '
      $0 == "---- " name " stdout ----" { told = 1; printf "\n%s\n", name; next }
      /^---- .* stdout ----$/ || /^failures:$/ { told = 0 }
      told && told <= most && NF { printf "  %s\n", substr($0, 1, 400); told++ }' "$LOG_DIR"/*part_*.log
  done < <(cat "$RESULTS/failed" 2>/dev/null)
}

results_lines() { if [[ -e $RESULTS/$1 ]]; then wc -l <"$RESULTS/$1"; else echo 0; fi; }

# Sum of a field of the test runners' own closing lines.
results_count() {
  cat "$LOG_DIR"/*part_*.log | awk -v field="$1" '/^test result: / {sum += $field} END {print sum + 0}'
}
