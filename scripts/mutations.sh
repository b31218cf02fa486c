#!/usr/bin/env bash
# Shows that the model test can fail: turns off one promise after the other, and runs the model until its first failing script.
# Every mutation must make it fail.
#
#   scripts/mutations.sh [--fit] [NAME…]
#
# Without a NAME: all of controller/core/mutations, each in a minute or less. The number in a name is that of the promise.
# A patch whose second line is "test: NAME" changes code that the model does not cover; the tests of argosy-core of that name must fail,
# or those of another package after "test: PACKAGE NAME".
# --fit: only checks that the patches still apply to the code.
set -euo pipefail

CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MUTATIONS=$CHECKOUT/controller/core/mutations
# shellcheck source=lib/cargo.sh
source "$CHECKOUT/scripts/lib/cargo.sh"
export CARGO_TARGET_DIR=$CARGO_TARGET_DIR/mutations
export ARGOSY_MODEL_SCRIPTS=${ARGOSY_MODEL_SCRIPTS:-20020} ARGOSY_MODEL_FAIL_FAST=1 PROPTEST_MAX_SHRINK_ITERS=0 RUST_BACKTRACE=0

main() {
  local names name began survived=() only_fit=
  [[ ${1:-} != --fit ]] || { only_fit=yes && shift; }
  names=("$@")
  if ((${#names[@]} == 0)); then
    for name in "$MUTATIONS"/*.patch; do names+=("$(basename "$name" .patch)"); done
  fi
  COPY=$(mktemp -d)
  trap 'rm -rf "$COPY"' EXIT
  # Without the folders of git and of fleets, which may change meanwhile. -m: nothing built before is as new.
  (cd "$CHECKOUT" && tar -c --anchored --exclude=target -- .cargo *) | tar -xmC "$COPY"
  for name in "${names[@]}"; do
    patch --quiet --dry-run -d "$COPY" -p1 <"$MUTATIONS/$name.patch" || { echo "$name does not apply to the code" >&2 && exit 1; }
  done
  [[ -z $only_fit ]] || { echo "${#names[@]} mutations apply" && return 0; }
  model unchanged || { echo "the model fails without any mutation; log: $COPY.log" >&2 && exit 1; }
  for name in "${names[@]}"; do
    began=$SECONDS
    patch --quiet -d "$COPY" -p1 <"$MUTATIONS/$name.patch"
    if holds "$name"; then
      survived+=("$name")
      printf 'SURVIVED  %-32s %3d s  %s\n' "$name" $((SECONDS - began)) "$(head -n 1 "$MUTATIONS/$name.patch")"
    else
      printf 'fails     %-32s %3d s  %s\n          %s\n' "$name" $((SECONDS - began)) "$(head -n 1 "$MUTATIONS/$name.patch")" "$(why)"
    fi
    patch --quiet -R -d "$COPY" -p1 <"$MUTATIONS/$name.patch"
  done
  echo "${#names[@]} mutations, ${#survived[@]} survived ${survived[*]}"
  ((${#survived[@]} == 0))
}

# Whether everything passes that is to show the mutation.
holds() {
  local tests
  tests=$(sed -n '2s/^test: //p' "$MUTATIONS/$1.patch")
  if [[ -z $tests ]]; then
    model "$1"
    return
  fi
  local package=argosy-core
  [[ $tests != *' '* ]] || { package=${tests%% *} && tests=${tests#* }; }
  compiles "$1" --lib
  ! run --lib -- "$tests" || return 0
  grep -q 'test result: FAILED' "$COPY.log" || { echo "$1 cannot be tested; log: $COPY.log" >&2 && exit 1; }
  return 1
}

# The check that failed: a drawn script says with which seed, any other test where.
why() {
  { grep -m 1 -o 'Failed with seed .*' "$COPY.log" || grep -m 1 -A 1 'panicked at' "$COPY.log" | tail -n 1; } | cut -c 1-150
}

compiles() {
  (cd "$COPY" && cargo test --quiet --locked --package "${package:-argosy-core}" "${@:2}" --no-run) >"$COPY.log" 2>&1 ||
    { echo "$1 does not compile; log: $COPY.log" >&2 && exit 1; }
}

run() { (cd "$COPY" && timeout 1200 cargo test --quiet --locked --package "${package:-argosy-core}" "$@") >>"$COPY.log" 2>&1; }

# Whether the model passes: the scripts that are kept, and then those that are drawn. A mutation that does not compile shows nothing.
model() {
  local code=0 tests
  compiles "$1" --test model
  for tests in 'kept:: lies:: rebuilt:: reruns:: runs:: shadows::' \
    '--skip kept:: --skip lies:: --skip rebuilt:: --skip reruns:: --skip runs:: --skip shadows::'; do
    # shellcheck disable=SC2086 # flags and their values
    run --test model -- $tests || code=$?
    ((code == 0)) || break
  done
  ((code != 124)) || { echo "$1 does not end within 20 minutes; log: $COPY.log" >&2 && exit 1; }
  ((code == 0))
}

main "$@"
