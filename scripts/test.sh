#!/usr/bin/env bash
# Runs the tests, from the format to a separate fleet, and prints a summary: the time of each part, the slowest tests,
# and the numbers of passed, failed and skipped tests. If a part fails, the others run nevertheless.
#
#   scripts/test.sh [PART…]      all parts except those that --all adds, in about 20 minutes if the toolchain is built
#   scripts/test.sh --all        adds tests that wait for minutes or generate thousands of scripts
#   scripts/test.sh --mutations  shows that the model of the promises can fail (scripts/mutations.sh)
#
# Parts, in this order: packages toolchain shell format clippy documentation dependencies unit charts integration fleet;
# argo4 with --all. Logs and screenshots: target/test. ARGOSY_TEST_FLEET is the name of the fleet (default: ci).
set -euo pipefail

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
source "$SCRIPTS/lib/log.sh"
# shellcheck source=lib/packages.sh
source "$SCRIPTS/lib/packages.sh"
# shellcheck source=lib/cargo.sh
source "$SCRIPTS/lib/cargo.sh"
# shellcheck source=lib/results.sh
source "$SCRIPTS/lib/results.sh"

CHECKOUT=$(cd "$SCRIPTS/.." && pwd)
PARTS=(packages toolchain shell format clippy documentation dependencies unit charts integration fleet)
# Those without which nothing else can run.
NEEDED=' packages toolchain '
# Parts of one command, which count as one test.
CHECKS=' shell format clippy documentation dependencies '
FLEET=${ARGOSY_TEST_FLEET:-ci}
ALL=no
LOG_DIR=$CHECKOUT/target/test
RESULTS=$LOG_DIR/results
export CARGO_TERM_COLOR=never RUST_BACKTRACE=0
# Of a fleet that was sourced before: the tests look at what they have built.
unset ARGOSY_BINARIES ARGOSY_TOOLCHAIN
# The same packages and features in every part, so that what they depend on is built once. With traces, which one test looks at;
# without, Argosy is built for the fleet.
WORKSPACE=(--locked --workspace --features argosy/otel)
# Scripts that the model draws with --all: as many as it takes to find every mutation.
MODEL_SCRIPTS=20020
PACKAGES_NEEDED+=(patch:patch shellcheck:shellcheck chromium:chromium chromedriver:chromium-driver /usr/share/postgresql-common:postgresql)

main() {
  local part code wanted=() failed=()
  while (($# > 0)); do
    case $1 in
      --all) ALL=yes ;;
      --mutations) shift && exec "$SCRIPTS/mutations.sh" "$@" ;;
      -h | --help) usage && exit 0 ;;
      *)
        [[ " ${PARTS[*]} argo4 " == *" $1 "* ]] || { usage >&2 && exit 2; }
        wanted+=("$1")
        ;;
    esac
    shift
  done
  [[ $ALL == no ]] || PARTS+=(argo4)
  ((${#wanted[@]} > 0)) || wanted=("${PARTS[@]}")
  rm -rf "$LOG_DIR"
  mkdir -p "$RESULTS"
  cd "$CHECKOUT"
  STEP_TOTAL=${#wanted[@]}
  trap fleet_down EXIT
  for part in "${wanted[@]}"; do
    # Not after `||`, where a part would go on after a command that failed.
    set +e
    run "$part"
    code=$?
    set -e
    ((code == 0)) && continue
    failed+=("$part")
    [[ $NEEDED != *" $part "* ]] || { results_skip "all parts after '$(title "$part")', which has failed" && break; }
  done
  fleet_down || { failed+=(teardown) && echo "taking the fleet down" >>"$RESULTS/failed"; }
  trap - EXIT
  results_summary
  ((${#failed[@]} == 0))
}

usage() { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

title() {
  case $1 in
    packages) echo "Debian packages" ;;
    toolchain) echo "Kubernetes, etcd, Argo, S3 server, helm, tools (once per version), and the programs" ;;
    shell) echo "Scripts: shellcheck; the mutations of the model apply to the code" ;;
    format) echo "Rust: format" ;;
    clippy) echo "Rust: clippy" ;;
    documentation) echo "Documentation of the code, and the book" ;;
    dependencies) echo "Rust: licenses, sources, duplicates and advisories of dependencies" ;;
    unit) echo "Unit and property tests, generated files" ;;
    charts) echo "Charts: goldens, schemas, and on a real API server" ;;
    integration) echo "Controller and agent against real API servers" ;;
    fleet) echo "End to end on fleet '$FLEET', with the Argo UI in Chromium" ;;
    argo4) echo "End to end on a fleet with Argo 4" ;;
  esac
}

