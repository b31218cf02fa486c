# shellcheck shell=bash
# Where cargo puts what it builds: outside the checkout, so that all scripts, and the next clean checkout, find the dependencies
# built.

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/argosy/target}
