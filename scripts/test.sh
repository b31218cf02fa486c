#!/usr/bin/env bash
# Runs all tests, from the formatting to a fleet of its own, and says how long each part took. Stops at the first part
# that fails and names its log.
#
#   scripts/test.sh [PART…]
#
# Parts, in this order: packages toolchain shell format clippy documentation dependencies unit charts integration fleet.
# Without any: all of them. Logs and screenshots: target/test. The fleet is called ARGOSY_TEST_FLEET (default: ci).
set -euo pipefail

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
source "$SCRIPTS/lib/log.sh"
# shellcheck source=lib/packages.sh
source "$SCRIPTS/lib/packages.sh"

CHECKOUT=$(cd "$SCRIPTS/.." && pwd)
PARTS=(packages toolchain shell format clippy documentation dependencies unit charts integration fleet)
FLEET=${ARGOSY_TEST_FLEET:-ci}
TIMES=()
LOG_DIR=$CHECKOUT/target/test
# Outside of the checkout, so that the next clean checkout finds the dependencies built.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/argosy/target}
export CARGO_TERM_COLOR=never RUST_BACKTRACE=0
# The same packages and features in every part, so that what they depend on is built once. With traces, which one test looks at;
# without, Argosy is built for the fleet.
WORKSPACE=(--locked --workspace --features argosy/otel)
PACKAGES_NEEDED+=(shellcheck:shellcheck chromium:chromium chromedriver:chromium-driver /usr/share/postgresql-common:postgresql)

main() {
  local part wanted=("$@")
  ((${#wanted[@]} > 0)) || wanted=("${PARTS[@]}")
  for part in "${wanted[@]}"; do
    [[ " ${PARTS[*]} " == *" $part "* ]] || { usage >&2 && exit 2; }
  done
  rm -rf "$LOG_DIR"
  mkdir -p "$LOG_DIR"
  cd "$CHECKOUT"
  STEP_TOTAL=${#wanted[@]}
  trap fleet_down EXIT
  for part in "${wanted[@]}"; do run "$part"; done
  fleet_down
  trap - EXIT
  summary
}

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

title() {
  case $1 in
    packages) echo "Debian packages" ;;
    toolchain) echo "Kubernetes, etcd, Argo, S3 server and helm (once per version)" ;;
    shell) echo "Scripts: shellcheck; the mutations of the model fit the code" ;;
    format) echo "Rust: format" ;;
    clippy) echo "Rust: clippy" ;;
    documentation) echo "Documentation: of the code, and the book" ;;
    dependencies) echo "Rust: licences and advisories of dependencies" ;;
    unit) echo "Unit and property tests, generated files" ;;
    charts) echo "Charts: goldens, schemas, and on a real API server" ;;
    integration) echo "Controller and agent against real API servers" ;;
    fleet) echo "End to end on fleet '$FLEET', with the Argo UI in Chromium" ;;
  esac
}

run() {
  local began=$SECONDS
  step "$(title "$1")" "part_$1"
  TIMES+=("$((SECONDS - began)) $(title "$1")")
}

part_packages() { packages_install; }

# Downloads leave the processors idle: what the fleet runs is built at the same time, by the command of the installation.
part_toolchain() {
  cargo build --release --locked --package argosy --bins &
  local release=$!
  # shellcheck disable=SC2064 # this very process
  trap "kill $release 2>/dev/null || true" EXIT
  "$SCRIPTS/toolchain.sh" ensure
  wait "$release"
}

