# shellcheck shell=bash
# Where cargo puts what it builds: outside the checkout, so that all scripts find the dependencies built, as does the next clean
# checkout in the same place. Each place has its own: cargo knows the files of a workspace by their times, and would take what was
# built in one checkout for what is older in another.

cargo_target() {
  local checkout digest
  checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
  digest=$(sha256sum <<<"$checkout" | cut -c1-10)
  echo "${XDG_CACHE_HOME:-$HOME/.cache}/argosy/target-$digest"
}

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(cargo_target)}