run() {
  local began=$SECONDS code kind=tests
  step "$(title "$1")" "part_$1"
  code=$?
  [[ $CHECKS != *" $1 "* ]] || kind=check
  results_part "$kind" "$code" $((SECONDS - began)) "$(title "$1")" "$LOG_DIR"/*-"part_$1.log"
  return "$code"
}

part_packages() { packages_install; }

# Downloads leave the processors idle, and Go and Rust wait for each other nowhere: both are built at the same time.
# Where one fails, the other still ends, so that the next run finds that half built. A release build ends with crates of which
# each takes minutes of one processor, so the tests are built beside it; the parts that run them report their errors.
part_toolchain() {
  rust_tools &
  local rust=$! code=0
  { "$SCRIPTS/toolchain.sh" ensure && "$SCRIPTS/toolchain.sh" ensure ocm; } || code=1
  cargo test "${WORKSPACE[@]}" --no-run || echo "the tests cannot be built"
  wait "$rust" || code=1
  return "$code"
}

# Argosy by the command of the installation, and the tools that check it.
rust_tools() {
  cargo build --release --locked --package argosy --bins && "$SCRIPTS/toolchain.sh" ensure mdbook deny
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

# The database of advisories is a repository that not every machine can reach.
part_dependencies() {
  local deny
  "$SCRIPTS/toolchain.sh" ensure deny
  deny=$("$SCRIPTS/toolchain.sh" path)/cargo-deny
  "$deny" check licenses bans sources
  if timeout 60 "$deny" fetch db; then
    "$deny" check --disable-fetch advisories
  else
    results_skip "advisories of dependencies: their database cannot be fetched (see the log)"
  fi
}

# With --all, the model runs beside the fleet.
part_unit() {
  local others='^charts$'
  [[ $ALL == no ]] || others='^charts$|^model$'
  mapfile -t tests < <(test_names controller controller/* transforms | grep -vE "$others")
  local code=0
  cargo_test --lib --bins "${tests[@]/#/--test=}" || code=1
  cargo test "${WORKSPACE[@]}" --doc || code=1
  return "$code"
}

part_charts() {
  "$SCRIPTS/toolchain.sh" ensure etcd kubernetes helm
  cargo_test --test charts
}

part_integration() {
  local arguments=()
  "$SCRIPTS/toolchain.sh" ensure etcd kubernetes helm s3 ocm
  if [[ $ALL == yes ]]; then
    "$SCRIPTS/toolchain.sh" ensure ocm10
    arguments=(--include-ignored)
    export ARGOSY_RELEASE_WORKFLOWS=100000 ARGOSY_POISON_OBJECTS=200 ARGOSY_TAKE_TURNS=1
  fi
  # The programs, too, as the tests start them.
  cargo test "${WORKSPACE[@]}" --no-run
  # More at once than there are processors: most of the time a test waits.
  RUST_TEST_THREADS=6 cargo_test --test integration --test toolchain --test argo -- "${arguments[@]}"
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
  local code=0 selection=(--skip 'long::') model=
  fleet_up "$FLEET"
  if [[ $ALL == yes ]]; then
    selection=()
    full_model >"$LOG_DIR/model" 2>&1 &
    model=$!
  fi
  fleet_test --skip 'rights::' "${selection[@]}" || code=1
  if [[ -n $model ]]; then
    wait "$model" || code=1
    cat "$LOG_DIR/model"
  fi
  # Last, as they look at what was asked meanwhile.
  fleet_test 'rights::' || code=1
  [[ $ALL == yes ]] || results_skip "tests of the fleet that need minutes of waiting: --all runs them" "$(fleet_tests long:: | wc -l)"
  return "$code"
}

# The model with its full draw, on the processors that the long tests of the fleet leave idle.
full_model() {
  renice -n 19 -p "$BASHPID" >/dev/null
  ARGOSY_MODEL_SCRIPTS=$MODEL_SCRIPTS cargo_test --test model
}

# Verbs and samples: what of Argo's behavior they rest on is what could differ between its versions.
part_argo4() {
  fleet_down
  fleet_up "${FLEET:0:14}-argo4" --argo 4
  fleet_test quiet::verbs:: quiet::retry:: quiet::samples::
}

# fleet_up NAME [FLAG…]: the tests are built before, as that would disturb the fleet.
fleet_up() {
  cargo test "${WORKSPACE[@]}" --test fleet --no-run
  echo "$1" >"$LOG_DIR/fleet-began"
  "$SCRIPTS/install-all.sh" --provider local --name "$@" | tee >(sed -u 's/^/    /' >&3)
}

# Each test waits until it is its turn, so all of them are begun at once.
fleet_test() {
  # shellcheck source=/dev/null
  source "$CHECKOUT/.fleet/$(<"$LOG_DIR/fleet-began")/env"
  ARGOSY_TEST_TIMES=$RESULTS/turns RUST_TEST_THREADS=200 cargo_test --test fleet -- --include-ignored "$@"
}

fleet_tests() { cargo test --quiet "${WORKSPACE[@]}" --test fleet -- --list --ignored "$1" | grep ': test$'; }

# cargo_test [FLAG…] [-- FLAG…]: cargo test, each test shown as it ends, and written down with its time.
cargo_test() {
  local flags=()
  while (($# > 0)) && [[ $1 != -- ]]; do flags+=("$1") && shift; done
  (($# == 0)) || shift
  # The test runner tells times only where it is asked for what is not yet stable.
  local runner
  runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
  env "$runner=env RUSTC_BOOTSTRAP=1" cargo test "${WORKSPACE[@]}" --no-fail-fast "${flags[@]}" -- \
    -Z unstable-options --report-time "$@" 2>&1 |
    tee >(sed -un 's/^test \(.*\) \.\.\. \(ok\|FAILED\)\( <.*>\)\{0,1\}$/    \2  \1/p' >&3)
}

# Takes the fleet down that this run began to bring up, if any; before, keeps what tells why a test failed.
fleet_down() {
  local name
  [[ -e $LOG_DIR/fleet-began ]] || return 0
  name=$(<"$LOG_DIR/fleet-began")
  rm -f "$LOG_DIR/fleet-began"
  trap - EXIT
  fleet_evidence "$name" >"$LOG_DIR/fleet-$name.log" 2>&1 || true
  "$SCRIPTS/uninstall-all.sh" --name "$name"
}

fleet_evidence() {
  local folder=$CHECKOUT/.fleet/$1 cluster
  [[ ! -d $folder/screenshots ]] || cp -r "$folder/screenshots" "$LOG_DIR/"
  grep 'failing open' "$folder/log/control-kube-apiserver.log" | cut -c 1-400 | tail -n 10 >>"$RESULTS/unasked" || true
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

main "$@"