part_shell() { (cd "$SCRIPTS" && shellcheck ./*.sh lib/*.sh) && shellcheck .ci/run && "$SCRIPTS/mutations.sh" --fit; }

part_format() { cargo fmt --all --check; }

part_clippy() { cargo clippy "${WORKSPACE[@]}" --all-targets -- -D warnings; }

# That the book says what the code does is a test among the unit tests.
part_documentation() {
  RUSTDOCFLAGS=-Dwarnings cargo doc "${WORKSPACE[@]}" --no-deps
  "$SCRIPTS/toolchain.sh" ensure mdbook
  "$("$SCRIPTS/toolchain.sh" path)/mdbook" build docs --dest-dir "$LOG_DIR/book"
}

# Building cargo-deny takes longer than everything before it.
part_dependencies() {
  if cargo deny --version >/dev/null 2>&1; then
    cargo deny check
  else
    step_note "skipped: cargo-deny is not installed"
  fi
}

part_unit() {
  mapfile -t tests < <(test_names controller controller/* transforms | grep -v '^charts$')
  cargo_test --lib --bins "${tests[@]/#/--test=}"
  cargo_test --doc
}

part_charts() {
  "$SCRIPTS/toolchain.sh" ensure etcd kubernetes helm
  cargo_test --test charts
}

part_integration() {
  "$SCRIPTS/toolchain.sh" ensure ocm
  # The programs, too, as the tests start them.
  cargo test "${WORKSPACE[@]}" --no-run
  mapfile -t tests < <(test_names tests | grep -v '^fleet_\|^charts$\|^rights$')
  cargo_test "${tests[@]/#/--test=}"
}

# Names of the integration tests of crates: files, and folders with a main.rs.
test_names() {
  local crate entry
  for crate in "$@"; do
    for entry in "$crate"/tests/*.rs "$crate"/tests/*/main.rs; do
      entry=${entry%/main.rs}
      [[ ! -e $entry ]] || basename "$entry" .rs
    done
  done
}

part_fleet() {
  touch "$LOG_DIR/fleet-began"
  # Built before the fleet is up, as it would disturb it.
  cargo test "${WORKSPACE[@]}" --test 'fleet_*' --test rights --no-run
  "$SCRIPTS/install-all.sh" --provider local --name "$FLEET" | tee >(sed -u 's/^/    /' >&3)
  # shellcheck source=/dev/null
  source "$CHECKOUT/.fleet/$FLEET/env"
  # More at once than there are cores: most of the time they wait for pods.
  local failed=0
  RUST_TEST_THREADS=4 cargo_test --test 'fleet_*' --no-fail-fast -- --include-ignored || failed=1
  # Last, as it looks at what was asked meanwhile.
  cargo_test --test rights -- --include-ignored || failed=1
  return "$failed"
}

# cargo test, each test shown as it ends.
cargo_test() {
  cargo test "${WORKSPACE[@]}" "$@" 2>&1 | tee >(sed -un 's/^test \(.*\) \.\.\. \(ok\|FAILED\)$/    \2  \1/p' >&3)
}

# Takes the fleet down if this run began to bring it up; before, keeps what tells why a test failed.
fleet_down() {
  [[ -e $LOG_DIR/fleet-began ]] || return 0
  rm -f "$LOG_DIR/fleet-began"
  trap - EXIT
  fleet_evidence >"$LOG_DIR/fleet.log" 2>&1 || true
  "$SCRIPTS/uninstall-all.sh" --name "$FLEET"
}

fleet_evidence() {
  local folder=$CHECKOUT/.fleet/$FLEET cluster
  [[ ! -d $folder/screenshots ]] || cp -r "$folder/screenshots" "$LOG_DIR/"
  # shellcheck source=/dev/null
  source "$folder/env"
  for cluster in control cluster1 cluster2; do
    local kubectl=(timeout 30 "$ARGOSY_TOOLCHAIN/kubectl" --kubeconfig "$folder/kubeconfig/$cluster")
    echo "=== $cluster"
    "${kubectl[@]}" get nodes,pods,workflows,managedclusters,manifestworks,appliedmanifestworks -A -o wide || true
    "${kubectl[@]}" -n argosy logs --all-containers --prefix --tail=-1 -l 'app.kubernetes.io/name in (argosy-controller,argosy-agent)' || true
    "${kubectl[@]}" get events -A --sort-by=.lastTimestamp || true
  done
}

summary() {
  local line
  printf '\nTimes\n'
  for line in "${TIMES[@]}"; do printf '  %4d s  %s\n' "${line%% *}" "${line#* }"; done
  printf '  %4d s  all, with taking the fleet down\n\n' "$SECONDS"
  cat "$LOG_DIR"/*.log | awk '/^test result: / {passed += $4; failed += $6; ignored += $8}
    END {if (passed) printf "test result: ok. %d passed; %d failed; %d ignored\n", passed, failed, ignored}'
}

main "$@"
