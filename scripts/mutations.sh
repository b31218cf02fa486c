#!/usr/bin/env bash
# Shows that the model test can fail: switches one promise off after the other and runs it until its first failing script. Every
# mutation must make it fail.
#
#   scripts/mutations.sh [--fit] [NAME…]
#
# Without any: all of controller/core/mutations, a minute each or less. The number in a name is that of the promise.
# --fit: only looks whether they still fit the code.
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
    patch --quiet --dry-run -d "$COPY" -p1 <"$MUTATIONS/$name.patch" || { echo "$name does not fit the code" >&2 && exit 1; }
  done
  [[ -z $only_fit ]] || { echo "${#names[@]} mutations fit" && return 0; }
  model unchanged || { echo "the model fails without any mutation; log: $COPY.log" >&2 && exit 1; }
  for name in "${names[@]}"; do
    began=$SECONDS
    patch --quiet -d "$COPY" -p1 <"$MUTATIONS/$name.patch"
    if model "$name"; then
      survived+=("$name")
      printf 'SURVIVED  %-32s %3d s  %s\n' "$name" $((SECONDS - began)) "$(head -n 1 "$MUTATIONS/$name.patch")"
    else
      printf 'fails     %-32s %3d s  %s\n' "$name" $((SECONDS - began)) "$(head -n 1 "$MUTATIONS/$name.patch")"
    fi
    patch --quiet -R -d "$COPY" -p1 <"$MUTATIONS/$name.patch"
  done
  echo "${#names[@]} mutations, ${#survived[@]} survived ${survived[*]}"
  ((${#survived[@]} == 0))
}

# Whether the model passes: the scripts that are kept, and then those that are drawn. A mutation that does not compile shows nothing.
model() {
  (cd "$COPY" && cargo test --quiet --locked --package argosy-core --test model --no-run) >"$COPY.log" 2>&1 ||
    { echo "$1 does not compile; log: $COPY.log" >&2 && exit 1; }
  local code=0 tests
  for tests in kept:: '--skip kept::'; do
    # shellcheck disable=SC2086 # a flag and its value
    (cd "$COPY" && timeout 600 cargo test --quiet --locked --package argosy-core --test model -- $tests) >>"$COPY.log" 2>&1 || code=$?
    ((code == 0)) || break
  done
  ((code != 124)) || { echo "$1 runs for ever; log: $COPY.log" >&2 && exit 1; }
  ((code == 0))
}

main "$@"
